//! `count` and `step`: several streams from one table.
//!
//! `{n}` in the name runs from 0 to `count` - 1. Each key of `step` names a key of the stream;
//! wherever that key stands in it (identification, egress), its value advances by the step from
//! one stream to the next.

use std::net::IpAddr;

use onbeat_frer::spec::{Rewrite, Stream, VlanAction};
use onbeat_report::format::count as counted;
use onbeat_wire::MacAddress;

use super::reader::{Table, Value};

/// Number of streams of a table, and the steps between them.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    pub(super) count: u32,
    pub(super) step: Step,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    destination: u32,
    source: u32,
    vlan: u32,
    ip_destination: u32,
    ip_source: u32,
    destination_port: u32,
    source_port: u32,
}

/// Reads `count` and `step`.
pub(super) fn read(table: &mut Table<'_>, name: Option<&Value<'_>>) -> Repeat {
    let count_value = table.take("count");
    // Without a valid count the name may be a template.
    let count = count_value.as_ref().map_or(1, |value| value.number(1..=65536u32).unwrap_or(0));
    if let (Some(value), Some(text)) = (name, name.and_then(|value| value.text())) {
        if count > 1 && !text.contains("{n}") {
            value.fault(
                format!("{} cannot all be named {text:?}", counted(count.into(), "stream")),
                "add {n} to the name, such as \"axis-{n}\"",
            );
        }
    }
    let mut step = Step::default();
    if let Some(value) = table.take("step") {
        if count_value.is_none() {
            value.fault("step without count", "add count = 2 or more, or remove step");
        }
        if let Some(mut table) = value.table() {
            let mut take =
                |key| table.take(key).and_then(|value| value.number(0..=u32::MAX)).unwrap_or(0);
            step = Step {
                destination: take("destination"),
                source: take("source"),
                vlan: take("vlan"),
                ip_destination: take("ip-destination"),
                ip_source: take("ip-source"),
                destination_port: take("destination-port"),
                source_port: take("source-port"),
            };
            table.finish();
        }
    }
    Repeat { count, step }
}

/// A value that exceeds its range after a step.
pub(super) struct Overflow {
    pub(super) key: &'static str,
}

impl Step {
    /// Changes the first stream of a table into stream `n`.
    pub(super) fn apply(&self, stream: &mut Stream, n: u32) -> Result<(), Overflow> {
        for member in &mut stream.members {
            let fields = member.identification.parameters_mut();
            let port = |first, step| number(first, step, n, u16::MAX);
            advance("destination", fields.destination, |first| mac(first, self.destination, n))?;
            advance("source", fields.source, |first| mac(first, self.source, n))?;
            advance("vlan", fields.vlan, |first| self.vlan(first, n))?;
            advance("ip-destination", fields.ip_destination, |first| {
                ip_address(first, self.ip_destination, n)
            })?;
            advance("ip-source", fields.ip_source, |first| ip_address(first, self.ip_source, n))?;
            advance("source-port", fields.source_port, |first| port(first, self.source_port))?;
            advance("destination-port", fields.destination_port, |first| {
                port(first, self.destination_port)
            })?;
            fields.rewrite.map_or(Ok(()), |rewrite| self.rewrite(rewrite, n))?;
        }
        stream.egress.iter_mut().try_for_each(|egress| self.rewrite(&mut egress.rewrite, n))
    }

    fn vlan(&self, first: u16, n: u32) -> Option<u16> {
        number(first, self.vlan, n, 4094)
    }

    fn rewrite(&self, rewrite: &mut Rewrite, n: u32) -> Result<(), Overflow> {
        let destination = rewrite.destination.as_mut();
        advance("destination", destination, |first| mac(first, self.destination, n))?;
        let VlanAction::Set(vlan) = &mut rewrite.vlan else { return Ok(()) };
        advance("vlan", Some(vlan), |first| self.vlan(first, n))
    }
}

/// Advances a value, if present, to that of another stream.
fn advance<T: Copy>(
    key: &'static str,
    value: Option<&mut T>,
    advanced: impl FnOnce(T) -> Option<T>,
) -> Result<(), Overflow> {
    if let Some(value) = value {
        *value = advanced(*value).ok_or(Overflow { key })?;
    }
    Ok(())
}

fn number(first: u16, step: u32, n: u32, last: u16) -> Option<u16> {
    let advanced = u64::from(first) + u64::from(step) * u64::from(n);
    u16::try_from(advanced).ok().filter(|&advanced| advanced <= last)
}

fn mac(first: MacAddress, step: u32, n: u32) -> Option<MacAddress> {
    let first = first.0.iter().fold(0, |number, &octet| number << 8 | u128::from(octet));
    let advanced = first + u128::from(step) * u128::from(n);
    let octets = u64::try_from(advanced).ok().filter(|&number| number < 1 << 48)?.to_be_bytes();
    let [_, _, address @ ..] = octets;
    Some(MacAddress(address))
}

fn ip_address(first: IpAddr, step: u32, n: u32) -> Option<IpAddr> {
    let advance = u64::from(step) * u64::from(n);
    match first {
        IpAddr::V4(first) => {
            let advanced = u64::from(first.to_bits()).checked_add(advance)?;
            Some(IpAddr::V4(u32::try_from(advanced).ok()?.into()))
        }
        IpAddr::V6(first) => Some(IpAddr::V6(first.to_bits().checked_add(advance.into())?.into())),
    }
}
