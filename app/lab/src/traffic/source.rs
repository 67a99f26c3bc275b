//! Sends a stream by an absolute schedule, or as fast as the machine goes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_netdev::{Namespace, PacketSocket};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use super::frame::FrameSpec;
use super::socket::{self, BATCH};
use super::stamp::Stamp;
use crate::worker::Worker;
use crate::{Error, Result};

/// How fast a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// So many frames per second.
    PerSecond(u64),
    /// As fast as the machine goes.
    Max,
}

/// What a source sends, and when.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Number of the stream.
    pub stream: u32,
    /// What its frames look like.
    pub frame: FrameSpec,
    /// How fast.
    pub rate: Rate,
    /// How many frames at most; `None`: until it is stopped.
    pub limit: Option<u64>,
    /// How long before each frame is due the source stops sleeping and watches the clock instead.
    /// It makes the sending more punctual and costs a CPU.
    pub spin: Duration,
}

/// A stream that is being sent.
#[derive(Debug)]
pub struct Source {
    progress: Arc<SourceProgress>,
    worker: Worker<Result<SourceReport>>,
}

#[derive(Debug, Default)]
struct SourceProgress {
    begun: AtomicU64,
    sent: AtomicU64,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceReport {
    /// Number of the stream.
    pub stream: u32,
    /// Frames that the interface took: 0 to `sent - 1`.
    pub sent: u64,
    /// Times the interface had no room for a frame; the frame was offered again until it had.
    pub retries: u64,
    /// How much later than intended a frame was sent at most, in ns.
    pub latest_ns: u64,
    /// When frame 0 was due (CLOCK_MONOTONIC, ns).
    pub start_ns: u64,
    /// When the last frame had been sent (CLOCK_MONOTONIC, ns).
    pub end_ns: u64,
    /// The schedule.
    pub rate: Rate,
}

impl SourceReport {
    /// When frame `sequence` was due; without a schedule, the share of the time that it took.
    #[must_use]
    pub fn intended_ns(&self, sequence: u64) -> u64 {
        let offset = match self.rate {
            Rate::PerSecond(rate) => scaled(sequence, SECOND, rate),
            Rate::Max => scaled(sequence, self.end_ns - self.start_ns, self.sent),
        };
        self.start_ns + offset
    }

    /// Frames per second that were really sent.
    #[must_use]
    pub fn achieved(&self) -> f64 {
        // The last frame's period belongs to the time, too; it is not in `end_ns`.
        let seconds = (self.end_ns.saturating_sub(self.start_ns)) as f64 / SECOND as f64;
        self.sent.saturating_sub(1) as f64 / seconds
    }
}

fn scaled(sequence: u64, time_ns: u64, frames: u64) -> u64 {
    (u128::from(sequence) * u128::from(time_ns) / u128::from(frames.max(1))) as u64
}

impl Source {
    /// Begins to send into an interface.
    ///
    /// # Errors
    /// Where the frame cannot be made, the rate is 0, or the interface is not there.
    pub fn start(namespace: &Namespace, interface: &str, config: SourceConfig) -> Result<Self> {
        if config.rate == Rate::PerSecond(0) {
            let reason = "a stream has at least one frame per second".into();
            return Err(Error::Option { option: "rate", value: "0".into(), reason });
        }
        let (frame, payload) = config.frame.build()?;
        let socket = socket::sender(namespace, interface)?;
        let progress = Arc::new(SourceProgress::default());
        let sender = SourceThread {
            frames: vec![frame; BATCH],
            payload,
            socket,
            progress: Arc::clone(&progress),
            config,
            retries: 0,
            latest_ns: 0,
        };
        Ok(Self { progress, worker: Worker::start("lab-source", move |stop| sender.run(stop))? })
    }

    /// Frames below this number had been begun to be sent: one not below it, later than now.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.progress.begun.load(Ordering::Acquire)
    }

    /// Frames below this number have been sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Stops sending.
    ///
    /// # Errors
    /// Why it had stopped by itself: the interface was turned off or is gone.
    pub fn stop(self) -> Result<SourceReport> {
        self.worker.stop()
    }
}

struct SourceThread {
    config: SourceConfig,
    /// A frame for each place of a batch.
    frames: Vec<Vec<u8>>,
    /// Where the payload begins.
    payload: usize,
    socket: PacketSocket,
    progress: Arc<SourceProgress>,
    retries: u64,
    latest_ns: u64,
}

/// So often a source whose frames find no room lets others of its priority run, and then those below
/// it, too: who makes room may be a thread of NAPI on the same CPU, which a real-time source would keep
/// from it until the kernel throttles real-time threads.
const YIELDS: u32 = 8;
const PAUSE_NS: u64 = 50_000;
/// Between the start of the thread and the first frame.
const LEAD_NS: u64 = 200_000;

impl SourceThread {
    fn run(mut self, stop: &AtomicBool) -> Result<SourceReport> {
        let start_ns = now_ns() + LEAD_NS;
        let spin_ns = self.config.spin.as_nanos() as u64;
        let limit = self.config.limit.unwrap_or(u64::MAX);
        let mut next = 0;
        while next < limit && !stop.load(Ordering::Acquire) {
            let count = match self.config.rate {
                Rate::Max => BATCH as u64,
                Rate::PerSecond(rate) => {
                    let due = start_ns + scaled(next, SECOND, rate);
                    if !wait_until(due, spin_ns, stop) {
                        break;
                    }
                    // All that are due by now go in one batch: that is how a late source catches up.
                    let late = now_ns().saturating_sub(due);
                    1 + (u128::from(late) * u128::from(rate) / u128::from(SECOND)) as u64
                }
            };
            let count = count.min(BATCH as u64).min(limit - next);
            let taken = self.send(next, count, start_ns, stop)?;
            next += taken;
            if taken < count {
                break;
            }
        }
        Ok(SourceReport {
            stream: self.config.stream,
            sent: next,
            retries: self.retries,
            latest_ns: self.latest_ns,
            start_ns,
            end_ns: now_ns(),
            rate: self.config.rate,
        })
    }

    /// Sends frames `next..next + count`; how many were taken, fewer only where it is stopped.
    fn send(&mut self, next: u64, count: u64, start_ns: u64, stop: &AtomicBool) -> Result<u64> {
        for (sequence, frame) in (next..next + count).zip(&mut self.frames) {
            let actual_ns = now_ns();
            let intended_ns = match self.config.rate {
                Rate::PerSecond(rate) => start_ns + scaled(sequence, SECOND, rate),
                Rate::Max => actual_ns,
            };
            self.latest_ns = self.latest_ns.max(actual_ns.saturating_sub(intended_ns));
            let stream = self.config.stream;
            Stamp { stream, sequence, intended_ns, actual_ns }.emit(&mut frame[self.payload..]);
        }
        self.progress.begun.store(next + count, Ordering::Release);
        let (mut taken, mut refused) = (0, 0);
        while taken < count {
            let frames =
                self.frames[taken as usize..count as usize].iter().map(|frame| [&frame[..]]);
            match self.socket.send_parts(frames, libc::MSG_DONTWAIT) {
                Ok(sent) => {
                    taken += sent as u64;
                    refused = 0;
                }
                Err(error) if no_room(&error) => {
                    self.retries += 1;
                    refused += 1;
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    if refused <= YIELDS {
                        thread::yield_now();
                    } else {
                        sleep_until(now_ns() + PAUSE_NS);
                    }
                }
                Err(error) => {
                    return Err(Error::io(
                        format!("send frame {} of stream {}", next + taken, self.config.stream),
                        error,
                    ));
                }
            }
            self.progress.sent.store(next + taken, Ordering::Release);
        }
        Ok(taken)
    }
}

/// False once the source is stopped: a slow one need not wait for its next frame.
fn wait_until(due: u64, spin_ns: u64, stop: &AtomicBool) -> bool {
    const LOOK_NS: u64 = 50_000_000;
    loop {
        let now = now_ns();
        if now + spin_ns >= due {
            break;
        }
        if stop.load(Ordering::Acquire) {
            return false;
        }
        sleep_until((due - spin_ns).min(now + LOOK_NS));
    }
    while now_ns() < due {
        std::hint::spin_loop();
    }
    true
}

fn no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_does_not_drift() {
        // 1 s / 7 is no whole number of nanoseconds: after a day it is still where it belongs.
        let report = SourceReport {
            stream: 0,
            sent: 0,
            retries: 0,
            latest_ns: 0,
            start_ns: 5,
            end_ns: 5,
            rate: Rate::PerSecond(7),
        };
        assert_eq!(report.intended_ns(7 * 86_400), 86_400 * SECOND + 5);
        assert_eq!(report.intended_ns(0), 5);
    }
}
