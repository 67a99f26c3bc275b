//! The real-time port: what an industrial protocol stack needs of an interface, on the driver that
//! is already there.
//!
//! - [`Claim`] takes an interface away from the host, and gives it back.
//! - [`Port`] is what a stack is written against; [`PacketPort`] is one over a packet socket,
//!   [`XskPort`] one over AF_XDP, [`XdpPort`] one that answers in the driver, [`ModulePort`] one over
//!   the kernel module onbeat.ko; [`PacketPort::open_txtime`] gives one whose frames a queueing
//!   discipline or the NIC launches.
//! - [`open`] opens one by the name of its back end ([`Backend`]); [`PortOptions`] are the same for all.
//! - [`backends`] tells which of them an interface can be used with, and which is best for what.
//!
//! ```no_run
//! use std::path::Path;
//! use onbeat_link::{Claim, PortOptions, PacketPort, Port};
//! use onbeat_netdev::Namespace;
//! use onbeat_wire::EtherType;
//!
//! # fn main() -> onbeat_link::Result<()> {
//! let claim = Claim::take(&Namespace::current()?, "eth1", Path::new(Claim::DIRECTORY))?;
//! let options =
//!     PortOptions { ether_types: vec![EtherType(0x88ab)], ..PortOptions::default() };
//! let mut port = PacketPort::open(claim.namespace(), claim.interface(), options)?;
//! # let start_of_cycle = [0; 60];
//! let slot = port.allocate(60)?;
//! port.update(slot, &start_of_cycle)?;
//! port.send_every(slot, port.now().after(5_000_000), 5_000_000)?;
//! loop {
//!     port.wait(port.now().after(1_000_000_000))?;
//!     while let Some(frame) = port.receive()? {
//!         println!("{} octets: {:02x?}", frame.len, port.octets(&frame));
//!         port.release(frame);
//!     }
//!     while let Some(news) = port.confirmation()? {
//!         println!("{news:?}");
//!     }
//! }
//! # }
//! ```
//!
//! # A frame's way
//!
//! ```text
//!  in    filter (kernel) ── ring ── look at it ── receive ── octets ... release
//!                                      │ Filter
//!  out   allocate, update ── Slot ─────┴─ respond ──┐
//!                             ├────────── send ─────┼── driver ── Confirmation
//!                             └─ send_at, send_every┘
//! ```
//!
//! A [`Slot`] names a frame that was built ahead. Everything that sends, sends a slot: so a back
//! end can keep it wherever it sends from, be it this process, a map of an XDP program or the
//! kernel module, and an update reaches each of them. A received frame is a token
//! ([`ReceivedFrame`]), not a borrow: a stack updates and sends while it holds frames, and the trait
//! can be made an object.
//!
//! Launches are absolute instants of one clock per port; a cycle is `first + n * period`, so that
//! lateness never adds up, and instants that pass are counted and not made up for. Responses,
//! launches and confirmations that nobody waits for report by [`Confirmation`], never by a call
//! back into the stack: a transmit handler that sends cannot meet its own lock.
//!
//! # A stack on it
//!
//! A stack has two places where it meets the port: where it has built a frame ([`Port::update`],
//! [`Port::send`]), and where it waits for the next ([`Port::wait`], [`Port::receive`]).
//! `examples/ethercat/adapter.rs` is the whole of that for a stack that knows nothing of us: the
//! EtherCAT main device of the crate ethercrab.
//!
//! # What is native, what is emulated
//!
//! A back end says of each [`Feature`] on its interface whether it is native, emulated (and how),
//! or not there (and what would provide it): [`Port::capabilities`]. A stack that cannot do with
//! an emulation says [`Capabilities::require_native`]. Nothing is refused in silence, and no
//! emulation is shown as the real thing.
//!
//! The back ends and their places in it:
//!
//! | back end | receive | send at, every | response |
//! |---|---|---|---|
//! | `packet`: packet socket, ring, around the qdisc | ring of the socket | emulated | emulated |
//! | `xsk`: AF_XDP | UMEM: a token is a chunk of it | emulated | emulated |
//! | `xdp`: XDP_TX in the driver | as `xsk`; what was answered, by a BPF ring buffer | emulated | native: a slot is a map entry |
//! | `txtime`: SO_TXTIME with etf, taprio | as `packet` | native: launch time; cycles by handing over ahead | emulated |
//! | `module`: onbeat.ko | as `packet` | native: hrtimer | native: softirq |
//!
//! What the network stack still sees differs: a packet socket gets copies of frames, the two over
//! XDP take theirs away from the stack.
//!
//! What is pure (slots, schedule, filters, responses, which confirmation is whose) knows no clock
//! and no socket, and is what emulating back ends share.
//!
//! # Decisions
//!
//! - **The claim is not the port.** Isolation is the same for all back ends, and outlives a port
//!   that is closed and opened anew.
//! - **An interface has one port.** Every back end takes the same lock
//!   ([`onbeat_host::InterfaceLock`]), which nodes take as well. Observers ([`raw::CaptureSocket`]) take none.
//! - **The claim's namespace is held by a mount.** Held by descriptors alone it would end with a
//!   killed process, and a virtual interface with it; a physical one would come back with another
//!   state than it had.
//! - **No thread of its own.** Emulated work is done in [`Port::poll`] and [`Port::wait`], on the
//!   thread, with the priority and on the core that the stack chose; [`Port::next_deadline`] says
//!   when.
//! - **The newest frame of a cyclic slot goes out**, whenever it was updated: a process image is
//!   worth sending only as it is now.

mod backend;
mod backends;
mod capability;
mod claim;
mod clock;
mod error;
mod exclusive;
mod filter;
mod journal;
mod mapping;
mod module;
mod open;
mod options;
mod packet;
mod port;
mod response;
mod schedule;
mod transmissions;
mod slot;
mod time;
mod txtime;
mod xdp;
mod xsk;

pub mod raw;

pub use backend::{Backend, by_name};
pub use backends::{BackendReport, Backends, Purpose, Remark, backends};
pub use capability::{Capabilities, Capability, Feature};
pub use claim::Claim;
pub use error::{Error, Result};
pub use exclusive::refuse_foreign_program;
pub use filter::Filter;
pub use module::ModulePort;
pub use open::open;
pub use options::{PortOptions, Transmit, TxtimeOptions};
pub use packet::PacketPort;
pub use port::{Cause, Confirmation, Diagnostics, Outcome, Port, ReceivedFrame, VlanTag};
pub use response::Response;
pub use slot::{MIN_FRAME, Slot};
pub use time::{Clock, Stamp, StampSource, Time};
pub use xdp::XdpPort;
pub use xsk::XskPort;
