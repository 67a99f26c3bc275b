//! Reports of back ends on an interface, compared with opening them.

use crate::common::Cable;
use onbeat_bpf::Link;
use onbeat_link::{Backend, Error, PortOptions, Purpose, XdpPort, XskPort, backends};
use onbeat_netdev::{Namespace, VethEnd};
use onbeat_testing::{Feature as Needs, ForeignProgram, drop_capabilities, require_all};

fn best(cable: &Cable, purpose: Purpose) -> Backend {
    backends(cable.near.namespace(), "p0").unwrap().best(purpose).unwrap().0.backend
}

#[test]
fn reported_back_ends_are_usable() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let found = backends(cable.near.namespace(), "p0").unwrap();
    let examined: Vec<_> = found.all.iter().map(|report| report.backend.name()).collect();
    assert_eq!(examined, ["packet", "xsk", "xdp", "txtime", "module"]);
    assert!(found.all[..3].iter().all(|backend| backend.usable()), "{found:?}");
    let txtime = &found.all[3];
    assert!(!txtime.usable() && txtime.remarks[0].to_string().contains("tc qdisc"), "{txtime:?}");
    let (xdp, _) = found.best(Purpose::Response).unwrap();
    assert_eq!(xdp.backend, Backend::Xdp);
    assert!(xdp.remarks[0].to_string().contains("peer of the veth"), "{xdp:?}");
    assert_eq!(best(&cable, Purpose::Receive), Backend::Xsk);
    drop(XskPort::open(cable.near.namespace(), "p0", PortOptions::default()).unwrap());
    drop(XdpPort::open(cable.near.namespace(), "p0", PortOptions::default()).unwrap());
}

/// That neither back end over XDP can be used, for this reason and with this remedy.
fn refused(cable: &Cable, what: &str, remedy: &str) {
    let found = backends(cable.near.namespace(), "p0").unwrap();
    let refusals = found.all[..3].iter().filter(|backend| !backend.usable());
    assert_eq!(
        refusals.clone().map(|b| b.backend).collect::<Vec<_>>(),
        [Backend::Xsk, Backend::Xdp]
    );
    for refusal in refusals {
        let remark = refusal.remarks[0].to_string();
        assert!(remark.contains(what) && remark.contains(remedy), "{remark}");
    }
    let error = XskPort::open(cable.near.namespace(), "p0", PortOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(error.to_string().contains(what), "{error}");
    let error = XdpPort::open(cable.near.namespace(), "p0", PortOptions::default());
    assert!(error.unwrap_err().to_string().contains(remedy));
}

#[test]
fn unusable_back_ends_are_refused_with_the_reported_reason() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let here = |what: &str, remedy: &str| refused(&cable, what, remedy);
    let program = ForeignProgram::pass(cable.near.namespace(), "p0");
    here(&format!("XDP program {:?}", ForeignProgram::NAME), "ip link set p0 xdp off");
    drop(program);
    cable.near.set_mtu("p0", 3000).unwrap();
    here("its MTU is 3000", "ip link set p0 mtu 1500");
    cable.near.set_mtu("p0", 1500).unwrap();
    cable.near.set_down("p0").unwrap();
    here("it is down", "ip link set p0 up");
    assert_eq!(best(&cable, Purpose::Response), Backend::Packet);

    let cable = Cable::with(VethEnd::new("p0").queues(1, 2));
    refused(&cable, "it has 2 receive queues", "ethtool -L p0");
}

/// As in a child of this process, before it executes its own program.
#[test]
fn a_dropped_link_is_detached_although_its_descriptor_is_open_elsewhere() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let attached = || cable.near.link("p0").unwrap().xdp_program().map(|xdp| xdp.program_id);
    let program = ForeignProgram::pass(cable.near.namespace(), "p0");
    let elsewhere = Link::holding(program.id).unwrap();
    assert_eq!(attached(), Some(program.id));
    drop(program);
    assert_eq!(attached(), None);
    drop(elsewhere);

    let program = ForeignProgram::pass(cable.near.namespace(), "p0");
    drop(Link::holding(program.id).unwrap());
    assert_eq!(attached(), Some(program.id), "a link that was opened belongs to its creator");
}

#[test]
fn missing_privileges_are_named() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let (found, xsk) = cable
        .near
        .namespace()
        .run(|| {
            drop_capabilities();
            let here = Namespace::current().unwrap();
            let found = backends(&here, "p0").unwrap();
            (found, XskPort::open(&here, "p0", PortOptions::default()).unwrap_err().to_string())
        })
        .unwrap();
    for backend in &found.all[..4] {
        assert!(!backend.usable());
        assert!(backend.remarks[0].to_string().contains("CAP_NET_RAW"), "{backend:?}");
    }
    assert!(xsk.contains("requires CAP_BPF and CAP_NET_ADMIN"), "{xsk}");
}
