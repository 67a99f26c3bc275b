//! What can go wrong.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why forwarding cannot begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface, or the sockets on it.
    #[error(transparent)]
    Interface(#[from] onbeat_link::Error),
    /// Network devices in general.
    #[error(transparent)]
    Device(#[from] onbeat_netdev::Error),
    /// The program in front of AF_XDP sockets.
    #[error(transparent)]
    Steering(#[from] onbeat_frer_xdp::Error),
    /// An XDP program that receives frames before packet sockets do.
    #[error("port {port:?}: {source}")]
    Programmed {
        /// The port.
        port: String,
        /// The program.
        source: onbeat_link::Error,
    },
    /// An interface whose frames somebody else forwards, too.
    #[error(
        "port {port:?}: interface {interface} is a bridge's or a bond's, which would forward frames of \
         streams once more, as packet sockets see but copies: take it out (ip link set {interface} \
         nomaster), or use backend \"xdp\""
    )]
    Enslaved {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
    },
    /// A stream that the data plane in user space does not take.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: onbeat_frer::plane::Refusal,
    },
    /// A stream uses a port that could not be attached.
    #[error("stream {stream:?}: port {port:?} is not attached")]
    NotAttached {
        /// The stream.
        stream: String,
        /// The port.
        port: String,
    },
    /// More ports at once than a data plane has room for.
    #[error("more than {most} ports, those before this change among them; remove some first")]
    Ports {
        /// How many there may be.
        most: usize,
    },
    /// Something of the forwarding thread itself.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The forwarding thread has ended.
    #[error("the forwarding thread has ended; start the node again and see its log")]
    Ended,
}
