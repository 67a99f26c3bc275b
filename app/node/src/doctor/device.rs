//! Properties of an interface, read by netlink and ethtool.

use onbeat_link::Backends;
use onbeat_netdev::ethtool::Coalescing;
use onbeat_netdev::{Ethtool, Handle, VethPeer, XdpMode, xdp};

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Name of its driver; empty if it has none.
    pub driver: String,
    /// Its MTU.
    pub mtu: u32,
    /// The largest MTU of its driver, if known.
    pub max_mtu: Option<u32>,
    /// It is up and has a carrier.
    pub running: bool,
    /// It is one end of a veth pair.
    pub veth: bool,
    /// The other end of the pair.
    pub peer: Option<VethPeer>,
    /// Whether its driver runs XDP programs and redirects from them; `None` before Linux 6.3.
    pub native_xdp: Option<bool>,
    /// Whether frames can be redirected to it now (ndo_xdp_xmit); `None` before Linux 6.3.
    pub redirect_target: Option<bool>,
    /// XDP programs on it, such as `native program 12`.
    pub programs: Vec<String>,
    /// The offloads that are on, by the kernel's names.
    pub offloads: Vec<String>,
    /// Interrupt coalescing; `None` if not supported.
    pub coalescing: Option<Coalescing>,
    /// Whether its link sleeps between frames (IEEE 802.3az); `None` if not supported.
    pub energy_efficient: Option<bool>,
    /// The back ends of a real-time port that support it; `None` if unknown.
    pub backends: Option<Backends>,
}

/// Source of device properties.
pub trait DeviceReader {
    /// Reads the interface with a name; the error states why it cannot be read.
    fn device(&self, interface: &str) -> Result<Device, String>;
}

/// Devices of the network namespace of the thread.
#[derive(Debug, Clone, Copy)]
pub struct KernelDevices;

impl DeviceReader for KernelDevices {
    fn device(&self, interface: &str) -> Result<Device, String> {
        read_device(interface).map_err(|error| error.to_string())
    }
}

fn read_device(interface: &str) -> onbeat_netdev::Result<Device> {
    let handle = Handle::open()?;
    let link = handle.link(interface)?;
    let features = xdp::features(&handle, interface)?;
    let ethtool = Ethtool::open()?;
    // Virtual devices may not support ethtool, which is no error.
    let driver = ethtool.driver(interface).map(|driver| driver.name).unwrap_or_default();
    let offloads = ethtool.features(interface).unwrap_or_default();
    let program = |program: &onbeat_netdev::XdpAttachment| {
        let mode = match program.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
            XdpMode::Offload => "offloaded",
        };
        format!("{mode} program {}", program.program_id)
    };
    Ok(Device {
        driver,
        mtu: link.mtu,
        max_mtu: link.max_mtu,
        running: link.up && link.carrier,
        veth: link.kind.as_deref() == Some("veth"),
        peer: VethPeer::of(&handle, &link),
        native_xdp: features.map(|features| features.basic && features.redirect),
        redirect_target: features.map(|features| features.ndo_xmit),
        programs: link.xdp.iter().map(program).collect(),
        offloads: offloads
            .into_iter()
            .filter(|offload| offload.active)
            .map(|offload| offload.name)
            .collect(),
        coalescing: ethtool.coalescing(interface).ok(),
        energy_efficient: ethtool.energy_efficient(interface).ok().map(|eee| eee.enabled),
        backends: onbeat_link::backends(handle.namespace(), interface).ok(),
    })
}
