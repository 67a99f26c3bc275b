//! Creation of packet sockets.

use std::io;

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use crate::{Error, Result};

/// Maximum number of frames per system call.
pub(crate) const BATCH: usize = PacketSocket::BATCH;

/// Receive buffer of a socket in octets: seconds of traffic, so that a reader without CPU time loses
/// nothing.
const RECEIVE_BUFFER: libc::c_int = 256 << 20;

/// Level, name and value.
type SocketOption = (libc::c_int, libc::c_int, libc::c_int);

/// Opens a socket that sends, bypassing the queueing discipline, and receives nothing.
///
/// # Errors
/// The interface does not exist, or the caller lacks CAP_NET_RAW.
pub fn sender(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    open(namespace, interface, 0, &[(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)])
}

/// Like [`sender`], through the queueing discipline: monitors see its frames.
///
/// # Errors
/// Those of [`sender`].
pub fn visible_sender(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    open(namespace, interface, 0, &[])
}

/// Opens a socket that receives every frame with a time stamp, and can also send.
///
/// # Errors
/// Those of [`sender`].
pub fn receiver(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    stamping(namespace, interface, true, true)
}

/// Like [`receiver`], and monitors see its frames.
///
/// # Errors
/// Those of [`sender`].
pub fn visible(namespace: &Namespace, interface: &str) -> Result<PacketSocket> {
    stamping(namespace, interface, true, false)
}

/// Opens a socket that sees every received frame, and every frame sent through the queueing discipline,
/// with time stamps.
///
/// # Errors
/// Those of [`sender`].
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
        // Otherwise the socket would see frames that it and others send here.
        (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, incoming_only.into()),
        // The kernel removes the outer VLAN tag from the frame and passes it as ancillary data.
        (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER),
    ];
    open(namespace, interface, libc::ETH_P_ALL, &options)
}

/// Options are set first: a bound socket receives before they apply.
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
