//! Packet sockets of interfaces: opening them.

use std::io;

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use crate::{Error, Result};

/// Frames that one system call sends at most.
pub(crate) const BATCH: usize = PacketSocket::BATCH;

/// What a receiving socket may hold, in octets: seconds of traffic, so that a reader which the
/// scheduler keeps waiting loses nothing.
const RECEIVE_BUFFER: libc::c_int = 256 << 20;

/// Level, name and value.
type SocketOption = (libc::c_int, libc::c_int, libc::c_int);

/// A socket that sends, around the queueing discipline, and receives nothing.
///
/// # Errors
/// Where the interface is not there or the caller lacks CAP_NET_RAW.
pub fn sender(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    open(namespace, interface, 0, &[(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)])
}

/// As [`sender`], through the queueing discipline: monitors see what it sends.
///
/// # Errors
/// As [`sender`].
pub fn visible_sender(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    open(namespace, interface, 0, &[])
}

/// A socket that receives every frame that comes in, stamps it, and can send as well.
///
/// # Errors
/// As [`sender`].
pub fn receiver(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    stamping(namespace, interface, true, true)
}

/// As [`receiver`], and monitors see what it sends.
///
/// # Errors
/// As [`sender`].
pub fn visible(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    stamping(namespace, interface, true, false)
}

/// A socket that sees every frame that comes in and every one that is sent through the
/// queueing discipline, and stamps both.
///
/// # Errors
/// As [`sender`].
pub fn monitor(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    stamping(namespace, interface, false, false)
}

fn stamping(
    namespace: &Namespace,
    interface: &str,
    incoming_only: bool,
    around_qdisc: bool,
) -> Result<PacketSocket> {
    let options = [
        (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, around_qdisc.into()),
        // Else the socket would see what it and others send here.
        (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, incoming_only.into()),
        // The kernel takes the outer VLAN tag out of the frame, and tells it on the side.
        (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER),
    ];
    open(namespace, interface, libc::ETH_P_ALL, &options)
}

/// Options go first: a bound socket receives without them.
fn open(
    namespace: &Namespace,
    interface: &str,
    protocol: libc::c_int,
    options: &[SocketOption],
) -> Result<PacketSocket> {
    let index = Handle::in_namespace(namespace)?.index(interface)?;
    let opened = || -> io::Result<_> {
        let socket = PacketSocket::open(index)?;
        options.iter().try_for_each(|(level, name, value)| socket.set(*level, *name, *value))?;
        socket.bind(protocol as u16)?;
        Ok(socket)
    };
    namespace.run(opened)?.map_err(|error| {
        Error::io(format!("open a packet socket on {interface} (CAP_NET_RAW)"), error)
    })
}
