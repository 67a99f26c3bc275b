//! Transmission of a stream by an absolute schedule, or as fast as possible.

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

/// Rate of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Frames per second.
    PerSecond(u64),
    /// As fast as possible.
    Max,
}

/// Configuration of a source.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Number of the stream.
    pub stream: u32,
    /// Headers and size of its frames.
    pub frame: FrameSpec,
    /// Its rate.
    pub rate: Rate,
    /// Maximum number of frames; `None`: until stopped.
    pub limit: Option<u64>,
    /// Time before each due frame during which the source polls the clock instead of sleeping. It
    /// improves the precision and occupies a CPU.
    pub spin: Duration,
}

/// A stream in transmission.
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

/// Report of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceReport {
    /// Number of the stream.
    pub stream: u32,
    /// Frames that the interface accepted: 0 to `sent - 1`.
    pub sent: u64,
    /// Number of times that the interface had no room; the frame was sent again.
    pub retries: u64,
    /// Maximum delay of a transmission, in ns.
    pub latest_ns: u64,
    /// Due time of frame 0 (CLOCK_MONOTONIC, ns).
    pub start_ns: u64,
    /// End of the last transmission (CLOCK_MONOTONIC, ns).
    pub end_ns: u64,
    /// The schedule.
    pub rate: Rate,
}

impl SourceReport {
    /// Due time of frame `sequence`; without a schedule, its proportional share of the time.
    #[must_use]
    pub fn intended_ns(&self, sequence: u64) -> u64 {
        let offset = match self.rate {
            Rate::PerSecond(rate) => scaled(sequence, SECOND, rate),
            Rate::Max => scaled(sequence, self.end_ns - self.start_ns, self.sent),
        };
        self.start_ns + offset
    }

    /// Achieved rate in frames per second.
    #[must_use]
    pub fn achieved(&self) -> f64 {
        // The period of the last frame is part of the time; it is not in `end_ns`.
        let seconds = (self.end_ns.saturating_sub(self.start_ns)) as f64 / SECOND as f64;
        self.sent.saturating_sub(1) as f64 / seconds
    }
}

fn scaled(sequence: u64, time_ns: u64, frames: u64) -> u64 {
    (u128::from(sequence) * u128::from(time_ns) / u128::from(frames.max(1))) as u64
}

impl Source {
    /// Starts to send into an interface.
    ///
    /// # Errors
    /// The frame is invalid, the rate is 0, or the interface does not exist.
    pub fn start(namespace: &Namespace, interface: &str, config: SourceConfig) -> Result<Self> {
        if config.rate == Rate::PerSecond(0) {
            let reason = "use at least 1".into();
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

    /// The transmission of frames below this number has started; other frames are sent after this call.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.progress.begun.load(Ordering::Acquire)
    }

    /// Frames below this number have been sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }

    /// Whether it has stopped by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Stops sending.
    ///
    /// # Errors
    /// The error that stopped it: the interface is down or was removed.
    pub fn stop(self) -> Result<SourceReport> {
        self.worker.stop()
    }
}

struct SourceThread {
    config: SourceConfig,
    /// One frame per batch entry.
    frames: Vec<Vec<u8>>,
    /// Offset of the payload.
    payload: usize,
    socket: PacketSocket,
    progress: Arc<SourceProgress>,
    retries: u64,
    latest_ns: u64,
}

/// Number of refused attempts after which a source yields to its priority, and then sleeps for lower
/// priorities: a NAPI thread on the same CPU may have to make room, which a real-time source would
/// preempt until the kernel throttles real-time threads.
const YIELDS: u32 = 8;
const PAUSE_NS: u64 = 50_000;
/// Time between the start of the thread and the first frame.
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
                    // All frames due by now are sent in one batch, by which a late source catches up.
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

    /// Sends frames `next..next + count`; returns the number accepted, less than `count` only if
    /// stopped.
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

/// Returns false once the source is stopped: a slow one does not wait for its next frame.
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
        // 1 s / 7 is no whole number of nanoseconds: after a day the schedule is still exact.
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
