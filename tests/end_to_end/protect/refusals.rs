//! Refusals, and plans without a change.

use onbeat_netdev::{Bridge, VethEnd};

use super::network;
use crate::common::{assert_gone, can_run, run, run_in};

#[test]
fn obstacles_are_reported_with_remedies_and_nothing_is_changed() {
    if !can_run() {
        return;
    }
    let network = network();
    let h1 = network.h1.namespace();
    let links = || network.h1.links().unwrap().len();
    let before = links();
    let refused = |arguments: &[&str], texts: &[&str]| {
        let ran = run_in(h1, &[&["protect"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
        texts.iter().for_each(|text| assert!(ran.err.contains(text), "{arguments:?}: {}", ran.err));
        assert_eq!(links(), before);
    };
    refused(&["lana", "nosuch", "--name", "prot3"], &["nosuch", "ip link"]);
    refused(&["lana", "lana", "--name", "prot3"], &["named twice"]);
    refused(&["lana", "lo", "--name", "prot3"], &["loopback"]);
    refused(&["lana", "lanb", "--name", "lanb"], &["exists", "--name"]);
    refused(&["lana", "lanb", "--name", "a-name-too-long"], &["too long"]);
    refused(&["lana", "lanb", "--name", "../x"], &["not a valid name"]);
    refused(&["lana", "lanb", "--name", "all"], &["the kernel reserves the name \"all\""]);
    refused(&["--undo", ""], &["\"\" is not a valid name"]);
    network.h1.create_bridge(&Bridge::new("br1")).unwrap();
    network.h1.set_master("lanb", Some("br1")).unwrap();
    let before = links();
    let ran = run_in(h1, &["protect", "lana", "lanb", "--name", "prot3"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("ip link set lanb nomaster"), "{}", ran.err);
    assert_eq!(links(), before);
    network.h1.set_master("lanb", None).unwrap();
    network.h1.create_veth(&VethEnd::new("stations"), &VethEnd::new("station")).unwrap();
    for (interface, mtu, options, text) in [
        ("stations", 9000, &["--for", "stations"][..], "run: ip link set stations mtu 4089"),
        ("lanb", 68, &[], "run: ip link set lanb mtu 74 at least"),
    ] {
        let usual = network.h1.link(interface).unwrap().mtu;
        network.h1.set_mtu(interface, mtu).unwrap();
        let check = ["protect", "lana", "lanb", "--name", "prot3", "--check"];
        let ran = run_in(h1, &[&check, options].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(text), "{}", ran.err);
        network.h1.set_mtu(interface, usual).unwrap();
    }
    network.h1.delete("stations").unwrap();
    let planned = run_in(h1, &["protect", "lana", "lanb", "--name", "prot3", "--check"]);
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    assert!(planned.out.contains("prot3: created, with MTU 1494"), "{}", planned.out);
    assert!(planned.out.contains("protocol = \"prp\""), "{}", planned.out);
    assert!(planned.out.contains("own addresses only (arp_ignore)"), "{}", planned.out);
    let arguments = ["protect", "lana", "lanb", "--name", "prot3", "--format", "rtag", "--check"];
    let planned = run_in(h1, &arguments);
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    assert!(planned.out.contains("lana: path A; promiscuous\n"), "{}", planned.out);
    assert!(planned.out.contains("identify = { type = \"all\" }"), "{}", planned.out);
    assert_eq!(links(), before);
    assert_gone("prot3");
    let undone = run(&["protect", "--undo", "prot3"]);
    assert_eq!(undone.code, 2, "{}", undone.out);
    assert!(undone.err.contains("onbeat protect created no \"prot3\""), "{}", undone.err);
}
