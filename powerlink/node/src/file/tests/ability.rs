//! Abilities of a device description.

use super::super::*;

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
