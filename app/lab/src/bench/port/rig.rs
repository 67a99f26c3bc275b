//! What one back end is measured on, alone.
//!
//! ```text
//!  managing node       wire                                    controlled node
//!  mn ------------ to_mn  request, response: stamp, redirect  to_cn ------------ cn
//!  asks                                                                          answers
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

/// Within this time a veth pair that was turned on has carrier.
const BOUND: Duration = Duration::from_secs(10);

/// How the controlled node answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseMode {
    /// With a poll response.
    Response,
    /// With the request itself, out of an XDP program: the limit.
    Reflection,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) mn: Handle,
    pub(super) cn: Handle,
    pub(super) wire: Wire,
    // Its namespace goes with it, and with that the interfaces.
    _wire: Handle,
    pub(super) request: frames::Frame,
    pub(super) response: frames::Frame,
}

impl Rig {
    /// A rig whose wire has room for so many stamps each way.
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

/// A link with one queue for each direction: frames keep their order.
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
        // What IPv6 sends by itself would be on the wire.
        handle.set_ipv6(name, false)?;
        handle.set_up(name)?;
    }
    wire.wait_carrier(end, BOUND)?;
    // A veth takes what XDP redirects to it only where its other end polls, which GRO makes it do:
    // as every NIC's driver polls.
    Ethtool::in_namespace(station.namespace())?.set_features(name, &[("gro", true)])?;
    station.wait_carrier(name, BOUND)?;
    Ok(())
}
