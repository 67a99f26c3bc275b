use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const SPEED: ObjectId = id(0x6040, 1);
const NAME: ObjectId = id(0x1008, 0);

fn dictionary() -> Dictionary {
    let mut od = Dictionary::new();
    let speed = Object::unsigned(2, Access::ReadWrite, 100).within(10..=3000);
    od.add(SPEED, speed).unwrap();
    let name = Object::new(DataType::VisibleString(8), Access::Constant, b"drive".to_vec());
    od.add(NAME, name).unwrap();
    od.add(id(0x6041, 0), Object::unsigned(1, Access::WriteOnly, 7)).unwrap();
    od
}

#[test]
fn access_is_refused_with_the_reason() {
    let mut od = dictionary();
    for (id, value, abort) in [
        (id(0x6042, 0), &[0][..], Abort::NO_OBJECT),
        (id(0x6040, 0), &[0], Abort::NO_SUB_INDEX),
        (NAME, b"x", Abort::READ_ONLY),
        (SPEED, &[1], Abort::TOO_SHORT),
        (SPEED, &[1, 0, 0], Abort::TOO_LONG),
        (SPEED, &[9, 0], Abort::TOO_SMALL),
        (SPEED, &[0xb9, 0x0b], Abort::TOO_GREAT),
    ] {
        assert_eq!(od.write(id, value), Err(abort), "{id}");
    }
    assert_eq!(od.read(id(0x6041, 0)), Err(Abort::WRITE_ONLY));
    assert_eq!(od.number(SPEED), 100, "nothing was written");
    assert_eq!(od.set(NAME, b"far too long"), Err(Abort::TOO_LONG));
    assert_eq!(od.set_number(SPEED, 0x1_0000), Err(Abort::TOO_GREAT));
    assert_eq!(od.set_number(NAME, 1), Err(Abort::TYPE));
    assert_eq!(od.place(NAME), Err(Abort::NOT_MAPPABLE));
}

#[test]
fn an_object_is_added_once_and_with_a_default_that_fits() {
    let mut od = dictionary();
    let object = Object::unsigned(1, Access::ReadOnly, 0);
    assert_eq!(od.add(SPEED, object.clone()), Err(AddError::Exists(SPEED)));
    let bad = id(0x7000, 0);
    let refused = AddError::Default(bad, Abort::TOO_SMALL);
    assert_eq!(od.add(bad, object.within(1..=2)), Err(refused));
    let short = Object::new(DataType::Real(4), Access::ReadOnly, vec![0; 3]);
    assert_eq!(od.add(bad, short), Err(AddError::Default(bad, Abort::TOO_SHORT)));
}

#[test]
fn a_reset_restores_its_range() {
    let mut od = dictionary();
    od.set_number(SPEED, 2000).unwrap();
    od.set(NAME, b"other").unwrap();
    od.restore(0x1000..=0x1fff);
    assert_eq!((od.get(NAME), od.number(SPEED)), (Ok(&b"drive"[..]), 2000));
    od.restore(0x1000..=0xffff);
    assert_eq!(od.number(SPEED), 100);
}

#[test]
fn sub_indices_of_an_index() {
    let od = dictionary();
    assert!(od.subs(0x6040).eq([1]));
    assert_eq!(od.subs(0x1234).count(), 0);
}

#[test]
fn limits_are_those_of_the_type() {
    use Limits::{Real, Signed};
    let real = |value: f32| value.to_le_bytes().to_vec();
    let cases = [
        (DataType::Integer(2), Signed(-5..=5), vec![0xfb, 0xff], Ok(())),
        (DataType::Integer(2), Signed(-5..=5), vec![0xfa, 0xff], Err(Abort::TOO_SMALL)),
        (DataType::Integer(3), Signed(-5..=5), vec![6, 0, 0], Err(Abort::TOO_GREAT)),
        (DataType::Integer(8), Signed(-5..=5), vec![0xff; 8], Ok(())),
        (DataType::Real(4), Real(-0.5..=0.5), real(0.5), Ok(())),
        (DataType::Real(4), Real(-0.5..=0.5), real(-0.75), Err(Abort::TOO_SMALL)),
        (DataType::Real(4), Real(-0.5..=0.5), real(f32::NAN), Err(Abort::TOO_GREAT)),
        (DataType::Real(8), Real(0.0..=1.0), 2.0_f64.to_le_bytes().to_vec(), Err(Abort::TOO_GREAT)),
    ];
    for (data_type, limits, value, expected) in cases {
        let default = vec![0; value.len()];
        let object = Object::new(data_type, Access::ReadWrite, default);
        let mut od = Dictionary::new();
        od.add(SPEED, Object { limits: Some(limits), ..object }).unwrap();
        assert_eq!(od.write(SPEED, &value), expected, "{data_type:?} {value:?}");
    }
}

#[test]
fn an_object_is_described_again() {
    let mut od = dictionary();
    od.set_number(SPEED, 200).unwrap();
    let slow = Object::unsigned(2, Access::ReadOnly, 5).within(0..=9);
    assert_eq!(od.describe(SPEED, slow.clone()), Ok(()));
    assert_eq!((od.number(SPEED), od.write(SPEED, &[1, 0])), (5, Err(Abort::READ_ONLY)));
    let long = Object::unsigned(4, Access::ReadOnly, 5);
    assert_eq!(od.describe(SPEED, long), Err(Abort::TYPE));
    assert_eq!(od.describe(SPEED, slow.clone().within(6..=9)), Err(Abort::TOO_SMALL));
    assert_eq!(od.describe(id(0x7000, 0), slow), Err(Abort::NO_OBJECT));
    assert_eq!(od.objects().count(), 3);
}

proptest! {
    /// Adjacent values do not overlap.
    #[test]
    fn written_values_are_read_back(writes in prop::collection::vec((0..6u8, any::<u64>()), 0..40)) {
        let lens = [1, 2, 4, 8, 1, 4];
        let mut od = Dictionary::new();
        for (sub, len) in (0..).zip(lens) {
            od.add(id(0x2000, sub), Object::unsigned(len, Access::ReadWrite, 0)).unwrap();
        }
        let mut expected = [0u64; 6];
        for (sub, value) in writes {
            let value = value.to_le_bytes();
            let value = &value[..usize::from(lens[usize::from(sub)])];
            od.write(id(0x2000, sub), value).unwrap();
            let mut octets = [0; 8];
            octets[..value.len()].copy_from_slice(value);
            expected[usize::from(sub)] = u64::from_le_bytes(octets);
        }
        for (sub, value) in (0..).zip(expected) {
            prop_assert_eq!(od.number(id(0x2000, sub)), value);
        }
    }
}

/// An array of three numbers, of which the second has its own description.
fn array() -> Dictionary {
    let mut od = Dictionary::new();
    let own = Object::unsigned(2, Access::ReadOnly, 9);
    od.add(id(0x2000, 0), Object::unsigned(1, Access::Constant, 3)).unwrap();
    od.add_array(0x2000, 3, Object::unsigned(2, Access::ReadWrite, 5).within(0..=9)).unwrap();
    od.describe(id(0x2000, 2), own).unwrap();
    od.add(id(0x2001, 0), Object::unsigned(1, Access::ReadWrite, 0)).unwrap();
    od
}

#[test]
fn elements_of_an_array_are_objects() {
    let mut od = array();
    assert!(od.subs(0x2000).eq(0..=3));
    let ids = od.objects().map(|(object, _)| (object.index, object.sub));
    assert!(ids.eq([(0x2000, 0), (0x2000, 1), (0x2000, 2), (0x2000, 3), (0x2001, 0)]));
    assert_eq!(od.arrays().map(|(index, count, _)| (index, count)).next(), Some((0x2000, 3)));
    let element = |sub| id(0x2000, sub);
    assert_eq!([1, 2, 3].map(|sub| od.number(element(sub))), [5, 9, 5]);
    for (sub, value, abort) in [
        (1, &[0][..], Abort::TOO_SHORT),
        (1, &[10, 0], Abort::TOO_GREAT),
        (2, &[1, 0], Abort::READ_ONLY),
        (4, &[1, 0], Abort::NO_SUB_INDEX),
    ] {
        assert_eq!(od.write(element(sub), value), Err(abort), "{sub}");
    }
    assert_eq!(od.place(element(1)), Err(Abort::NOT_MAPPABLE));
    let object = Object::unsigned(2, Access::ReadWrite, 0);
    assert_eq!(od.add(element(3), object.clone()), Err(AddError::Exists(element(3))));
    assert_eq!(od.add_array(0x2001, 1, object.clone().within(1..=2)), {
        Err(AddError::Default(id(0x2001, 1), Abort::TOO_SMALL))
    });
    assert_eq!(od.add_array(0x2000, 1, object.clone()), Err(AddError::Exists(element(1))));
    // Process data have places in memory.
    od.add_array(0x6000, 2, object.mapped(PdoMapping::Both)).unwrap();
    assert!(od.place(id(0x6000, 2)).is_ok());
    assert_eq!(od.arrays().count(), 1);
}

#[test]
fn elements_have_their_own_defaults() {
    let mut od = array();
    let element = |sub| id(0x2000, sub);
    let values = |od: &Dictionary| [1, 2, 3].map(|sub| od.number(element(sub)));
    od.set_power_on(element(3), &[7, 0]).unwrap();
    assert_eq!(values(&od), [5, 9, 5], "the value stays");
    od.restore(0x2000..=0x2000);
    assert_eq!(values(&od), [5, 9, 7]);
    assert_eq!(od.default_of(element(3)), Ok(&[7, 0][..]));
    od.set_number(element(1), 1).unwrap();
    od.keep();
    od.set_number(element(1), 2).unwrap();
    od.restore(0x1000..=0xffff);
    assert_eq!(values(&od), [1, 9, 7]);
    // A description with the same default sets it again.
    let described = Object::unsigned(2, Access::ReadWrite, 5).within(0..=9);
    od.describe(element(3), described).unwrap();
    assert_eq!((od.number(element(3)), od.default_of(element(3))), (5, Ok(&[5, 0][..])));
    let texts = Object::new(DataType::Domain, Access::ReadWrite, Vec::new());
    od.add_array(0x2100, 254, texts).unwrap();
    od.set(id(0x2100, 254), b"last").unwrap();
    assert_eq!(od.get(id(0x2100, 253)), Ok(&b""[..]));
    assert_eq!(od.get(id(0x2100, 254)), Ok(&b"last"[..]));
    od.restore(0x2100..=0x2100);
    assert_eq!(od.get(id(0x2100, 254)), Ok(&b""[..]));
}

proptest! {
    /// An array behaves as separate objects.
    #[test]
    fn an_array_is_a_list_of_objects(steps in prop::collection::vec((0..6u8, 0..=6u8, 0..12u8), 0..60)) {
        let element = Object::unsigned(1, Access::ReadWrite, 3).within(0..=9);
        let mut list = Dictionary::new();
        let mut array = list.clone();
        (1..=5).for_each(|sub| list.add(id(0x2000, sub), element.clone()).unwrap());
        array.add_array(0x2000, 5, element.clone()).unwrap();
        for (step, sub, value) in steps {
            let object = id(0x2000, sub);
            let apply = |od: &mut Dictionary| match step {
                0 => od.write(object, &[value]),
                1 => od.set_power_on(object, &[value]),
                2 => od.set_default(object, &[value]),
                3 => od.describe(object, Object::unsigned(1, Access::ReadWrite, value.into())),
                4 => { od.keep(); Ok(()) }
                _ => { od.restore(0x2000..=0x2000); Ok(()) }
            };
            prop_assert_eq!(apply(&mut list), apply(&mut array));
            for sub in 0..=6 {
                let object = id(0x2000, sub);
                prop_assert_eq!(list.get(object), array.get(object));
                prop_assert_eq!(list.default_of(object), array.default_of(object));
            }
        }
        let descriptions = |od: &Dictionary| {
            od.objects().map(|(id, object)| (id, object.limits.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(descriptions(&list), descriptions(&array));
    }
}
