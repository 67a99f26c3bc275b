//! Objects of a managing node.

use alloc::vec::Vec;

use onbeat_wire::powerlink::NodeId;

use super::common::{
    self, AddOutcome, PAYLOAD, PAYLOAD_LIMIT, THRESHOLD, boolean, by_node, counter, pdo, readable,
    record, writable,
};
use super::{Identity, assignment, startup};
use crate::od::Access::{Constant, ReadOnly, ReadWrite};
use crate::od::{AddError, DataType, Dictionary, Object, id};

/// The features of a managing node of this crate: isochronous, SDO by ASnd, NMT info services, extended NMT
/// commands, configuration manager, multiplexed access, basic Ethernet, SDO of several objects.
pub const MANAGING_NODE_FEATURES: u32 = 0x0000_0b35 | super::SDO_MULTIPLE;

/// Default timeout of PRes, in nanoseconds.
const PRES_TIMEOUT_NS: u64 = 25_000;

/// The objects of a managing node of these controlled nodes, with one PDO in each direction for each node.
///
/// # Errors
/// A node occurs twice, or there are more than 254.
pub fn managing_node(
    identity: &Identity,
    cycle_us: u32,
    nodes: &[NodeId],
) -> Result<Dictionary, AddError> {
    let mut od = Dictionary::new();
    common::add(&mut od, identity)?;
    let cycle = writable(4, cycle_us.into()).within(200..=u32::MAX.into());
    od.add(super::CYCLE_LENGTH_US, cycle)?;
    // CRC errors, which the kernel counts, and exceeded cycles; those of the node as a controlled one.
    for index in [0x1c00, super::CYCLE_EXCEEDED, super::LOSS_OF_SOC, super::LOSS_OF_PREQ] {
        counter(&mut od, index, THRESHOLD)?;
    }
    od.add(super::CYCLE_SUSPEND, writable(4, 1))?;
    boot_time(&mut od)?;
    od.add(super::STARTUP, writable(4, startup::CHECK_CONFIGURATION.into()))?;
    let slots = writable(4, 100_000).within(250..=u32::MAX.into());
    record(&mut od, 0x1f8a, [writable(4, 1000), slots, writable(1, 1).within(1..=1)])?;
    let data = Object::new(DataType::Domain, ReadWrite, Vec::new());
    let command = writable(1, super::NO_COMMAND.into());
    let request = [boolean(ReadWrite, false), command, writable(1, 0), data];
    record(&mut od, super::REQUEST_COMMAND, request)?;
    arrays(&mut od)?;
    for (channel, node) in (0..).zip(nodes) {
        let valid = assignment::EXISTS | assignment::IS_CONTROLLED | assignment::START;
        let assigned = id(super::NODE_ASSIGNMENT, node.0);
        if od.number(assigned) != 0 {
            return Err(AddError::Exists(assigned));
        }
        let set = od.set_number(assigned, (valid | assignment::VALID).into());
        set.map_err(|abort| AddError::Default(assigned, abort))?;
        for (parameters, mapping) in
            [(super::RPDO, super::RPDO_MAPPING), (super::TPDO, super::TPDO_MAPPING)]
        {
            pdo(&mut od, parameters + channel, mapping + channel)?;
            let node = od.set_default(id(parameters + channel, 1), &[node.0]);
            debug_assert!(node.is_ok(), "the object is one octet");
        }
    }
    Ok(od)
}

/// 0x1F89. The sixth and later timeouts are those of steps that this node does not limit by themselves; the last
/// three are for redundant managing nodes.
fn boot_time(od: &mut Dictionary) -> AddOutcome {
    let us = [1_000_000, 500_000, 500_000, 5_000_000, 500_000, 500_000, 500_000, 500_000, 500_000];
    let [a, b, c, d, e, f, g, h, i] = us.map(|us| writable(4, us));
    let (delay, divider) = (writable(4, 10), writable(4, 10));
    record(od, 0x1f89, [a, b, c, d, e, f, g, h, i, writable(4, 0), delay, divider])
}

/// Arrays by node.
fn arrays(od: &mut Dictionary) -> AddOutcome {
    for [cumulative, count, threshold] in
        [super::LATE_PRES, super::LOSS_OF_PRES, super::LOSS_OF_STATUS]
    {
        by_node(od, cumulative, ReadOnly, writable(4, 0))?;
        by_node(od, count, ReadOnly, readable(4, 0))?;
        by_node(od, threshold, ReadOnly, writable(4, THRESHOLD))?;
    }
    let dcf = Object::new(DataType::Domain, ReadWrite, Vec::new());
    by_node(od, super::CONCISE_DCF, ReadOnly, dcf)?;
    for index in [
        super::EXPECTED_DATE,
        super::EXPECTED_TIME,
        super::EXPECTED_SOFTWARE_DATE,
        super::EXPECTED_SOFTWARE_TIME,
    ] {
        by_node(od, index, ReadOnly, writable(4, 0))?;
    }
    for index in super::EXPECTED_IDENTITY.into_iter().chain([super::NODE_ASSIGNMENT]) {
        by_node(od, index, ReadWrite, writable(4, 0))?;
    }
    let limit = writable(2, PAYLOAD_LIMIT).within(PAYLOAD);
    by_node(od, super::PREQ_LIMIT_OF, ReadWrite, limit)?;
    by_node(od, super::NODE_STATE, Constant, readable(1, 0x1c))?;
    by_node(od, super::EXPECTED_STATE, Constant, readable(1, 0x1c))?;
    by_node(od, super::PRES_TIMEOUT_NS, ReadWrite, writable(4, PRES_TIMEOUT_NS))
}
