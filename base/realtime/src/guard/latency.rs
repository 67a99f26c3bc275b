//! Keeping the CPUs out of idle states that they are slow to leave.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::{Error, Result};

/// A request that no CPU of the host enters an idle state with a longer wake-up than this.
///
/// The kernel keeps it while the file is open, and forgets it with the process, however that ends
/// (Documentation/power/pm_qos_interface.rst). What it costs: power and heat, on all CPUs; at 0 they
/// do not sleep at all. A CPU that cannot cool may slow down: prefer the largest value that the cycle
/// can bear.
#[derive(Debug)]
pub struct DmaLatency {
    /// Open for as long as the request is to hold.
    _device: File,
    latency_us: u32,
}

impl DmaLatency {
    /// The kernel's device.
    pub const DEVICE: &str = "/dev/cpu_dma_latency";

    /// Asks for a wake-up of at most so many microseconds.
    ///
    /// # Errors
    /// [`Error::System`]: where the device is missing (CONFIG_CPU_IDLE) or may not be written.
    pub fn hold(latency_us: u32) -> Result<Self> {
        Self::hold_device(Path::new(Self::DEVICE), latency_us)
    }

    /// As [`DmaLatency::hold`], of a device elsewhere.
    ///
    /// # Errors
    /// As [`DmaLatency::hold`].
    pub fn hold_device(device: &Path, latency_us: u32) -> Result<Self> {
        let hold = || -> io::Result<File> {
            let mut device = OpenOptions::new().write(true).open(device)?;
            // The kernel takes it as a signed number, and a negative one as no request.
            let value = i32::try_from(latency_us).unwrap_or(i32::MAX);
            device.write_all(&value.to_ne_bytes())?;
            Ok(device)
        };
        match hold() {
            Ok(device) => Ok(Self { _device: device, latency_us }),
            Err(source) => Err(Error::system(
                format!("hold {} at {latency_us} us", device.display()),
                source,
                "it takes root, or write access to the device, and a kernel with CONFIG_CPU_IDLE",
            )),
        }
    }

    /// The longest wake-up that is asked for, in microseconds.
    #[must_use]
    pub fn latency_us(&self) -> u32 {
        self.latency_us
    }
}
