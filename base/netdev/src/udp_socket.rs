//! UDP sockets of one interface.

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};

use crate::{Error, Namespace, Result, check_name};

/// Opens a non-blocking UDP socket with a local address, that receives datagrams of one interface and sends by it.
///
/// # Errors
/// The interface does not exist; the address is not one of the namespace, or another socket uses it.
pub fn udp_socket(
    namespace: &Namespace,
    interface: &str,
    address: SocketAddrV4,
) -> Result<UdpSocket> {
    check_name(interface)?;
    let failed = |errno| Error::Kernel {
        operation: format!("open UDP socket {address}"),
        interface: interface.into(),
        errno,
        detail: None,
    };
    // A socket belongs to the namespace of the thread that opens it.
    namespace.run(|| {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened =
            socket(AddressFamily::Inet, SockType::Datagram, flags, None).map_err(failed)?;
        setsockopt(&opened, sockopt::BindToDevice, &interface.into()).map_err(failed)?;
        bind(opened.as_raw_fd(), &SockaddrIn::from(address)).map_err(failed)?;
        Ok(UdpSocket::from(opened))
    })?
}
