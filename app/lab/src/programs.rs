//! BPF programs of benches and scenarios, loaded from an object file.

use std::io;

use libbpf_rs::{Link, Map, MapCore, MapFlags, ProgramMut};
use onbeat_bpf::{Object, PlainData, UnloadedObject};
use onbeat_netdev::{Handle, XdpMode};

use crate::{Error, Result};

/// The loaded programs of an object file.
#[derive(Debug)]
pub(crate) struct Programs(Object);

/// Converts an error of libbpf; `operation` names the failed operation.
pub(crate) fn failed(operation: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    // The alternate form appends the kernel's reason to libbpf's.
    |error| Error::io(operation, io::Error::other(format!("{error:#}")))
}

impl Programs {
    /// Loads an object; `of` names the owner of the programs.
    pub(crate) fn load(object: &[u8], of: &str) -> Result<Self> {
        Self::load_sized(object, of, |_| Ok(()))
    }

    /// Like [`Programs::load`]; `size` sets the sizes of maps first.
    pub(crate) fn load_sized(
        object: &[u8],
        of: &str,
        size: impl FnOnce(&mut UnloadedObject) -> onbeat_bpf::Result<()>,
    ) -> Result<Self> {
        let loaded = Object::load(object, &format!("the programs of {of}"), size);
        loaded.map(Self).map_err(|error| match error {
            onbeat_bpf::Error::Kernel { what, source } => failed(what)(source),
            other => other.into(),
        })
    }

    pub(crate) fn program(&self, name: &str) -> ProgramMut<'_> {
        self.0.program(name)
    }

    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        self.0.map(name)
    }

    /// Attaches a program to an interface, in native mode.
    pub(crate) fn attach(&self, name: &str, handle: &Handle, interface: &str) -> Result<Link> {
        let index = handle.index(interface)? as i32;
        let link = handle.namespace().run(|| {
            let attached = self.program(name).attach_xdp(index);
            attached.map_err(failed(format!("attach an XDP program to {interface}")))
        })??;
        // Without a mode flag, the kernel may choose the generic mode.
        if handle.link(interface)?.xdp.iter().any(|xdp| xdp.mode == XdpMode::Native) {
            Ok(link)
        } else {
            Err(Error::Invalid(format!(
                "interface {interface} does not support XDP in native mode"
            )))
        }
    }

    /// Sets the target of a redirect.
    pub(crate) fn set_target(
        &self,
        map: &str,
        key: u32,
        handle: &Handle,
        interface: &str,
    ) -> Result<()> {
        let index = handle.index(interface)?;
        // The index is that in the namespace of the writing thread.
        handle.namespace().run(|| {
            self.map(map)
                .update(&key.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed(format!("set {interface} as the target of a redirect")))
        })?
    }

    /// Writes the programs' global variables; variables after `octets` become zero.
    pub(crate) fn set_state(&self, octets: &[u8]) -> Result<()> {
        let set = self.0.set_variables(&[(0, octets)]);
        set.map_err(failed("write the variables of the programs"))
    }

    /// Reads the programs' global variables.
    pub(crate) fn state<S: PlainData>(&self) -> Result<S> {
        let octets = self.0.variables().map_err(failed("read the variables of the programs"))?;
        Ok(S::from_start(&octets).unwrap_or_default())
    }
}

/// The number at the start of a map value.
pub(crate) fn number(octets: &[u8]) -> u64 {
    octets.first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets))
}
