//! The real-time port: the interface of an industrial protocol stack to a NIC, on its existing driver.
//!
//! - [`Claim`] removes an interface from the host, and restores it.
//! - [`Port`] is the interface of a stack to a port. [`PacketPort`] is a port over a packet socket, [`XskPort`]
//!   over AF_XDP, [`XdpPort`] answers in the driver, [`ModulePort`] uses the kernel module onbeat.ko.
//!   [`PacketPort::open_txtime`] opens a port whose frames a queueing discipline or the NIC sends at their launch
//!   times.
//! - [`open`] opens a port by the name of its back end ([`Backend`]); [`PortOptions`] are the same for all.
//! - [`backends`] reports the back ends that an interface supports, and the best one for each purpose.
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
//! # Path of a frame
//!
//! ```text
//!  in    filter (kernel) ── ring ── inspect ── receive ── octets ... release
//!                                   │ Filter
//!  out   allocate, update ── Slot ──┴──── respond ──┐
//!                             ├────────── send ─────┼── driver ── Confirmation
//!                             └─ send_at, send_every┘
//! ```
//!
//! A [`Slot`] identifies a prebuilt frame. Every transmission sends a slot: a back end can keep it where it sends
//! from, be it this process, a map of an XDP program or the kernel module, and an update reaches each of them. A
//! received frame is a token ([`ReceivedFrame`]), not a borrow: a stack can update and send while it holds frames,
//! and the trait is object-safe.
//!
//! Launches are absolute instants of one clock per port. A cycle is `first + n * period`: lateness does not
//! accumulate, and instants that pass without a frame are counted, not repeated. The results of responses and
//! launches are reported by [`Confirmation`], never by a callback into the stack: a transmit handler that sends
//! cannot deadlock on its own lock.
//!
//! # Adapting a stack
//!
//! A stack meets the port at two points: where it has built a frame ([`Port::update`], [`Port::send`]), and where
//! it waits for the next one ([`Port::wait`], [`Port::receive`]). `examples/ethercat/adapter.rs` is a complete
//! adapter for an unmodified stack: the EtherCAT main device of the crate ethercrab.
//!
//! # Native and emulated features
//!
//! A back end reports each [`Feature`] on its interface as native, emulated (with the method), or missing (with the
//! remedy): [`Port::capabilities`]. A stack that requires a native feature calls [`Capabilities::require_native`].
//! Every refusal is reported, and no emulation is reported as native.
//!
//! The back ends:
//!
//! | back end | receive | send at, every | response |
//! |---|---|---|---|
//! | `packet`: packet socket, ring, bypasses the qdisc | ring of the socket | emulated | emulated |
//! | `xsk`: AF_XDP | UMEM: a token is a chunk of it | emulated | emulated |
//! | `xdp`: XDP_TX in the driver | as `xsk`; answered frames by a BPF ring buffer | emulated | native: a slot is a map entry |
//! | `txtime`: SO_TXTIME with etf, taprio | as `packet` | native: launch time; cycles by submission ahead | emulated |
//! | `module`: onbeat.ko | as `packet` | native: hrtimer | native: softirq |
//!
//! The network stack receives copies of the frames of a packet socket. The two back ends over XDP remove their
//! frames from the stack.
//!
//! The pure parts (slots, schedule, filters, responses, assignment of confirmations) have no clock and no socket;
//! emulating back ends share them.
//!
//! # Decisions
//!
//! - **The claim is separate from the port.** Isolation is the same for all back ends, and persists when a port is
//!   closed and opened again.
//! - **An interface has one port.** Every back end takes the same lock ([`onbeat_host::InterfaceLock`]), as nodes
//!   do. Observers ([`raw::CaptureSocket`]) take none.
//! - **A mount keeps the claim's namespace.** A namespace held only by descriptors would vanish with a killed
//!   process, and a virtual interface with it; a physical one would return with changed settings.
//! - **No thread of its own.** Emulated work is done in [`Port::poll`] and [`Port::wait`], on the thread, with the
//!   priority and on the core that the stack selects; [`Port::next_deadline`] returns the time.
//! - **A cyclic slot sends its newest frame**, whenever it was updated: only the present process image is worth
//!   sending.

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
mod presence;
mod response;
mod schedule;
mod slot;
mod time;
mod transmissions;
mod txtime;
mod xdp;
mod xsk;

pub mod raw;

pub use backend::Backend;
pub use backends::{BackendReport, Backends, Purpose, Remark, backends};
pub use capability::{Capabilities, Capability, Feature};
pub use claim::Claim;
pub use error::{Error, Result};
pub use exclusive::refuse_foreign_program;
pub use filter::Filter;
pub use module::ModulePort;
pub use open::open;
pub use options::{PortOptions, TransmitMethod, TxtimeOptions};
pub use packet::PacketPort;
pub use port::{Cause, Confirmation, Diagnostics, Outcome, Port, ReceivedFrame, VlanTag};
pub use response::Response;
pub use slot::{MIN_FRAME, Slot};
pub use time::{Clock, Stamp, StampSource, Time};
pub use xdp::XdpPort;
pub use xsk::XskPort;
