//! How others reach the streams of a forwarding thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};

use nix::sys::eventfd::{EfdFlags, EventFd};
use onbeat_frer::plane::Plane;
use onbeat_frer::spec::PortId;

use crate::packet::{Input, Output, Port};
use crate::{Error, Result, Traffic};

/// What a piece of work may look at and change.
#[derive(Debug)]
pub struct Inside {
    /// The streams.
    pub plane: Plane,
    /// Nanoseconds of the clock that the streams know.
    pub now_ns: u64,
    pub(crate) inputs: Vec<Option<Input>>,
    pub(crate) outputs: Vec<Option<Output>>,
}

impl Inside {
    pub(crate) fn new(plane: Plane, now_ns: u64) -> Self {
        Self { plane, now_ns, inputs: Vec::new(), outputs: Vec::new() }
    }

    /// Makes `port` the streams' port number `index`, in place of the one before.
    pub fn set_port(&mut self, index: PortId, port: Option<Port>) {
        let index = usize::from(index.0);
        let many = self.inputs.len().max(index + 1);
        self.inputs.resize_with(many, || None);
        self.outputs.resize_with(many, || None);
        let (input, output) = port.map(|port| (port.input, port.output)).unzip();
        (self.inputs[index], self.outputs[index]) = (input, output);
    }

    /// What came and went at a port since it was opened; `None` where there is none.
    pub fn traffic(&mut self, index: PortId) -> Option<io::Result<Traffic>> {
        let index = usize::from(index.0);
        let input = self.inputs.get_mut(index)?.as_mut()?;
        let output = self.outputs[index].as_ref()?;
        Some(input.traffic().map(|traffic| output.add_to(traffic)))
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
