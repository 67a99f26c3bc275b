//! The thread that frames go through.

use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use onbeat_frer::plane::{Fate, Plane};
use onbeat_frer::spec::PortId;
use onbeat_netdev::{Handle, Namespace};

use crate::control::{self, Control, Requests};
use crate::packet::{self, Input, Output};
use crate::{Error, Result, Traffic};

/// Frames of one port before those of the next.
const BATCH: usize = 64;

/// Rounds without a frame after which a busy thread looks for control requests again: they then
/// wait for some microseconds.
const IDLE_ROUNDS: u32 = 64;

/// How the thread waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Poll {
    /// It sleeps until the kernel wakes it.
    #[default]
    Sleep,
    /// It never sleeps: a core of its own for the shortest delay.
    Busy,
}

/// How frames are forwarded.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the thread waits.
    pub poll: Poll,
    /// Frames that each port has room for while the thread is busy.
    pub frames: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { poll: Poll::default(), frames: 4096 }
    }
}

/// A forwarding thread.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<()>,
    control: Control,
}

impl Forwarder {
    /// Begins to forward between these interfaces of a namespace, by the streams of `plane`: port
    /// number `n` is `interfaces[n]`. `prepare` is what the thread does first: priority, affinity,
    /// locked memory.
    ///
    /// # Errors
    /// An interface that is not there or of which packet sockets are refused; what `prepare` says.
    pub fn start(
        namespace: &Namespace,
        interfaces: &[String],
        plane: Plane,
        options: &Options,
        prepare: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<Self> {
        let handle = Handle::in_namespace(namespace)?;
        let mut longest = 0;
        for interface in interfaces {
            longest = longest.max(packet::longest(handle.link(interface)?.mtu));
        }
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for interface in interfaces {
            let (input, output) = packet::open(namespace, interface, options.frames, longest)?;
            inputs.push(input);
            outputs.push(output);
        }
        let system = |what| move |source| Error::System { what, source };
        let (control, requests) = control::pair().map_err(system("make a control channel"))?;
        let traffic = vec![Traffic::default(); interfaces.len()];
        let forwarding = Forwarding { plane, inputs, outputs, requests, traffic };
        let poll = options.poll;
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let prepared = prepare();
            let go = prepared.is_ok();
            let _ = ready.send(prepared);
            if go {
                forwarding.run(poll);
            }
        };
        let thread = thread::Builder::new().name("onbeat-frer".into()).spawn(run);
        let thread = thread.map_err(system("start the forwarding thread"))?;
        is_ready
            .recv()
            .map_err(|_| Error::Ended)?
            .map_err(system("prepare the forwarding thread"))?;
        Ok(Self { thread, control })
    }

    /// A handle on it.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Ends it, where no other handle is left.
    pub fn stop(self) {
        drop(self.control);
        if self.thread.join().is_err() {
            tracing::error!("the forwarding thread panicked");
        }
    }
}

struct Forwarding {
    plane: Plane,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    requests: Requests,
    traffic: Vec<Traffic>,
}

impl Forwarding {
    fn run(mut self, poll: Poll) {
        let mut idle = 0;
        loop {
            if self.round() > 0 {
                idle = 0;
                // Requests are served under load, too.
                if !self.serve() {
                    return;
                }
                continue;
            }
            match poll {
                Poll::Busy if idle < IDLE_ROUNDS => {
                    idle += 1;
                    std::hint::spin_loop();
                }
                Poll::Busy => {
                    idle = 0;
                    if !self.serve() {
                        return;
                    }
                }
                Poll::Sleep => {
                    self.sleep();
                    if !self.serve() {
                        return;
                    }
                }
            }
        }
    }

    /// Forwards up to a batch of each port; how many frames that were.
    fn round(&mut self) -> usize {
        let Self { plane, inputs, outputs, .. } = self;
        let now_ns = now_ns();
        let mut frames = 0;
        for (port, input) in inputs.iter_mut().enumerate() {
            let port = PortId(port as u8);
            for _ in 0..BATCH {
                let taken = input.take(|octets| {
                    let Fate::Sent(replicas) = plane.frame(port, now_ns, octets) else { return };
                    for replica in replicas {
                        outputs[usize::from(replica.port.0)].push(replica.max_len(), |room| {
                            replica.write(room).expect("as much room as it asks for")
                        });
                    }
                });
                if !taken {
                    break;
                }
                frames += 1;
            }
        }
        if frames > 0 {
            outputs.iter_mut().for_each(Output::flush);
        }
        frames
    }

    /// Does what others ask for; false where nobody can ask any more.
    fn serve(&mut self) -> bool {
        let Self { plane, traffic, requests, inputs, outputs } = self;
        requests.serve(plane, traffic, now_ns, |traffic| {
            for ((input, output), traffic) in inputs.iter_mut().zip(outputs).zip(traffic) {
                match input.traffic() {
                    Ok(received) => *traffic = received,
                    Err(error) => tracing::debug!("statistics of a packet socket: {error}"),
                }
                (traffic.sent, traffic.not_sent) = output.sent();
            }
        })
    }

    /// Until a frame or a request comes.
    fn sleep(&self) {
        let mut fds: Vec<_> =
            self.inputs.iter().map(|input| PollFd::new(input.as_fd(), PollFlags::POLLIN)).collect();
        fds.push(PollFd::new(self.requests.as_fd(), PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => tracing::error!("waiting for frames: {errno}"),
        }
        self.requests.woken();
        for (fd, input) in fds.iter().zip(&self.inputs) {
            if fd.revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
                input.take_error();
            }
        }
    }
}

/// The clock of time-outs, which are told in milliseconds: the one that costs next to nothing.
fn now_ns() -> u64 {
    let time =
        clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).expect("a clock that always is there");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}
