//! Valid files.

use onbeat_powerlink::od::{DataType, id};
use onbeat_wire::powerlink::NodeId;

use super::super::*;
use super::NETWORK;

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
