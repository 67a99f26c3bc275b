//! The kernel module and its back end.
//!
//! ```text
//!   near: "p0", "ob0" --------- far: "f0"
//!   onbeat.ko                   a plain packet socket
//! ```
//!
//! Loading and unloading modules is not for every host. These tests run where `ONBEAT_VM=1` says
//! that the machine is theirs; `ONBEAT_MODULE` is the path of onbeat.ko, built for its kernel.

#[path = "../port/common/mod.rs"]
mod common;
mod genl;
mod hostile_configuration;
mod machine;
mod malformed;
mod switch;

use std::sync::Once;

use common::conformance::{ETHER_TYPE, conformance, frame};
use common::{BOUND, Cable, raw_socket};
use machine::module;
use onbeat_link::{
    Capability, Cause, Clock, Error, Feature, ModulePort, Outcome, Port, PortOptions,
    TransmitMethod,
};
use onbeat_netdev::Bridge;
use onbeat_testing::RawSocket;

fn options(transmit: TransmitMethod) -> PortOptions {
    PortOptions { ether_types: vec![ETHER_TYPE], transmit, ..PortOptions::default() }
}

/// A port, unless the device cannot send by this method and the module reports the reason.
fn try_open(cable: &Cable, options: PortOptions) -> Option<ModulePort> {
    let netpoll = options.transmit == TransmitMethod::Netpoll;
    match ModulePort::open(cable.near.namespace(), "p0", options) {
        Ok(port) => Some(port),
        Err(Error::Module { detail, source, .. })
            if netpoll && source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
        {
            assert!(detail.contains("netpoll") && detail.contains("use direct or queue"));
            static SAID: Once = Once::new();
            SAID.call_once(|| eprintln!("netpoll is refused: {detail}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn open(cable: &Cable, options: PortOptions) -> (ModulePort, RawSocket) {
    let port = ModulePort::open(cable.near.namespace(), "p0", options).unwrap();
    (port, raw_socket(&cable.far, "f0"))
}

/// The code that the module refused with, and its sentence.
fn refusal<T: std::fmt::Debug>(result: onbeat_link::Result<T>) -> (i32, String) {
    match result {
        Err(Error::Module { source, detail, .. }) => (source.raw_os_error().unwrap(), detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_conforms_in_every_mode() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    for transmit in TransmitMethod::ALL {
        for (switch, clock) in [(false, Clock::Monotonic), (true, Clock::Tai)] {
            let options = PortOptions { switch, clock, ..options(transmit) };
            let Some(mut port) = try_open(&cable, options) else { continue };
            eprintln!(
                "{transmit}, {clock}{}",
                if switch { ", with the virtual interface" } else { "" }
            );
            conformance(&mut port, &mut raw_socket(&cable.far, "f0"));
        }
    }
    for options in [
        PortOptions { confirm: false, ..options(TransmitMethod::Direct) },
        PortOptions { spin: true, receive_buffers: 4, ..options(TransmitMethod::Queue) },
    ] {
        let (mut port, mut peer) = open(&cable, options);
        conformance(&mut port, &mut peer);
    }
}

#[test]
fn features_of_a_stack_are_native() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let (port, _peer) = open(&cable, options(TransmitMethod::Direct));
    for feature in [Feature::SendAt, Feature::SendEvery, Feature::Response, Feature::Confirmation] {
        port.capabilities().require_native(feature).unwrap();
    }
    let stamp = port.capabilities().get(Feature::TransmitStamp);
    assert!(matches!(stamp, Capability::Emulated { .. }), "{stamp}");
}

#[test]
fn every_ether_type_may_be_claimed() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let claims = PortOptions { ether_types: Vec::new(), ..options(TransmitMethod::Direct) };
    let (mut port, peer) = open(&cable, claims);
    let mac = port.mac_address();
    // An EtherType, and the length of an IEEE 802.3 frame.
    for kind in [[0x12, 0x34], [0, 46]] {
        let mut sent = frame(mac, mac, &[7; 46]);
        sent[12..14].copy_from_slice(&kind);
        peer.send(&sent);
        assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
        let received = port.receive().unwrap().unwrap();
        assert_eq!(port.octets(&received), sent);
        port.release(received);
    }
}

#[test]
fn an_interface_in_use_is_refused_with_the_reason() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let try_it = || ModulePort::open(cable.near.namespace(), "p0", options(TransmitMethod::Direct));
    let first = try_it().unwrap();
    let second = try_it().unwrap_err();
    assert!(matches!(&second, Error::Host(error) if error.is_busy()), "{second}");
    drop(first);

    cable.near.create_bridge(&Bridge::new("br0")).unwrap();
    cable.near.set_master("p0", Some("br0")).unwrap();
    let (code, detail) = refusal(try_it());
    assert_eq!(code, libc::EBUSY);
    assert!(detail.contains("belongs to a bridge"), "{detail}");
    cable.near.set_master("p0", None).unwrap();
    drop(try_it().unwrap());
}

#[test]
fn an_invalid_launch_is_refused() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let (mut port, _peer) = open(&cable, options(TransmitMethod::Direct));
    let slot = port.allocate(60).unwrap();
    port.update(slot, &frame(port.mac_address(), port.mac_address(), &[1; 46])).unwrap();
    let now = port.now();
    let (code, detail) = refusal(port.send_every(slot, now, 9_999));
    assert_eq!(code, libc::ERANGE);
    assert!(detail.contains("10000 ns"), "{detail}");
    assert_eq!(refusal(port.send_at(slot, onbeat_link::Time(u64::MAX))).0, libc::ERANGE);
    assert!(!port.cancel(slot).unwrap(), "nothing was planned");
}

#[test]
fn a_response_is_for_this_station_only() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let (mut port, peer) = open(&cable, options(TransmitMethod::Direct));
    cable.near.set_promiscuous("p0", true).unwrap();
    let mac = port.mac_address();
    let group = onbeat_wire::MacAddress([0x01, 0x11, 0x1e, 0, 0, 0x03]);
    let stranger = onbeat_wire::MacAddress([0x02, 0, 0, 0, 0, 0x55]);
    let slot = port.allocate(60).unwrap();
    let answer = frame(stranger, mac, b"the answer");
    port.update(slot, &answer).unwrap();
    let mut mask = [0; 14];
    mask[12..].fill(0xff);
    let filter = onbeat_link::Filter::new(&frame(mac, mac, b"")[..14], &mask).unwrap();
    let _response = port.respond(filter, slot).unwrap();
    for (to, answers) in [(stranger, 0), (group, 0), (mac, 1)] {
        peer.send(&frame(to, stranger, b"a question"));
        if answers > 0 {
            assert_eq!(peer.receive(BOUND).unwrap(), answer, "to {to}");
        }
        assert_eq!(port.diagnostics().unwrap().responses, answers, "to {to}");
    }
    port.add_multicast(group).unwrap();
    peer.send(&frame(group, stranger, b"a question"));
    assert_eq!(peer.receive(BOUND).unwrap(), answer);
    port.remove_multicast(group).unwrap();
    peer.send(&frame(group, stranger, b"a question"));
    peer.send(&frame(mac, stranger, b"a question"));
    assert_eq!(peer.receive(BOUND).unwrap(), answer);
    assert_eq!(port.diagnostics().unwrap().responses, 3);
}

#[test]
fn dropped_frames_are_confirmed() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    for transmit in TransmitMethod::ALL {
        let Some(mut port) = try_open(&cable, options(transmit)) else { continue };
        let slot = port.allocate(60).unwrap();
        let mac = port.mac_address();
        port.update(slot, &frame(mac, mac, b"still here")).unwrap();
        cable.far.set_down("f0").unwrap();
        cable.near.wait_for("p0", "without carrier", BOUND, |link| !link.carrier).unwrap();
        let error = port.send(slot).unwrap_err();
        assert!(error.is_congestion(), "{error}");
        cable.near.set_down("p0").unwrap();
        assert_eq!(refusal(port.send(slot)).0, libc::ENETDOWN);
        let now = port.now();
        port.send_at(slot, now).unwrap();
        let bound = now.after(BOUND.as_nanos() as u64);
        let news = loop {
            if let Some(news) = port.confirmation().unwrap() {
                break news;
            }
            port.wait(bound).unwrap();
            assert!(port.now() < bound, "no confirmation");
        };
        assert_eq!((news.cause, news.outcome), (Cause::At(now), Outcome::Dropped));
        cable.far.set_up("f0").unwrap();
        cable.near.set_up("p0").unwrap();
        cable.near.wait_carrier("p0", BOUND).unwrap();
        cable.far.wait_carrier("f0", BOUND).unwrap();
        let peer = raw_socket(&cable.far, "f0");
        port.send(slot).unwrap();
        assert_eq!(peer.receive(BOUND).unwrap(), frame(mac, mac, b"still here"));
        assert_eq!(port.diagnostics().unwrap().send_failures, 3);
    }
}
