//! Objects of a controlled node.

use alloc::vec::Vec;

use super::Identity;
use super::common::{self, AddOutcome, THRESHOLD, by_node, counter, pdo, record, writable};
use crate::od::{Access, AddError, DataType, Dictionary, Object, id};

/// The features of a controlled node of this crate: isochronous, SDO by ASnd, extended NMT commands, dynamic
/// mapping, multiplexed access, SDO of several objects.
pub const CONTROLLED_NODE_FEATURES: u32 = 0x0000_0265 | super::SDO_MULTIPLE;

/// Number of received PDOs of a controlled node, unless it needs more.
pub const RPDOS: u16 = 3;

/// Default permitted SoC jitter, in nanoseconds: that of hardware.
const SOC_JITTER_NS: u64 = 2_000;

/// The objects of every controlled node, for `rpdos` received PDOs: at most 256.
///
/// # Errors
/// None: this function adds each object once.
pub fn controlled_node(identity: &Identity, rpdos: u16) -> Result<Dictionary, AddError> {
    let mut od = Dictionary::new();
    common::add(&mut od, identity)?;
    history(&mut od)?;
    od.add(super::CYCLE_LENGTH_US, writable(4, 0))?;
    for channel in 0..rpdos.min(256) {
        pdo(&mut od, super::RPDO + channel, super::RPDO_MAPPING + channel)?;
    }
    pdo(&mut od, super::TPDO, super::TPDO_MAPPING)?;

    for index in [super::LOSS_OF_SOC, super::LOSS_OF_SOA, super::LOSS_OF_PREQ] {
        counter(&mut od, index, THRESHOLD)?;
    }
    // Jitter measured in software is mostly its own: without a threshold it has no effect.
    counter(&mut od, super::SOC_JITTER, 0)?;
    od.add(super::SOC_JITTER_RANGE_NS, writable(4, SOC_JITTER_NS))?;
    record(&mut od, 0x1f52, [writable(4, 0), writable(4, 0)])?;
    by_node(&mut od, super::NODE_ASSIGNMENT, Access::ReadWrite, writable(4, 0))?;
    Ok(od)
}

/// 0x1003: the number of entries in use, which a peer may clear, and the entries.
fn history(od: &mut Dictionary) -> AddOutcome {
    od.add(id(super::ERROR_HISTORY, 0), writable(1, 0))?;
    let entry = Object::new(DataType::Domain, Access::ReadOnly, Vec::new());
    od.add_array(super::ERROR_HISTORY, super::HISTORY_ENTRIES, entry)
}
