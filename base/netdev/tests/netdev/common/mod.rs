//! Shared parts of the tests: two namespaces with a cable, and a raw socket.

use std::time::{Duration, Instant};

use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::RawSocket;

/// Maximum wait for an event that is immediate if it occurs.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// An EtherType for experiments (IEEE 802, 9.2.4), which no protocol of the kernel sends.
pub(crate) const ETHER_TYPE: u16 = 0x88b5;

/// Two namespaces and a veth pair, both ends up:
///
/// ```text
///   left: "l0" --------- right: "r0"
/// ```
///
/// Keep both handles: the device is removed with the namespace at either end.
pub(crate) struct Cable {
    pub(crate) left: Handle,
    pub(crate) right: Handle,
}

impl Cable {
    pub(crate) fn new() -> Self {
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let (left, right) =
            (Handle::in_namespace(&left).unwrap(), Handle::in_namespace(&right).unwrap());
        let far = VethEnd::new("r0").namespace(right.namespace());
        left.create_veth(&VethEnd::new("l0"), &far).unwrap();
        left.set_up("l0").unwrap();
        right.set_up("r0").unwrap();
        left.wait_carrier("l0", BOUND).unwrap();
        right.wait_carrier("r0", BOUND).unwrap();
        Self { left, right }
    }
}

/// A packet socket for frames of [`ETHER_TYPE`] on one device.
pub(crate) fn raw_socket(handle: &Handle, interface: &str) -> RawSocket {
    RawSocket::open_for(handle, interface, ETHER_TYPE)
}

/// A broadcast frame of [`ETHER_TYPE`].
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends `frame` repeatedly until it arrives, as the kernel activates a path with a delay. Returns whether it
/// arrived within the bound.
pub(crate) fn passes(from: &RawSocket, to: &RawSocket, frame: &[u8]) -> bool {
    let deadline = Instant::now() + BOUND;
    while Instant::now() < deadline {
        from.send(frame);
        if to.receive(Duration::from_millis(50)).as_deref() == Some(frame) {
            return true;
        }
    }
    false
}
