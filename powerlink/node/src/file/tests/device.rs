//! Nodes with a device description or a configuration of another tool.

use onbeat_powerlink::od::{DataType, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;

use super::super::*;

/// A folder with an example's device description, and a configuration derived from it.
fn folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("onbeat-xdd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/powerlink/digital-io.xdd");
    let device = std::fs::read_to_string(example).unwrap();
    let configured =
        device.replace("defaultValue=\"10\" ", "defaultValue=\"10\" actualValue=\"20\" ");
    let broken = device.replace("dataType=\"0008\"", "dataType=\"0088\"");
    for (name, text) in [("io.xdd", device), ("io.xdc", configured), ("broken.xdd", broken)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_node_has_the_objects_of_its_description() {
    let folder = folder();
    let text = "[network]\ncycle-us = 1000\n[[node]]\nid = 1\nxdd = \"io.xdc\"\n\
                identity = { serial-number = 9 }\n\
                input = [{ object = \"6000/01\" }]\noutput = [{ object = \"6200/01\" }]\n";
    let parse = |text: &str| File::parse(text, folder.join("bus.toml").to_str().unwrap());
    let file = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let [node] = &file.network.nodes[..] else { panic!() };
    let identity = &node.identity;
    assert_eq!((identity.vendor_id, identity.product_code), (0x142, 7));
    assert_eq!((identity.serial_number, &identity.device_name[..]), (9, &b"Digital I/O"[..]));
    assert_eq!(node.inputs[0].data_type, DataType::Unsigned(1), "from the description");
    assert_eq!(node.parameters, [(id(0x2000, 0), vec![20, 0])], "from the configuration");
    let own = format!("{text}parameter = [{{ object = \"2000/00\", octets = \"1e 00\" }}]\n");
    let file = parse(&own).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.network.nodes[0].parameters, [(id(0x2000, 0), vec![30, 0])]);
    let device = file.network.controlled(NodeId(1), MacAddress::default()).unwrap();
    assert_eq!(device.objects().number(id(0x1300, 0)), 5_000, "its own default");

    let xdd = |name: &str| text.replace("io.xdc", name);
    for (text, what, help) in [
        (xdd("none.xdd"), "none.xdd: No such file", "relative to the folder of this file"),
        (xdd("broken.xdd"), "broken.xdd:85:63: dataType 0088 is not a value type", "0006"),
        (
            text.replace("6000/01", "2000/00"),
            "object 2000/00 of its description cannot be this signal",
            "match the device description",
        ),
        (
            own.replace("1e 00", "ff ff"),
            "value of object 2000/00 is invalid",
            "must have the number of octets of its object",
        ),
        (text.replace("6000/01", "6000/09"), "type is missing", "\"u16\""),
    ] {
        let error = parse(&text).expect_err(what).to_string();
        assert!(error.contains(what) && error.contains(help), "{what}:\n{error}");
        assert!(!error.contains("errors"), "one fault is reported once:\n{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// In the format of other tools: a count, then index, sub-index, length and value.
#[test]
fn a_concise_dcf_of_another_tool_configures_the_node() {
    let folder = std::env::temp_dir().join(format!("onbeat-cdc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let cycle = [0x06, 0x10, 0, 4, 0, 0, 0, 0x50, 0xc3, 0, 0];
    let timeout = [0x00, 0x13, 0, 4, 0, 0, 0, 0xe8, 3, 0, 0];
    let octets = [&[2, 0, 0, 0][..], &cycle, &timeout].concat();
    std::fs::write(folder.join("node.cdc"), &octets).unwrap();
    std::fs::write(folder.join("cut.cdc"), &octets[..20]).unwrap();
    std::fs::write(folder.join("long.cdc"), [&octets[..], &[0]].concat()).unwrap();
    let text = "[network]\ncycle-us = 1000\n[[node]]\nid = 1\ncdc = \"node.cdc\"\n";
    let parse = |text: &str| File::parse(text, folder.join("bus.toml").to_str().unwrap());
    let file = parse(text).unwrap_or_else(|error| panic!("{error}"));
    // The cycle is that of the network.
    let expected = [(id(0x1300, 0), vec![0xe8, 3, 0, 0])];
    assert_eq!(file.network.nodes[0].parameters, expected);
    for (name, what) in [
        ("cut.cdc", "cut.cdc is not a concise DCF: readable entries: 1"),
        ("long.cdc", "long.cdc is not a concise DCF: readable entries: 2"),
        ("none.cdc", "none.cdc: No such file"),
    ] {
        let error = parse(&text.replace("node.cdc", name)).expect_err(name).to_string();
        assert!(error.contains("node[0].cdc") && error.contains(what), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
