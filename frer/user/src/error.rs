//! Errors of the data plane in user space.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why forwarding cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface, or the sockets on it.
    #[error(transparent)]
    Interface(#[from] onbeat_link::Error),
    /// Network devices in general.
    #[error(transparent)]
    Device(#[from] onbeat_netdev::Error),
    /// The program that selects frames for AF_XDP sockets.
    #[error(transparent)]
    Steering(#[from] onbeat_frer_xdp::Error),
    /// An XDP program receives frames before packet sockets do.
    #[error("port {port:?}: {source}")]
    Programmed {
        /// The port.
        port: String,
        /// The program.
        source: onbeat_link::Error,
    },
    /// A bridge or bond also forwards the frames of an interface.
    #[error(
        "port {port:?}: interface {interface} belongs to a bridge or a bond, which would forward frames of streams a second time; \
         packet sockets receive only copies; remove it from there (ip link set \
         {interface} nomaster), or use backend \"xdp\""
    )]
    Enslaved {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
    },
    /// A stream that the data plane in user space refuses.
    #[error("{refusal}")]
    Refused {
        /// The reason.
        refusal: onbeat_frer::plane::StreamRefusal,
    },
    /// A stream uses a port that could not be attached.
    #[error("stream {stream:?}: port {port:?} is not attached")]
    NotAttached {
        /// The stream.
        stream: String,
        /// The port.
        port: String,
    },
    /// The link redundancy entity uses a port that could not be attached.
    #[error("port {port:?} of the link redundancy entity is not attached")]
    LreNotAttached {
        /// The port.
        port: String,
    },
    /// More ports at the same time than a data plane supports.
    #[error("more than {most} ports, including those that this change replaces; remove some first")]
    Ports {
        /// The maximum.
        most: usize,
    },
    /// A system call of the forwarding thread failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The forwarding thread has ended.
    #[error("the forwarding thread has exited; restart the node and read its log")]
    Ended,
}
