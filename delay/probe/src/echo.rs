//! The session reflector on sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use onbeat_delay::probe::{
    Key, RejectedDatagram, ReplyFields, Sessions, admit, is_reflected, reflect,
};
use onbeat_realtime::clock::{realtime_ns, synchronization};
use onbeat_wire::stamp::{ErrorEstimate, Format, PORT};

use crate::socket::{self, Datagram, Socket};
use crate::{Error, Result};

/// Maximum length of a datagram in octets.
const LONGEST: usize = 1 << 16;
/// Maximum number of datagrams of one socket that are answered before the next socket is served.
const BATCH: usize = 64;
/// Maximum delay of a stop request, in nanoseconds.
const LOOK_NS: i64 = 100_000_000;
/// Interval between updates of the clock's error estimate, in nanoseconds.
const CLOCK_LOOK_NS: i64 = 1_000_000_000;
/// TTL of a test packet if the kernel does not report it (RFC 8762 4.3.1).
const UNKNOWN_TTL: u8 = 255;

/// The configuration of a reflector.
#[derive(Debug, Clone)]
pub struct EchoConfig {
    /// Addresses to listen on.
    pub addresses: Vec<IpAddr>,
    /// UDP port; 0 selects a free one.
    pub port: u16,
    /// Maximum number of sessions with numbers of their own in replies (stateful mode). `None`: replies carry the
    /// sender's numbers.
    pub sessions: Option<usize>,
    /// The key that authenticates replies, and that test packets must have; `None`: no authentication.
    pub key: Option<Key>,
}

impl Default for EchoConfig {
    /// All addresses, the port of RFC 8762, stateless.
    fn default() -> Self {
        let any = [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])];
        EchoConfig { addresses: any.into(), port: PORT, sessions: None, key: None }
    }
}

/// Counters of a reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EchoCounts {
    /// Received datagrams.
    pub received: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, shorter than a test packet of TWAMP; with a key, than an authenticated one.
    pub too_short: u64,
    /// Of these, with a wrong HMAC: the sender has another key or none, or they were changed on the path.
    pub unverified: u64,
    /// Of these, reflected packets: two reflectors would answer each other endlessly.
    pub reflectors: u64,
    /// Replies that the kernel refused.
    pub refused: u64,
    /// Test packets stamped on arrival by the program, without a stamp of the kernel.
    pub stamped_late: u64,
    /// Sessions started, in stateful mode.
    pub sessions: u64,
    /// Sessions evicted for lack of room.
    pub evicted: u64,
}

/// A session reflector (RFC 8762 4.3). Without a key it also answers senders of TWAMP Light (RFC 5357); with a key,
/// only senders with that key.
///
/// Times are of CLOCK_REALTIME, which is UTC if the host is synchronized: of arrival by the kernel, of departure by
/// the program, just before the reply is passed to the kernel.
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
    /// Listens on all addresses. An unspecified address of a family that the host lacks is skipped if there is
    /// another address.
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
                    // All addresses use the free port of the first.
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

    /// The addresses on which it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The error estimate of its clock in its replies.
    #[must_use]
    pub fn error_estimate(&self) -> ErrorEstimate {
        self.error_estimate
    }

    /// The counters so far.
    #[must_use]
    pub fn counts(&self) -> EchoCounts {
        self.counts
    }

    /// Answers until `stop`, which is called several times per second, returns true.
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
                        // A failed reply affects its sender only.
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
        // First of all (RFC 8762 4.4): an unverified packet creates no session.
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
        // There is room for a reply, and a created error estimate fits.
        let Ok(len) = reflect(room, datagram.len, &test, &answer, key) else { return };
        match self.sockets[place].answer(&room[..len], from, datagram.at) {
            Ok(()) => self.counts.answered += 1,
            Err(_) => self.counts.refused += 1,
        }
        if let Some(sessions) = &self.sessions {
            (self.counts.sessions, self.counts.evicted) = (sessions.started(), sessions.evicted());
        }
    }
}

/// Returns the kernel's error estimate of the host's clock.
pub(crate) fn estimate() -> ErrorEstimate {
    let (synchronized, error_ns) = synchronization();
    ErrorEstimate::of(error_ns, synchronized, Format::Ntp)
}

fn no_such_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
