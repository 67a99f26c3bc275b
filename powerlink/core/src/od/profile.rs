//! Objects of the communication profile (EPSG DS 301, 0x1000 to 0x1FFF).

use alloc::vec::Vec;
use onbeat_wire::powerlink::{MAX_PAYLOAD, NodeId};

use super::{Access, AddError, DataType, Dictionary, Object, ObjectId, id};
use Access::{Constant, ReadOnly, ReadWrite};

/// 0x1000: device type.
pub const DEVICE_TYPE: ObjectId = id(0x1000, 0);
/// 0x1001: error register.
pub const ERROR_REGISTER: ObjectId = id(0x1001, 0);
/// 0x1003: error history, newest first.
pub const ERROR_HISTORY: u16 = 0x1003;
/// Entries of the history.
pub const HISTORY_ENTRIES: u8 = 8;
/// 0x1006: length of a cycle, in microseconds.
pub const CYCLE_LENGTH_US: ObjectId = id(0x1006, 0);
/// 0x1010: stores parameters; sub-index 1: all.
pub const STORE: u16 = 0x1010;
/// 0x1011: restores default parameters; sub-index 1: all.
pub const RESTORE: u16 = 0x1011;
/// 0x1018/1: vendor.
pub const VENDOR_ID: ObjectId = id(0x1018, 1);
/// 0x1018/2: product.
pub const PRODUCT_CODE: ObjectId = id(0x1018, 2);
/// 0x1018/3: revision.
pub const REVISION_NUMBER: ObjectId = id(0x1018, 3);
/// 0x1018/4: serial number.
pub const SERIAL_NUMBER: ObjectId = id(0x1018, 4);
/// 0x1020/1: date of the configuration, in days since 1984-01-01.
pub const CONFIGURATION_DATE: ObjectId = id(0x1020, 1);
/// 0x1020/2: time of the configuration, in milliseconds since midnight.
pub const CONFIGURATION_TIME: ObjectId = id(0x1020, 2);
/// 0x1030/5: the source address of the node.
pub const INTERFACE_ADDRESS: ObjectId = id(0x1030, 5);
/// 0x1300: time-out of an SDO connection, in milliseconds.
pub const SDO_TIMEOUT_MS: ObjectId = id(0x1300, 0);
/// 0x14xx: parameters of RPDOs.
pub const RPDO: u16 = 0x1400;
/// 0x16xx: mappings of RPDOs.
pub const RPDO_MAPPING: u16 = 0x1600;
/// 0x18xx: parameters of TPDOs.
pub const TPDO: u16 = 0x1800;
/// 0x1Axx: mappings of TPDOs.
pub const TPDO_MAPPING: u16 = 0x1a00;
/// 0x1C0B: losses of SoC.
pub const LOSS_OF_SOC: u16 = 0x1c0b;
/// 0x1C0C: losses of SoA.
pub const LOSS_OF_SOA: u16 = 0x1c0c;
/// 0x1C0D: losses of PReq.
pub const LOSS_OF_PREQ: u16 = 0x1c0d;
/// 0x1C0E: SoC outside of the permitted jitter.
pub const SOC_JITTER: u16 = 0x1c0e;
/// 0x1C13: permitted jitter, in nanoseconds.
pub const SOC_JITTER_RANGE_NS: ObjectId = id(0x1c13, 0);
/// 0x1C14: tolerance for a late SoC, in nanoseconds.
pub const SOC_TOLERANCE_NS: ObjectId = id(0x1c14, 0);
/// 0x1E40/2: IP address.
pub const ADDRESS: ObjectId = id(0x1e40, 2);
/// 0x1E40/3: the network's mask.
pub const MASK: ObjectId = id(0x1e40, 3);
/// 0x1E40/5: gateway.
pub const GATEWAY: ObjectId = id(0x1e40, 5);
/// 0x1F52/1: date of the application software.
pub const SOFTWARE_DATE: ObjectId = id(0x1f52, 1);
/// 0x1F52/2: time of the application software.
pub const SOFTWARE_TIME: ObjectId = id(0x1f52, 2);
/// 0x1F82: features of the node.
pub const FEATURES: ObjectId = id(0x1f82, 0);
/// 0x1F83: version of POWERLINK.
pub const EPL_VERSION: ObjectId = id(0x1f83, 0);
/// 0x1F8C: state of the node.
pub const NMT_STATE: ObjectId = id(0x1f8c, 0);
/// 0x1F93/1: the node's id.
pub const NODE_ID: ObjectId = id(0x1f93, 1);
/// 0x1F98/3: longest time from PReq to PRes, in nanoseconds.
pub const RESPONSE_TIME_NS: ObjectId = id(0x1f98, 3);
/// 0x1F98/4: payload octets of the node's PReq.
pub const PREQ_LIMIT: ObjectId = id(0x1f98, 4);
/// 0x1F98/5: payload octets of the node's PRes.
pub const PRES_LIMIT: ObjectId = id(0x1f98, 5);
/// 0x1F98/7: number of cycles in a multiplexed cycle; 0: nodes are polled in every cycle.
pub const MULTIPLEXED_CYCLES: ObjectId = id(0x1f98, 7);
/// 0x1F98/8: longest asynchronous frame, in octets after the EtherType.
pub const ASYNC_MTU: ObjectId = id(0x1f98, 8);
/// 0x1F99/1: how long a node listens before it enters BASIC_ETHERNET, in microseconds.
pub const BASIC_ETHERNET_TIMEOUT_US: ObjectId = id(0x1f99, 1);
/// 0x1F9A: host name.
pub const HOST_NAME: ObjectId = id(0x1f9a, 0);

/// 0x1C02: cycles that exceeded their length.
pub const CYCLE_EXCEEDED: u16 = 0x1c02;
/// 0x1F22: concise DCF, by node.
pub const CONCISE_DCF: u16 = 0x1f22;
/// 0x1C04, 0x1C05 and 0x1C06: late responses to polls, by node.
pub const LATE_PRES: [u16; 3] = [0x1c04, 0x1c05, 0x1c06];
/// 0x1C07, 0x1C08 and 0x1C09: unanswered polls, by node.
pub const LOSS_OF_PRES: [u16; 3] = [0x1c07, 0x1c08, 0x1c09];
/// 0x1C15, 0x1C16 and 0x1C17: unanswered StatusRequests, by node.
pub const LOSS_OF_STATUS: [u16; 3] = [0x1c15, 0x1c16, 0x1c17];
/// 0x1F26: expected date of the configuration, by node.
pub const EXPECTED_DATE: u16 = 0x1f26;
/// 0x1F27: expected time of the configuration, by node.
pub const EXPECTED_TIME: u16 = 0x1f27;
/// 0x1F53: expected date of the application software, by node.
pub const EXPECTED_SOFTWARE_DATE: u16 = 0x1f53;
/// 0x1F54: expected time of the application software, by node.
pub const EXPECTED_SOFTWARE_TIME: u16 = 0x1f54;
/// 0x1F80: start of the network, the bits of [`startup`].
pub const STARTUP: ObjectId = id(0x1f80, 0);
/// 0x1F81: assignment of a node, by node.
pub const NODE_ASSIGNMENT: u16 = 0x1f81;
/// 0x1F84 to 0x1F88: expected device type, vendor, product, revision and serial number, by node.
pub const EXPECTED_IDENTITY: [u16; 5] = [0x1f84, 0x1f85, 0x1f86, 0x1f87, 0x1f88];
/// 0x1F89/1: how long the managing node listens for another one, in microseconds.
pub const WAIT_NOT_ACTIVE_US: ObjectId = id(0x1f89, 1);
/// 0x1F89/2: time-out for the identification of mandatory nodes, in microseconds.
pub const PRE_OPERATIONAL_1_TIMEOUT_US: ObjectId = id(0x1f89, 2);
/// 0x1F89/3: minimum duration of PRE_OPERATIONAL_1, in microseconds.
pub const WAIT_PRE_OPERATIONAL_1_US: ObjectId = id(0x1f89, 3);
/// 0x1F89/4: time-out for a node to reach PRE_OPERATIONAL_2, in microseconds.
pub const PRE_OPERATIONAL_2_TIMEOUT_US: ObjectId = id(0x1f89, 4);
/// 0x1F89/5: time-out for a node to reach READY_TO_OPERATE, in microseconds.
pub const READY_TO_OPERATE_TIMEOUT_US: ObjectId = id(0x1f89, 5);
/// 0x1F8A/2: length of the asynchronous phase of a reduced cycle, in nanoseconds.
pub const ASYNC_SLOT_NS: ObjectId = id(0x1f8a, 2);
/// 0x1F8B: payload octets of a node's PReq, by node.
pub const PREQ_LIMIT_OF: u16 = 0x1f8b;
/// 0x1F8E: a node's state as the managing node has it, by node.
pub const NODE_STATE: u16 = 0x1f8e;
/// 0x1F92: time-out of a node's PRes, in nanoseconds, by node.
pub const PRES_TIMEOUT_NS: u16 = 0x1f92;
/// 0x1F98/9: the prescaler.
pub const PRESCALER: ObjectId = id(0x1f98, 9);
/// 0x1F9B: the cycle of a multiplexed cycle in which a node is polled, from 1 on, by node; 0: every cycle.
pub const MULTIPLEXED_ASSIGNMENT: u16 = 0x1f9b;

/// Number of nodes in an array by node.
const BY_NODE: u8 = 254;

/// 0x1F9E: a network management command for the node itself; 255: none.
pub const RESET_COMMAND: ObjectId = id(0x1f9e, 0);
/// The value of 0x1F9E without a command.
pub const NO_COMMAND: u8 = 0xff;

/// Bits of 0x1F80.
pub mod startup {
    /// All nodes are started at once; otherwise each when it is ready.
    pub const START_ALL: u32 = 1 << 1;
    /// OPERATIONAL of the managing node requires the application's permission.
    pub const NO_AUTOSTART: u32 = 1 << 2;
    /// The application starts the nodes.
    pub const NO_START_NODE: u32 = 1 << 3;
    /// PRE_OPERATIONAL_2 of the managing node requires the application's permission.
    pub const NO_AUTO_PRE_OPERATIONAL_2: u32 = 1 << 7;
    /// READY_TO_OPERATE of the managing node requires the application's permission.
    pub const NO_AUTO_READY_TO_OPERATE: u32 = 1 << 8;
    /// Date and time of nodes' software are checked (0x1F53, 0x1F54).
    pub const CHECK_SOFTWARE: u32 = 1 << 10;
    /// Date and time of nodes' configuration are checked (0x1F26, 0x1F27).
    pub const CHECK_CONFIGURATION: u32 = 1 << 11;
    /// The network continues without a mandatory node.
    pub const NO_RETURN: u32 = 1 << 12;
    /// The managing node stays in BASIC_ETHERNET if it hears no other one.
    pub const BASIC_ETHERNET: u32 = 1 << 13;
}

/// Bits of 0x1F81.
pub mod assignment {
    /// The node exists.
    pub const EXISTS: u32 = 1;
    /// It is a controlled node.
    pub const IS_CONTROLLED: u32 = 1 << 1;
    /// The managing node starts it.
    pub const START: u32 = 1 << 2;
    /// The network does not run without it.
    pub const MANDATORY: u32 = 1 << 3;
    /// The assignment is valid.
    pub const VALID: u32 = 1 << 31;
}

/// Maximum number of entries of a mapping.
pub const MAX_MAPPED: u8 = 64;
/// Default threshold of error counters.
const THRESHOLD: u64 = 15;
/// Default permitted SoC jitter, in nanoseconds: that of hardware.
const SOC_JITTER_NS: u64 = 2_000;
/// Default payload octets of PReq and PRes.
const PAYLOAD_LIMIT: u64 = 36;

/// The identity of a controlled node, in its dictionary and its IdentResponse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// 0x1000.
    pub device_type: u32,
    /// 0x1018/1.
    pub vendor_id: u32,
    /// 0x1018/2.
    pub product_code: u32,
    /// 0x1018/3.
    pub revision_number: u32,
    /// 0x1018/4.
    pub serial_number: u32,
    /// 0x1F82.
    pub features: u32,
    /// 0x1008; at most 32 octets.
    pub device_name: Vec<u8>,
    /// 0x1F9A; at most 32 octets.
    pub host_name: Vec<u8>,
}

/// The features of a controlled node of this crate: isochronous, SDO by ASnd, extended NMT commands, dynamic
/// mapping, multiplexed access.
pub const CONTROLLED_NODE_FEATURES: u32 = 0x0000_0265;

/// The objects of every controlled node, for `rpdos` received PDOs.
///
/// # Errors
/// None with up to 256 PDOs: this function adds each object once.
pub fn controlled_node(identity: &Identity, rpdos: u8) -> Result<Dictionary, AddError> {
    let mut od = Dictionary::new();
    let text = |text: &[u8]| text.iter().copied().take(32).collect::<Vec<u8>>();
    let string = DataType::VisibleString(32);
    let number = Object::unsigned;

    od.add(DEVICE_TYPE, number(4, Constant, identity.device_type.into()))?;
    od.add(ERROR_REGISTER, number(1, ReadOnly, 0))?;
    od.add(id(ERROR_HISTORY, 0), number(1, ReadWrite, 0))?;
    for sub in 1..=HISTORY_ENTRIES {
        let entry = Object::new(DataType::OctetString(20), ReadOnly, Vec::new());
        od.add(id(ERROR_HISTORY, sub), entry)?;
    }
    od.add(CYCLE_LENGTH_US, number(4, ReadWrite, 0))?;
    od.add(id(0x1008, 0), Object::new(string, Constant, text(&identity.device_name)))?;
    // The version of hardware, which is unknown here, and of software.
    od.add(id(0x1009, 0), Object::new(string, Constant, Vec::new()))?;
    let version = text(env!("CARGO_PKG_VERSION").as_bytes());
    od.add(id(0x100a, 0), Object::new(string, Constant, version))?;
    record(&mut od, 0x1018, 4, Constant)?;
    for (id, value) in [
        (VENDOR_ID, identity.vendor_id),
        (PRODUCT_CODE, identity.product_code),
        (REVISION_NUMBER, identity.revision_number),
        (SERIAL_NUMBER, identity.serial_number),
    ] {
        od.add(id, number(4, Constant, value.into()))?;
    }
    record(&mut od, 0x1020, 2, Constant)?;
    od.add(CONFIGURATION_DATE, number(4, ReadWrite, 0))?;
    od.add(CONFIGURATION_TIME, number(4, ReadWrite, 0))?;
    interface(&mut od)?;
    od.add(SDO_TIMEOUT_MS, number(4, ReadWrite, 15_000))?;

    for channel in 0..rpdos {
        pdo(&mut od, RPDO + u16::from(channel), RPDO_MAPPING + u16::from(channel))?;
    }
    pdo(&mut od, TPDO, TPDO_MAPPING)?;

    // Jitter measured in software is mostly its own: without a threshold it has no effect.
    let counters = [LOSS_OF_SOC, LOSS_OF_SOA, LOSS_OF_PREQ].map(|index| (index, THRESHOLD));
    for (index, threshold) in counters.into_iter().chain([(SOC_JITTER, 0)]) {
        record(&mut od, index, 3, Constant)?;
        od.add(id(index, 1), number(4, ReadWrite, 0))?;
        od.add(id(index, 2), number(4, ReadOnly, 0))?;
        od.add(id(index, 3), number(4, ReadWrite, threshold))?;
    }
    od.add(SOC_JITTER_RANGE_NS, number(4, ReadWrite, SOC_JITTER_NS))?;
    od.add(SOC_TOLERANCE_NS, number(4, ReadWrite, 100_000))?;

    record(&mut od, 0x1e40, 5, Constant)?;
    od.add(id(0x1e40, 1), number(2, ReadOnly, 1))?;
    od.add(ADDRESS, number(4, ReadWrite, 0))?;
    od.add(MASK, number(4, ReadWrite, 0xffff_ff00))?;
    od.add(id(0x1e40, 4), number(2, ReadOnly, 1500))?;
    od.add(GATEWAY, number(4, ReadWrite, 0))?;

    record(&mut od, 0x1f52, 2, Constant)?;
    od.add(SOFTWARE_DATE, number(4, ReadOnly, 0))?;
    od.add(SOFTWARE_TIME, number(4, ReadOnly, 0))?;
    od.add(FEATURES, number(4, Constant, identity.features.into()))?;
    od.add(EPL_VERSION, number(1, Constant, 0x20))?;
    od.add(NMT_STATE, number(1, ReadOnly, 0x1c))?;
    record(&mut od, 0x1f93, 1, Constant)?;
    od.add(NODE_ID, number(1, ReadOnly, 0))?;

    let limit = 0..=MAX_PAYLOAD as u64;
    record(&mut od, 0x1f98, 9, Constant)?;
    od.add(id(0x1f98, 1), number(2, Constant, MAX_PAYLOAD as u64))?;
    od.add(id(0x1f98, 2), number(2, Constant, MAX_PAYLOAD as u64))?;
    od.add(RESPONSE_TIME_NS, number(4, Constant, 50_000))?;
    od.add(PREQ_LIMIT, number(2, ReadWrite, PAYLOAD_LIMIT).within(limit.clone()))?;
    od.add(PRES_LIMIT, number(2, ReadWrite, PAYLOAD_LIMIT).within(limit))?;
    od.add(id(0x1f98, 6), number(4, Constant, 100_000))?;
    od.add(MULTIPLEXED_CYCLES, number(1, ReadWrite, 0))?;
    od.add(ASYNC_MTU, number(2, ReadWrite, 1500).within(300..=1500))?;
    od.add(id(0x1f98, 9), number(2, ReadWrite, 2).within(0..=1000))?;
    record(&mut od, 0x1f99, 1, Constant)?;
    od.add(BASIC_ETHERNET_TIMEOUT_US, number(4, ReadWrite, 5_000_000))?;
    od.add(HOST_NAME, Object::new(string, ReadWrite, text(&identity.host_name)))?;
    multiplexed_assignment(&mut od)?;
    od.add(RESET_COMMAND, number(1, ReadWrite, NO_COMMAND.into()))?;
    Ok(od)
}

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
    let number = Object::unsigned;
    od.add(DEVICE_TYPE, number(4, Constant, identity.device_type.into()))?;
    od.add(ERROR_REGISTER, number(1, ReadOnly, 0))?;
    od.add(CYCLE_LENGTH_US, number(4, ReadWrite, cycle_us.into()).within(200..=u32::MAX.into()))?;
    od.add(SDO_TIMEOUT_MS, number(4, ReadWrite, 15_000))?;
    record(&mut od, CYCLE_EXCEEDED, 3, Constant)?;
    od.add(id(CYCLE_EXCEEDED, 1), number(4, ReadWrite, 0))?;
    od.add(id(CYCLE_EXCEEDED, 2), number(4, ReadOnly, 0))?;
    od.add(id(CYCLE_EXCEEDED, 3), number(4, ReadWrite, THRESHOLD))?;
    record(&mut od, 0x1f89, 5, Constant)?;
    for (sub, us) in (1..).zip([1_000_000, 500_000, 500_000, 5_000_000, 500_000]) {
        od.add(id(0x1f89, sub), number(4, ReadWrite, us))?;
    }
    od.add(STARTUP, number(4, ReadWrite, startup::CHECK_CONFIGURATION.into()))?;
    od.add(ASYNC_SLOT_NS, number(4, ReadWrite, 100_000))?;
    od.add(ASYNC_MTU, number(2, ReadWrite, 1500).within(300..=1500))?;
    od.add(NMT_STATE, number(1, ReadOnly, 0x1c))?;
    od.add(MULTIPLEXED_CYCLES, number(1, ReadWrite, 0))?;
    od.add(PRESCALER, number(2, ReadWrite, 2).within(0..=1000))?;
    multiplexed_assignment(&mut od)?;

    let valid = assignment::EXISTS | assignment::IS_CONTROLLED | assignment::START;
    for (channel, node) in (0..).zip(nodes) {
        let NodeId(sub) = *node;
        od.add(id(NODE_ASSIGNMENT, sub), number(4, ReadWrite, (valid | assignment::VALID).into()))?;
        od.add(id(CONCISE_DCF, sub), Object::new(DataType::Domain, ReadWrite, Vec::new()))?;
        let expected =
            [EXPECTED_DATE, EXPECTED_TIME, EXPECTED_SOFTWARE_DATE, EXPECTED_SOFTWARE_TIME];
        for index in EXPECTED_IDENTITY.into_iter().chain(expected) {
            od.add(id(index, sub), number(4, ReadWrite, 0))?;
        }
        let limit = number(2, ReadWrite, PAYLOAD_LIMIT).within(0..=MAX_PAYLOAD as u64);
        od.add(id(PREQ_LIMIT_OF, sub), limit)?;
        od.add(id(NODE_STATE, sub), number(1, ReadOnly, 0x1c))?;
        od.add(id(PRES_TIMEOUT_NS, sub), number(4, ReadWrite, 25_000))?;
        for [cumulative, count, threshold] in [LATE_PRES, LOSS_OF_PRES, LOSS_OF_STATUS] {
            for (index, value) in [(cumulative, 0), (count, 0), (threshold, THRESHOLD)] {
                od.add(id(index, sub), number(4, ReadWrite, value))?;
            }
        }
        for (parameters, mapping) in [(RPDO, RPDO_MAPPING), (TPDO, TPDO_MAPPING)] {
            pdo(&mut od, parameters + channel, mapping + channel)?;
            let node = od.set_default(id(parameters + channel, 1), &[sub]);
            debug_assert!(node.is_ok(), "the object is one octet");
        }
    }
    Ok(od)
}

/// Adds sub-index 0: the number of entries.
fn record(od: &mut Dictionary, index: u16, subs: u8, access: Access) -> Result<(), AddError> {
    od.add(id(index, 0), Object::unsigned(1, access, subs.into()))
}

/// 0x1030: the node's interface, as far as the node knows it.
fn interface(od: &mut Dictionary) -> Result<(), AddError> {
    let text = |text: &[u8]| Object::new(DataType::VisibleString(32), Constant, text.to_vec());
    record(od, 0x1030, 9, Constant)?;
    od.add(id(0x1030, 1), Object::unsigned(2, ReadOnly, 1))?;
    od.add(id(0x1030, 2), text(b"Ethernet POWERLINK"))?;
    // ethernetCsmacd of RFC 1213, and the longest frame.
    od.add(id(0x1030, 3), Object::unsigned(1, Constant, 6))?;
    od.add(id(0x1030, 4), Object::unsigned(2, Constant, 1500))?;
    od.add(INTERFACE_ADDRESS, Object::new(DataType::OctetString(6), Constant, Vec::new()))?;
    od.add(id(0x1030, 6), text(b""))?;
    // Administrative and operational state: up.
    od.add(id(0x1030, 7), Object::unsigned(1, ReadOnly, 1))?;
    od.add(id(0x1030, 8), Object::unsigned(1, ReadOnly, 1))?;
    od.add(id(0x1030, 9), Object::new(DataType::Boolean, ReadOnly, Vec::from([1])))
}

/// 0x1F9B, of all nodes: a configured node may receive the slots of others.
fn multiplexed_assignment(od: &mut Dictionary) -> Result<(), AddError> {
    record(od, MULTIPLEXED_ASSIGNMENT, BY_NODE, Constant)?;
    let mut subs = 1..=BY_NODE;
    subs.try_for_each(|sub| {
        od.add(id(MULTIPLEXED_ASSIGNMENT, sub), Object::unsigned(1, ReadWrite, 0))
    })
}

/// Parameters and mapping of a PDO, without mapped objects.
fn pdo(od: &mut Dictionary, parameters: u16, mapping: u16) -> Result<(), AddError> {
    record(od, parameters, 2, Constant)?;
    od.add(id(parameters, 1), Object::unsigned(1, ReadWrite, 0))?;
    od.add(id(parameters, 2), Object::unsigned(1, ReadWrite, 0))?;
    let entries = Object::unsigned(1, ReadWrite, 0).within(0..=MAX_MAPPED.into());
    od.add(id(mapping, 0), entries)?;
    (1..=MAX_MAPPED).try_for_each(|sub| od.add(id(mapping, sub), Object::unsigned(8, ReadWrite, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_its_number_of_entries() {
        let identity = Identity {
            device_type: 0x000f_0191,
            vendor_id: 0,
            product_code: 0,
            revision_number: 0,
            serial_number: 0,
            features: CONTROLLED_NODE_FEATURES,
            device_name: b"a name that is longer than thirty-two octets".to_vec(),
            host_name: b"node".to_vec(),
        };
        let od = controlled_node(&identity, 3).unwrap();
        for index in 0x1000..=0x1fff_u16 {
            let subs: Vec<u8> = od.subs(index).collect();
            // For mappings and the history, the number is that of entries in use.
            let in_use = matches!(index >> 8, 0x16 | 0x1a) || index == ERROR_HISTORY;
            if subs.len() > 1 && !in_use {
                assert_eq!(od.number(id(index, 0)), u64::from(*subs.last().unwrap()), "{index:x}");
            }
        }
        assert_eq!(od.get(id(0x1008, 0)).unwrap().len(), 32);
        assert_eq!(od.subs(0x1602).count(), 65);
        assert_eq!(od.subs(0x1603).count(), 0);
    }
}
