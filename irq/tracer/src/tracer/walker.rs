//! Walks over the open files of all processes, for the owners of sockets.

use std::io::{ErrorKind, Read};

use libbpf_rs::{Iter, IterOpts, Link};
use onbeat_bpf::Object;

use crate::error::{Error, Result};

/// The program that a walk calls for each file.
pub(super) const EACH_FILE: &str = "each_file";

/// The attached program.
#[derive(Debug, Default)]
pub(super) struct Walker(Option<Link>);

impl Walker {
    /// Calls the program for each open file.
    pub(super) fn walk(&mut self, object: &Object) -> Result<()> {
        let failed = |source| Error::kernel("walk over open files", source);
        let link = match &self.0 {
            Some(link) => link,
            None => {
                let program = object.program(EACH_FILE);
                self.0.insert(program.attach_iter_with_opts(IterOpts::None).map_err(failed)?)
            }
        };
        let mut iter = Iter::new(link).map_err(failed)?;
        loop {
            // The program writes nothing. After a million files the kernel requires another call.
            match iter.read(&mut [0; 64]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}
