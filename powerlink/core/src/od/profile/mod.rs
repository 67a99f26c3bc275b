//! Objects of the communication profile (EPSG DS 301, 0x1000 to 0x1FFF).

mod common;
mod controlled;
mod managing;

use alloc::vec::Vec;

use super::{Dictionary, ObjectId, id};

pub use common::pdo as add_pdo;
pub use controlled::{CONTROLLED_NODE_FEATURES, RPDOS, controlled_node};
pub use managing::{MANAGING_NODE_FEATURES, managing_node};

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
/// 0x1020/3: identifies the configuration; written last by a configuration tool.
pub const CONFIGURATION_ID: ObjectId = id(0x1020, 3);
/// 0x1020/4: parameters were written since 0x1020/3 was.
pub const CONFIGURATION_INVALID: ObjectId = id(0x1020, 4);
/// 0x1030/5: the source address of the node.
pub const INTERFACE_ADDRESS: ObjectId = id(0x1030, 5);
/// 0x1300: timeout of an SDO connection, in milliseconds.
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
/// Bit 1 of 0x1F82: SDO over UDP.
pub const SDO_BY_UDP: u32 = 1 << 1;
/// Bit 15 of 0x1F82: SDO reads and writes several objects by one command.
pub const SDO_MULTIPLE: u32 = 1 << 15;
/// 0x1F83: version of POWERLINK.
pub const EPL_VERSION: ObjectId = id(0x1f83, 0);
/// 0x1F8C: state of the node.
pub const NMT_STATE: ObjectId = id(0x1f8c, 0);
/// 0x1F8D: payload octets of a node's PRes, by node.
pub const PRES_LIMIT_OF: u16 = 0x1f8d;
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
/// 0x1F99: how long a node listens before it enters BASIC_ETHERNET, in microseconds; 0: it never does.
pub const BASIC_ETHERNET_TIMEOUT_US: ObjectId = id(0x1f99, 0);
/// 0x1F9A: host name.
pub const HOST_NAME: ObjectId = id(0x1f9a, 0);

/// 0x1C02: cycles that exceeded their length.
pub const CYCLE_EXCEEDED: u16 = 0x1c02;
/// 0x1C12: cycles that are left out, at least, when one exceeded its length.
pub const CYCLE_SUSPEND: ObjectId = id(0x1c12, 0);
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
/// 0x1F89/2: timeout for the identification of mandatory nodes, in microseconds.
pub const PRE_OPERATIONAL_1_TIMEOUT_US: ObjectId = id(0x1f89, 2);
/// 0x1F89/3: minimum duration of PRE_OPERATIONAL_1, in microseconds.
pub const WAIT_PRE_OPERATIONAL_1_US: ObjectId = id(0x1f89, 3);
/// 0x1F89/4: timeout for a node to reach PRE_OPERATIONAL_2, in microseconds.
pub const PRE_OPERATIONAL_2_TIMEOUT_US: ObjectId = id(0x1f89, 4);
/// 0x1F89/5: timeout for a node to reach READY_TO_OPERATE, in microseconds.
pub const READY_TO_OPERATE_TIMEOUT_US: ObjectId = id(0x1f89, 5);
/// 0x1F8A/1: time from SoC to the first poll, in nanoseconds.
pub const WAIT_SOC_PREQ_NS: ObjectId = id(0x1f8a, 1);
/// 0x1F8A/2: length of the asynchronous phase of a reduced cycle, in nanoseconds.
pub const ASYNC_SLOT_NS: ObjectId = id(0x1f8a, 2);
/// 0x1F8B: payload octets of a node's PReq, by node.
pub const PREQ_LIMIT_OF: u16 = 0x1f8b;
/// 0x1F8E: a node's state as the managing node has it, by node.
pub const NODE_STATE: u16 = 0x1f8e;
/// 0x1F8F: a node's state as commanded, by node.
pub const EXPECTED_STATE: u16 = 0x1f8f;
/// 0x1F92: timeout of a node's PRes, in nanoseconds, by node.
pub const PRES_TIMEOUT_NS: u16 = 0x1f92;
/// 0x1F98/9: the prescaler.
pub const PRESCALER: ObjectId = id(0x1f98, 9);
/// 0x1F9B: the cycle of a multiplexed cycle in which a node is polled, starting at 1, by node; 0: every cycle.
pub const MULTIPLEXED_ASSIGNMENT: u16 = 0x1f9b;

/// Number of nodes in an array by node.
pub const BY_NODE: u8 = 254;

/// 0x1F9E: a network management command for the node itself; 255: none.
pub const RESET_COMMAND: ObjectId = id(0x1f9e, 0);
/// The value of 0x1F9E without a command.
pub const NO_COMMAND: u8 = 0xff;
/// 0x1F9F: a network management command to other nodes; sub-index 1 releases it, 2 is the command, 3 its
/// destination, 4 its data.
pub const REQUEST_COMMAND: u16 = 0x1f9f;

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
    /// The network has redundant managing nodes.
    pub const REDUNDANCY: u32 = 1 << 14;
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
pub const MAX_MAPPED: u8 = 254;

/// The identity of a node, in its dictionary and its IdentResponse.
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

/// Adds a feature of 0x1F82 to a node.
pub(crate) fn add_feature(od: &mut Dictionary, feature: u32) {
    let features = od.number(FEATURES) as u32 | feature;
    // A node with its own dictionary may lack them.
    let _ = od.set_default(FEATURES, &features.to_le_bytes());
}

#[cfg(test)]
mod tests;
