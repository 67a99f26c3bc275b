//! The network of one back end.
//!
//! ```text
//!  managing node       wire                                    controlled node
//!  mn ------------ to_mn  request, response: stamp, redirect  to_cn ------------ cn
//!  sends requests                                                                responds
//! ```
//!
//! Each box is a network namespace.

use std::time::Duration;

use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd};
use onbeat_wire::MacAddress;

use super::frames;
use super::wire::Wire;
use crate::Result;

pub(in crate::bench) const MN: &str = "mn";
pub(in crate::bench) const CN: &str = "cn";
pub(in crate::bench) const TO_MN: &str = "to_mn";
pub(in crate::bench) const TO_CN: &str = "to_cn";

pub(in crate::bench) const MN_MAC: MacAddress = MacAddress([0x02, 0x0b, 0xff, 0, 0, 240]);
pub(in crate::bench) const CN_MAC: MacAddress = MacAddress([0x02, 0x0b, 0xff, 0, 0, 1]);

/// Time within which a veth pair that was set up has carrier.
const BOUND: Duration = Duration::from_secs(10);

/// Response mode of the controlled node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseMode {
    /// With a poll response.
    Response,
    /// With the request itself, by an XDP program: the limit.
    Reflection,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) mn: Handle,
    pub(super) cn: Handle,
    pub(super) wire: Wire,
    // Its namespace, and with it the interfaces, are removed with this.
    _wire: Handle,
    pub(super) request: frames::Frame,
    pub(super) response: frames::Frame,
}

impl Rig {
    /// Builds a rig whose wire has room for `stamps` stamps per direction.
    pub(super) fn build(answers: ResponseMode, stamps: u32) -> Result<Self> {
        let station = || Handle::in_namespace(&Namespace::with_loopback()?);
        let (mn, wire, cn) = (station()?, station()?, station()?);
        pair(&wire, TO_MN, &mn, MN, MN_MAC)?;
        pair(&wire, TO_CN, &cn, CN, CN_MAC)?;
        let request = frames::request(MN_MAC, CN_MAC);
        let response = frames::response(CN_MAC);
        let expected = match answers {
            ResponseMode::Response => response,
            ResponseMode::Reflection => request,
        };
        let mut wire_programs = Wire::start(&wire, [TO_MN, TO_CN], request, expected, stamps)?;
        if answers == ResponseMode::Reflection {
            wire_programs.reflect(&cn, CN)?;
        }
        Ok(Self { mn, cn, wire: wire_programs, _wire: wire, request, response })
    }
}

/// Creates a link with one queue per direction, so that frames keep their order.
pub(in crate::bench) fn pair(
    wire: &Handle,
    end: &str,
    station: &Handle,
    name: &str,
    mac: MacAddress,
) -> Result<()> {
    wire.create_veth(
        &VethEnd::new(end).queues(1, 1),
        &VethEnd::new(name).queues(1, 1).mac(mac).namespace(station.namespace()),
    )?;
    for (handle, name) in [(wire, end), (station, name)] {
        // Frames that IPv6 sends on its own would be on the wire.
        handle.set_ipv6(name, false)?;
        handle.set_up(name)?;
    }
    wire.wait_carrier(end, BOUND)?;
    // A veth accepts redirects of XDP only if its peer polls, which GRO enables: as the driver of every
    // NIC polls.
    Ethtool::in_namespace(station.namespace())?.set_features(name, &[("gro", true)])?;
    station.wait_carrier(name, BOUND)?;
    Ok(())
}
