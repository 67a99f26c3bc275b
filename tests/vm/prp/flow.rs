//! Numbered datagrams of one direction.

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::network::{Host, Network, wait_for};

/// Interval of datagrams.
const INTERVAL: Duration = Duration::from_millis(2);

/// A link without frames for this time has delivered all of them: the longest delay is 20 ms.
const QUIET: Duration = Duration::from_millis(500);

/// Copies further apart may both be delivered: a number is remembered for half of EntryForgetTime at least, of 400 ms. The
/// longest delay is 20 ms, but a machine without CPU time of its host delivers nothing meanwhile.
const REMEMBERED: Duration = Duration::from_millis(200);

/// The result of a flow, in datagrams.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) sent: u32,
    pub(crate) lost: usize,
    /// Delivered more than once.
    pub(crate) twice: usize,
    /// Of them, with copies so far apart that this is permitted.
    pub(crate) late: usize,
}

impl Delivery {
    /// Datagrams delivered more than once that should not have been.
    pub(crate) fn repeated(&self) -> usize {
        self.twice - self.late
    }
}

/// When the copies of a datagram arrived.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    first: Duration,
    last: Duration,
    count: u32,
}

/// Receives a datagram; returns its number, and when it arrived. `None`: none within the time of the socket.
fn receive(sink: &UdpSocket) -> Option<(usize, Duration)> {
    let mut datagram = [0; 4];
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(&mut datagram)];
    let flags = MsgFlags::empty();
    let received = recvmsg::<()>(sink.as_raw_fd(), &mut parts, Some(&mut control), flags);
    let message = match received {
        Err(Errno::EAGAIN | Errno::EINTR) => return None,
        received => received.expect("it receives"),
    };
    let at = message.cmsgs().expect("control messages").find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
        _ => None,
    });
    Some((u32::from_be_bytes(datagram) as usize, at.expect("a time stamp")))
}

/// A sender and a receiver.
pub(crate) struct Flow<'a> {
    network: &'a Network,
    to: Host,
    sent: Arc<AtomicU32>,
    is_stopped: Arc<AtomicBool>,
    is_received: Arc<AtomicBool>,
    sender: JoinHandle<()>,
    receiver: JoinHandle<Vec<Option<Arrival>>>,
}

impl<'a> Flow<'a> {
    /// Starts to send.
    pub(crate) fn start(network: &'a Network, from: Host, to: Host) -> Self {
        let bind = |host| network.in_host(host, || UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        let (source, sink) = (bind(from), bind(to));
        // Room for all, on a slow machine too.
        setsockopt(&sink, sockopt::RcvBufForce, &(16 << 20)).expect("a receive buffer");
        setsockopt(&sink, sockopt::ReceiveTimestampns, &true).expect("time stamps");
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
            let mut arrivals: Vec<Option<Arrival>> = Vec::new();
            loop {
                match receive(&sink) {
                    Some((number, at)) => {
                        arrivals.resize(arrivals.len().max(number + 1), None);
                        let arrival = arrivals[number].get_or_insert(Arrival {
                            first: at,
                            last: at,
                            count: 0,
                        });
                        (arrival.last, arrival.count) = (at, arrival.count + 1);
                    }
                    None if is_end.load(Ordering::Relaxed) => return arrivals,
                    None => {}
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
        let arrivals = self.receiver.join().expect("it receives to the end");
        let sent = self.sent.load(Ordering::Relaxed);
        let arrived = arrivals.iter().flatten().count();
        let twice = arrivals.iter().flatten().filter(|arrival| arrival.count > 1);
        let late = |arrival: &&Arrival| {
            arrival.count == 2 && arrival.last.saturating_sub(arrival.first) >= REMEMBERED
        };
        let late = twice.clone().filter(late).count();
        Delivery { sent, lost: sent as usize - arrived, twice: twice.count(), late }
    }
}
