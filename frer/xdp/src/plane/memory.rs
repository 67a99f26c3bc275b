//! What the tables take.

use std::os::fd::{AsFd, AsRawFd};

use super::Plane;
use crate::error::{Context, Result};

/// Memory of a node's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Streams that there is room for.
    pub streams: u32,
    /// Octets of all tables, as the kernel tells them.
    pub octets: u64,
}

impl Memory {
    /// Octets for each stream that there is room for.
    pub fn octets_per_stream(&self) -> u64 {
        self.octets / u64::from(self.streams.max(1))
    }
}

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
