//! What the kernel tells of an interface by netlink and ethtool.

use onbeat_link::Backends;
use onbeat_netdev::ethtool::Coalescing;
use onbeat_netdev::{Ethtool, Handle, VethPeer, XdpMode, xdp};

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Name of its driver; empty where it has none.
    pub driver: String,
    /// Its MTU.
    pub mtu: u32,
    /// The largest MTU its driver takes, where it names one.
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
    /// How long it holds interrupts back; `None` where it has no such thing.
    pub coalescing: Option<Coalescing>,
    /// Whether its link sleeps between frames (IEEE 802.3az); `None` where it cannot.
    pub energy_efficient: Option<bool>,
    /// The back ends of a real-time port that it can be used with; `None` where that is not known.
    pub backends: Option<Backends>,
}

/// Where devices are looked up.
pub trait DeviceReader {
    /// The interface of a name, or why there is none to look at.
    fn device(&self, interface: &str) -> Result<Device, String>;
}

/// The devices of the network namespace this thread is in.
#[derive(Debug, Clone, Copy)]
pub struct KernelDevices;

impl DeviceReader for KernelDevices {
    fn device(&self, interface: &str) -> Result<Device, String> {
        live(interface).map_err(|error| error.to_string())
    }
}

fn live(interface: &str) -> onbeat_netdev::Result<Device> {
    let handle = Handle::open()?;
    let link = handle.link(interface)?;
    let features = xdp::features(&handle, interface)?;
    let ethtool = Ethtool::open()?;
    // Virtual devices need not answer ethtool: that is no fault of theirs.
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
