//! The forwarding thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use onbeat_frer::plane::{Disposition, Plane, Replica};
use onbeat_frer::prp::Copies;
use onbeat_frer::spec::PortId;
use onbeat_link::raw::{Clock, Pool};
use onbeat_wire::edit::EditedFrame;

use crate::control::{self, Control, Requests, ThreadState};
use crate::lanes::{Lanes, Run};
use crate::port::{Input, Output, PacketInput, XskInput};
use crate::{Error, Result, Traffic};

/// Rounds without a frame after which a busy thread polls for control requests: they then wait for some
/// microseconds.
const IDLE_ROUNDS: u32 = 64;

/// The method by which the thread waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PollMode {
    /// It sleeps until the kernel wakes it.
    #[default]
    Sleep,
    /// It never sleeps: minimum delay at the cost of a CPU.
    Busy,
}

/// A forwarding thread.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<()>,
    control: Control,
}

impl Forwarder {
    /// Starts to forward by the streams of `plane`, initially without ports. The thread first calls
    /// `prepare`: priority, affinity, locked memory; the returned value is kept until it ends.
    ///
    /// # Errors
    /// The error of `prepare`; no thread.
    pub fn start<T>(
        plane: Plane,
        poll: PollMode,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<Self> {
        let system = |what| move |source| Error::System { what, source };
        let (control, requests) = control::pair().map_err(system("create a control channel"))?;
        let inside = ThreadState::new(plane);
        let forwarding = Forwarding { inside, requests, polled: Vec::new() };
        let (ready, is_ready) = sync_channel(1);
        let run = move || {
            let (_kept, prepared) = match prepare() {
                Ok(kept) => (Some(kept), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let go = prepared.is_ok();
            // The starting thread waits for this.
            let _ = ready.send(prepared);
            if go {
                forwarding.run(poll);
            }
        };
        let thread = thread::Builder::new().name("onbeat-frer".into()).spawn(run);
        let thread = thread.map_err(system("start the forwarding thread"))?;
        let prepared = is_ready.recv().map_err(|_| Error::Ended)?;
        prepared.map_err(system("prepare the forwarding thread"))?;
        Ok(Self { thread, control })
    }

    /// Returns a handle on the thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Stops the thread if no other handle exists.
    pub fn stop(self) {
        drop(self.control);
        if self.thread.join().is_err() {
            tracing::error!("the forwarding thread panicked");
        }
    }
}

struct Forwarding {
    inside: ThreadState,
    requests: Requests,
    /// Polled descriptors: kept, so that waiting allocates no memory.
    polled: Vec<libc::pollfd>,
}

impl Forwarding {
    fn run(mut self, poll: PollMode) {
        let mut idle = 0;
        loop {
            if self.round() > 0 {
                idle = 0;
            } else if poll == PollMode::Busy && idle < IDLE_ROUNDS {
                idle += 1;
                std::hint::spin_loop();
                continue;
            } else {
                idle = 0;
                self.inside.refill();
                if poll == PollMode::Sleep {
                    self.sleep();
                }
            }
            // Under load too.
            self.inside.read_clock();
            if !self.requests.serve(&mut self.inside) {
                return;
            }
        }
    }

    /// Forwards up to one batch of each queue, in the order of arrival; returns the number of frames.
    fn round(&mut self) -> usize {
        let ThreadState { plane, inputs, outputs, lanes, former, pool, level, latest_ns, .. } =
            &mut self.inside;
        find(plane, inputs, pool.as_mut(), lanes);
        let outputs = &mut Outputs { ports: outputs, former };
        let mut frames = 0;
        while let Some(run) = lanes.next_run() {
            frames += run.arrivals.len();
            *latest_ns = run.arrivals.iter().copied().fold(*latest_ns, u64::max);
            match (inputs[usize::from(run.port.0)].as_mut(), &mut *pool) {
                (Some(Input::Packet(input)), pool) => {
                    forward_copies(plane, input, &run, outputs, pool.as_mut());
                }
                (Some(Input::Xsk(input)), Some(pool)) => {
                    forward_originals(plane, input, &run, outputs, pool);
                }
                (Some(Input::Xsk(_)), None) | (None, _) => {}
            }
        }
        for lane in lanes.iter() {
            match (inputs[usize::from(lane.port.0)].as_mut(), &mut *pool) {
                (Some(Input::Packet(input)), _) => input.release(lane.decided()),
                (Some(Input::Xsk(input)), Some(pool)) => input.refill(lane.queue, pool, *level),
                (Some(Input::Xsk(_)), None) | (None, _) => {}
            }
        }
        if frames > 0 {
            outputs.ports.iter_mut().flatten().for_each(|output| output.flush(pool.as_mut()));
        }
        frames
    }

    /// Sleeps until a frame or a request arrives.
    ///
    /// It uses poll instead of an epoll set: the kernel would notify the set of each frame also while this
    /// thread is running, which costs more than to poll again each time.
    fn sleep(&mut self) {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let inputs = || self.inside.inputs.iter().flatten();
        self.polled.clear();
        self.polled.push(entry(self.requests.as_fd().as_raw_fd()));
        self.polled.extend(inputs().flat_map(Input::fds).map(entry));
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: the array has the stated number of entries and outlives the call.
        if unsafe { libc::poll(self.polled.as_mut_ptr(), count, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                tracing::error!("cannot wait for frames: {error}");
            }
            return;
        }
        if self.polled[0].revents != 0 {
            self.requests.woken();
        }
        if self.polled.iter().any(|entry| entry.revents & libc::POLLERR != 0) {
            inputs().for_each(Input::take_error);
        }
    }
}

/// Finds the oldest frames of all queues, and identifies them.
///
/// They have their arrival times. The processing time would be wrong: after a delay of this thread, timeouts would
/// expire that the waiting frames prevent, and duplicates would be accepted as first replicas.
fn find(
    plane: &Plane,
    inputs: &mut [Option<Input>],
    mut pool: Option<&mut Pool>,
    lanes: &mut Lanes,
) {
    let clock = Clock::read();
    lanes.clear();
    for (port, input) in (0..).map(PortId).zip(inputs) {
        match (input, pool.as_deref_mut()) {
            (Some(Input::Packet(PacketInput { receiver, .. })), _) => {
                if receiver.look() > 0 {
                    let identities = lanes.add(port, 0, receiver.arrivals(clock));
                    // An incomplete frame is looked up as an empty one, which matches no stream.
                    let frames = receiver.iter().map(Option::unwrap_or_default);
                    plane.identify_all(port, frames, identities);
                }
            }
            (Some(Input::Xsk(input)), Some(pool)) => {
                for queue in 0..input.queues.len() {
                    input.take(queue, pool);
                    let (frames, umem) = (&input.queues[queue].frames, &input.umem);
                    if frames.is_empty() {
                        continue;
                    }
                    let stamps = frames.iter().map(|frame| umem.leading_metadata(frame));
                    let arrivals = stamps.map(|stamp| clock.arrival(stamp));
                    let identities = lanes.add(port, queue, arrivals);
                    let frames = frames.iter().map(|frame| umem.octets(frame));
                    plane.identify_all(port, frames, identities);
                }
            }
            (Some(Input::Xsk(_)), None) | (None, _) => {}
        }
    }
}

/// Forwards frames of which a packet socket received copies.
fn forward_copies(
    plane: &mut Plane,
    input: &mut PacketInput,
    run: &Run<'_>,
    outputs: &mut Outputs<'_>,
    mut pool: Option<&mut Pool>,
) {
    let PacketInput { receiver, too_long, .. } = input;
    for ((ahead, identity), at_ns) in (run.first..).zip(run.identities).zip(run.arrivals) {
        // An incomplete frame cannot be sent.
        let Some(octets) = receiver.octets(ahead) else {
            *too_long += 1;
            continue;
        };
        match plane.decide(run.port, *identity, *at_ns, octets) {
            Disposition::Sent(replicas) => {
                for replica in replicas {
                    let Some(output) = outputs.of(replica.port) else { continue };
                    let parts = replica.parts();
                    output.push(&parts.head, parts.rest, pool.as_deref_mut());
                }
            }
            Disposition::Copied(copies) => outputs.send(copies, pool.as_deref_mut()),
            Disposition::Unmatched | Disposition::Dropped => {}
        }
    }
}

/// Forwards frames in memory shared with the kernel: the last replica is the frame itself.
fn forward_originals(
    plane: &mut Plane,
    input: &mut XskInput,
    run: &Run<'_>,
    outputs: &mut Outputs<'_>,
    pool: &mut Pool,
) {
    let XskInput { queues, umem, .. } = input;
    let frames = queues[run.queue].frames.drain(..run.identities.len());
    for ((mut frame, identity), at_ns) in frames.zip(run.identities).zip(run.arrivals) {
        let octets = umem.octets(&frame);
        let mut last: Option<Replica<'_>> = None;
        match plane.decide(run.port, *identity, *at_ns, octets) {
            Disposition::Sent(replicas) => {
                for replica in replicas {
                    if outputs.of(replica.port).is_none() {
                        continue;
                    }
                    if let Some(before) = last.replace(replica) {
                        copy(outputs, &before, pool);
                    }
                }
            }
            Disposition::Copied(copies) => outputs.send(copies, Some(pool)),
            Disposition::Unmatched | Disposition::Dropped => {}
        }
        match last.and_then(|last| Some((last.parts(), outputs.of(last.port)?))) {
            None => pool.give(frame),
            Some((parts, Output::Packet(sender))) => {
                sender.push(&parts.head, parts.rest);
                pool.give(frame);
            }
            Some((EditedFrame { head, rest }, Output::Xsk(sender))) => {
                let replaced = octets.len() - rest.len();
                umem.replace_head(&mut frame, replaced, &head);
                sender.push(frame, pool);
            }
        }
    }
}

fn copy(outputs: &mut Outputs<'_>, replica: &Replica<'_>, pool: &mut Pool) {
    if let Some(output) = outputs.of(replica.port) {
        let parts = replica.parts();
        output.push(&parts.head, parts.rest, Some(pool));
    }
}

/// The sending sides of ports.
pub(crate) struct Outputs<'a> {
    pub(crate) ports: &'a mut [Option<Output>],
    pub(crate) former: &'a mut [Traffic],
}

impl Outputs<'_> {
    /// Returns the output of a port. A detached port drops the frame, which is counted.
    fn of(&mut self, port: PortId) -> Option<&mut Output> {
        let index = usize::from(port.0);
        let output = self.ports.get_mut(index).and_then(Option::as_mut);
        if output.is_none() {
            self.former[index].unsent.interface_down += 1;
        }
        output
    }

    /// Adds the copies of a link redundancy entity or a wildcard.
    pub(crate) fn send(&mut self, copies: Copies<'_>, mut pool: Option<&mut Pool>) {
        for copy in copies {
            if let Some(output) = self.of(copy.port) {
                let [first, second] = copy.parts();
                output.push(first, second, pool.as_deref_mut());
            }
        }
    }
}
