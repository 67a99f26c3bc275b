//! The back end `xdp`: responses in the driver.

mod abi;
mod peer;
mod records;
mod shared_state;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use onbeat_bpf::UnloadedObject;
use onbeat_netdev::{Namespace, XdpMode};
use onbeat_wire::EtherType;

use self::abi::{port_process, port_record};
use self::peer::VethPeer;
use self::records::{Records, ring_size};
use self::shared_state::{SharedResponses, SharedSlots, SharedState};
use crate::error::failed;
use crate::packet::WakeReason;
use crate::response::Responses;
use crate::xsk::{AfXdpPort, Arrival, BackendProgram, PortBase, of_tai};
use crate::{
    Backend, Cause, Confirmation, Diagnostics, Outcome, PortOptions, Result, Slot, Time, VlanTag,
};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("xdp.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "xdp.skel.rs");

// One loader sets the constants of both programs.
const _: () = {
    use crate::xsk::skeleton::types::rodata as of_xsk;
    use skeleton::types::rodata as of_xdp;
    assert!(std::mem::offset_of!(of_xsk, ether_types) == std::mem::offset_of!(of_xdp, ether_types));
    assert!(std::mem::offset_of!(of_xsk, own_address) == std::mem::offset_of!(of_xdp, own_address));
};

/// A port that answers in the driver: as [`crate::XskPort`], and responses are *native*.
///
/// The XDP program inspects each frame of the port. If a response matches, the frame becomes the answer and is sent
/// by the driver, whatever this process does. [`crate::Port::receive`] reads the answered frame from a BPF ring buffer.
///
/// - The program wakes this process only while it sleeps in [`crate::Port::wait`]. The wakeup precedes the answer, and
///   delays it by some microseconds: a spinning or busy process, or one without
///   [`wake_when_answered`](crate::PortOptions::wake_when_answered), answers soonest.
/// - Answered frames keep their order, and so do the others. Both are merged by their time stamps, as far as they
///   have arrived.
/// - A confirmation of a response carries the time at which the program passed the answer to the driver.
/// - An answer longer than its request needs room in the buffer of the request: after it, where most NIC drivers
///   have enough for any frame, or before it, where every driver has some (180 octets at least). Without enough
///   room, as on a veth or in generic mode, the frame is not answered.
/// - Nor is it answered if the slot changes so fast that the program fails to read it four times: that requires a
///   dozen updates within some hundred nanoseconds.
/// - A frame that should have been answered and was not is received all the same, with [`crate::ReceivedFrame::answered`]
///   false, and the response is confirmed as [`Outcome::Dropped`].
/// - On a veth in native mode, frames that a program sends arrive only while the *peer* runs NAPI: it has an XDP program,
///   even one that passes every frame, or generic receive offload is on. Without NAPI, frames are not answered. The port
///   detects a change within 50 ms (Linux 6.3; older kernels drop the responses without NAPI).
pub struct XdpPort {
    base: PortBase,
    responses: Responses,
    shared_slots: SharedSlots,
    shared_responses: SharedResponses,
    state: Arc<SharedState>,
    records: Records,
    /// `None`: the driver sends to any peer.
    _veth_peer: Option<VethPeer>,
    /// Records for which no buffer was free.
    lost: u64,
    /// The next arrival of either path, if both have one.
    next_frame: Option<Arrival>,
    next_answered: Option<AnsweredFrame>,
}

/// A record, with a copy of its frame.
struct AnsweredFrame {
    /// `None`: no buffer was free.
    arrival: Option<Arrival>,
    received_ns: u64,
    answered_ns: u64,
    slot: Slot,
}

impl fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.describe(f.debug_struct("XdpPort"))
    }
}

impl XdpPort {
    /// Opens a port on an interface of `namespace`, as [`crate::XskPort::open`].
    ///
    /// # Errors
    /// As [`crate::XskPort::open`].
    pub fn open(namespace: &Namespace, interface: &str, options: PortOptions) -> Result<Self> {
        let (slots, buffers) = (options.slots, options.receive_buffers);
        let size = |object: &mut UnloadedObject| {
            object.set_entries("slots", slots as u32)?;
            object.set_entries("records", ring_size(buffers))
        };
        let kind = BackendProgram {
            backend: Backend::Xdp,
            object: OBJECT,
            size: &size,
            own_chunks: buffers,
        };
        let base = PortBase::open(namespace, interface, options, kind)?;
        let share = || -> io::Result<_> {
            let map = |name| base.program.map(name);
            Ok((
                SharedSlots::new(&map("slots")?)?,
                SharedResponses::new(&map("responses")?)?,
                SharedState::new(&map("state")?)?,
                Records::new(map("records")?)?,
            ))
        };
        let shared = share().map_err(failed(interface, "map the tables of the XDP program"));
        let (shared_slots, shared_responses, state, records) = shared?;
        let state = Arc::new(state);
        let veth_peer = (base.on_veth && base.program.mode() == XdpMode::Native)
            .then(|| VethPeer::watch(namespace, interface, &state))
            .transpose()?;
        Ok(Self {
            responses: Responses::new(base.number, base.options.responses),
            shared_slots,
            shared_responses,
            state,
            records,
            _veth_peer: veth_peer,
            lost: 0,
            next_frame: None,
            next_answered: None,
            base,
        })
    }

    /// The mode of the program: in the driver or in the network stack.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.base.program.mode()
    }

    /// The driver accesses the port's memory directly.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        self.base.zero_copy()
    }

    /// Reads the next record, and copies its frame to a buffer.
    fn take_record(&mut self) -> Option<AnsweredFrame> {
        let Self { base, records, .. } = self;
        let mut taken = None;
        records.next(|record, octets| taken = Some(copy(base, record, octets)));
        taken
    }

    fn queue_answered(&mut self, answered: AnsweredFrame) {
        let AnsweredFrame { arrival, answered_ns, slot, .. } = answered;
        if answered_ns == 0 {
            self.base.sent.dropped(slot, Cause::Response);
        } else {
            self.base.diagnostics.responses += 1;
            self.base.diagnostics.sent += 1;
            if self.base.options.confirm {
                self.base.diagnostics.confirmed += 1;
                let outcome = Outcome::Sent(of_tai(answered_ns));
                self.base.sent.add(Confirmation { slot, cause: Cause::Response, outcome });
            }
        }
        match arrival {
            Some(arrival) => self.base.keep(arrival),
            None => self.lost += 1,
        }
    }
}

fn copy(base: &mut PortBase, record: &port_record, frame: &[u8]) -> AnsweredFrame {
    let octets = usize::from(record.length).min(frame.len());
    let tag = VlanTag { tpid: EtherType(record.tpid), tci: record.tci };
    let tag = (record.tpid != 0).then_some(tag);
    let arrival = base.room(octets).map(|(chunk, at, to)| {
        to.copy_from_slice(&frame[..octets]);
        Arrival {
            chunk,
            at,
            octets,
            len: record.length.into(),
            stamp: of_tai(record.received_ns),
            tag,
            answered: record.answered_ns != 0,
        }
    });
    AnsweredFrame {
        arrival,
        received_ns: record.received_ns,
        answered_ns: record.answered_ns,
        slot: Slot { port: base.number, index: record.slot, generation: record.generation },
    }
}

impl AfXdpPort for XdpPort {
    fn parts(&self) -> (&PortBase, &Responses) {
        (&self.base, &self.responses)
    }

    fn parts_mut(&mut self) -> (&mut PortBase, &mut Responses) {
        (&mut self.base, &mut self.responses)
    }

    fn pump(&mut self) -> bool {
        self.base.launch();
        loop {
            if self.next_frame.is_none() {
                self.next_frame = self.base.arrive();
            }
            if self.next_answered.is_none() {
                self.next_answered = self.take_record();
            }
            let frame_first = match (&self.next_frame, &self.next_answered) {
                (None, None) => break,
                (Some(frame), Some(answered)) => frame.stamp.ns <= of_tai(answered.received_ns).ns,
                (frame, _) => frame.is_some(),
            };
            if frame_first {
                self.next_frame.take().into_iter().for_each(|frame| self.base.keep(frame));
            } else {
                let answered = self.next_answered.take();
                answered.into_iter().for_each(|answered| self.queue_answered(answered));
            }
            self.base.launch();
        }
        self.base.complete();
        self.base.has_confirmation()
    }

    fn sleep(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<WakeReason> {
        self.state.set_process(match self.base.options.wake_when_answered {
            true => port_process::PORT_WAITS_FOR_ALL,
            false => port_process::PORT_WAITS_FOR_UNANSWERED,
        });
        // Frames that arrived before the program was notified are read now; later ones wake this process.
        let result = if self.pump() {
            Ok(WakeReason::Ready)
        } else {
            self.base.sleep(until, Some(self.records.as_fd()), other)
        };
        self.state.set_process(port_process::PORT_AWAKE);
        result
    }

    fn slot_updated(&mut self, slot: Slot, frame: &[u8]) {
        self.shared_slots.update(slot.index as usize, frame);
    }

    fn responses_changed(&mut self) {
        self.shared_responses.set(&self.responses);
    }

    fn add_to(&self, diagnostics: &mut Diagnostics) {
        let (answered, unanswered) = self.state.unreported();
        diagnostics.sent += answered;
        diagnostics.responses += answered;
        diagnostics.receive_drops += self.lost + answered + unanswered;
        if self.base.options.confirm {
            diagnostics.unconfirmed += answered;
        }
    }
}
