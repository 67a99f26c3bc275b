//! Projects of a configuration tool.

use onbeat_powerlink::mn::concise_dcf;
use onbeat_powerlink::od::id;
use onbeat_wire::powerlink::NodeId;

use super::super::*;

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
