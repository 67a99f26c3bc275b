//! Numbered datagrams of one direction.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use crate::network::{Host, Network, wait_for};

/// Interval of datagrams.
const INTERVAL: Duration = Duration::from_millis(2);

/// A link without frames for this time has delivered all of them: the longest delay is 20 ms.
const QUIET: Duration = Duration::from_millis(500);

/// The result of a flow, in datagrams.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) sent: u32,
    pub(crate) lost: usize,
    /// Delivered more than once.
    pub(crate) twice: usize,
}

/// A sender and a receiver.
pub(crate) struct Flow<'a> {
    network: &'a Network,
    to: Host,
    sent: Arc<AtomicU32>,
    is_stopped: Arc<AtomicBool>,
    is_received: Arc<AtomicBool>,
    sender: JoinHandle<()>,
    receiver: JoinHandle<Vec<u32>>,
}

impl<'a> Flow<'a> {
    /// Starts to send.
    pub(crate) fn start(network: &'a Network, from: Host, to: Host) -> Self {
        let bind = |host| network.in_host(host, || UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        let (source, sink) = (bind(from), bind(to));
        // Room for all, on a slow machine too.
        setsockopt(&sink, sockopt::RcvBufForce, &(16 << 20)).expect("a receive buffer");
        sink.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let port = sink.local_addr().expect("its address").port();
        let (sent, is_stopped, is_received) = (
            Arc::<AtomicU32>::default(),
            Arc::<AtomicBool>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (counter, is_end) = (sent.clone(), is_stopped.clone());
        let sender = thread::spawn(move || {
            while !is_end.load(Ordering::Relaxed) {
                let number = counter.load(Ordering::Relaxed);
                let datagram = number.to_be_bytes();
                source.send_to(&datagram, (to.address(), port)).expect("it sends");
                counter.store(number + 1, Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
        });
        let is_end = is_received.clone();
        let receiver = thread::spawn(move || {
            let mut counts = Vec::new();
            let mut datagram = [0; 4];
            loop {
                match sink.recv(&mut datagram) {
                    Ok(_) => {
                        let number = u32::from_be_bytes(datagram) as usize;
                        counts.resize(counts.len().max(number + 1), 0);
                        counts[number] += 1;
                    }
                    Err(_) if is_end.load(Ordering::Relaxed) => return counts,
                    Err(_) => {}
                }
            }
        });
        Self { network, to, sent, is_stopped, is_received, sender, receiver }
    }

    /// Waits until more datagrams have been sent.
    pub(crate) fn advance(&self, datagrams: u32) {
        let end = self.sent.load(Ordering::Relaxed) + datagrams;
        wait_for("datagrams to be sent", || self.sent.load(Ordering::Relaxed) >= end);
    }

    /// Stops sending, waits until no more frames arrive, and counts.
    pub(crate) fn finish(self) -> Delivery {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.sender.join().expect("it sends to the end");
        let frames = || {
            self.to
                .lans()
                .iter()
                .map(|lan| self.network.received(self.to, *lan))
                .collect::<Vec<_>>()
        };
        let mut before = frames();
        // Supervision and ARP are few: less than the datagrams of a tenth of this time.
        wait_for("the last frame", || {
            thread::sleep(QUIET);
            let now = frames();
            let few = now.iter().zip(&before).all(|(now, before)| now - before < 25);
            before = now;
            few
        });
        self.is_received.store(true, Ordering::Relaxed);
        let counts = self.receiver.join().expect("it receives to the end");
        let sent = self.sent.load(Ordering::Relaxed);
        let arrived = counts.iter().filter(|count| **count > 0).count();
        let twice = counts.iter().filter(|count| **count > 1).count();
        Delivery { sent, lost: sent as usize - arrived, twice }
    }
}
