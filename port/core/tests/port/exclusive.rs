//! An interface has one port, whichever its back end; observers come beside it.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//! ```

use crate::common::{Cable, xdp};
use onbeat_host::InterfaceLock;
use onbeat_link::raw::{CaptureOptions, CaptureSocket};
use onbeat_link::{Backend, Error, Port, Result, refuse_foreign_program};
use onbeat_netdev::Namespace;
use onbeat_testing::{Feature, require_all};

const BACKENDS: [Backend; 3] = [Backend::Packet, Backend::Xsk, Backend::Xdp];

fn open(backend: Backend, namespace: &Namespace) -> Result<Box<dyn Port>> {
    onbeat_link::open(backend, namespace, "p0", xdp::options())
}

#[test]
fn a_second_port_is_refused_and_the_holder_is_named() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let namespace = cable.near.namespace();
    for first in BACKENDS {
        let port = open(first, namespace).unwrap();
        for second in BACKENDS {
            let error =
                open(second, namespace).err().unwrap_or_else(|| panic!("{second} beside {first}"));
            let named = format!("process {} (", std::process::id());
            assert!(error.to_string().contains(&named), "{second} beside {first}: {error}");
        }
        let nowhere = std::env::temp_dir().join("onbeat-no-such-directory");
        CaptureSocket::open(namespace, "p0", CaptureOptions::default(), &nowhere).unwrap();
        drop(port);
        open(first, namespace).unwrap();
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
    let open = |cable: &Cable| open(Backend::Xdp, cable.near.namespace());
    let _ports = [&cable, &other].map(|cable| open(cable).unwrap());
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
    for name in BACKENDS {
        let error = open(name, namespace).err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(error.contains("(node \"a\") uses it; stop it"), "{name}: {error}");
    }
}
