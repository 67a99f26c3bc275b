//! The back end `xdp`.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   XdpPort              a plain packet socket
//! ```

mod common;

use common::{Cable, RawSocket};
use onbeat_link::testing::{ETHER_TYPE, PassProgram, conformance};
use onbeat_link::{Clock, XdpOptions, XdpPort};
use onbeat_netdev::XdpMode;
use onbeat_netdev::testing::{Feature as Needs, require_all};

fn options() -> XdpOptions {
    XdpOptions { ether_types: vec![ETHER_TYPE], ..XdpOptions::default() }
}

fn open(cable: &Cable, options: XdpOptions) -> (XdpPort, RawSocket) {
    let port = XdpPort::open(cable.near.namespace(), "p0", options).unwrap();
    (port, RawSocket::open(&cable.far, "f0"))
}

#[test]
fn it_conforms() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let _peer_takes_frames = PassProgram::attach(cable.far.namespace(), "f0").unwrap();
    for options in [
        options(),
        XdpOptions { clock: Clock::Tai, receive_buffers: 4, ..options() },
        XdpOptions { spin: true, copy: true, ..options() },
        XdpOptions { confirm: false, ..options() },
        XdpOptions { mode: Some(XdpMode::Generic), ..options() },
    ] {
        eprintln!("{options:?}");
        let (mut port, mut peer) = open(&cable, options);
        conformance(&mut port, &mut peer);
    }
}
