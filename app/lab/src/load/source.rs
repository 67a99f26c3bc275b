//! Load on the network: a sender of UDP datagrams whose rate changes over time.
//!
//! A sender wakes up every millisecond and sends what is due by then, as iperf3 does by default
//! (its `--pacing-timer`); what it is late with, it makes up for.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::socket::{setsockopt, sockopt};
use onbeat_delay::probe::Profile;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use super::report::UdpReport;
use crate::worker::Worker;
use crate::{Error, Result};

/// Between two wake-ups of a sender.
const PACE_NS: u64 = 1_000_000;
/// Datagrams that are sent between two looks at whether it is to stop.
const BATCH: u64 = 64;

/// Where datagrams go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpTarget {
    /// To whom.
    pub to: SocketAddr,
    /// From this address; `None`: as the host routes.
    pub from: Option<IpAddr>,
    /// By this interface, whatever the host's routes are.
    pub interface: Option<String>,
}

/// A sender, until its profile ends or this is stopped or dropped.
#[derive(Debug)]
pub struct UdpSource {
    counters: Arc<UdpCounters>,
    start_ns: u64,
    /// Returns when it ended.
    worker: Worker<u64>,
}

#[derive(Debug, Default)]
struct UdpCounters {
    sent: AtomicU64,
    refused: AtomicU64,
}

impl UdpSource {
    /// Begins to send datagrams of so many octets of payload, from the namespace that the calling thread
    /// is in. `count` is how many at most.
    ///
    /// # Errors
    /// Where the socket cannot be opened, or the interface is not there.
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

    /// Whether everything was sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Datagrams that the kernel took so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Stops sending, and says what became of it.
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

/// Sends what is due, told in datagrams since the start by nanoseconds since the start, until there is
/// nothing more (`None`) or until `stop`. Counts what the kernel took and what it did not.
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
        // Looks up in between, so that a machine that cannot keep up ends nevertheless.
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

    /// Longest wait for something that comes at once unless it never comes.
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
    fn an_interface_that_is_not_there_is_named() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = UdpTarget { interface: Some("no-such".into()), ..target(&sink) };
        let profile: Profile = "1 for 1s".parse().unwrap();
        let error = UdpSource::start(&target, profile, None, 1).unwrap_err().to_string();
        assert!(error.contains("no-such"), "{error}");
    }
}
