//! How others reach the streams of a forwarding thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};

use nix::sys::eventfd::{EfdFlags, EventFd};
use onbeat_frer::plane::Plane;
use onbeat_frer::spec::PortId;
use onbeat_link::raw::{Clock, Pool};

use crate::port::{Input, Output, Port};
use crate::{Error, QUEUE_FRAMES, Result, Traffic};

/// What a piece of work may look at and change.
#[derive(Debug)]
pub struct Inside {
    /// The streams.
    pub plane: Plane,
    /// Nanoseconds of CLOCK_MONOTONIC, up to which all frames that came have been decided on.
    pub now_ns: u64,
    /// When the last frame came that was decided on.
    pub(crate) latest_ns: u64,
    pub(crate) inputs: Vec<Option<Input>>,
    pub(crate) outputs: Vec<Option<Output>>,
    /// Room for the frames of ports by AF_XDP.
    pub(crate) pool: Option<Pool>,
    /// How much of it each of their queues has.
    pub(crate) level: u32,
}

impl Inside {
    pub(crate) fn new(plane: Plane) -> Self {
        let (inputs, outputs) = (Vec::new(), Vec::new());
        let mut inside =
            Self { plane, now_ns: 0, latest_ns: 0, inputs, outputs, pool: None, level: 0 };
        inside.look_at_clock();
        inside
    }

    /// Looks at the clock. Where frames wait it is no later than they are: a thread that had no CPU
    /// for a while begins no time-out that they end.
    pub(crate) fn look_at_clock(&mut self) {
        // Before the ports: what comes in between is later.
        let now_ns = Clock::read().now_ns();
        let none_waits = self.inputs.iter_mut().flatten().all(Input::is_empty);
        self.now_ns = if none_waits { now_ns } else { now_ns.min(self.latest_ns) };
    }

    /// Room for the frames of ports by AF_XDP, which all share its memory. To be set once, before
    /// the first of them.
    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    /// What came and went at a port since it was opened; `None` where there is none.
    pub fn traffic(&mut self, index: PortId) -> Option<Result<Traffic>> {
        let index = usize::from(index.0);
        let input = self.inputs.get_mut(index)?.as_mut()?;
        let output = self.outputs[index].as_ref()?;
        Some(input.traffic().map(|traffic| output.add_to(traffic)))
    }

    /// Makes `port` the streams' port number `index`, and gives the one before.
    fn exchange(&mut self, index: PortId, port: Option<Port>) -> Option<Port> {
        let index = usize::from(index.0);
        let many = self.inputs.len().max(index + 1);
        self.inputs.resize_with(many, || None);
        self.outputs.resize_with(many, || None);
        let (input, output) = port.map(|port| (port.input, port.output)).unzip();
        let before = (
            std::mem::replace(&mut self.inputs[index], input),
            std::mem::replace(&mut self.outputs[index], output),
        );
        self.share();
        let (Some(input), Some(output)) = before else { return None };
        Some(Port { input, output })
    }

    /// Shares the pool's frames among the queues: half of them, so that the other half can be on
    /// their way out.
    fn share(&mut self) {
        let Some(pool) = &self.pool else { return };
        let queues: usize = self.inputs.iter().flatten().map(Input::queues).sum();
        let share = pool.umem().chunks() / 2 / queues.max(1) as u32;
        self.level = share.clamp(1, QUEUE_FRAMES);
        self.refill();
    }

    /// Gives all queues room for frames to come.
    pub(crate) fn refill(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        for output in self.outputs.iter_mut().flatten() {
            // Takes back what has left meanwhile.
            output.flush(Some(pool));
        }
        for input in self.inputs.iter_mut().flatten() {
            input.refill(pool, self.level);
        }
    }

    fn reclaim(&mut self, sockets: &[u32]) {
        if let Some(pool) = &mut self.pool {
            sockets.iter().for_each(|socket| pool.reclaim(*socket));
        }
    }
}

type Work = Box<dyn FnOnce(&mut Inside) + Send>;

/// A handle on a forwarding thread, which ends when the last one is gone.
#[derive(Debug, Clone)]
pub struct Control {
    // Gone before the thread is woken.
    work: Option<Sender<Work>>,
    wake: Arc<EventFd>,
}

impl Control {
    /// Has the forwarding thread do something between two batches of frames, and waits for its
    /// result. Frames wait meanwhile: what takes long is better done before.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inside) -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = sync_channel(1);
        let work: Work = Box::new(move |inside| {
            // That nobody waits any more is no concern of the thread's.
            let _ = done.send(work(inside));
        });
        let sender = self.work.as_ref().ok_or(Error::Ended)?;
        sender.send(work).map_err(|_| Error::Ended)?;
        self.wake();
        result.recv().map_err(|_| Error::Ended)
    }

    /// Makes `port` the streams' port number `index`, in place of the one before, which is closed.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn set_port(&self, index: PortId, port: Option<Port>) -> Result<()> {
        let before = self.run(move |inside| inside.exchange(index, port))?;
        // Not by the thread: it takes the kernel milliseconds.
        let sockets = before.map(Port::close).unwrap_or_default();
        if sockets.is_empty() { Ok(()) } else { self.run(move |inside| inside.reclaim(&sockets)) }
    }

    fn wake(&self) {
        // Full means that it is awake.
        let _ = self.wake.write(1);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.work = None;
        self.wake();
    }
}

/// The thread's end.
#[derive(Debug)]
pub(crate) struct Requests {
    work: Receiver<Work>,
    wake: Arc<EventFd>,
}

impl Requests {
    /// Does what is asked for; false where nobody will ask any more.
    pub(crate) fn serve(&self, inside: &mut Inside) -> bool {
        loop {
            match self.work.try_recv() {
                Ok(work) => work(inside),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Has the descriptor be silent until the next request.
    pub(crate) fn woken(&self) {
        // Nothing to read means that nobody called.
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
