//! Network load: senders of UDP datagrams, each at a rate of its own, and their receivers.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use onbeat_netdev::Namespace;
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt;

use super::report::{UdpReport, UdpSpec};
use super::source;
use crate::{Error, Result};

/// Maximum delay until a receiver notices that it shall stop.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between two datagrams during address resolution.
const KNOCK_NS: u64 = 50_000_000;
/// Time within which a datagram has arrived at each receiver, including address resolution.
const BOUND: Duration = Duration::from_secs(10);

/// Senders and receivers that run until stopped or dropped.
#[derive(Debug)]
pub struct UdpLoad {
    shared: Arc<UdpLoadState>,
    start_ns: u64,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct UdpLoadState {
    stop: AtomicBool,
    sent: AtomicU64,
    refused: AtomicU64,
    /// Counters by receiver.
    received: Vec<AtomicU64>,
}

impl UdpLoad {
    /// Starts to send from a namespace to these addresses of another one, in turn; returns once each
    /// receiver has received a datagram. All threads have the affinity of the caller.
    ///
    /// # Errors
    /// A socket cannot be opened, or no datagram arrives; [`Error::Interrupted`].
    pub fn start(
        from: &Namespace,
        to: &Namespace,
        addresses: &[IpAddr],
        spec: UdpSpec,
    ) -> Result<Self> {
        let received = addresses.iter().map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(UdpLoadState { received, ..UdpLoadState::default() });
        let mut load = Self { shared, start_ns: now_ns(), threads: Vec::new() };
        let mut targets = Vec::with_capacity(addresses.len());
        for (place, address) in addresses.iter().enumerate() {
            let opening = |error| Error::io(format!("receive datagrams at {address}"), error);
            let socket = to.run(|| UdpSocket::bind((*address, 0)))?.map_err(opening)?;
            socket.set_read_timeout(Some(LOOK)).map_err(opening)?;
            targets.push(socket.local_addr().map_err(opening)?);
            let shared = Arc::clone(&load.shared);
            load.add("lab-udp-sink", move || receive(&socket, &shared, place))?;
        }
        let connect = |target: &SocketAddr| {
            let open = || {
                let socket = UdpSocket::bind(("0.0.0.0", 0))?;
                socket.connect(target).map(|()| socket)
            };
            from.run(open)?.map_err(|error| Error::io(format!("send datagrams to {target}"), error))
        };
        let sockets = targets.iter().cycle().take(spec.senders).map(connect);
        let sockets: Vec<UdpSocket> = sockets.collect::<Result<_>>()?;
        load.find_the_way(&sockets)?;
        load.start_ns = now_ns();
        for socket in sockets {
            let shared = Arc::clone(&load.shared);
            load.add("lab-udp-source", move || send(&socket, &shared, spec))?;
        }
        Ok(load)
    }

    /// Sends datagrams until each receiver has received one: addresses are resolved then. Under full
    /// load that may take long, since requests and replies are in the same queues.
    fn find_the_way(&self, sockets: &[UdpSocket]) -> Result<()> {
        let mut next_ns = 0;
        let arrived = || {
            if now_ns() >= next_ns {
                next_ns = now_ns() + KNOCK_NS;
                // An unresolved address is no error here.
                let taken = sockets.iter().filter(|socket| socket.send(&[0]).is_ok()).count();
                self.shared.sent.fetch_add(taken as u64, Ordering::Relaxed);
            }
            self.shared.received.iter().all(|count| count.load(Ordering::Relaxed) > 0)
        };
        if interrupt::wait_until(BOUND, arrived)? {
            return Ok(());
        }
        let what = "arrival of background datagrams at every receiver".into();
        Err(Error::Timeout { what, seconds: BOUND.as_secs_f64() })
    }

    fn add(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        self.threads.push(super::start(name, run)?);
        Ok(())
    }

    /// Stops sending; returns the report. Datagrams in flight are not counted as received.
    #[must_use]
    pub fn stop(mut self) -> UdpReport {
        self.end();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        UdpReport {
            sent: count(&self.shared.sent),
            refused: count(&self.shared.refused),
            received: self.shared.received.iter().map(count).sum(),
            seconds: (now_ns() - self.start_ns) as f64 / SECOND as f64,
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The threads cannot fail.
            let _ = thread.join();
        }
    }
}

impl Drop for UdpLoad {
    fn drop(&mut self) {
        self.end();
    }
}

fn send(socket: &UdpSocket, shared: &UdpLoadState, spec: UdpSpec) {
    let payload = vec![0x5a; spec.payload_octets];
    let due = |after_ns| Some(spec.due(after_ns));
    source::send(socket, &payload, &shared.stop, due, [&shared.sent, &shared.refused]);
}

fn receive(socket: &UdpSocket, shared: &UdpLoadState, place: usize) {
    // Excess octets are cut off: only the number of datagrams is needed.
    let mut octets = [0; 8];
    while !shared.stop.load(Ordering::Relaxed) {
        match socket.recv(&mut octets) {
            Ok(_) => _ = shared.received[place].fetch_add(1, Ordering::Relaxed),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The interface was removed: no more datagrams will arrive.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_follows_its_rate() {
        let spec = UdpSpec::PAPER;
        assert_eq!(spec.due(SECOND), 8503, "100 Mbit/s of 11,760 bits each");
        assert_eq!(spec.due(117_600), 1);
        assert_eq!(spec.due(117_599), 0);
        assert_eq!(spec.due(3600 * SECOND), 30_612_244, "no drift after an hour");
    }

    #[test]
    fn datagrams_flow_from_every_sender_to_every_address() {
        let here = Namespace::current().unwrap();
        let addresses = ["127.0.0.1", "127.0.0.2"].map(|text| text.parse().unwrap());
        let spec = UdpSpec { senders: 4, bits_per_second: 1_000_000, payload_octets: 100 };
        let load = UdpLoad::start(&here, &here, &addresses, spec).unwrap();
        let report = load.stop();
        assert!(report.received >= 2 && report.sent >= report.received, "{report:?}");
        assert_eq!(report.refused, 0);
        assert!(report.bits_per_second(report.received, spec).unwrap() > 0.0);
        assert_eq!(UdpReport::default().bits_per_second(1, spec), None);
        let mut sum = report;
        sum.add(report);
        assert_eq!((sum.sent, sum.seconds), (2 * report.sent, 2.0 * report.seconds));
    }
}
