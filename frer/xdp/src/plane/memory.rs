//! Memory of the tables.

use std::os::fd::{AsFd, AsRawFd};

use onbeat_frer::dataplane::Memory;

use super::Plane;
use crate::error::{Context, Result};

impl Plane {
    /// What the node's tables take, all of it from when they are made; what identifications by masks
    /// take comes and goes with these.
    ///
    /// # Errors
    /// What the kernel does not tell.
    pub fn memory(&self) -> Result<Memory> {
        let octets = self.maps.all().map(|map| {
            let file = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
            let told = std::fs::read_to_string(&file).map_err(libbpf_rs::Error::from);
            let told = told.context(|| format!("read {file}"))?;
            let octets = told.lines().find_map(|line| line.strip_prefix("memlock:"));
            Ok(octets.and_then(|octets| octets.trim().parse().ok()).unwrap_or(0))
        });
        let octets = octets.sum::<Result<u64>>()?;
        Ok(Memory { streams: self.generators.most(), octets })
    }
}
