//! Memory of the tables.

use std::os::fd::{AsFd, AsRawFd};

use onbeat_frer::dataplane::Memory;

use super::Plane;
use crate::error::{Context, Result};

impl Plane {
    /// Returns the memory of the tables for streams, allocated when they are created; memory of identifications by
    /// masks is allocated with these.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn memory(&self) -> Result<Memory> {
        let octets = self.maps.of_streams().map(|map| {
            let file = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
            let report = std::fs::read_to_string(&file).map_err(libbpf_rs::Error::from);
            let report = report.context(|| format!("read {file}"))?;
            let octets = report.lines().find_map(|line| line.strip_prefix("memlock:"));
            Ok(octets.and_then(|octets| octets.trim().parse().ok()).unwrap_or(0))
        });
        let octets = octets.sum::<Result<u64>>()?;
        Ok(Memory { streams: self.generators.most(), octets })
    }
}
