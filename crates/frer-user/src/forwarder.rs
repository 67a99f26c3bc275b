//! The thread that frames go through.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use onbeat_frer::plane::{Fate, Plane};
use onbeat_frer::spec::PortId;

use crate::control::{self, Control, Inside, Requests};
use crate::packet::Output;
use crate::{Error, Result};

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

/// A forwarding thread.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<()>,
    control: Control,
}

impl Forwarder {
    /// Begins to forward by the streams of `plane`, at first without ports. `prepare` is what the
    /// thread does first: priority, affinity, locked memory; what it gives is kept until the end.
    ///
    /// # Errors
    /// What `prepare` says; no thread.
    pub fn start<T>(
        plane: Plane,
        poll: Poll,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<Self> {
        let system = |what| move |source| Error::System { what, source };
        let (control, requests) = control::pair().map_err(system("make a control channel"))?;
        let inside = Inside::new(plane, now_ns());
        let forwarding = Forwarding { inside, requests };
        let (ready, is_ready) = sync_channel(1);
        let run = move || {
            let (_kept, prepared) = match prepare() {
                Ok(kept) => (Some(kept), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let go = prepared.is_ok();
            // Who started it waits for this.
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
    inside: Inside,
    requests: Requests,
}

impl Forwarding {
    fn run(mut self, poll: Poll) {
        let mut idle = 0;
        loop {
            if self.round() > 0 {
                idle = 0;
            } else if poll == Poll::Busy && idle < IDLE_ROUNDS {
                idle += 1;
                std::hint::spin_loop();
                continue;
            } else if poll == Poll::Busy {
                idle = 0;
            } else {
                self.sleep();
            }
            // Under load, too.
            self.inside.now_ns = now_ns();
            if !self.requests.serve(&mut self.inside) {
                return;
            }
        }
    }

    /// Forwards up to a batch of each port; how many frames that were.
    fn round(&mut self) -> usize {
        let Inside { plane, inputs, outputs, now_ns } = &mut self.inside;
        *now_ns = self::now_ns();
        let mut frames = 0;
        for (port, input) in inputs.iter_mut().enumerate() {
            let Some(input) = input else { continue };
            for _ in 0..BATCH {
                let taken = input.take(|octets| {
                    let fate = plane.frame(PortId(port as u8), *now_ns, octets);
                    let Fate::Sent(replicas) = fate else { return };
                    for replica in replicas {
                        // A port that is away takes nothing.
                        let to = outputs.get_mut(usize::from(replica.port.0));
                        let Some(Some(output)) = to else { continue };
                        output.push(replica.max_len(), |room| {
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
            outputs.iter_mut().flatten().for_each(Output::flush);
        }
        frames
    }

    /// Until a frame or a request comes.
    fn sleep(&self) {
        let inputs = || self.inside.inputs.iter().flatten();
        let mut fds: Vec<_> =
            inputs().map(|input| PollFd::new(input.as_fd(), PollFlags::POLLIN)).collect();
        fds.push(PollFd::new(self.requests.as_fd(), PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => tracing::error!("waiting for frames: {errno}"),
        }
        self.requests.woken();
        for (fd, input) in fds.iter().zip(inputs()) {
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
