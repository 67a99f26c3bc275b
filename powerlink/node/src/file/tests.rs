use onbeat_powerlink::mn::concise_dcf;
use onbeat_powerlink::od::{DataType, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;

use super::*;

const WHOLE: &str = r#"
[network]
cycle-us = 1000
async-slot-us = 200
soc-jitter-us = 20
loss-threshold = 48
node-loss-threshold = 60
multiplexed-cycles = 4
prescaler = 10
start = "all"

[managing]
interface = "eth1"
backend = "xsk"
soc = "process"
basic-ethernet = true
virtual-ethernet = "plk0"

[realtime]
scheduling = "fifo 49"

[[node]]
id = 1
name = "drive"
interface = "eth2"
backend = "xdp"
response = "automatic"
store = "kept/drive.dcf"
mandatory = true
pres-timeout-us = 100
multiplexed = 2
identity = { vendor-id = 7, serial-number = 0xffffffff }
parameter = [ { object = "1F98/08", octets = "dc 05" } ]

[[node.input]]
name = "position"
type = "i32"
object = "6064/00"
simulate = "copy"

[[node.output]]
type = "u16"

[[node]]
id = 2
"#;

#[test]
fn a_file_with_all_keys() {
    let file = File::parse(WHOLE, "bus.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((file.network.cycle_us, file.network.async_slot_ns), (1000, 200_000));
    assert_eq!((file.network.threshold, file.network.node_threshold), (48, 60));
    assert_eq!(file.network.soc_tolerance_ns, 500_000);
    assert_eq!((file.network.soc_jitter_ns, file.network.basic_ethernet), (20_000, true));
    let managing = Host {
        interface: Some("eth1".into()),
        backend: Backend::Xsk,
        virtual_ethernet: Some("plk0".into()),
    };
    assert_eq!(file.managing, managing);
    assert_eq!(file.realtime.scheduling, Some(onbeat_realtime::Scheduling::Fifo(49)));
    let [drive, other] = &file.network.nodes[..] else { panic!("{:?}", file.network.nodes) };
    assert_eq!((drive.node, drive.mandatory, drive.pres_timeout_ns), (NodeId(1), true, 100_000));
    assert_eq!((file.network.prescaler, file.network.start_all), (10, true));
    assert_eq!((file.network.multiplexed_cycles, drive.multiplexed), (4, 2));
    assert_eq!(drive.identity.serial_number, u32::MAX);
    assert_eq!(drive.identity.host_name, b"drive");
    assert_eq!(drive.inputs[0].object, id(0x6064, 0));
    assert_eq!(drive.outputs[0].object, id(0x6200, 1), "the first output");
    assert_eq!(drive.outputs[0].data_type, DataType::Unsigned(2));
    assert_eq!(drive.parameters, [(id(0x1f98, 8), vec![0xdc, 5])]);
    assert_eq!(file.nodes[0].inputs, [Pattern::Copy]);
    assert_eq!(file.nodes[0].outputs, [Pattern::Counter]);
    assert_eq!(file.nodes[0].response, Some(Sender::Automatic));
    assert_eq!(file.nodes[0].store.as_deref(), Some(Path::new("kept/drive.dcf")));
    assert_eq!((file.nodes[1].response, file.soc), (None, Some(Sender::Process)));
    assert_eq!((other.node, other.pres_timeout_ns), (NodeId(2), 250_000), "a quarter of a cycle");
    assert_eq!(other.identity.host_name, b"node-2");
}

const NETWORK: &str = "[network]\ncycle-us = 1000\n";

#[test]
fn thresholds_of_nodes_follow_that_of_the_managing_node() {
    for (key, expected) in [
        ("", (40, 80)),
        ("loss-threshold = 1000\n", (1000, 2000)),
        ("loss-threshold = 0\n", (0, 0)),
        ("node-loss-threshold = 15\n", (40, 15)),
    ] {
        let file = File::parse(&format!("{NETWORK}{key}[[node]]\nid = 1\n"), "bus.toml").unwrap();
        assert_eq!((file.network.threshold, file.network.node_threshold), expected, "{key}");
    }
}

/// An invalid file, which may lack its network; the error: position, key and value; the remedy.
const FAULTS: &[[&str; 3]] = &[
    ["", "1:1: network is missing", "add network = { cycle-us = 10000 }"],
    ["[network]\ncycle-us = 100\n", "2:12: network.cycle-us: 100 is out of range", "from 200 to"],
    [NETWORK, "the network has no nodes", "add [[node]] with id = 1"],
    [
        "[network]\ncycle-us = 1000\ncylce = 1\n[[node]]\nid = 1\n",
        "3:1: network: unknown key \"cylce\"",
        "keys here",
    ],
    ["[[node]]\nid = 240\n", "node[0].id: 240 is out of range", "use a whole number from 1 to 239"],
    ["[[node]]\nid = 1\n[[node]]\nid = 1\n", "duplicate node id 1", "a different id"],
    [
        "[[node]]\nid = 1\nbackend = \"xpd\"\n",
        "node[0].backend: unknown value \"xpd\"",
        "did you mean \"xdp\"?",
    ],
    [
        "[[node]]\nid = 1\ninterface = \"eth 1\"\n",
        "node[0].interface: \"eth 1\" cannot name an interface",
        "without white space",
    ],
    [
        "[[node]]\nid = 1\nvirtual-ethernet = \"plk%d\"\n",
        "node[0].virtual-ethernet: \"plk%d\" cannot name an interface: it contains a percent sign",
        "and \"%\"",
    ],
    [
        "[[node]]\nid = 1\ninterface = \"eth1\"\nvirtual-ethernet = \"eth1\"\n",
        "node[0].virtual-ethernet: \"eth1\" is the interface of the bus",
        "such as \"plk0\"",
    ],
    [
        "[[node]]\nid = 1\nresponse = \"automatic\"\n",
        "node[0].response: back end packet does not support automatic responses",
        "backend = \"xdp\" or \"module\"",
    ],
    [
        "[managing]\nbackend = \"xdp\"\nsoc = \"automatic\"\n[[node]]\nid = 1\n",
        "managing.soc: back end xdp does not support launch times",
        "backend = \"txtime\" or \"module\"",
    ],
    [
        "[[node]]\nid = 1\npres-timeout-us = 2000\n",
        "node[0].pres-timeout-us: 2000 is out of range",
        "from 1 to 1000",
    ],
    [
        "[[node]]\nid = 1\nstore = \"kept/\"\n",
        "node[0].store: invalid file name \"kept/\"",
        "such as \"drive.dcf\"",
    ],
    [
        "[[node]]\nid = 1\nstore = \"a.dcf\"\n[[node]]\nid = 2\nstore = \"a.dcf\"\n",
        "node[1]: duplicate store a.dcf",
        "a different store",
    ],
    [
        "[[node]]\nid = 1\nmultiplexed = 1\n",
        "node[0].multiplexed: the network has no multiplexed cycle",
        "multiplexed-cycles = 4",
    ],
    [
        "[network]\ncycle-us = 1000\nmultiplexed-cycles = 2\n[[node]]\nid = 1\nmultiplexed = 3\n",
        "node[0].multiplexed: 3 is out of range",
        "from 1 to 2",
    ],
    [
        "[[node]]\nid = 1\n[[node.input]]\ntype = \"u24\"\n",
        "node[0].input[0].type: unknown value \"u24\"",
        "\"u16\"",
    ],
    [
        "[[node]]\nid = 1\n[[node.input]]\ntype = \"u8\"\nobject = \"24576\"\n",
        "node[0].input[0].object: invalid object \"24576\"",
        "\"6000/01\"",
    ],
    [
        "[[node]]\nid = 1\ninput = [{ type = \"u8\", object = \"6200/01\" }]\noutput = [{ type = \
         \"u8\" }]\n",
        "node[0]: node 1: object 6200/01 already exists",
        "objects of signals must differ",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 2, input = \"a\" } }]\n",
        "node[0].output[0].from: node 2 not found in the network",
        "the id of another node",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 1, input = \"a\" } }]\n",
        "node[0].output[0].from: node 1 is this node",
        "the id of another node",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 2, input = \"a\" } }]\n[[node]]\nid = \
         2\ninput = [{ name = \"b\", type = \"u8\" }, { type = \"u8\" }]\n",
        "node[0].output[0].from: node 2 has no input \"a\"",
        "inputs of node 2: b, input 2",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ type = \"u16\", from = { node = 2, input = \"b\" } \
         }]\n[[node]]\nid = 2\ninput = [{ name = \"b\", type = \"u8\" }]\n",
        "input \"b\" of node 2 is UNSIGNED8, this output UNSIGNED16",
        "the type of the input",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ simulate = \"copy\", from = { node = 2, input = \"b\" } }]\n",
        "node[0].output[0]: unknown key \"simulate\"",
        "keys here",
    ],
    [
        "[[node]]\nid = 1\nparameter = [{ object = \"1C0B/03\", octets = \"28\" }]\n",
        "node[0]: node 1: value of object 1C0B/03 is invalid",
        "must have the number of octets of its object",
    ],
];

/// Cross traffic: an output of node 2 that node 1 sends, with the type and the name of its input.
#[test]
fn an_output_is_received_from_another_node() {
    let text = r#"
[network]
cycle-us = 1000
[[node]]
id = 2
output = [
  { type = "u8" },
  { name = "master", from = { node = 1, input = "position" } },
  { object = "6401/01", type = "bool", from = { node = 1, input = "input 2" } },
]
[[node]]
id = 1
input = [{ name = "position", type = "i32" }, { type = "bool" }]
"#;
    let file = File::parse(text, "bus.toml").unwrap_or_else(|error| panic!("{error}"));
    let [two, one] = &file.network.nodes[..] else { panic!("{:?}", file.network.nodes) };
    assert_eq!((two.outputs.len(), file.nodes[0].outputs.len(), one.received.len()), (1, 1, 0));
    let [master, second] = &two.received[..] else { panic!("{:?}", two.received) };
    assert_eq!((&*master.name, master.object), ("master", id(0x6200, 2)));
    assert_eq!((master.source, master.input), (NodeId(1), 0));
    assert_eq!(master.data_type, DataType::Integer(4));
    assert_eq!((second.object, second.input), (id(0x6401, 1), 1));
    let simulation = crate::Simulation::controlled(&file, NodeId(2));
    let reports = simulation.reports().map(|report| report.name.to_owned());
    assert!(reports.eq(["output 1", "master", "output 3"]));
}

#[test]
fn errors_have_position_value_and_remedy() {
    for [text, what, help] in FAULTS {
        let network = if text.starts_with("[[") { NETWORK } else { "" };
        let text = format!("{network}{text}");
        let error = File::parse(&text, "bus.toml").expect_err(&text).to_string();
        assert!(error.contains("bus.toml:") && error.contains(what), "{what}:\n{error}");
        assert!(error.contains(help), "{help}:\n{error}");
    }
}

#[test]
fn a_misspelled_key_is_one_error() {
    for text in [
        "[netwrok]\ncycle-us = 1000\n[[node]]\nid = 1\n",
        "[network]\ncycle_us = 1000\n[[node]]\nid = 1\n",
        "[network]\ncycle-us = 1000\n[[nodes]]\nid = 1\n",
        "[network]\ncycle-us = 1000\n[[node]]\nidd = 1\n",
    ] {
        let error = File::parse(text, "bus.toml").expect_err(text);
        assert_eq!(error.count(), 1, "{error}");
        assert!(error.to_string().contains("did you mean "), "{error}");
    }
}

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

/// Attributes of a device; a change of the network file; the error and the remedy. Without the attributes or the change
/// there is none.
const ABILITIES: &[[&str; 4]] = &[
    [
        "NMTCycleTimeMin=\"2000\"",
        "",
        "node 1: NMTCycleTimeMin of its device description is 2000, the cycle has 1000 us",
        "cycle-us = 2000 or more",
    ],
    [
        "NMTCycleTimeMax=\"900\"",
        "",
        "NMTCycleTimeMax of its device description is 900",
        "900 or less",
    ],
    [
        "NMTCycleTimeGranularity=\"300\"",
        "",
        "NMTCycleTimeGranularity of its device description is 300, the cycle has 1000 us",
        "cycle-us = 1200",
    ],
    ["PDORPDOChannels=\"0\"", "", "the number of RPDOs for its outputs is 1", "fewer other nodes"],
    [
        "PDORPDOChannelObjects=\"1\"",
        "",
        "the number of outputs of one sender is 2",
        "fewer signals",
    ],
    ["PDORPDOOverallObjects=\"1\"", "", "the number of its outputs is 2", "fewer signals"],
    ["PDOTPDOChannelObjects=\"0\"", "", "the number of its inputs is 1", "fewer signals"],
    ["PDOTPDOOverallObjects=\"0\"", "", "the number of its inputs is 1", "fewer signals"],
    ["PDOTPDOCycleDataLim=\"0\"", "", "the octets of its inputs are 1", "fewer octets"],
    ["PDORPDOCycleDataLim=\"1\"", "", "the octets of its outputs are 2", "fewer octets"],
    ["SDOServer=\"false\"", "", "SDOServer of its device description is false", "an SDO server"],
    ["SDOSupportASnd=\"false\"", "", "its configuration is written by SDO in ASnd", "by ASnd"],
    ["NMTIsochronous=\"false\"", "", "each node is polled", "leave the node out"],
    ["DLLFeatureCN=\"0\"", "", "it is a controlled node", "of a controlled node"],
    [
        "DLLCNFeatureMultiplex=\"false\"",
        "multiplexed = 1\n",
        "DLLCNFeatureMultiplex of its device description is false, it is polled in a multiplexed cycle",
        "remove multiplexed",
    ],
    [
        "PDOGranularity=\"8\"",
        "parameter = []\n[[node.output]]\nobject = \"6300/01\"\ntype = \"bool\"\n",
        "PDOGranularity of its device description is 8, a bool is mapped with 1 bit",
        "whole octets",
    ],
    [
        "PDORPDOChannels=\"1\"",
        "[[node.output]]\nobject = \"6300/01\"\nfrom = { node = 2, input = \"input 1\" }\n",
        "the number of RPDOs for its outputs is 2",
        "fewer other nodes",
    ],
];

/// Abilities of a device description, against the network.
#[test]
fn abilities_are_checked_before_the_start() {
    let folder = std::env::temp_dir().join(format!("onbeat-abilities-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/powerlink/digital-io.xdd");
    let device = std::fs::read_to_string(example).unwrap();
    let start = device.find("<GeneralFeatures").unwrap();
    let end = device.find("<Diagnostic/>").unwrap();
    let network = |change: &str| {
        format!(
            "[network]\ncycle-us = 1000\nmultiplexed-cycles = 2\n[[node]]\nid = 2\n\
             input = [{{ type = \"u8\" }}]\n[[node]]\nid = 1\nxdd = \"io.xdd\"\n{change}\
             [[node.input]]\nobject = \"6000/01\"\n[[node.output]]\nobject = \"6200/01\"\n\
             [[node.output]]\nobject = \"6200/02\"\n"
        )
    };
    let parse = |attributes: &str, change: &str| {
        let features = format!("<GeneralFeatures {attributes}/>");
        let text = format!("{}{features}{}", &device[..start], &device[end..]);
        std::fs::write(folder.join("io.xdd"), text).unwrap();
        File::parse(&network(change), folder.join("bus.toml").to_str().unwrap())
    };
    for [attributes, change, what, help] in ABILITIES {
        let error = parse(attributes, change).expect_err(what).to_string();
        assert!(error.contains(what) && error.contains(help), "{what}:\n{error}");
        assert!(error.contains("node[1]"), "at the node:\n{error}");
        parse("", change).unwrap_or_else(|error| panic!("{error}"));
    }
    parse(ABILITIES[14][0], "").unwrap_or_else(|error| panic!("{error}"));
    let file = parse("NMTCNSoC2PReq=\"7000\"", "").unwrap();
    assert_eq!(file.network.nodes[1].soc_to_poll_ns, 7000);

    // Limits that are objects of the device.
    let object = |sub: u8, value: u32| {
        let kind = if sub == 3 { "0007" } else { "0006" };
        let text = format!(
            "<SubObject subIndex=\"0{sub}\" name=\"a\" objectType=\"7\" dataType=\"{kind}\" \
             accessType=\"const\" defaultValue=\"{value}\"/>"
        );
        device.replace(
            "name=\"NMT_CycleTiming_REC\" objectType=\"9\" dataType=\"042C\">",
            &format!("name=\"NMT_CycleTiming_REC\" objectType=\"9\" dataType=\"042C\">{text}"),
        )
    };
    for (sub, value, what) in [
        (1, 0, None),
        (1, 1, None),
        (
            2,
            1,
            Some("object 1F98/02 of its device description is 1, the octets of its outputs are 2"),
        ),
        (3, 250_000, None),
        (
            3,
            250_001,
            Some(
                "object 1F98/03 of its device description is 250001, its response times out after 250000 ns",
            ),
        ),
    ] {
        std::fs::write(folder.join("io.xdd"), object(sub, value)).unwrap();
        let read = File::parse(&network(""), folder.join("bus.toml").to_str().unwrap());
        let error = read.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(what.map_or(error.is_empty(), |what| error.contains(what)), "{what:?}:\n{error}");
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

/// A project of a configuration tool: one node, with an octet in each direction.
fn project(name: &str) -> (std::path::PathBuf, Vec<u8>) {
    let folder = std::env::temp_dir().join(format!("onbeat-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let node = concise_dcf([(id(0x1006, 0), &[0xd0, 7, 0, 0][..])]);
    let octets = concise_dcf([
        (id(0x1f81, 4), &[7, 0, 0, 0x80][..]),
        (id(0x1006, 0), &[0xd0, 7, 0, 0]),
        (id(0x1400, 1), &[4]),
        (id(0x1600, 1), &[0xc0, 0xa4, 1, 0, 0, 0, 8, 0]),
        (id(0x1600, 0), &[1]),
        (id(0x1800, 1), &[4]),
        (id(0x1a00, 1), &[0x40, 0xa0, 2, 0, 0, 0, 8, 0]),
        (id(0x1a00, 0), &[1]),
        (id(0x2100, 0), &[1]),
        (id(0x1f22, 4), &node),
    ]);
    std::fs::write(folder.join("mnobd.cdc"), &octets).unwrap();
    let xap = r#"<ApplicationProcess xmlns="x">
<ProcessImage type="output" size="1"><Channel Name="CN4.Inputs" dataType="Unsigned8" dataSize="8" PIOffset="0x0000"/></ProcessImage>
<ProcessImage type="input" size="4"><Channel Name="CN4.Outputs" dataType="Unsigned8" dataSize="8" PIOffset="0x0001"/>
<Channel Name="Spare" dataType="Unsigned8" dataSize="8" PIOffset="0x0003"/></ProcessImage></ApplicationProcess>"#;
    std::fs::write(folder.join("xap.xml"), xap).unwrap();
    (folder, octets)
}

#[test]
fn a_project_of_another_tool_is_a_network() {
    let (folder, _) = project("project");
    let text = "[managing]\ninterface = \"eth1\"\ncdc = \"mnobd.cdc\"\nxap = \"xap.xml\"\n";
    let name = folder.join("bus.toml");
    let file = File::parse(text, name.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((file.network.cycle_us, file.network.nodes.len()), (2000, 0));
    assert_eq!(file.managing.interface.as_deref(), Some("eth1"));
    assert_eq!(file.inputs.len(), 2);
    let project = file.project.as_ref().unwrap();
    assert!(project.project.nodes().eq([NodeId(4)]));
    assert_eq!(project.names, ["CN4.Inputs", "CN4.Outputs"]);
    assert_eq!(
        project.notes(),
        [
            "objects of the project that this managing node lacks: 2100/00",
            "channels of the process image without data: Spare"
        ]
    );
    let text = file.describe(None, "managing.xdd", "2026-11-24").unwrap();
    let device = onbeat_xdd::read(&text).unwrap();
    assert_eq!(device.names[&id(0xa040, 2)], "CN4.Outputs");
    let simulation = crate::Simulation::managing(&file);
    let reports: Vec<_> =
        simulation.reports().map(|report| (report.of, report.name, report.given)).collect();
    let expected = [(NodeId(4), "CN4.Outputs", true), (NodeId(4), "CN4.Inputs", false)];
    assert_eq!(reports, expected);
    // Without the layout: named by their objects.
    let alone = Project::load(&folder.join("mnobd.cdc"), None).unwrap();
    assert_eq!(alone.names, ["A4C0/01", "A040/02"]);
    let file = File::of_project(alone);
    assert_eq!((file.network.cycle_us, file.inputs.len()), (2000, 1));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn errors_of_a_project_have_position_value_and_remedy() {
    let (folder, octets) = project("broken-project");
    std::fs::write(folder.join("cut.cdc"), &octets[..20]).unwrap();
    std::fs::write(folder.join("bad.xml"), "<a>\n<ProcessImage type=\"both\"/></a>").unwrap();
    let parse = |text: &str| {
        let error = File::parse(text, folder.join("bus.toml").to_str().unwrap());
        error.expect_err(text).to_string()
    };
    for (text, what, help) in [
        ("[managing]\ncdc = \"no.cdc\"\n", "managing.cdc: cannot read", "such as mnobd.cdc"),
        (
            "[managing]\ncdc = \"cut.cdc\"\n",
            "cut.cdc: invalid concise DCF of a managing node: truncated in entry 2, which starts at \
             octet 15",
            "export it again",
        ),
        (
            "[managing]\ncdc = \"mnobd.cdc\"\nxap = \"bad.xml\"\n",
            "managing.xap: ",
            "use input or output",
        ),
        (
            "[network]\ncycle-us = 1000\n[managing]\nxap = \"xap.xml\"\n[[node]]\nid = 1\n",
            "managing.xap: xap without cdc",
            "cdc = \"mnobd.cdc\"",
        ),
        (
            "[network]\ncycle-us = 1000\n[managing]\ncdc = \"mnobd.cdc\"\n",
            "network: network together with managing.cdc",
            "remove it, or cdc",
        ),
        (
            "[managing]\ncdc = \"mnobd.cdc\"\n[[node]]\nid = 1\n",
            "node: node together with managing.cdc",
            "remove it, or cdc",
        ),
    ] {
        let error = parse(text);
        assert!(error.contains(what) && error.contains(help), "{what}:\n{error}");
        assert!(!error.contains("errors"), "one fault is reported once:\n{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Every file under examples/powerlink is a network.
#[test]
fn examples_are_networks() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/powerlink");
    let files: Vec<_> = std::fs::read_dir(folder).expect(folder).collect();
    assert!(files.len() >= 2, "{files:?}");
    for entry in files {
        let path = entry.expect(folder).path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let file = File::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(!file.network.nodes.is_empty(), "{}", path.display());
        // Each node is described, with the names of its signals.
        for station in &file.network.nodes {
            let node = station.node;
            let text = file.describe(Some(node), "node.xdd", "2026-11-24").unwrap();
            let device = onbeat_xdd::read(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
            for signal in station.inputs.iter().chain(&station.outputs) {
                let object = device.objects.object(signal.object).unwrap();
                assert_eq!(object.data_type, signal.data_type, "{node}: {}", signal.object);
                assert_eq!(device.names[&signal.object], signal.name);
            }
            let rpdos = device.features.number("PDORPDOChannels");
            assert_eq!(rpdos, Some(station.rpdos().max(3).into()));
        }
        let text = file.describe(None, "managing.xdd", "2026-11-24").unwrap();
        let device = onbeat_xdd::read(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let first = &file.network.nodes[0];
        let name = format!(
            "{}.{}",
            String::from_utf8_lossy(&first.identity.host_name),
            first.inputs[0].name
        );
        assert_eq!(device.names[&id(0xa4c0, first.node.0)], name);
    }
}
