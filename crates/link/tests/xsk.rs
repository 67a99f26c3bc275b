//! The back end `xsk`.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   XskPort              a plain packet socket
//! ```

mod common;

use common::{Cable, RawSocket};
use onbeat_link::testing::{ETHER_TYPE, conformance};
use onbeat_link::{Clock, XdpOptions, XskPort};
use onbeat_netdev::XdpMode;
use onbeat_netdev::testing::{Feature as Needs, require_all};

fn options() -> XdpOptions {
    XdpOptions { ether_types: vec![ETHER_TYPE], ..XdpOptions::default() }
}

fn open(cable: &Cable, options: XdpOptions) -> (XskPort, RawSocket) {
    let port = XskPort::open(cable.near.namespace(), "p0", options).unwrap();
    (port, RawSocket::open(&cable.far, "f0"))
}

#[test]
fn it_conforms() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
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
