//! Network load: a sender of UDP datagrams whose rate changes over time.
//!
//! A sender wakes up every millisecond and sends the datagrams due by then, as iperf3 does by default
//! (its `--pacing-timer`). It makes up for delays.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::socket::{setsockopt, sockopt};
use onbeat_delay::probe::Profile;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use super::report::UdpReport;
use crate::worker::Worker;
use crate::{Error, Result};

/// Interval between two wake-ups of a sender.
const PACE_NS: u64 = 1_000_000;
/// Datagrams between two checks of the stop flag.
const BATCH: u64 = 64;

/// Destination of datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpTarget {
    /// Destination address.
    pub to: SocketAddr,
    /// Source address; `None`: chosen by routing.
    pub from: Option<IpAddr>,
    /// Egress interface, independent of routes.
    pub interface: Option<String>,
}

/// A sender that runs until its profile ends, or it is stopped or dropped.
#[derive(Debug)]
pub struct UdpSource {
    counters: Arc<UdpCounters>,
    start_ns: u64,
    /// Returns the time of its end.
    worker: Worker<u64>,
}

#[derive(Debug, Default)]
struct UdpCounters {
    sent: AtomicU64,
    refused: AtomicU64,
}

impl UdpSource {
    /// Starts to send datagrams with `octets` octets of payload from the namespace of the calling
    /// thread; `count` is the maximum number.
    ///
    /// # Errors
    /// The socket cannot be opened, or the interface does not exist.
    pub fn start(
        target: &UdpTarget,
        profile: Profile,
        count: Option<u64>,
        payload_octets: usize,
    ) -> Result<Self> {
        let UdpTarget { to, from, interface } = target;
        let failed = |error| Error::io(format!("send datagrams to {to}"), error);
        let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0_u16; 8]) };
        let socket = UdpSocket::bind((from.unwrap_or(any), 0)).map_err(failed)?;
        if let Some(name) = interface {
            setsockopt(&socket, sockopt::BindToDevice, &name.into())
                .map_err(|errno| Error::io(format!("send by interface {name}"), errno))?;
        }
        socket.connect(to).map_err(failed)?;
        let counters = Arc::new(UdpCounters::default());
        let theirs = Arc::clone(&counters);
        let start_ns = now_ns();
        let worker = Worker::start("lab-udp-source", move |stop| {
            let payload = vec![0x5a; payload_octets];
            let due = |after_ns| {
                let after_ns = i64::try_from(after_ns).unwrap_or(i64::MAX);
                let all = profile.due(after_ns);
                let limited = count.map_or(all, |count| all.min(count));
                let over = after_ns >= profile.duration_ns() || count == Some(limited);
                (!over || theirs.done() < limited).then_some(limited)
            };
            send(&socket, &payload, stop, due, [&theirs.sent, &theirs.refused]);
            now_ns()
        })?;
        Ok(Self { counters, start_ns, worker })
    }

    /// Whether all datagrams were sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Datagrams that the kernel accepted so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Stops sending; returns the report.
    #[must_use]
    pub fn stop(self) -> UdpReport {
        let end_ns = self.worker.stop();
        UdpReport {
            sent: self.counters.sent.load(Ordering::Relaxed),
            refused: self.counters.refused.load(Ordering::Relaxed),
            received: 0,
            seconds: end_ns.saturating_sub(self.start_ns) as f64 / SECOND as f64,
        }
    }
}

impl UdpCounters {
    fn done(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) + self.refused.load(Ordering::Relaxed)
    }
}

/// Sends due datagrams until `due` returns `None` or `stop` is set. `due` maps nanoseconds since the
/// start to datagrams since the start. Counts accepted and refused datagrams.
pub(super) fn send(
    socket: &UdpSocket,
    payload: &[u8],
    stop: &AtomicBool,
    due: impl Fn(u64) -> Option<u64>,
    [sent, refused]: [&AtomicU64; 2],
) {
    let start_ns = now_ns();
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = now_ns();
        let Some(due) = due(now - start_ns) else { return };
        // Checks the flag in between, so that a machine that cannot keep up still stops.
        let batch = due.saturating_sub(done).min(BATCH);
        for _ in 0..batch {
            match socket.send(payload) {
                Ok(_) => sent,
                Err(_) => refused,
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        done += batch;
        if done == due {
            sleep_until(now + PACE_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_realtime::interrupt::wait_until;
    use std::time::Duration;

    /// Maximum wait for an event that is expected at once.
    const BOUND: Duration = Duration::from_secs(60);

    fn target(sink: &UdpSocket) -> UdpTarget {
        UdpTarget { to: sink.local_addr().unwrap(), from: None, interface: Some("lo".into()) }
    }

    #[test]
    fn a_profile_is_sent_to_its_end() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let profile: Profile = "1000 for 50ms, 0 for 10ms, 0..2000 for 40ms".parse().unwrap();
        let source = UdpSource::start(&target(&sink), profile.clone(), None, 100).unwrap();
        assert!(wait_until(BOUND, || source.is_finished()).unwrap());
        let report = source.stop();
        assert_eq!((report.sent, report.refused), (90, 0));
        assert_eq!(sink.recv(&mut [0; 200]).unwrap(), 100);

        let source = UdpSource::start(&target(&sink), profile, Some(7), 100).unwrap();
        assert!(wait_until(BOUND, || source.is_finished()).unwrap());
        assert_eq!(source.stop().sent, 7);
    }

    #[test]
    fn a_missing_interface_is_named() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = UdpTarget { interface: Some("no-such".into()), ..target(&sink) };
        let profile: Profile = "1 for 1s".parse().unwrap();
        let error = UdpSource::start(&target, profile, None, 1).unwrap_err().to_string();
        assert!(error.contains("no-such"), "{error}");
    }
}
