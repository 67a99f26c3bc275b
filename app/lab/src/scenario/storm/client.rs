//! Senders: of datagrams at a constant rate or in bursts, and of stamps.

use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::socket::{setsockopt, sockopt};
use onbeat_realtime::Profile;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use crate::worker::Worker;
use crate::{Error, Result};
use onbeat_wire::random::Random;

/// Octets of a datagram, as in the paper.
const OCTETS: usize = 512;
/// Minimum wait for which the thread sleeps.
const PACE_NS: u64 = 50_000;
/// A veth pair counts packets at the sender until the receiver has processed them. The queues of the receiving side hold
/// 1,256 packets, which must not block a sender that stands for another host.
const SEND_BUFFER: usize = 8 << 20;
/// Maximum interval between two checks of the clock.
const AT_ONCE: u64 = 32;

/// Schedule of datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pattern {
    /// A constant rate per second.
    Constant { rate: u64 },
    /// Bursts of geometric size with exponential gaps between them; `rate` is the mean.
    Bursts { rate: u64, mean: u64, top: u64, seed: u64 },
    /// As fast as possible.
    FlatOut,
}

/// A thread that sends until its time is over or it is stopped.
#[derive(Debug)]
pub(super) struct Sender {
    sent: Arc<AtomicU64>,
    worker: Worker<()>,
}

impl Sender {
    /// Sends on a connected socket in this time of the monotonic clock. It keeps the time itself: a caller that other
    /// processes delay would make it send for longer.
    pub(super) fn start(socket: UdpSocket, pattern: Pattern, time: Range<u64>) -> Result<Self> {
        setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER)
            .map_err(|errno| Error::io("set the send buffer of the storm", errno))?;
        Self::spawn("lab-storm", move |stop, sent| storm(&socket, pattern, &time, stop, sent))
    }

    /// Starts to send `rate` stamps per second at a real-time priority: it stands for a device that
    /// sends on its own.
    pub(super) fn stamps(socket: UdpSocket, rate: u64) -> Result<Self> {
        let realtime = Profile::default().scheduled(onbeat_realtime::Scheduling::Fifo(80));
        Self::spawn("lab-stamps", move |stop, sent| {
            let _realtime = realtime.enter();
            stamps(&socket, rate, stop, sent);
        })
    }

    fn spawn(
        name: &str,
        run: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static,
    ) -> Result<Self> {
        let sent = Arc::new(AtomicU64::new(0));
        let inside = Arc::clone(&sent);
        Ok(Self { sent, worker: Worker::start(name, move |stop| run(stop, &inside))? })
    }

    /// Stops; returns the number of datagrams sent.
    pub(super) fn end(self) -> u64 {
        self.worker.stop();
        self.sent.load(Ordering::Relaxed)
    }
}

fn storm(
    socket: &UdpSocket,
    pattern: Pattern,
    time: &Range<u64>,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    // It stands for another host: processes beside it do not take its time. If refused, the rate is lower.
    // SAFETY: numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    let payload = [0x5a; OCTETS];
    sleep_until(time.start);
    let start = now_ns();
    let mut bursts = Bursts::of(pattern);
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = now_ns();
        if now >= time.end {
            break;
        }
        let elapsed = now - start;
        let due = match pattern {
            Pattern::Constant { rate } => {
                (u128::from(elapsed) * u128::from(rate) / u128::from(SECOND)) as u64
            }
            Pattern::Bursts { .. } => bursts.due(elapsed),
            Pattern::FlatOut => u64::MAX,
        };
        let batch = due.saturating_sub(done).min(AT_ONCE);
        for _ in 0..batch {
            // A datagram refused for lack of room was sent, and is lost.
            let _ = socket.send(&payload);
        }
        done += batch;
        sent.store(done, Ordering::Relaxed);
        if batch == 0 {
            sleep_until(now_ns() + PACE_NS);
        }
    }
}

/// Schedule of bursts.
struct Bursts {
    random: Random,
    mean: f64,
    gap_ns: f64,
    due: u64,
    next_ns: f64,
}

impl Bursts {
    fn of(pattern: Pattern) -> Self {
        let (rate, mean, top, seed) = match pattern {
            Pattern::Bursts { rate, mean, top, seed } => (rate, mean, top, seed),
            _ => (1, 1, 1, 0),
        };
        let ns = |rate: u64| mean as f64 * SECOND as f64 / rate.max(1) as f64;
        // From the start of a burst to that of the next one: at least as long as the burst.
        let gap_ns = ns(rate).max(ns(top));
        Self { random: Random::new(seed), mean: mean as f64, gap_ns, due: 0, next_ns: 0.0 }
    }

    /// A number in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.random.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn due(&mut self, elapsed_ns: u64) -> u64 {
        while self.next_ns <= elapsed_ns as f64 {
            let stays = 1.0 - 1.0 / self.mean.max(1.0 + f64::EPSILON);
            let size = (self.uniform().ln() / stays.ln()).floor() as u64 + 1;
            self.due = self.due.saturating_add(size);
            self.next_ns += -self.uniform().ln() * self.gap_ns;
        }
        self.due
    }
}

fn stamps(socket: &UdpSocket, rate: u64, stop: &AtomicBool, sent: &AtomicU64) {
    let start = now_ns();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        sleep_until(start + number * SECOND / rate.max(1));
        let mut payload = [0; 64];
        payload[..8].copy_from_slice(&now_ns().to_ne_bytes());
        let _ = socket.send(&payload);
        number += 1;
        sent.store(number, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_the_mean_size_and_the_rate() {
        let pattern = Pattern::Bursts { rate: 10_000, mean: 500, top: 1_000_000, seed: 7 };
        let mut bursts = Bursts::of(pattern);
        let (mut sizes, mut last) = (Vec::new(), 0);
        for ms in 0..1_000_000 {
            let due = bursts.due(ms * 1_000_000);
            if due > last {
                sizes.push(due - last);
            }
            last = due;
        }
        let rate = last as f64 / 1000.0;
        assert!((9_500.0..10_500.0).contains(&rate), "{rate}");
        let mean = last as f64 / sizes.len() as f64;
        assert!((450.0..600.0).contains(&mean), "{mean}");
        assert!(sizes.iter().any(|size| *size < 50) && sizes.iter().any(|size| *size > 1500));
        let again = Bursts::of(pattern).due(1_000_000_000);
        assert_eq!(again, Bursts::of(pattern).due(1_000_000_000), "a seed determines the sequence");
    }
}
