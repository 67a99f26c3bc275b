//! Access to the streams of a forwarding thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};

use nix::sys::eventfd::{EfdFlags, EventFd};
use onbeat_frer::plane::Plane;
use onbeat_frer::prp::{DueFrames, LIFE_CHECK_MS};
use onbeat_frer::spec::{MAX_PORTS, PortId};
use onbeat_link::raw::{Clock, Pool};

use crate::forwarder::Outputs;
use crate::lanes::Lanes;
use crate::port::{Input, Output, Port, XskQueue};
use crate::{Error, QUEUE_FRAMES, Result, Traffic};

/// The state that a request may read and change.
#[derive(Debug)]
pub struct ThreadState {
    /// The streams.
    pub plane: Plane,
    /// Nanoseconds of CLOCK_MONOTONIC; all frames that arrived before have been decided on.
    pub now_ns: u64,
    /// Arrival time of the last frame that was decided on.
    pub(crate) latest_ns: u64,
    pub(crate) inputs: Vec<Option<Input>>,
    pub(crate) outputs: Vec<Option<Output>>,
    pub(crate) lanes: Lanes,
    /// By port number: traffic of former interfaces of the port, and frames to send while it had none.
    pub(crate) former: Vec<Traffic>,
    /// Memory for frames of AF_XDP ports.
    pub(crate) pool: Option<Pool>,
    /// The share of each queue.
    pub(crate) level: u32,
}

impl ThreadState {
    pub(crate) fn new(plane: Plane) -> Self {
        let mut inside = Self {
            plane,
            now_ns: 0,
            latest_ns: Clock::read().now_ns(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            lanes: Lanes::default(),
            former: vec![Traffic::default(); MAX_PORTS],
            pool: None,
            level: 0,
        };
        inside.read_clock();
        inside
    }

    /// Reads the clock. If frames wait, the time is no later than their arrival: after a delay of this
    /// thread, no timeout expires that they prevent.
    pub(crate) fn read_clock(&mut self) {
        // Before reading the ports: frames that arrive in between are later.
        let now_ns = Clock::read().now_ns();
        let none_waits = self.inputs.iter_mut().flatten().all(Input::is_empty);
        self.now_ns = if none_waits { now_ns } else { now_ns.min(self.latest_ns) };
    }

    /// Sets the memory for frames of AF_XDP ports, which all share it. Call it once, before adding the first
    /// of them.
    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    /// Returns the traffic of a port since it was opened; `None`: no such port.
    pub fn traffic(&mut self, index: PortId) -> Option<Result<Traffic>> {
        let index = usize::from(index.0);
        let input = self.inputs.get_mut(index)?.as_mut()?;
        let output = self.outputs[index].as_ref()?;
        Some(input.traffic().map(|traffic| output.add_to(traffic)))
    }

    /// Returns the traffic of a port by its present and former interfaces.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub(crate) fn total_traffic(&mut self, index: PortId) -> Result<Traffic> {
        let mut total = self.former[usize::from(index.0)];
        if let Some(traffic) = self.traffic(index) {
            total += traffic?;
        }
        Ok(total)
    }

    /// Sets `port` as port number `index` of the streams; returns the former one.
    fn exchange(&mut self, index: PortId, port: Option<Port>) -> Option<Port> {
        // An interface that was removed may no longer report all counters.
        let traffic = self.traffic(index).and_then(Result::ok).unwrap_or_default();
        let index = usize::from(index.0);
        self.former[index] += traffic;
        let many = self.inputs.len().max(index + 1);
        self.inputs.resize_with(many, || None);
        self.outputs.resize_with(many, || None);
        let (input, output) = port.map(|port| (port.input, port.output)).unzip();
        let before = (
            std::mem::replace(&mut self.inputs[index], input),
            std::mem::replace(&mut self.outputs[index], output),
        );
        self.lanes.reserve(self.inputs.iter().flatten().map(Input::queues).sum());
        self.share();
        let (Some(mut input), Some(output)) = before else { return None };
        if let (Input::Xsk(input), Some(pool)) = (&mut input, &mut self.pool) {
            input.release(pool);
        }
        Some(Port { input, output })
    }

    /// Adds a receive queue to an AF_XDP port.
    pub(crate) fn add_queue(&mut self, index: PortId, queue: XskQueue) {
        if let Some(Some(Input::Xsk(input))) = self.inputs.get_mut(usize::from(index.0)) {
            input.queues.push(queue);
        }
        self.lanes.reserve(self.inputs.iter().flatten().map(Input::queues).sum());
        self.share();
    }

    /// Shares the pool's frames among the queues: half of them, so that the other half can be in
    /// transmission.
    fn share(&mut self) {
        let Some(pool) = &self.pool else { return };
        let queues: usize = self.inputs.iter().flatten().map(Input::lent_queues).sum();
        let share = pool.umem().chunks() / 2 / queues.max(1) as u32;
        self.level = share.clamp(1, QUEUE_FRAMES);
        self.refill();
    }

    /// Refills all queues for reception.
    pub(crate) fn refill(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        for output in self.outputs.iter_mut().flatten() {
            // Reclaims transmitted frames.
            output.flush(Some(pool));
        }
        for input in self.inputs.iter_mut().flatten() {
            input.refill(pool, self.level);
        }
    }

    /// Sends the supervision frames of the link redundancy entity that are due, and removes expired nodes. Returns the time
    /// until the next call, in milliseconds; `None`: there are neither such an entity nor wildcards.
    pub fn supervise(&mut self) -> Option<u32> {
        let Self { plane, outputs, former, pool, now_ns, .. } = self;
        let has_wildcards = plane.expire_wildcards(*now_ns);
        let Some(lre) = plane.lre() else { return has_wildcards.then_some(LIFE_CHECK_MS) };
        lre.expire(*now_ns);
        // If a frame waits, the time of the thread can be hours ago.
        let now_ns = Clock::read().now_ns();
        lre.listen_after_stop(now_ns);
        let DueFrames { frames, to_host, next_ms, .. } = lre.supervise(now_ns);
        let mut ports = Outputs { ports: outputs, former };
        for octets in &frames {
            if let Some(copies) = lre.send(now_ns, octets) {
                ports.send(copies, pool.as_mut());
            }
        }
        for octets in &to_host {
            ports.send(lre.send_to_host(now_ns, octets), pool.as_mut());
        }
        for output in outputs.iter_mut().flatten() {
            output.flush(pool.as_mut());
        }
        Some(next_ms)
    }

    /// The link of the host port is up again.
    pub(crate) fn listen(&mut self) {
        if let Some(lre) = self.plane.lre() {
            lre.listen(Clock::read().now_ns());
        }
    }

    /// Informs other RedBoxes that this one ends.
    pub(crate) fn leave(&mut self) {
        let Self { plane, outputs, former, pool, .. } = self;
        let Some(lre) = plane.lre() else { return };
        let Some(octets) = lre.farewell() else { return };
        let mut ports = Outputs { ports: outputs, former };
        ports.send(lre.send_to_host(Clock::read().now_ns(), &octets), pool.as_mut());
        for output in outputs.iter_mut().flatten() {
            output.flush(pool.as_mut());
        }
    }

    fn reclaim(&mut self, sockets: &[u32]) {
        if let Some(pool) = &mut self.pool {
            sockets.iter().for_each(|socket| pool.reclaim(*socket));
        }
    }
}

type Work = Box<dyn FnOnce(&mut ThreadState) + Send>;

/// A handle on a forwarding thread, which ends with its last handle.
#[derive(Debug, Clone)]
pub struct Control {
    // Dropped before the thread is woken.
    work: Option<Sender<Work>>,
    wake: Arc<EventFd>,
}

impl Control {
    /// Runs a function in the forwarding thread between two batches of frames, and waits for its result.
    /// Frames wait meanwhile: perform lengthy work before the call.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ThreadState) -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = sync_channel(1);
        let work: Work = Box::new(move |inside| {
            // The caller may have stopped waiting.
            let _ = done.send(work(inside));
        });
        let sender = self.work.as_ref().ok_or(Error::Ended)?;
        sender.send(work).map_err(|_| Error::Ended)?;
        self.wake();
        result.recv().map_err(|_| Error::Ended)
    }

    /// Sets `port` as port number `index` of the streams; the former one is closed.
    /// # Errors
    /// [`Error::Ended`].
    pub fn set_port(&self, index: PortId, port: Option<Port>) -> Result<()> {
        let before = self.run(move |inside| inside.exchange(index, port))?;
        // Not in the thread: closing takes the kernel milliseconds.
        let sockets = before.map(Port::close).unwrap_or_default();
        if sockets.is_empty() { Ok(()) } else { self.run(move |inside| inside.reclaim(&sockets)) }
    }

    fn wake(&self) {
        // A full pipe means that the thread is awake.
        let _ = self.wake.write(1);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.work = None;
        self.wake();
    }
}

/// The thread's end of the channel.
#[derive(Debug)]
pub(crate) struct Requests {
    work: Receiver<Work>,
    wake: Arc<EventFd>,
}

impl Requests {
    /// Serves requests; returns false if no handle exists any more.
    pub(crate) fn serve(&self, inside: &mut ThreadState) -> bool {
        loop {
            match self.work.try_recv() {
                Ok(work) => work(inside),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Clears the descriptor until the next request.
    pub(crate) fn woken(&self) {
        // Nothing to read: no request.
        let _ = self.wake.read();
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

pub(crate) fn pair() -> io::Result<(Control, Requests)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake = Arc::new(EventFd::from_flags(flags)?);
    let (sender, work) = channel();
    Ok((Control { work: Some(sender), wake: wake.clone() }, Requests { work, wake }))
}

#[cfg(test)]
mod tests {
    use onbeat_frer::prp::{LanPort, Parameters};
    use onbeat_wire::MacAddress;

    use super::*;

    /// A frame that waits sets the time of the thread back, to that of the last frame before it.
    #[test]
    fn a_waiting_frame_does_not_prolong_the_silence_after_a_start() {
        let lan = |port| LanPort { port: PortId(port), mac: MacAddress([2, 0, 0, 0, 1, port]) };
        let parameters = Parameters {
            a: lan(0),
            b: lan(1),
            host: PortId(2),
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            is_segment: false,
            entry_forget_ms: 400,
            node_forget_ms: 60_000,
            max_nodes: 8,
        };
        let mut plane = Plane::new(3);
        plane.set_lre(Some(&parameters), Clock::read().now_ns());
        let mut inside = ThreadState::new(plane);
        let silence_ms = (parameters.reboot_silence_ns() / 1_000_000) as u32;
        for now_ns in [0, inside.now_ns] {
            inside.now_ns = now_ns;
            let next_ms = inside.supervise().expect("an entity");
            assert!((1..=silence_ms).contains(&next_ms), "{now_ns}: {next_ms} ms");
        }
    }
}
