//! Objects of both kinds of nodes, and builders of objects.

use alloc::vec::Vec;

use onbeat_wire::powerlink::MAX_PAYLOAD;

use super::{BY_NODE, Identity, MAX_MAPPED};
use crate::od::{Access, AddError, DataType, Dictionary, Object, id};
use Access::{Constant, ReadOnly, ReadWrite};

/// The result of adding an object.
pub(super) type AddOutcome = Result<(), AddError>;

/// Default threshold of error counters.
pub(super) const THRESHOLD: u64 = 15;
/// Default payload octets of PReq and PRes.
pub(super) const PAYLOAD_LIMIT: u64 = 36;
/// Limits of the payload octets of PReq and PRes.
pub(super) const PAYLOAD: core::ops::RangeInclusive<u64> = PAYLOAD_LIMIT..=MAX_PAYLOAD as u64;
/// Maximum octets of a text.
const TEXT: u16 = 32;

/// An unsigned number that peers may read and write.
pub(super) fn writable(len: u8, default: u64) -> Object {
    Object::unsigned(len, ReadWrite, default)
}

/// An unsigned number that peers may read.
pub(super) fn readable(len: u8, default: u64) -> Object {
    Object::unsigned(len, ReadOnly, default)
}

/// An unsigned number that never changes.
pub(super) fn constant(len: u8, value: u64) -> Object {
    Object::unsigned(len, Constant, value)
}

pub(super) fn boolean(access: Access, default: bool) -> Object {
    Object::new(DataType::Boolean, access, Vec::from([default.into()]))
}

/// A text, truncated to its maximum length.
pub(super) fn text(access: Access, value: &[u8]) -> Object {
    let value = value.iter().copied().take(TEXT.into()).collect();
    Object::new(DataType::VisibleString(TEXT), access, value)
}

/// Adds a record: sub-index 0 is the number of entries, which have the sub-indices starting at 1.
pub(super) fn record<const N: usize>(
    od: &mut Dictionary,
    index: u16,
    entries: [Object; N],
) -> AddOutcome {
    od.add(id(index, 0), constant(1, N as u64))?;
    let mut subs = (1..).zip(entries);
    subs.try_for_each(|(sub, entry)| od.add(id(index, sub), entry))
}

/// Adds an array with an element for each node.
pub(super) fn by_node(
    od: &mut Dictionary,
    index: u16,
    entries: Access,
    element: Object,
) -> AddOutcome {
    od.add(id(index, 0), Object::unsigned(1, entries, BY_NODE.into()))?;
    od.add_array(index, BY_NODE, element)
}

/// Adds an error counter with a threshold.
pub(super) fn counter(od: &mut Dictionary, index: u16, threshold: u64) -> AddOutcome {
    record(od, index, [writable(4, 0), readable(4, 0), writable(4, threshold)])
}

/// Adds parameters and mapping of a PDO, without mapped objects.
///
/// # Errors
/// One of them exists.
pub fn pdo(od: &mut Dictionary, parameters: u16, mapping: u16) -> Result<(), AddError> {
    record(od, parameters, [writable(1, 0), writable(1, 0)])?;
    od.add(id(mapping, 0), writable(1, 0).within(0..=MAX_MAPPED.into()))?;
    od.add_array(mapping, MAX_MAPPED, writable(8, 0))
}

/// Adds the objects that both kinds of nodes have.
pub(super) fn add(od: &mut Dictionary, identity: &Identity) -> AddOutcome {
    od.add(super::DEVICE_TYPE, constant(4, identity.device_type.into()))?;
    od.add(super::ERROR_REGISTER, readable(1, 0))?;
    od.add(id(0x1008, 0), text(Constant, &identity.device_name))?;
    // The version of hardware, which is unknown here, and of software.
    od.add(id(0x1009, 0), text(Constant, &[]))?;
    od.add(id(0x100a, 0), text(Constant, env!("CARGO_PKG_VERSION").as_bytes()))?;
    let Identity { vendor_id, product_code, revision_number, serial_number, .. } = *identity;
    let numbers = [vendor_id, product_code, revision_number, serial_number];
    record(od, 0x1018, numbers.map(|number| constant(4, number.into())))?;
    // Date, time and id of the configuration, and whether it was changed since the id was written.
    let verify = [writable(4, 0), writable(4, 0), writable(4, 0), boolean(ReadOnly, true)];
    record(od, 0x1020, verify)?;
    interface(od)?;
    by_node(od, 0x1050, ReadOnly, readable(4, 0))?;
    od.add(super::SDO_TIMEOUT_MS, writable(4, 15_000).within(100..=u32::MAX.into()))?;

    // CRC errors, which the kernel counts.
    counter(od, 0x1c0f, THRESHOLD)?;
    od.add(super::SOC_TOLERANCE_NS, writable(4, 100_000))?;
    network(od)?;
    od.add(super::FEATURES, constant(4, identity.features.into()))?;
    od.add(super::EPL_VERSION, constant(1, 0x20))?;
    od.add(super::NMT_STATE, readable(1, 0x1c))?;
    by_node(od, super::PRES_LIMIT_OF, ReadWrite, writable(2, PAYLOAD_LIMIT))?;
    // The id is set by software, but not by 0x1F93/3.
    record(od, 0x1f93, [readable(1, 0), boolean(ReadOnly, false)])?;
    cycle_timing(od)?;
    od.add(super::BASIC_ETHERNET_TIMEOUT_US, writable(4, 5_000_000))?;
    od.add(super::HOST_NAME, text(ReadWrite, &identity.host_name))?;
    by_node(od, super::MULTIPLEXED_ASSIGNMENT, ReadWrite, writable(1, 0))?;
    od.add(super::RESET_COMMAND, writable(1, super::NO_COMMAND.into()))
}

/// 0x1030: the node's interface, as far as the node knows it.
fn interface(od: &mut Dictionary) -> AddOutcome {
    let address = Object::new(DataType::OctetString(6), Constant, Vec::new());
    let entries = [
        readable(2, 1),
        text(Constant, b"Ethernet POWERLINK"),
        // ethernetCsmacd of RFC 1213, and the longest frame.
        constant(1, 6),
        constant(2, 1518),
        address,
        text(Constant, &[]),
        // Operational and administrative state: up. It is the interface that a peer would take down.
        readable(1, 1),
        writable(1, 1).within(1..=1),
        boolean(ReadWrite, true),
    ];
    record(od, 0x1030, entries)
}

/// 0x1E40 and 0x1E4A: the IP network. The host forwards and limits hops by its own settings, so that only these
/// values are true.
fn network(od: &mut Dictionary) -> AddOutcome {
    let mask = writable(4, 0xffff_ff00);
    let table = [readable(2, 1), writable(4, 0), mask, readable(2, 50_000), writable(4, 0)];
    record(od, 0x1e40, table)?;
    let forwarding = boolean(ReadWrite, false).within(0..=0);
    record(od, 0x1e4a, [forwarding, writable(2, 64).within(64..=64), readable(4, 0)])
}

/// 0x1F98. The last five entries are those of poll response chaining, which is off.
fn cycle_timing(od: &mut Dictionary) -> AddOutcome {
    let entries = [
        constant(2, MAX_PAYLOAD as u64),
        constant(2, MAX_PAYLOAD as u64),
        constant(4, 50_000),
        writable(2, PAYLOAD_LIMIT).within(PAYLOAD),
        writable(2, PAYLOAD_LIMIT).within(PAYLOAD),
        constant(4, 100_000),
        writable(1, 0),
        writable(2, 1500).within(300..=1500),
        writable(2, 2).within(0..=1000),
        readable(1, 0),
        readable(4, 0),
        readable(4, 0),
        readable(4, 0),
        readable(4, 0),
    ];
    record(od, 0x1f98, entries)
}
