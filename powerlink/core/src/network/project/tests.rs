use std::string::ToString;

use proptest::prelude::*;

use super::*;
use crate::mn::concise_dcf;

/// Index, sub-index, octets and number.
type Entry = (u16, u8, usize, u64);

/// A network with the nodes 1 and 32, as configuration tools write it.
const ENTRIES: &[Entry] = &[
    (0x1f81, 1, 4, 7),
    (0x1f81, 32, 4, 7),
    (0x1600, 0, 1, 0),
    (0x1a00, 0, 1, 0),
    (0x1006, 0, 4, 50_000),
    (0x1c02, 3, 4, 40),
    (0x1c09, 32, 4, 40),
    (0x1c14, 0, 4, 50_000_000),
    (0x1f26, 1, 4, 0x3124),
    (0x1f27, 1, 4, 0x0373_5955),
    (0x1f8a, 2, 4, 500_000),
    (0x1f92, 1, 4, 200_000),
    (0x1f92, 32, 4, 300_000),
    (0x1400, 1, 1, 32),
    (0x1401, 1, 1, 1),
    (0x1600, 1, 8, 0x0008_0000_0001_a4c0),
    (0x1600, 2, 8, 0x0010_0008_0002_a540),
    (0x1601, 1, 8, 0x0008_0000_0002_a4c0),
    (0x1800, 1, 1, 1),
    (0x1a00, 1, 8, 0x0008_0000_0001_a040),
    (0x1a00, 2, 8, 0x0001_0008_000b_a080),
    (0x1600, 0, 1, 2),
    (0x1601, 0, 1, 1),
    (0x1a00, 0, 1, 2),
    (0x1f81, 1, 4, 0x8000_0007),
    (0x1f81, 32, 4, 0x8000_0007),
    // An initial value of process data, and objects of the tool's own description.
    (0xa040, 1, 1, 99),
    (0x2000, 0, 4, 1),
    (0x1f83, 0, 1, 1),
];

fn cdc(entries: &[Entry], node: &[u8]) -> Vec<u8> {
    let values: Vec<(ObjectId, Vec<u8>)> = entries
        .iter()
        .map(|(index, sub, len, value)| (id(*index, *sub), value.to_le_bytes()[..*len].to_vec()))
        .chain([(id(0x1f22, 1), node.to_vec())])
        .collect();
    concise_dcf(values.iter().map(|(object, value)| (*object, value.as_slice())))
}

fn node() -> Vec<u8> {
    concise_dcf([(id(0x1006, 0), &[0x50, 0xc3, 0, 0][..]), (id(0x1f98, 4), &[36, 0])])
}

#[test]
fn a_managing_node_has_the_values_of_its_project() {
    let octets = cdc(ENTRIES, &node());
    let project = Project::read(&octets).unwrap();
    assert!(project.nodes().eq([NodeId(1), NodeId(32)]));
    assert!(project.ignored.iter().eq(&[id(0x1f83, 0), id(0x2000, 0)]));
    assert!(!project.is_redundant());
    let od = project.managing(MacAddress([2; 6])).unwrap().objects().clone();
    for (object, value) in [
        (profile::CYCLE_LENGTH_US, 50_000),
        (profile::ASYNC_SLOT_NS, 500_000),
        (id(profile::PRES_TIMEOUT_NS, 32), 300_000),
        (id(profile::PRES_TIMEOUT_NS, 2), 25_000),
        (id(profile::LOSS_OF_PRES[2], 32), 40),
        (id(profile::EXPECTED_DATE, 1), 0x3124),
        (id(0xa040, 1), 99),
        (profile::EPL_VERSION, 0x20),
    ] {
        assert_eq!(od.number(object), value, "{object}");
    }
    assert_eq!(od.get(id(profile::CONCISE_DCF, 1)), Ok(&node()[..]));
    assert_eq!(od.get(profile::INTERFACE_ADDRESS), Ok(&[2; 6][..]));
    assert_eq!(
        (od.subs(0x1401).count(), od.subs(0x1402).count(), od.subs(0x1801).count()),
        (3, 0, 0)
    );
}

#[test]
fn process_data_are_those_of_ds_302_4() {
    use DataType::{Boolean, Integer, Unsigned};
    let project = Project::read(&cdc(ENTRIES, &node())).unwrap();
    let values = project.values.iter();
    let values: Vec<_> = values
        .map(|value| (value.node.0, value.object, value.data_type, value.is_sent, value.bit))
        .collect();
    let expected = [
        (32, id(0xa4c0, 1), Unsigned(1), false, Some(0)),
        (32, id(0xa540, 2), Integer(2), false, Some(16)),
        (1, id(0xa4c0, 2), Unsigned(1), false, Some(8)),
        (1, id(0xa040, 1), Unsigned(1), true, Some(0)),
        (1, id(0xa080, 11), Boolean, true, Some(10)),
    ];
    assert_eq!(values, expected);
    let of =
        |index, sub, len| process_type(MappingEntry { object: id(index, sub), offset: 0, len });
    assert_eq!(of(0xa8ff, 254, 64), (Unsigned(8), Some((63 * 254 + 253) * 64)));
    assert_eq!(of(0xa47f, 1, 64), (Unsigned(8), Some(63 * 254 * 64)));
    // Beyond: by their length.
    assert_eq!(of(0xa900, 1, 24), (Unsigned(3), None));
    assert_eq!(of(0x9fff, 1, 1), (Boolean, None));
    assert_eq!(of(0x6000, 1, 8000), (Unsigned(8), None));
}

#[test]
fn invalid_projects_are_refused_with_the_reason() {
    let refused = |octets: &[u8]| Project::read(octets).unwrap_err().to_string();
    let valid = cdc(ENTRIES, &node());
    assert_eq!(refused(&[]), "truncated in entry 0, which starts at octet 0");
    assert_eq!(refused(&[1, 0, 0]), "truncated in entry 0, which starts at octet 0");
    assert_eq!(refused(&[0; 4]), "no controlled node is assigned (1F81)");
    assert_eq!(refused(&[0xff; 4]), "truncated in entry 1, which starts at octet 4");
    assert_eq!(refused(&[&valid[..], &[0; 3]].concat()), "3 octets after the last entry");
    for len in 4..valid.len() {
        let error = Project::read(&valid[..len]).unwrap_err();
        assert!(matches!(error, ProjectError::Truncated(..)), "{len}: {error}");
    }
    // A length beyond the file.
    let mut long = valid.clone();
    long[7..11].fill(0xff);
    assert_eq!(refused(&long), "truncated in entry 1, which starts at octet 4");
    let with = |entry: Entry| refused(&cdc(&[ENTRIES, &[entry]].concat(), &node()));
    assert_eq!(
        with((0x1006, 0, 4, 100)),
        "entry 30: value of object 1006/00 is invalid: 0x06090032: the value is too small"
    );
    assert_eq!(
        with((0x1006, 0, 2, 1000)),
        "entry 30: value of object 1006/00 is invalid: 0x06070013: the value is too short for the object"
    );
    let cut = refused(&cdc(ENTRIES, &node()[..9]));
    assert_eq!(cut, "configuration of node 1: truncated in entry 1, which starts at octet 4");
    assert_eq!(
        with((0x1600, 1, 8, 0x0010_0000_0001_a4c0)),
        "cannot use mapping 1600: 0x06040043: the parameters are incompatible"
    );
    // Mapped in both directions.
    assert_eq!(
        with((0x1a00, 1, 8, 0x0008_0000_0001_a4c0)),
        "cannot use mapping 1A00: 0x06040041: the object cannot be mapped to a PDO"
    );
    let unassigned: Vec<Entry> =
        ENTRIES.iter().copied().filter(|(index, ..)| *index != 0x1f81).collect();
    assert_eq!(refused(&cdc(&unassigned, &node())), "no controlled node is assigned (1F81)");
    let redundant = cdc(&[ENTRIES, &[(0x1f80, 0, 4, 0x4800)]].concat(), &node());
    assert!(Project::read(&redundant).unwrap().is_redundant());
}

/// As many channels and objects as there can be.
#[test]
fn a_project_may_use_every_channel() {
    let mut entries = ENTRIES.to_vec();
    for channel in 2..=0xff_u16 {
        let place = u64::from(channel);
        entries.push((0x1400 + channel, 1, 1, 1 + place % 239));
        entries.push((0x1600 + channel, 1, 8, 0x0008_0000_0001_a4c1 + ((place % 254) << 16)));
        entries.push((0x1600 + channel, 0, 1, 1));
    }
    let project = Project::read(&cdc(&entries, &node())).unwrap();
    assert_eq!(project.objects().subs(0x16ff).count(), 255);
    assert!(project.values.len() > 250);
}

proptest! {
    #[test]
    fn octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Project::read(&octets);
    }

    /// Changed octets of a valid project: it is read or refused, and what is read is a managing node.
    #[test]
    fn changed_projects_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut octets = cdc(ENTRIES, &node());
        for (place, octet) in changes {
            let place = place.index(octets.len());
            octets[place] = octet;
        }
        if let Ok(project) = Project::read(&octets) {
            prop_assert!(project.managing(MacAddress([2; 6])).is_ok());
        }
    }
}
