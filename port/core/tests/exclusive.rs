//! An interface has one port, whichever its back end; observers come beside it.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//! ```

mod common;

use common::Cable;
use common::conformance::ETHER_TYPE;
use onbeat_host::InterfaceLock;
use onbeat_link::raw::{Tap, TapOptions};
use onbeat_link::{
    Error, PacketOptions, PacketPort, Port, Result, XdpOptions, XdpPort, XskPort,
    refuse_foreign_program,
};
use onbeat_netdev::Namespace;
use onbeat_testing::{Feature, require_all};

type Open = fn(&Namespace) -> Result<Box<dyn Port>>;

const BACKENDS: [(&str, Open); 3] = [
    ("packet", |namespace| {
        let options = PacketOptions { ether_types: vec![ETHER_TYPE], ..Default::default() };
        Ok(Box::new(PacketPort::open(namespace, "p0", options)?))
    }),
    ("xsk", |namespace| {
        let options = XdpOptions { ether_types: vec![ETHER_TYPE], ..Default::default() };
        Ok(Box::new(XskPort::open(namespace, "p0", options)?))
    }),
    ("xdp", |namespace| {
        let options = XdpOptions { ether_types: vec![ETHER_TYPE], ..Default::default() };
        Ok(Box::new(XdpPort::open(namespace, "p0", options)?))
    }),
];

#[test]
fn a_second_port_is_refused_and_the_holder_is_named() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let namespace = cable.near.namespace();
    for (first, open) in BACKENDS {
        let port = open(namespace).unwrap();
        for (second, open) in BACKENDS {
            let error = open(namespace).err().unwrap_or_else(|| panic!("{second} beside {first}"));
            let named = format!("process {} (", std::process::id());
            assert!(error.to_string().contains(&named), "{second} beside {first}: {error}");
        }
        let nowhere = std::env::temp_dir().join("onbeat-no-such-directory");
        Tap::open(namespace, "p0", TapOptions::default(), &nowhere).unwrap();
        drop(port);
        open(namespace).unwrap();
    }
}

/// A program is the caller's only by its id: another one with the same name and tag is foreign.
#[test]
fn a_program_is_foreign_unless_the_caller_attached_it() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, other) = (Cable::new(), Cable::new());
    let link = || cable.near.link("p0").unwrap();
    refuse_foreign_program(&link(), None).unwrap();
    refuse_foreign_program(&link(), Some(1)).unwrap();
    let open = BACKENDS[2].1;
    let _ports = [&cable, &other].map(|cable| open(cable.near.namespace()).unwrap());
    let id = |cable: &Cable| cable.near.link("p0").unwrap().xdp_program().unwrap().program_id;
    refuse_foreign_program(&link(), Some(id(&cable))).unwrap();
    for own in [None, Some(id(&other))] {
        let error = refuse_foreign_program(&link(), own).unwrap_err();
        assert!(matches!(error, Error::Programmed { .. }), "{error}");
        assert!(error.to_string().contains(&format!("(id {})", id(&cable))), "{error}");
    }
}

/// As a node has it that runs on the interface.
#[test]
fn an_interface_of_a_node_is_refused() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let namespace = cable.near.namespace();
    let index = cable.near.index("p0").unwrap();
    let _lock = InterfaceLock::take(namespace, index, "p0", "node \"a\"").unwrap();
    for (name, open) in BACKENDS {
        let error = open(namespace).err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(error.contains("(node \"a\") uses it; stop it"), "{name}: {error}");
    }
}
