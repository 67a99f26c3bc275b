//! Network devices and network namespaces, by rtnetlink, generic netlink and ethtool: blocking, without a
//! runtime and without external programs.
//!
//! - [`Namespace`]: a network namespace that exists as long as a descriptor of it.
//! - [`Handle`]: creates, changes and reads the devices of a namespace, as [`Link`].
//! - [`InterfaceIdentity`]: identifies the interface of a journal entry.
//! - [`VethPeer`]: the other end of a veth pair, in the same namespace or another one.
//! - [`UnixSocket`]: the owner of an abstract socket name.
//! - [`TapInterface`]: an interface whose other end is this process.
//! - [`udp_socket`]: a UDP socket of one interface.
//! - [`PacketSocket`]: receives and sends frames of an interface.
//! - [`PrivateMounts`]: mounts that are visible to one thread only.
//! - [`Monitor`]: events of devices that are added, changed and removed.
//! - [`Ethtool`]: driver, offloads, time stamping, channels, coalescing, energy-efficient Ethernet.
//! - [`libpcap`]: its functions, handles and filters.
//! - [`xdp`]: XDP features of a device's driver.
//! - [`napi`]: a device's NAPI instances, threaded NAPI and its timers.
//! - [`udev`]: whether an interface has its final name.
//! - [`qdisc`]: queueing disciplines with launch times and schedules.
//!
//! ```no_run
//! use onbeat_netdev::{Handle, Namespace, VethEnd};
//!
//! # fn main() -> onbeat_netdev::Result<()> {
//! let (talker, listener) = (Namespace::new()?, Namespace::new()?);
//! let handle = Handle::in_namespace(&talker)?;
//! handle.create_veth(&VethEnd::new("t0"), &VethEnd::new("l0").namespace(&listener))?;
//! handle.set_up("t0")?;
//! Handle::in_namespace(&listener)?.set_up("l0")?;
//! # Ok(())
//! # }
//! ```

mod error;
mod genl;
mod identity;
mod link;
mod monitor;
mod mounts;
mod namespace;
mod netlink;
mod nic_clock;
mod packet_socket;
mod peer;
mod rtnl;
mod sysfs;
mod tap;
mod udp_socket;
mod unix_socket;

pub mod ethtool;
pub mod libpcap;
pub mod napi;
pub mod qdisc;
pub mod udev;
pub mod xdp;

pub use error::{Error, MAX_NAME, NAME_RULE, Result, check_name};
pub use ethtool::Ethtool;
pub use identity::InterfaceIdentity;
pub use link::{Bridge, Handle, Link, Statistics, VethEnd, XdpAttachment, XdpMode};
pub use monitor::{LinkEvent, Monitor};
pub use mounts::PrivateMounts;
pub use namespace::{NAMED_NAMESPACES, Namespace};
pub use nic_clock::NicClock;
pub use packet_socket::{PacketSocket, ReceiveBuffers, ReceivedFrame};
pub use peer::{VethPeer, namespace_files, shell_word};
pub use tap::TapInterface;
pub use udp_socket::udp_socket;
pub use unix_socket::UnixSocket;
