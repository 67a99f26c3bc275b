//! Packet sockets: whole frames in and out of one interface.

use std::io;
use std::ops::Deref;

use onbeat_netdev::{Handle, Namespace};

use crate::{Error, Result};

/// Frames that one system call sends at most.
pub(crate) const BATCH: usize = onbeat_netdev::PacketSocket::BATCH;

/// What a receiving socket may hold, in octets: seconds of traffic, so that a reader which the
/// scheduler keeps waiting loses nothing.
const RECEIVE_BUFFER: libc::c_int = 256 << 20;

/// Level, name and value.
type SocketOption = (libc::c_int, libc::c_int, libc::c_int);

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket(onbeat_netdev::PacketSocket);

impl PacketSocket {
    /// A socket that sends, around the queueing discipline, and receives nothing.
    ///
    /// # Errors
    /// Where the interface is not there or the caller lacks CAP_NET_RAW.
    pub fn sender(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::open(namespace, interface, 0, &[(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)])
    }

    /// As [`PacketSocket::sender`], through the queueing discipline: monitors see what it sends.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn visible_sender(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::open(namespace, interface, 0, &[])
    }

    /// A socket that receives every frame that comes in, stamps it, and can send as well.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn receiver(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, true, true)
    }

    /// As [`PacketSocket::receiver`], and monitors see what it sends.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn visible(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, true, false)
    }

    /// A socket that sees every frame that comes in and every one that is sent through the
    /// queueing discipline, and stamps both.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn monitor(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, false, false)
    }

    fn stamping(
        namespace: &Namespace,
        interface: &str,
        incoming_only: bool,
        around_qdisc: bool,
    ) -> Result<Self> {
        let options = [
            (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, around_qdisc.into()),
            // Else the socket would see what it and others send here.
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, incoming_only.into()),
            // The kernel removes the outer VLAN tag from the frame and passes it as ancillary data.
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER),
        ];
        Self::open(namespace, interface, libc::ETH_P_ALL, &options)
    }

    /// Its options go before it is bound: in between it would receive from every interface, and what
    /// its options keep out or make room for.
    fn open(
        namespace: &Namespace,
        interface: &str,
        protocol: libc::c_int,
        options: &[SocketOption],
    ) -> Result<Self> {
        let index = Handle::in_namespace(namespace)?.index(interface)?;
        let open = || -> io::Result<_> {
            let socket = onbeat_netdev::PacketSocket::open(index)?;
            options
                .iter()
                .try_for_each(|(level, name, value)| socket.set(*level, *name, *value))?;
            socket.bind(protocol as u16)?;
            Ok(Self(socket))
        };
        namespace.run(open)?.map_err(|error| {
            Error::io(format!("open a packet socket on {interface} (CAP_NET_RAW)"), error)
        })
    }

    /// Sends up to [`BATCH`] frames; how many were taken. An error comes only where none was.
    pub(crate) fn send_batch(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        self.send_parts(frames.iter().map(|frame| [frame.as_slice()]), libc::MSG_DONTWAIT)
    }

    /// Sends up to [`BATCH`] frames with a header each and one payload, and waits for room in the
    /// socket; how many were taken. An error comes only where none was.
    pub(crate) fn send_headers<const LEN: usize>(
        &self,
        headers: &[[u8; LEN]],
        payload: &[u8],
    ) -> io::Result<usize> {
        self.send_parts(headers.iter().map(|header| [header.as_slice(), payload]), 0)
    }
}

impl Deref for PacketSocket {
    type Target = onbeat_netdev::PacketSocket;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
