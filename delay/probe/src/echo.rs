//! The session reflector at work.

use std::io;
use std::net::{IpAddr, SocketAddr};

use onbeat_delay::probe::{ReplyFields, Key, Sessions, RejectedDatagram, admit, is_reflected, reflect};
use onbeat_realtime::clock::{realtime_ns, synchronisation};
use onbeat_wire::stamp::{ErrorEstimate, Format, PORT};

use crate::socket::{self, Datagram, Socket};
use crate::{Error, Result};

/// Octets of the longest datagram.
const LONGEST: usize = 1 << 16;
/// Datagrams of one socket that are answered before another one has its turn.
const BATCH: usize = 64;
/// How late a reflector may notice that it is to stop, in nanoseconds.
const LOOK_NS: i64 = 100_000_000;
/// Between two looks at how good the clock is, in nanoseconds.
const CLOCK_LOOK_NS: i64 = 1_000_000_000;
/// TTL of a test packet where the kernel does not tell (RFC 8762 4.3.1).
const UNKNOWN_TTL: u8 = 255;

/// How a reflector is run.
#[derive(Debug, Clone)]
pub struct EchoConfig {
    /// Addresses to listen on.
    pub addresses: Vec<IpAddr>,
    /// UDP port; 0 for one that is free.
    pub port: u16,
    /// Sessions that are counted at most: answers then carry the reflector's own numbers (stateful
    /// mode). `None`: they carry the sender's.
    pub sessions: Option<usize>,
    /// What test packets have to be authenticated with, and answers are; `None`: neither is.
    pub key: Option<Key>,
}

impl Default for EchoConfig {
    /// Every address, the port of RFC 8762, without state.
    fn default() -> Self {
        let any = [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])];
        EchoConfig { addresses: any.into(), port: PORT, sessions: None, key: None }
    }
}

/// What a reflector saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EchoCounts {
    /// Datagrams that came.
    pub received: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, too short for a test packet, also of TWAMP; with a key, for an authenticated one.
    pub too_short: u64,
    /// Of these, whose HMAC is wrong: of who has another key, or none, or changed on their way.
    pub unverified: u64,
    /// Of these, reflected packets: two reflectors would answer each other for ever.
    pub reflectors: u64,
    /// Answers that the kernel did not take.
    pub refused: u64,
    /// Test packets whose arrival the program stamped, since the kernel had not.
    pub stamped_late: u64,
    /// Sessions that began, in stateful mode.
    pub sessions: u64,
    /// Sessions that were forgotten for want of room.
    pub forgotten: u64,
}

/// A session reflector (RFC 8762 4.3). Without a key senders of TWAMP Light (RFC 5357) are answered as
/// well; with one, who has it and nobody else.
///
/// Times are of CLOCK_REALTIME, which is UTC as far as the host keeps it: of arrival by the kernel, of
/// departure by the program, just before the answer is given to the kernel.
#[derive(Debug)]
pub struct Reflector {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
    sessions: Option<Sessions<(SocketAddr, u16)>>,
    key: Option<Key>,
    counts: EchoCounts,
    error_estimate: ErrorEstimate,
    estimated_ns: i64,
}

impl Reflector {
    /// Listens on all addresses. An unspecified address of a family that the host has not is passed
    /// over, where there is another one.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn open(config: &EchoConfig) -> Result<Self> {
        let (mut sockets, mut addresses): (Vec<Socket>, Vec<SocketAddr>) = Default::default();
        let mut port = config.port;
        for &ip in &config.addresses {
            let address = SocketAddr::new(ip, port);
            let failed = |source| Error::Listen { address, source };
            match Socket::open(address, false) {
                Ok(socket) => {
                    let bound = socket.local_address().map_err(failed)?;
                    // A port that was free for the first is the one for all.
                    port = bound.port();
                    addresses.push(bound);
                    sockets.push(socket);
                }
                Err(error)
                    if ip.is_unspecified() && !sockets.is_empty() && no_such_family(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Self {
            sockets,
            addresses,
            sessions: config.sessions.map(Sessions::new),
            key: config.key.clone(),
            counts: EchoCounts::default(),
            error_estimate: estimate(),
            estimated_ns: realtime_ns(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How good its clock is, as its answers say.
    #[must_use]
    pub fn error_estimate(&self) -> ErrorEstimate {
        self.error_estimate
    }

    /// What it saw so far.
    #[must_use]
    pub fn counts(&self) -> EchoCounts {
        self.counts
    }

    /// Answers until `stop`, which is asked a few times a second.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        let mut room = vec![0; LONGEST];
        while !stop() {
            socket::wait(&self.sockets, LOOK_NS).map_err(|error| self.failed(0, error))?;
            self.update_error_estimate();
            for place in 0..self.sockets.len() {
                for _ in 0..BATCH {
                    match self.sockets[place].receive(&mut room) {
                        Ok(Some(datagram)) => self.take(place, &mut room, &datagram),
                        Ok(None) => break,
                        // That an answer did not get there is its sender's loss.
                        Err(error) if socket::is_transient(&error) => {}
                        Err(error) => return Err(self.failed(place, error)),
                    }
                }
            }
        }
        Ok(())
    }

    fn failed(&self, place: usize, source: io::Error) -> Error {
        Error::Socket { address: self.addresses[place], source }
    }

    fn update_error_estimate(&mut self) {
        let now = realtime_ns();
        if now.abs_diff(self.estimated_ns) > CLOCK_LOOK_NS as u64 {
            (self.estimated_ns, self.error_estimate) = (now, estimate());
        }
    }

    fn take(&mut self, place: usize, room: &mut [u8], datagram: &Datagram) {
        self.counts.received += 1;
        let Some(from) = datagram.from else { return };
        self.counts.stamped_late += u64::from(datagram.realtime_ns.is_none());
        let received_ns = datagram.realtime_ns.unwrap_or_else(realtime_ns);
        let key = self.key.as_ref();
        // First of all (RFC 8762 4.4): what does not verify has no session and no place.
        let test = match admit(&room[..datagram.len], key) {
            Ok(test) => test,
            Err(RejectedDatagram::NotATestPacket(_)) => {
                self.counts.too_short += 1;
                return;
            }
            Err(RejectedDatagram::Hmac) => {
                self.counts.unverified += 1;
                return;
            }
        };
        if is_reflected(&room[..datagram.len], key, received_ns) {
            self.counts.reflectors += 1;
            return;
        }
        let sessions = self.sessions.as_mut();
        let answer = ReplyFields {
            sequence: sessions.map(|known| known.number((from, test.session), received_ns)),
            received_ns,
            ttl: datagram.ttl.unwrap_or(UNKNOWN_TTL),
            sent_ns: realtime_ns(),
            error_estimate: self.error_estimate,
        };
        // There is room for an answer, and an error estimate that was made fits.
        let Ok(len) = reflect(room, datagram.len, &test, &answer, key) else { return };
        match self.sockets[place].answer(&room[..len], from, datagram.at) {
            Ok(()) => self.counts.answered += 1,
            Err(_) => self.counts.refused += 1,
        }
        if let Some(sessions) = &self.sessions {
            (self.counts.sessions, self.counts.forgotten) =
                (sessions.begun(), sessions.forgotten());
        }
    }
}

/// What the kernel says of the host's clock.
pub(crate) fn estimate() -> ErrorEstimate {
    let (synchronised, error_ns) = synchronisation();
    ErrorEstimate::of(error_ns, synchronised, Format::Ntp)
}

fn no_such_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
