//! The back end `xsk`.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   XskPort              a plain packet socket
//! ```

use crate::common::conformance::conformance;
use crate::common::xdp::{self, options};
use crate::common::{Cable, raw_socket, removal_is_reported_by_wait};
use onbeat_link::{Capability, Clock, Feature, Port, PortOptions, XskPort};
use onbeat_netdev::XdpMode;
use onbeat_testing::RawSocket;
use onbeat_testing::{Feature as Needs, require_all};

fn open(cable: &Cable, options: PortOptions) -> (XskPort, RawSocket) {
    let port = XskPort::open(cable.near.namespace(), "p0", options).unwrap();
    (port, raw_socket(&cable.far, "f0"))
}

fn can_run() -> bool {
    require_all(&[Needs::Root, Needs::Veth])
}

#[test]
fn it_conforms() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    for options in [
        options(),
        PortOptions { clock: Clock::Tai, receive_buffers: 4, ..options() },
        PortOptions { spin: true, copy: true, ..options() },
        PortOptions { confirm: false, ..options() },
        PortOptions { mode: Some(XdpMode::Generic), ..options() },
    ] {
        let (mut port, mut peer) = open(&cable, options);
        conformance(&mut port, &mut peer);
    }
}

#[test]
fn emulated_features_are_reported() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    let (port, _peer) = open(&cable, options());
    let has = port.capabilities();
    for feature in [
        Feature::SendAt,
        Feature::SendEvery,
        Feature::Response,
        Feature::Confirmation,
        Feature::TransmitStamp,
        Feature::ReceiveStamp,
    ] {
        let found = has.get(feature);
        assert!(matches!(found, Capability::Emulated { .. }), "{feature}: {found}");
    }
    assert_eq!(has.get(Feature::ZeroCopyReceive), &Capability::Native);
    assert!(matches!(has.get(Feature::NicTime), Capability::None { .. }), "a veth has no clock");
    let shown = format!("{port:?}");
    assert!(shown.contains("mode: Native, zero_copy: false"), "{shown}");
    drop(port);
    let (port, _peer) = open(&cable, PortOptions { mode: Some(XdpMode::Generic), ..options() });
    assert_eq!(port.mode(), XdpMode::Generic);
    let on = cable.near.link("p0").unwrap().xdp_program().map(|program| program.mode);
    assert_eq!(on, Some(XdpMode::Generic));
}

#[test]
fn a_full_ring_drops_counts_and_recovers() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    let (mut port, mut peer) = open(&cable, PortOptions { receive_buffers: 4, ..options() });
    xdp::full_ring_drops_counts_and_recovers(&mut port, &mut peer);
}

#[test]
fn a_link_down_is_reported_and_survived() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    let (mut port, _) = open(&cable, options());
    xdp::link_down_is_reported_and_survived(&cable, &mut port);
}

#[test]
fn a_removed_interface_is_reported_by_wait() {
    if !can_run() || !Cable::goes_away() {
        return;
    }
    let cable = Cable::new();
    let (mut port, _) = open(&cable, options());
    removal_is_reported_by_wait(&cable, &mut port);
}

#[test]
fn the_stack_receives_other_frames() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let (mut port, mut peer) = open(&cable, PortOptions { mode: Some(mode), ..options() });
        xdp::the_stack_receives_other_frames(&cable.near, &mut port, &mut peer);
        xdp::stamps_are_of_the_packet_sockets_clock(&mut port, &mut peer);
    }
}

#[test]
fn nothing_is_left_of_a_port_that_is_closed() {
    if !can_run() {
        return;
    }
    let cable = Cable::new();
    for _ in 0..3 {
        let (port, _peer) = open(&cable, options());
        assert!(cable.near.link("p0").unwrap().xdp_program().is_some());
        drop(port);
        assert_eq!(cable.near.link("p0").unwrap().xdp_program(), None);
    }
}
