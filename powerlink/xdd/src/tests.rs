use onbeat_powerlink::od::{Abort, Access, DataType, Limits, PdoMapping, id};

use super::*;

/// A description with all supported elements.
const DEVICE: &str = include_str!("../../../examples/powerlink/digital-io.xdd");

fn objects(list: &str) -> String {
    format!(
        "<ISO15745ProfileContainer>\n<ObjectList>\n{list}</ObjectList>\n</ISO15745ProfileContainer>"
    )
}

#[test]
fn a_device_with_everything() {
    let device = read(DEVICE).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_eq!(device.product.as_deref(), Some("Digital I/O"));
    assert_eq!(device.actual, []);
    let od = &device.objects;
    assert_eq!(od.number(id(0x1000, 0)), 0x000f_0191);
    assert_eq!(od.get(id(0x1008, 0)), Ok(&b"Digital I/O"[..]));
    let identity = (0..=4).map(|sub| od.number(id(0x1018, sub)));
    assert!(identity.eq([4, 0x142, 7, 0x1_0000, 0]));
    let timeout = od.object(id(0x1300, 0)).unwrap();
    assert_eq!(timeout.limits, Some(Limits::Unsigned(1000..=30_000)));
    assert_eq!(od.object(id(0x2000, 0)).unwrap().limits, Some(Limits::Unsigned(0..=1000)));
    let gain = od.object(id(0x2001, 0)).unwrap();
    assert_eq!(
        (gain.data_type, &gain.limits),
        (DataType::Real(4), &Some(Limits::Real(-2.0..=2.0)))
    );
    assert_eq!(gain.default, 1.5_f32.to_le_bytes());

    let input = od.object(id(0x6000, 1)).unwrap();
    assert_eq!((input.data_type, input.access), (DataType::Unsigned(1), Access::ReadOnly));
    assert_eq!(input.mappable, PdoMapping::Transmit);
    let mappable = |sub| od.object(id(0x6200, sub)).unwrap().mappable;
    assert_eq!([0, 1, 2].map(mappable), [PdoMapping::No, PdoMapping::Receive, PdoMapping::Both]);
    let offset = od.object(id(0x6423, 1)).unwrap();
    assert_eq!((offset.data_type, offset.access), (DataType::Integer(2), Access::ReadWrite));
    assert_eq!(offset.default, (-5_i16).to_le_bytes());
    assert_eq!(offset.limits, Some(Limits::Signed(-100..=100)));
    assert_eq!(device.names[&id(0x6423, 1)], "Offset_I16");
    assert_eq!(od.object(id(0x0005, 0)), Err(Abort::NO_OBJECT), "a type is not an object");
}

/// A configuration of a drive, with the elements of larger devices.
const SERVO: &str = include_str!("../fixtures/servo.xdc");

#[test]
fn a_configuration_of_a_larger_device() {
    use DataType::{Domain, Integer, Unsigned};
    let device = read(SERVO).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let od = &device.objects;
    let object = |index, sub| od.object(id(index, sub)).unwrap_or_else(|_| panic!("{index:x}"));
    // Arrays whose elements are equal have one description.
    let arrays: Vec<(u16, u8)> = od.arrays().map(|(index, count, _)| (index, count)).collect();
    assert_eq!(arrays, [(0x1600, 12), (0x1f81, 10)]);
    assert_eq!((od.number(id(0x1f81, 0)), od.subs(0x1f81).count()), (254, 11));
    assert_eq!(object(0x1f81, 10).access, Access::ReadWrite);
    assert_eq!((od.number(id(0x2010, 2)), od.subs(0x2010).count()), (2, 4), "other defaults");
    // Without a default: the value within the limits that is next to 0.
    let values = [1, 2, 3, 4, 5].map(|sub| od.get(id(0x2020, sub)).unwrap().to_vec());
    let real = 1.5_f32.to_le_bytes().to_vec();
    assert_eq!(values, [vec![36, 0], vec![0xfe], vec![0, 0], vec![1], real]);
    // Types of the application process.
    let types = [1, 2, 3, 4, 5, 6].map(|sub| object(0x2030, sub).data_type);
    let expected = [Unsigned(2), Domain, Domain, Unsigned(1), Integer(4), Unsigned(1)];
    assert_eq!(types, expected);
    assert_eq!(object(0x2030, 1).limits, Some(Limits::Unsigned(0..=100)));
    let access = [1, 2, 3, 4, 5, 6].map(|sub| object(0x2030, sub).access);
    use Access::{Constant, ReadOnly, ReadWrite, WriteOnly};
    assert_eq!(access, [ReadWrite, ReadOnly, Constant, ReadWrite, WriteOnly, ReadWrite]);
    assert_eq!(od.object(id(0x2030, 7)), Err(Abort::NO_SUB_INDEX), "reserved");
    // Values in the form of addresses, and of an empty domain.
    let values = [1, 2, 3].map(|sub| od.get(id(0x2040, sub)).unwrap().to_vec());
    assert_eq!(values, [vec![254, 100, 168, 192], vec![2, 0, 0, 0, 0, 9], vec![]]);
    let mappable = [1, 2, 3, 4, 5, 6].map(|sub| object(0x6000, sub).mappable);
    use PdoMapping::{Both, No, Receive, Transmit};
    assert_eq!(mappable, [No, Transmit, Both, Receive, Transmit, Receive]);
    // Actual values: of objects, of elements of an array, of a parameter.
    let expected = [
        (id(0x1006, 0), vec![0xd0, 7, 0, 0]),
        (id(0x1600, 1), vec![1, 0x62, 0, 0, 0, 0, 8, 0]),
        (id(0x1f81, 3), vec![3, 0, 0, 0x80]),
        (id(0x2030, 1), vec![50, 0]),
    ];
    assert_eq!(device.actual, expected);
    assert_eq!(od.number(id(0x1006, 0)), 0, "the default");
}

/// What a description has of an object: type without the length of texts, access, PDOs, limits, default.
type Content = (ObjectId, String, Access, PdoMapping, Option<Limits>, Vec<u8>);

fn content(od: &Dictionary) -> Vec<Content> {
    let of = |(id, object): (ObjectId, &onbeat_powerlink::od::Object)| {
        let default = od.default_of(id).unwrap().to_vec();
        let (data_type, limits) = (object.data_type.to_string(), object.limits.clone());
        (id, data_type, object.access, object.mappable, limits, default)
    };
    od.objects().map(of).collect()
}

/// The objects of a node with signals of every type, and of a managing node: written and read again, they are the
/// same.
#[test]
fn a_written_description_has_the_same_objects() {
    use onbeat_powerlink::od::Object;
    use onbeat_powerlink::od::profile::{self, Identity};
    let identity = Identity {
        vendor_id: 0x142,
        features: profile::CONTROLLED_NODE_FEATURES,
        device_name: b"<a> & \"b\"".to_vec(),
        ..Identity::default()
    };
    let mut od = profile::controlled_node(&identity, 3).unwrap();
    let mut names = BTreeMap::new();
    let mut add = |object, data_type: DataType, mappable, limits| {
        let default = vec![0; data_type.fixed_len().unwrap_or(0)];
        let described = Object::new(data_type, Access::ReadWrite, default).mapped(mappable);
        od.add(object, Object { limits, ..described }).unwrap();
        names.insert(object, format!("value \"{object}\""));
    };
    for len in 1..=8 {
        let signed = Some(Limits::Signed(-100..=100));
        add(id(0x6000, len), DataType::Integer(len), PdoMapping::Transmit, signed);
        add(id(0x6200, len), DataType::Unsigned(len), PdoMapping::Receive, None);
    }
    add(id(0x6400, 0), DataType::Real(4), PdoMapping::Both, Some(Limits::Real(-1.5..=1e30)));
    add(id(0x6401, 0), DataType::Real(8), PdoMapping::Both, None);
    add(id(0x6402, 0), DataType::Boolean, PdoMapping::Both, Some(Limits::Unsigned(0..=1)));
    add(id(0x2000, 0), DataType::Domain, PdoMapping::No, None);
    od.set_default(id(0x2000, 0), &[0, 1, 0xfe]).unwrap();
    od.set_default(id(0x6401, 0), &0.1_f64.to_le_bytes()).unwrap();
    let nodes = [(&od, false), (&managing(&identity), true)];
    for (objects, is_managing) in nodes {
        let names = names.clone();
        let (file_name, date) = ("device.xdd", "2026-11-24");
        let text = write(&Device { objects, names, is_managing, file_name, date });
        let read = read(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
        for (read, written) in content(&read.objects).iter().zip(&content(objects)) {
            assert_eq!(read, written);
        }
        assert_eq!(read.objects.objects().count(), objects.objects().count());
        assert_eq!(read.product.as_deref(), Some("<a> & \"b\""));
        assert_eq!(read.features.flag("DLLFeatureMN"), Some(is_managing));
        assert_eq!(read.features.number("NMTCycleTimeMin"), Some(200));
        assert_eq!(read.actual, []);
        if !is_managing {
            assert_eq!(read.features.number("PDORPDOChannels"), Some(3));
            assert_eq!(read.names[&id(0x6000, 1)], "value \"6000/01\"");
            assert_eq!(read.names[&id(0x1018, 1)], "VendorId_U32");
        }
    }
}

fn managing(identity: &onbeat_powerlink::od::profile::Identity) -> Dictionary {
    onbeat_powerlink::od::profile::managing_node(identity, 1000, &[]).unwrap()
}

#[test]
fn features_of_a_device() {
    let device = read(SERVO).unwrap();
    let features = &device.features;
    assert_eq!(features.number("NMTCycleTimeMin"), Some(400));
    assert_eq!(features.flag("DLLCNFeatureMultiplex"), Some(false));
    assert_eq!(features.flag("SDOServer"), Some(true));
    assert_eq!((features.number("PDORPDOChannels"), features.text("NMTNone")), (Some(2), None));
    assert_eq!((features.number("SDOServer"), features.flag("PDORPDOChannels")), (None, None));
}

#[test]
fn a_configuration_has_the_differing_values() {
    let text = DEVICE
        .replace("defaultValue=\"10\" ", "defaultValue=\"10\" actualValue=\"0x14\" ")
        .replace("defaultValue=\"1.5\" ", "defaultValue=\"1.5\" actualValue=\"1.5\" ")
        .replace(
            "<defaultValue value=\"-5\"/>",
            "<defaultValue value=\"-5\"/><actualValue value=\"6\"/>",
        );
    let device = read(&text).unwrap();
    let expected = [(id(0x2000, 0), vec![20, 0]), (id(0x6423, 1), vec![6, 0])];
    assert_eq!(device.actual, expected);
    assert_eq!(device.objects.number(id(0x2000, 0)), 10, "the default");
}

/// An error: its position, its text, and the remedy.
#[test]
fn errors_have_their_position() {
    let variable = |rest: &str| format!("<Object index=\"2000\" objectType=\"7\" {rest}/>\n");
    let unsigned = |rest: &str| variable(&format!("dataType=\"0005\" {rest}"));
    let cases = [
        (objects(&variable("")), "3:1: object 2000/00 has no data type", "dataType=\"0006\""),
        (
            objects(&variable("dataType=\"0023\"")),
            "3:37: dataType 0023 is not a value type",
            "0006",
        ),
        (
            objects(&variable("dataType=\"U8\"")),
            "3:37: dataType \"U8\" is not a number",
            "hexadecimal",
        ),
        (
            objects("<Object index=\"20000\" objectType=\"7\" dataType=\"0005\"/>"),
            "3:9: index \"20000\" is not a number of at most 4 digits",
            "hexadecimal",
        ),
        (objects("<Object objectType=\"7\"/>"), "3:1: Object without index", "add index"),
        (
            objects(
                "<Object index=\"2000\" objectType=\"9\">\n<SubObject subIndex=\"100\"/></Object>",
            ),
            "4:12: subIndex \"100\" is not a number of at most 2 digits",
            "hexadecimal",
        ),
        (
            objects(&unsigned("defaultValue=\"256\"")),
            "3:53: object 2000/00: defaultValue \"256\" is not a value of UNSIGNED8",
            "0x1F",
        ),
        (
            objects(&unsigned("defaultValue=\"5\" highLimit=\"4\"")),
            "3:53: invalid default of object 2000/00,",
            "within the limits",
        ),
        (
            objects(&unsigned("lowLimit=\"5\" highLimit=\"4\"")),
            "3:53: object 2000/00: invalid limits \"5\" and \"4\"",
            "not above",
        ),
        (
            objects(&unsigned("highLimit=\"many\"")),
            "3:53: object 2000/00: invalid limits none and \"many\"",
            "numbers of the object's type",
        ),
        (
            objects(&unsigned("actualValue=\"9\" highLimit=\"4\"")),
            "3:53: actual value of object 2000/00 is invalid",
            "within its limits",
        ),
        (
            objects(&unsigned("accessType=\"r\"")),
            "3:53: unknown accessType \"r\"",
            "const, ro, rw or wo",
        ),
        (
            objects(&unsigned("PDOmapping=\"yes\"")),
            "3:53: unknown PDOmapping \"yes\"",
            "TPDO or RPDO",
        ),
        (
            objects(&unsigned("uniqueIDRef=\"P1\"")),
            "3:53: parameter \"P1\" not found",
            "ApplicationProcess",
        ),
        (
            objects(&[unsigned(""), unsigned("defaultValue=\"1\"")].concat()),
            "4:9: object 2000/00 already exists",
            "once",
        ),
        (
            DEVICE.replace("templateIDRef=\"UID_TEMPLATE_OCTET\"", "templateIDRef=\"T\""),
            "parameterTemplate \"T\" not found",
            "uniqueID",
        ),
        (
            SERVO.replace("templateIDRef=\"UID_Percent\"", "templateIDRef=\"P\""),
            "allowedValuesTemplate \"P\" not found",
            "uniqueID",
        ),
        (
            DEVICE.replace("access=\"readWrite\"", "access=\"always\""),
            "unknown access \"always\"",
            "readWrite",
        ),
        (
            DEVICE.replace("UID_PARAM_600001", "UID_PARAM_642301"),
            "duplicate parameter \"UID_PARAM_642301\"",
            "different",
        ),
        ("<a/>".into(), "1:1: ObjectList not found", "ApplicationLayers"),
        ("<a><b></a>".into(), "1:7: invalid XML", "DS 311"),
        ("".into(), "1:1: invalid XML", "DS 311"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><a/>".into(), "invalid XML", "DS 311"),
    ];
    for (text, what, help) in cases {
        let faults = read(&text).expect_err(what);
        let shown = faults[0].to_string();
        assert!(shown.contains(what), "{what}: {faults:#?}");
        assert!(faults[0].help.contains(help), "{help}: {faults:#?}");
    }
}

#[test]
fn at_most_fifty_errors_are_reported() {
    let many = "<Object index=\"2000\" objectType=\"7\"/>".repeat(60);
    assert_eq!(read(&objects(&many)).unwrap_err().len(), 50);
}

#[test]
fn formats_of_other_tools_are_read() {
    // Another prefix, a byte order mark, blanks around numbers, unknown elements.
    let text = "\u{feff}<p:a xmlns:p=\"x\"><p:ObjectList><p:Future/>\
                <p:Object index=\" 0x2000 \" dataType=\" 5 \" defaultValue=\" 0x07 \"/>\
                </p:ObjectList></p:a>";
    let device = read(text).unwrap();
    assert_eq!(device.objects.number(id(0x2000, 0)), 7);
    assert_eq!(device.objects.object(id(0x2000, 0)).unwrap().access, Access::ReadWrite);
}

#[test]
fn deep_nesting_is_read() {
    let text = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
    assert!(read(&text).is_err());
}

#[test]
fn elements_with_very_many_attributes_or_namespaces_are_refused() {
    let many = |name: &str, count| -> String {
        (0..count).map(|n| format!(" {name}{n}=\"{n}\"")).collect()
    };
    let device =
        |attributes: &str| DEVICE.replacen("<ObjectList", &format!("<ObjectList{attributes}"), 1);
    assert!(read(&device(&many("a", 50))).is_ok());
    let line = 1 + DEVICE[..DEVICE.find("<ObjectList").unwrap()].matches('\n').count() as u32;
    // The text before it must not hide them.
    for before in ["", "<!-- ' -->", "<!--> <a ' -->", "<?a ' ?>"] {
        for (attributes, what) in [
            (many("a", 65), "more than 64 attributes of one element"),
            (many("a", 300_000), "more than 64 attributes of one element"),
            (many("xmlns:a", 17), "more than 16 namespaces in scope of one element"),
        ] {
            let text =
                device(&attributes).replacen("<ObjectList", &format!("{before}<ObjectList"), 1);
            let faults = read(&text).unwrap_err();
            assert_eq!(
                (faults.len(), faults[0].line, &*faults[0].what),
                (1, line, what),
                "{before}"
            );
            assert!(faults[0].column > before.len() as u32);
        }
    }
    // Declarations of enclosing elements are in scope; those of siblings are not.
    let nested: String = (0..17).map(|n| format!("<e xmlns:a{n}=\"a\">")).collect();
    assert!(read(&nested).unwrap_err()[0].what.contains("namespaces in scope"));
    let siblings = "<e xmlns:a=\"a\"/><e xmlns:a=\"a\"></e>".repeat(100);
    let device = DEVICE.replacen("</ObjectList>", &format!("{siblings}</ObjectList>"), 1);
    read(&device).unwrap();
}
