//! The session sender on a socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use onbeat_delay::probe::{ArrivalTimes, Counts, Key, Profile, Sample, Sender, Session};
use onbeat_wire::stamp::{AUTHENTICATED_LEN, ErrorEstimate, PACKET_LEN};

use crate::clock::SessionClock;
use crate::echo::estimate;
use crate::socket::{self, Socket};
use crate::{Error, Result};

/// Maximum length of the payload of a UDP datagram by IPv4, in octets.
const LONGEST: usize = 65_507;
/// Maximum number of probes sent, or replies received, before the other direction is served.
const BATCH: usize = 64;
/// Time from the start of the session to its first probe, in nanoseconds.
const AHEAD_NS: i64 = 10_000_000;
/// Maximum delay of a stop request, in nanoseconds.
const LOOK_NS: i64 = 200_000_000;

/// The configuration of a session.
#[derive(Debug, Clone)]
pub struct PingConfig {
    /// The reflector.
    pub to: SocketAddr,
    /// The source address; `None`: by the routing of the host.
    pub from: Option<IpAddr>,
    /// The intended transmission times of probes.
    pub profile: Profile,
    /// Maximum number of probes.
    pub count: Option<u64>,
    /// Octets of UDP payload, cyclic; at least one size.
    pub sizes: Vec<usize>,
    /// The timeout of a reply, in nanoseconds.
    pub timeout_ns: i64,
    /// The session's number (RFC 8972 3).
    pub id: u16,
    /// The key that authenticates probes, and that replies must have; `None`: no authentication.
    pub key: Option<Key>,
}

impl PingConfig {
    /// Minimum length of a probe in octets: 44, or 112 if authenticated.
    #[must_use]
    pub fn least_size(&self) -> usize {
        if self.key.is_some() { AUTHENTICATED_LEN } else { PACKET_LEN }
    }
}

/// The result of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PingReport {
    /// Counters of the sender.
    pub counts: Counts,
    /// Probes stamped on departure, and replies stamped on arrival, by the program, without a stamp of the kernel.
    pub stamped_late: [u64; 2],
    /// Probes that the kernel refused; they count as sent, and lost.
    pub refused: u64,
    /// The number of ICMP errors: destination unreachable.
    pub unreachable: u64,
    /// The number of times that this host's time of day was set. The times of the report do not contain it.
    pub clock_steps: u64,
    /// The error estimate of the reflector's clock.
    pub reflector: Option<ErrorEstimate>,
    /// Probes lost on the forward path, if the reflector's numbers show it.
    pub lost_there: Option<u64>,
    /// The time from the first probe to the end, in nanoseconds.
    pub took_ns: i64,
}

/// Runs a session to its end, or until `stop`, which is called several times per second and after each probe,
/// returns true. Each sample is passed to `take` once it is known, in order of transmission, with the counters so
/// far.
///
/// Times are of a clock that starts at the time of day, and does not step.
///
/// # Errors
/// There are no sizes, or a socket fails.
pub fn ping(
    config: &PingConfig,
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&Sample, &Counts),
) -> Result<PingReport> {
    let least = config.least_size();
    let wrong = config.sizes.iter().find(|size| !(least..=LONGEST).contains(*size));
    if let Some(size) = wrong.copied().or(config.sizes.is_empty().then_some(0)) {
        return Err(Error::Size { size, least });
    }
    let address = config.to;
    let connect = |source| Error::Connect { address, source };
    let unspecified = match address {
        SocketAddr::V4(_) => IpAddr::from([0; 4]),
        SocketAddr::V6(_) => IpAddr::from([0_u16; 8]),
    };
    let from = SocketAddr::new(config.from.unwrap_or(unspecified), 0);
    let socket = Socket::open(from, true).map_err(connect)?;
    socket.connect(address).map_err(connect)?;
    let mut run = PingSession::new(config, socket);
    run.carry_out(stop, each).map_err(|source| Error::Socket { address, source })?;
    Ok(run.report())
}

struct PingSession<'a> {
    config: &'a PingConfig,
    sockets: [Socket; 1],
    clock: SessionClock,
    sender: Sender,
    start_ns: i64,
    /// A probe's packet; the rest is zero.
    packet: Vec<u8>,
    room: Vec<u8>,
    /// The kernel's numbers of departures equal those of probes, as long as it accepts all of them.
    numbered_alike: bool,
    departures: u64,
    late_arrivals: u64,
    refused: u64,
    unreachable: u64,
}

impl<'a> PingSession<'a> {
    fn new(config: &'a PingConfig, socket: Socket) -> Self {
        let clock = SessionClock::new();
        let start_ns = clock.now_ns() + AHEAD_NS;
        let longest = config.sizes.iter().copied().max().unwrap_or(config.least_size());
        let sender = Sender::new(Session {
            profile: config.profile.clone(),
            count: config.count,
            start_ns,
            timeout_ns: config.timeout_ns,
            id: config.id,
            error_estimate: estimate(),
            key: config.key.clone(),
        });
        Self {
            config,
            sockets: [socket],
            clock,
            sender,
            start_ns,
            packet: vec![0; longest],
            // A datagram longer than any probe is not a reply, and must not be truncated to look like one.
            room: vec![0; longest + 1],
            numbered_alike: true,
            departures: 0,
            late_arrivals: 0,
            refused: 0,
            unreachable: 0,
        }
    }

    fn carry_out(
        &mut self,
        stop: &dyn Fn() -> bool,
        each: &mut dyn FnMut(&Sample, &Counts),
    ) -> io::Result<()> {
        let mut stopped = false;
        while !self.sender.is_done() {
            if !stopped && stop() {
                // Nothing more is sent; pending probes are completed as usual.
                stopped = true;
                self.sender.stop();
            }
            self.send()?;
            // Departures first: a probe's own stamp arrives before its reply.
            self.departures()?;
            self.receive()?;
            let now = self.clock.now_ns();
            while let Some(sample) = self.sender.expire(now) {
                each(&sample, self.sender.counts());
            }
            let next = [self.sender.next_send_ns(), self.sender.next_deadline_ns()];
            let Some(next) = next.into_iter().flatten().min() else { continue };
            let for_ns = next - self.clock.now_ns();
            if for_ns > 0 {
                socket::wait(&self.sockets, for_ns.min(LOOK_NS))?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let number = self.sender.counts().sent;
            let size = self.config.sizes[(number % self.config.sizes.len() as u64) as usize];
            // There is room for a packet, and a created error estimate fits.
            let Some(Ok(_)) = self.sender.send(self.clock.now_ns(), &mut self.packet) else {
                break;
            };
            if let Err(error) = self.transmit(size) {
                self.numbered_alike = false;
                self.refused += 1;
                self.pass(error)?;
            }
        }
        Ok(())
    }

    /// Passes the packet to the kernel. The kernel reports the ICMP error of an earlier probe to the next send,
    /// which then has not been sent.
    fn transmit(&mut self, size: usize) -> io::Result<()> {
        let socket = &self.sockets[0];
        match socket.send(&self.packet[..size]) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.unreachable += 1;
                socket.send(&self.packet[..size])
            }
            result => result,
        }
    }

    fn departures(&mut self) -> io::Result<()> {
        while let Some((number, realtime_ns)) = self.sockets[0].departed()? {
            if self.numbered_alike {
                let time_ns = self.clock.of_realtime(realtime_ns);
                self.departures += u64::from(self.sender.departed(number, time_ns));
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.sockets[0].receive(&mut self.room) {
                Ok(Some(datagram)) => {
                    self.late_arrivals += u64::from(datagram.realtime_ns.is_none());
                    let handled_ns = self.clock.now_ns();
                    let received_ns = match datagram.realtime_ns {
                        Some(stamp) => self.clock.of_realtime(stamp),
                        None => handled_ns,
                    };
                    // The stamp is of another clock, which is read with an error.
                    let times =
                        ArrivalTimes { received_ns, handled_ns: handled_ns.max(received_ns) };
                    // A datagram that is not a reply is counted.
                    let _ = self.sender.receive(&self.room[..datagram.len], times);
                }
                Ok(None) => break,
                Err(error) => self.pass(error)?,
            }
        }
        Ok(())
    }

    /// Continues after errors of the path or the other end, which may be transient.
    fn pass(&mut self, error: io::Error) -> io::Result<()> {
        if !socket::is_transient(&error) {
            return Err(error);
        }
        let unreachable = !matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN));
        self.unreachable += u64::from(unreachable);
        Ok(())
    }

    fn report(self) -> PingReport {
        let counts = *self.sender.counts();
        PingReport {
            counts,
            stamped_late: [counts.sent - self.departures.min(counts.sent), self.late_arrivals],
            refused: self.refused,
            unreachable: self.unreachable,
            clock_steps: self.clock.steps(),
            reflector: self.sender.reflector(),
            lost_there: self.sender.lost_there(),
            took_ns: self.clock.now_ns() - self.start_ns,
        }
    }
}
