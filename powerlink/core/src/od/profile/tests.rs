//! The numbers C1 to C28 and M1 to M44 are those of docs/reference/clauses.md: where the dictionaries of this
//! crate differed from the specification and from other implementations, and the decision on each.

use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::*;
use crate::od::Access::{self, Constant, ReadOnly, ReadWrite};
use crate::od::DataType::{self, Boolean, Domain, OctetString, Unsigned, VisibleString};
use crate::od::{Dictionary, Limits};
use onbeat_wire::powerlink::NodeId;

/// Number of the difference, sub-indices of an index, type, access, range and value; `None`: absent.
type Row = (&'static str, u16, &'static [u8], Option<ExpectedObject>);
type ExpectedObject = (DataType, Access, Option<(u64, u64)>, u64);

const U8: DataType = Unsigned(1);
const U16: DataType = Unsigned(2);
const U32: DataType = Unsigned(4);
const U64: DataType = Unsigned(8);
const TEXT: DataType = VisibleString(32);
/// No range, and the value 0.
const fn plain(data_type: DataType, access: Access) -> Option<ExpectedObject> {
    Some((data_type, access, None, 0))
}
const fn valued(data_type: DataType, access: Access, value: u64) -> Option<ExpectedObject> {
    Some((data_type, access, None, value))
}
const fn within(data_type: DataType, low: u64, high: u64, value: u64) -> Option<ExpectedObject> {
    Some((data_type, ReadWrite, Some((low, high)), value))
}
/// Sub-index 0 of a record.
const fn entries(number: u64) -> Option<ExpectedObject> {
    valued(U8, Constant, number)
}
const ENDS: &[u8] = &[1, 2, 239, 254];
const MAX32: u64 = u32::MAX as u64;

const CONTROLLED: &[Row] = &[
    ("C1", 0x1f99, &[0], valued(U32, ReadWrite, 5_000_000)),
    ("C1", 0x1f99, &[1], None),
    ("C2", 0x1f81, &[0], valued(U8, ReadWrite, 254)),
    ("C2", 0x1f81, ENDS, plain(U32, ReadWrite)),
    ("C3", 0x1f8d, &[0], valued(U8, ReadWrite, 254)),
    ("C3", 0x1f8d, &[1, 240, 254], valued(U16, ReadWrite, 36)),
    ("C4", 0x1402, &[1, 2], plain(U8, ReadWrite)),
    ("C4", 0x1403, &[0], None),
    ("C5", 0x1c0f, &[0], entries(3)),
    ("C5", 0x1c0f, &[1], plain(U32, ReadWrite)),
    ("C5", 0x1c0f, &[2], plain(U32, ReadOnly)),
    ("C5", 0x1c0f, &[3], valued(U32, ReadWrite, 15)),
    ("C6", 0x1f93, &[0], entries(2)),
    ("C6", 0x1f93, &[2], plain(Boolean, ReadOnly)),
    ("C7", 0x1e4a, &[0], entries(3)),
    ("C7", 0x1e4a, &[1], within(Boolean, 0, 0, 0)),
    ("C7", 0x1e4a, &[2], within(U16, 64, 64, 64)),
    ("C7", 0x1e4a, &[3], plain(U32, ReadOnly)),
    ("C8", 0x1050, ENDS, plain(U32, ReadOnly)),
    ("C9", 0x1f98, &[0], entries(14)),
    ("C9", 0x1f98, &[10], plain(U8, ReadOnly)),
    ("C9", 0x1f98, &[11, 12, 13, 14], plain(U32, ReadOnly)),
    // With storage: four, in the tests of `cn::store`.
    ("C10", 0x1010, &[0, 1], None),
    ("C10", 0x1011, &[0, 1], None),
    ("C11", 0x1020, &[0], entries(4)),
    ("C11", 0x1020, &[3], plain(U32, ReadWrite)),
    ("C11", 0x1020, &[4], valued(Boolean, ReadOnly, 1)),
    ("C12", 0x1030, &[8], within(U8, 1, 1, 1)),
    ("C13", 0x1030, &[9], valued(Boolean, ReadWrite, 1)),
    ("C14", 0x1030, &[4], valued(U16, Constant, 1518)),
    ("C15", 0x1003, &[1, 8], plain(Domain, ReadOnly)),
    ("C15", 0x1003, &[9], None),
    ("C16", 0x1600, &[0], within(U8, 0, 254, 0)),
    ("C16", 0x1600, &[1, 254], plain(U64, ReadWrite)),
    ("C16", 0x1a00, &[0], within(U8, 0, 254, 0)),
    ("C16", 0x1a00, &[1, 254], plain(U64, ReadWrite)),
    ("C17", 0x1e40, &[2], plain(U32, ReadWrite)),
    ("C17", 0x1e40, &[3], valued(U32, ReadWrite, 0xffff_ff00)),
    ("C18", 0x1e40, &[4], valued(U16, ReadOnly, 50_000)),
    ("C19", 0x1f98, &[4, 5], within(U16, 36, 1490, 36)),
    ("C20", 0x1f98, &[8], within(U16, 300, 1500, 1500)),
    ("C21", 0x1006, &[0], plain(U32, ReadWrite)),
    ("C22", 0x1300, &[0], within(U32, 100, MAX32, 15_000)),
    ("C23", 0x1c0e, &[3], plain(U32, ReadWrite)),
    ("C24", 0x1f52, &[1, 2], plain(U32, ReadWrite)),
    ("C25", 0x1f9b, &[0], valued(U8, ReadWrite, 254)),
    ("C26", 0x1f82, &[0], valued(U32, Constant, 0x8265)),
    ("C27", 0x1030, &[1], valued(U16, ReadOnly, 1)),
    ("C27", 0x1400, &[1], plain(U8, ReadWrite)),
    ("C27", 0x1800, &[1], plain(U8, ReadWrite)),
    ("C28", 0x1f98, &[3], valued(U32, Constant, 50_000)),
    ("C28", 0x1f98, &[6], valued(U32, Constant, 100_000)),
];

const MANAGING: &[Row] = &[
    ("M1", 0x1018, &[0], entries(4)),
    ("M1", 0x1018, &[1], valued(U32, Constant, 7)),
    ("M2", 0x1020, &[1, 2, 3], plain(U32, ReadWrite)),
    ("M3", 0x1030, &[0], entries(9)),
    ("M3", 0x1030, &[5], plain(OctetString(6), Constant)),
    ("M4", 0x1c00, &[1], plain(U32, ReadWrite)),
    ("M4", 0x1c00, &[3], valued(U32, ReadWrite, 15)),
    ("M5", 0x1f82, &[0], valued(U32, Constant, 0x8b35)),
    ("M6", 0x1f83, &[0], valued(U8, Constant, 0x20)),
    ("M7", 0x1f93, &[1], plain(U8, ReadOnly)),
    ("M7", 0x1f93, &[2], plain(Boolean, ReadOnly)),
    ("M8", 0x1008, &[0], plain(TEXT, Constant)),
    ("M9", 0x1009, &[0], plain(TEXT, Constant)),
    ("M10", 0x100a, &[0], plain(TEXT, Constant)),
    ("M11", 0x1010, &[0, 1], None),
    ("M12", 0x1011, &[0, 1], None),
    ("M13", 0x1050, ENDS, plain(U32, ReadOnly)),
    ("M14", 0x1c0b, &[3], valued(U32, ReadWrite, 15)),
    ("M15", 0x1c0d, &[3], valued(U32, ReadWrite, 15)),
    ("M16", 0x1c0f, &[3], valued(U32, ReadWrite, 15)),
    ("M17", 0x1c12, &[0], valued(U32, ReadWrite, 1)),
    ("M18", 0x1c14, &[0], valued(U32, ReadWrite, 100_000)),
    ("M19", 0x1e40, &[2], plain(U32, ReadWrite)),
    ("M20", 0x1e4a, &[2], within(U16, 64, 64, 64)),
    ("M21", 0x1f8d, ENDS, valued(U16, ReadWrite, 36)),
    ("M22", 0x1f8f, ENDS, valued(U8, ReadOnly, 0x1c)),
    ("M23", 0x1f99, &[0], valued(U32, ReadWrite, 5_000_000)),
    ("M24", 0x1f9a, &[0], plain(TEXT, ReadWrite)),
    ("M25", 0x1f9e, &[0], valued(U8, ReadWrite, 0xff)),
    ("M26", 0x1f9f, &[0], entries(4)),
    ("M26", 0x1f9f, &[1], plain(Boolean, ReadWrite)),
    ("M26", 0x1f9f, &[2], valued(U8, ReadWrite, 0xff)),
    ("M26", 0x1f9f, &[3], plain(U8, ReadWrite)),
    ("M26", 0x1f9f, &[4], plain(Domain, ReadWrite)),
    ("M29", 0x1c05, ENDS, plain(U32, ReadOnly)),
    ("M29", 0x1c08, ENDS, plain(U32, ReadOnly)),
    ("M29", 0x1c16, ENDS, plain(U32, ReadOnly)),
    ("M30", 0x1f8a, &[0], entries(3)),
    ("M30", 0x1f8a, &[1], valued(U32, ReadWrite, 1000)),
    ("M31", 0x1f8a, &[3], within(U8, 1, 1, 1)),
    ("M32", 0x1f89, &[0], entries(12)),
    ("M32", 0x1f89, &[6, 7, 8, 9], valued(U32, ReadWrite, 500_000)),
    ("M33", 0x1f89, &[10], plain(U32, ReadWrite)),
    ("M33", 0x1f89, &[11, 12], valued(U32, ReadWrite, 10)),
    ("M34", 0x1f89, &[4], valued(U32, ReadWrite, 5_000_000)),
    ("M35", 0x1f98, &[0], entries(14)),
    ("M35", 0x1f98, &[1, 2], valued(U16, Constant, 1490)),
    ("M35", 0x1f98, &[3], valued(U32, Constant, 50_000)),
    ("M35", 0x1f98, &[6], valued(U32, Constant, 100_000)),
    ("M36", 0x1f98, &[4, 5], within(U16, 36, 1490, 36)),
    ("M37", 0x1f98, &[10], plain(U8, ReadOnly)),
    ("M37", 0x1f98, &[11, 12, 13, 14], plain(U32, ReadOnly)),
    ("M38", 0x1f98, &[8], within(U16, 300, 1500, 1500)),
    ("M39", 0x1006, &[0], within(U32, 200, MAX32, 1000)),
    ("M40", 0x1f8a, &[2], within(U32, 250, MAX32, 100_000)),
    ("M41", 0x1f8b, ENDS, within(U16, 36, 1490, 36)),
    ("M42", 0x1600, &[0], within(U8, 0, 254, 0)),
    ("M42", 0x1a00, &[1, 254], plain(U64, ReadWrite)),
    ("M43", 0x1401, &[1], valued(U8, ReadWrite, 2)),
    ("M43", 0x1801, &[1], valued(U8, ReadWrite, 2)),
    ("M43", 0x1402, &[0], None),
    ("M44", 0x1300, &[0], within(U32, 100, MAX32, 15_000)),
];

/// Arrays by node of M27 and M28: the access of sub-index 0.
const ARRAYS: &[(Access, &[u16])] = &[
    (
        ReadOnly,
        &[
            0x1c04, 0x1c05, 0x1c06, 0x1c07, 0x1c08, 0x1c09, 0x1c15, 0x1c16, 0x1c17, 0x1f22, 0x1f26,
            0x1f27, 0x1f53, 0x1f54,
        ],
    ),
    (ReadWrite, &[0x1f81, 0x1f84, 0x1f85, 0x1f86, 0x1f87, 0x1f88, 0x1f8b, 0x1f92]),
    (Constant, &[0x1f8e]),
];

fn identity() -> Identity {
    Identity {
        device_type: 0x000f_0191,
        vendor_id: 7,
        features: CONTROLLED_NODE_FEATURES,
        device_name: b"a name that is longer than thirty-two octets".to_vec(),
        host_name: b"node".to_vec(),
        ..Identity::default()
    }
}

fn managing() -> Dictionary {
    let identity = Identity { features: MANAGING_NODE_FEATURES, ..identity() };
    managing_node(&identity, 1000, &[NodeId(1), NodeId(2)]).unwrap()
}

fn check(od: &Dictionary, rows: &[Row]) {
    for (number, index, subs, expected) in rows {
        for object in subs.iter().map(|sub| id(*index, *sub)) {
            let found = od.object(object).ok().map(|found| {
                let range = found.limits.as_ref().map(|limits| match limits {
                    Limits::Unsigned(range) => (*range.start(), *range.end()),
                    _ => panic!("{number}: {object}"),
                });
                let is_number = found.data_type.fixed_len().is_some();
                let value = if is_number { od.number(object) } else { 0 };
                (found.data_type, found.access, range, value)
            });
            assert_eq!(found, *expected, "{number}: {object}");
        }
    }
}

#[test]
fn objects_of_a_controlled_node_are_as_decided() {
    check(&controlled_node(&identity(), RPDOS).unwrap(), CONTROLLED);
    let numbers: BTreeSet<&str> = CONTROLLED.iter().map(|row| row.0).collect();
    let all: BTreeSet<String> = (1..=28).map(|number| format!("C{number}")).collect();
    assert!(all.iter().eq(&numbers), "every number has a row");
    let all = controlled_node(&identity(), 256).unwrap();
    assert_eq!((all.subs(0x14ff).count(), all.subs(0x16ff).count()), (3, 255), "C4");
    assert_eq!(all.subs(0x1500).count(), 0);
}

#[test]
fn objects_of_a_managing_node_are_as_decided() {
    let od = managing();
    check(&od, MANAGING);
    for (access, indices) in ARRAYS {
        for index in *indices {
            let entries = od.object(id(*index, 0)).map(|object| (object.data_type, object.access));
            assert_eq!((entries, od.number(id(*index, 0))), (Ok((U8, *access)), 254), "{index:x}");
            assert_eq!(od.subs(*index).count(), 255, "M28: {index:x}");
        }
    }
    let mut numbers: BTreeSet<&str> = MANAGING.iter().map(|row| row.0).collect();
    numbers.extend(["M27", "M28"]);
    let all: BTreeSet<String> = (1..=44).map(|number| format!("M{number}")).collect();
    assert!(all.iter().eq(&numbers), "every number has a row");
}

#[test]
fn every_record_has_its_number_of_entries() {
    for od in [controlled_node(&identity(), 3).unwrap(), managing()] {
        for index in 0x1000..=0x1fff_u16 {
            let subs: Vec<u8> = od.subs(index).collect();
            // For mappings and the history, the number is that of entries in use.
            let in_use = matches!(index >> 8, 0x16 | 0x1a) || index == ERROR_HISTORY;
            if subs.len() > 1 && !in_use {
                assert_eq!(od.number(id(index, 0)), u64::from(*subs.last().unwrap()), "{index:x}");
            }
        }
        assert_eq!(od.get(id(0x1008, 0)).unwrap().len(), 32);
    }
}
