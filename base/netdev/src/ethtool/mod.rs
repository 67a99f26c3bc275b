//! Driver properties and settings beyond rtnetlink: the ethtool interface.

mod coalescing;
mod eee;
mod features;
mod ioctl;
mod stamps;

use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

pub use self::coalescing::Coalescing;
pub use self::eee::EnergyEfficient;
pub use self::features::{Change, Feature};
pub use self::stamps::HardwareStamps;
use crate::{Error, Handle, Link, Namespace, Result};

/// A socket for ethtool requests to the devices of one namespace.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    /// For the names of existing interfaces in errors.
    handle: Handle,
}

/// The driver of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// Name.
    pub name: String,
    /// Version; the kernel's, for most in-tree drivers.
    pub version: String,
    /// Version of the firmware; empty if there is none.
    pub firmware: String,
    /// The bus address of the device, for example a PCI address; empty for a virtual device.
    pub bus: String,
}

/// Time stamps that a device supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timestamping {
    /// By the device, on transmission.
    pub tx_hardware: bool,
    /// By the device, on reception.
    pub rx_hardware: bool,
    /// By the driver, on transmission.
    pub tx_software: bool,
    /// By the stack, on reception.
    pub rx_software: bool,
    /// The device can stamp every received frame, not only those of PTP.
    pub rx_all: bool,
    /// Number N of the device's clock /dev/ptpN.
    pub phc: Option<u32>,
}

/// Present and maximum numbers of channels (queues with an interrupt) of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are sufficient")]
pub struct Channels {
    pub rx: u32,
    pub max_rx: u32,
    pub tx: u32,
    pub max_tx: u32,
    pub other: u32,
    pub max_other: u32,
    /// Channels that receive and transmit.
    pub combined: u32,
    pub max_combined: u32,
}

impl Ethtool {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// No socket can be opened.
    pub fn open() -> Result<Self> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|errno| Error::io("open a socket for ethtool", errno))?;
        Ok(Self { socket, handle: Handle::open()? })
    }

    /// Opens a socket in `namespace`.
    ///
    /// # Errors
    /// Those of [`Ethtool::open`]; the caller may not enter the namespace.
    pub fn in_namespace(namespace: &Namespace) -> Result<Self> {
        namespace.run(Self::open)?
    }

    /// Returns the driver of the device.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel refuses. The same holds for all requests here.
    pub fn driver(&self, interface: &str) -> Result<Driver> {
        let mut request = ioctl::DriverInfo::request();
        self.call(interface, "read the driver", &mut request)?;
        Ok(Driver {
            name: ioctl::text(&request.driver),
            version: ioctl::text(&request.version),
            firmware: ioctl::text(&request.firmware),
            bus: ioctl::text(&request.bus),
        })
    }

    /// Returns whether the device has a link.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn link_detected(&self, interface: &str) -> Result<bool> {
        let mut request = ioctl::Value::get_link();
        self.call(interface, "read the link state", &mut request)?;
        Ok(request.data != 0)
    }

    /// Returns the time stamps that the device supports.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn timestamping(&self, interface: &str) -> Result<Timestamping> {
        let mut request = ioctl::TimestampInfo::request();
        self.call(interface, "read the time stamping capabilities", &mut request)?;
        let has = |flag: u32| request.so_timestamping & flag != 0;
        Ok(Timestamping {
            tx_hardware: has(libc::SOF_TIMESTAMPING_TX_HARDWARE),
            rx_hardware: has(libc::SOF_TIMESTAMPING_RX_HARDWARE),
            tx_software: has(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
            rx_software: has(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
            rx_all: request.rx_filters & (1 << ioctl::HWTSTAMP_FILTER_ALL) != 0,
            phc: u32::try_from(request.phc_index).ok(),
        })
    }

    /// Returns the channels of the device.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`Error::Unsupported`]: not reported by the driver.
    pub fn channels(&self, interface: &str) -> Result<Channels> {
        let mut request = ioctl::ChannelCounts::request();
        self.call(interface, "read the channels", &mut request)?;
        Ok(Channels {
            rx: request.rx,
            max_rx: request.max_rx,
            tx: request.tx,
            max_tx: request.max_tx,
            other: request.other,
            max_other: request.max_other,
            combined: request.combined,
            max_combined: request.max_combined,
        })
    }

    /// Returns the present number of receive queues of an interface; of drivers that do not report it, the number with
    /// which it was created.
    #[must_use]
    pub fn receive_queues(&self, link: &Link) -> u32 {
        self.channels(&link.name).map_or(link.rx_queues, |channels| channels.rx + channels.combined)
    }
}
