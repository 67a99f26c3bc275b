//! Limits the wake-up latency of idle CPUs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::{Error, Result};

/// A request that no CPU of the host enters an idle state with a longer wake-up latency.
///
/// The kernel keeps it while the file is open and drops it when the process exits
/// (Documentation/power/pm_qos_interface.rst). Cost: power and heat on all CPUs; at 0 they do not enter idle
/// states. A hot CPU may reduce its frequency: prefer the largest latency that the cycle tolerates.
#[derive(Debug)]
pub struct DmaLatency {
    /// Open for as long as the request holds.
    _device: File,
    latency_us: u32,
}

impl DmaLatency {
    /// The kernel's device.
    pub const DEVICE: &str = "/dev/cpu_dma_latency";

    /// Requests a maximum wake-up latency, in microseconds.
    ///
    /// # Errors
    /// [`Error::System`]: the device is missing (CONFIG_CPU_IDLE) or not writable.
    pub fn hold(latency_us: u32) -> Result<Self> {
        Self::hold_device(Path::new(Self::DEVICE), latency_us)
    }

    /// Requests it like [`DmaLatency::hold`], from another device.
    ///
    /// # Errors
    /// Those of [`DmaLatency::hold`].
    pub fn hold_device(device: &Path, latency_us: u32) -> Result<Self> {
        let hold = || -> io::Result<File> {
            let mut device = OpenOptions::new().write(true).open(device)?;
            // The kernel reads it as a signed number, and a negative one as no request.
            let value = i32::try_from(latency_us).unwrap_or(i32::MAX);
            device.write_all(&value.to_ne_bytes())?;
            Ok(device)
        };
        match hold() {
            Ok(device) => Ok(Self { _device: device, latency_us }),
            Err(source) => Err(Error::system(
                format!("hold {} at {latency_us} us", device.display()),
                source,
                "run it as root, or grant write access to the device; requires a kernel with CONFIG_CPU_IDLE",
            )),
        }
    }

    /// Returns the requested maximum latency, in microseconds.
    #[must_use]
    pub fn latency_us(&self) -> u32 {
        self.latency_us
    }
}
