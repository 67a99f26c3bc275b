//! Ordinary sockets: a ping flood, multicast datagrams and a download by TCP, with each packet counted by its number.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_wire::checksum::Checksum;

use crate::worker::Worker;
use crate::{Error, Result};

/// Room for packets while a receiver has no CPU time.
const RECEIVE_BUFFER: usize = 16 << 20;

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ICMP_HEADER: usize = 8;
/// Type, code, checksum, identifier; then the number.
const PING_LEN: usize = ICMP_HEADER + NUMBER_LEN + 40;
const IDENTIFIER: u16 = 0x6f6e;
const NUMBER_LEN: usize = 8;

/// Maximum time of a call of TCP: it exceeds every cut.
const TCP_BOUND: Duration = Duration::from_secs(30);
/// Maximum rate of a download, in octets per second. Without it, TCP fills the queues of the machine, whose CPUs then
/// reorder packets of both paths: it retransmits with and without cuts.
static PACING: u64 = 50_000_000;
/// Octets per call of TCP.
const CHUNK: usize = 65_536;

/// Numbered packets: how often each one arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct PacketRecord {
    pub(super) sent: u64,
    /// Packets that arrived at least once.
    pub(super) arrived: u64,
    arrivals: Vec<u32>,
}

impl PacketRecord {
    /// Records an arrival. Returns whether such a packet was sent.
    fn arrive(&mut self, number: u64) -> bool {
        let of_number = usize::try_from(number).ok().filter(|_| number < self.sent);
        let Some(number) = of_number else { return false };
        if self.arrivals.len() <= number {
            self.arrivals.resize(number + 1, 0);
        }
        self.arrived += u64::from(self.arrivals[number] == 0);
        self.arrivals[number] += 1;
        true
    }

    /// Packets that never arrived.
    pub(super) fn lost(&self) -> u64 {
        self.sent - self.arrived
    }

    /// Arrivals after the first one of each packet.
    pub(super) fn repeated(&self) -> u64 {
        self.arrivals.iter().map(|count| u64::from(count.saturating_sub(1))).sum()
    }
}

/// Progress of an exchange of packets.
#[derive(Debug, Default)]
struct Progress {
    /// No packet is sent any more.
    is_over: AtomicBool,
    sent: AtomicU64,
    arrived: AtomicU64,
}

/// Numbered packets in transmission.
pub(super) struct Packets {
    progress: Arc<Progress>,
    worker: Worker<Result<PacketRecord>>,
}

/// Sends a packet, and receives waiting ones.
trait Exchange: Send + 'static {
    fn send(&self, number: u64) -> io::Result<()>;

    /// Returns the number of a received packet; the outer `None`: no packet waits.
    fn receive(&self) -> io::Result<Option<Option<u64>>>;
}

impl Packets {
    /// Pings an address from another one, at `rate` requests per second; a reply is an arrival.
    pub(super) fn ping(
        namespace: &Namespace,
        (from, to): (Ipv4Addr, Ipv4Addr),
        rate: u64,
    ) -> Result<Self> {
        let open = || -> nix::Result<OwnedFd> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let icmp = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)?;
            setsockopt(&icmp, sockopt::RcvBufForce, &RECEIVE_BUFFER)?;
            bind(icmp.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
            Ok(icmp)
        };
        let socket =
            namespace.run(open)?.map_err(|errno| Error::io("open a socket of ICMP", errno))?;
        Self::start("lab-ping", Ping { socket, to }, rate)
    }

    /// Sends datagrams to a group, of which `to` is a member, at `rate` per second.
    pub(super) fn multicast(
        (sender, from): (&Namespace, Ipv4Addr),
        (receiver, to): (&Namespace, Ipv4Addr),
        group: SocketAddrV4,
        rate: u64,
    ) -> Result<Self> {
        let failed = |error| Error::io(format!("open sockets of group {group}"), error);
        let open_sender = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((from, 0))?;
            socket.set_multicast_loop_v4(false)?;
            Ok(socket)
        };
        let open_receiver = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(group)?;
            setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER)?;
            socket.set_nonblocking(true)?;
            socket.join_multicast_v4(group.ip(), &to)?;
            Ok(socket)
        };
        let sender = sender.run(open_sender)?.map_err(failed)?;
        let receiver = receiver.run(open_receiver)?.map_err(failed)?;
        Self::start("lab-multicast", Multicast { sender, receiver, group }, rate)
    }

    fn start(name: &str, exchange: impl Exchange, rate: u64) -> Result<Self> {
        let progress = Arc::new(Progress::default());
        let inside = Arc::clone(&progress);
        let worker = Worker::start(name, move |stop| transmit(&exchange, rate, &inside, stop))?;
        Ok(Self { progress, worker })
    }

    /// Packets sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }

    /// Packets that arrived so far, each counted once.
    pub(super) fn arrived(&self) -> u64 {
        self.progress.arrived.load(Ordering::Acquire)
    }

    /// Sends no further packet; arrivals are still counted.
    pub(super) fn cease(&self) {
        self.progress.is_over.store(true, Ordering::Release);
    }

    /// Stops; returns the arrivals.
    pub(super) fn stop(self) -> Result<PacketRecord> {
        self.worker.stop()
    }
}

fn transmit(
    exchange: &impl Exchange,
    rate: u64,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<PacketRecord> {
    /// Interval at which arrivals are read after the last transmission.
    const IDLE_NS: u64 = 1_000_000;
    let failed = |error| Error::io("exchange packets over a redundant interface", error);
    let period_ns = (SECOND / rate.max(1)).max(1);
    let (mut record, mut due_ns) = (PacketRecord::default(), now_ns());
    while !stop.load(Ordering::Acquire) {
        let now = now_ns();
        let is_over = progress.is_over.load(Ordering::Acquire);
        // After a pause, the schedule restarts.
        due_ns = due_ns.max(now.saturating_sub(16 * period_ns));
        while !is_over && due_ns <= now {
            let number = record.sent;
            record.sent += 1;
            progress.sent.store(record.sent, Ordering::Release);
            exchange.send(number).map_err(failed)?;
            due_ns += period_ns;
        }
        while let Some(number) = exchange.receive().map_err(failed)? {
            if number.is_some_and(|number| record.arrive(number)) {
                progress.arrived.store(record.arrived, Ordering::Release);
            }
        }
        sleep_until(if is_over { now + IDLE_NS } else { due_ns });
    }
    Ok(record)
}

struct Ping {
    socket: OwnedFd,
    to: Ipv4Addr,
}

impl Exchange for Ping {
    fn send(&self, number: u64) -> io::Result<()> {
        let mut message = [0x5a; PING_LEN];
        message[..ICMP_HEADER].copy_from_slice(&[ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 0]);
        message[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
        message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        message[ICMP_HEADER..ICMP_HEADER + NUMBER_LEN].copy_from_slice(&number.to_be_bytes());
        let mut sum = Checksum::new();
        sum.add(&message);
        message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
        let to = SockaddrIn::from(SocketAddrV4::new(self.to, 0));
        sent(sendto(self.socket.as_raw_fd(), &message, &to, MsgFlags::empty()))
    }

    fn receive(&self) -> io::Result<Option<Option<u64>>> {
        let mut packet = [0; 256];
        let len = match recv(self.socket.as_raw_fd(), &mut packet, MsgFlags::empty()) {
            Ok(len) => len,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        Ok(Some(reply_number(&packet[..len], self.to)))
    }
}

/// Returns the number in an echo reply of an address, which arrived as sent.
fn reply_number(packet: &[u8], from: Ipv4Addr) -> Option<u64> {
    let header = 4 * usize::from(packet.first()? & 0xf);
    let message = packet.get(header..).filter(|message| message.len() == PING_LEN)?;
    let number = message[ICMP_HEADER..].first_chunk().copied().map(u64::from_be_bytes)?;
    let is_reply = message[0] == ECHO_REPLY && packet.get(12..16)? == from.octets();
    let is_own = message[4..6] == IDENTIFIER.to_be_bytes();
    let is_same = message[ICMP_HEADER + NUMBER_LEN..].iter().all(|octet| *octet == 0x5a);
    (is_reply && is_own && is_same).then_some(number)
}

struct Multicast {
    sender: UdpSocket,
    receiver: UdpSocket,
    group: SocketAddrV4,
}

impl Multicast {
    /// Lengths of datagrams: the shortest are padded, the longest fill a frame.
    const LENGTHS: [usize; 7] = [8, 18, 19, 22, 23, 100, 1472];

    fn len(number: u64) -> usize {
        Self::LENGTHS[(number % Self::LENGTHS.len() as u64) as usize]
    }
}

impl Exchange for Multicast {
    fn send(&self, number: u64) -> io::Result<()> {
        let mut datagram = [0x5a; 2048];
        datagram[..NUMBER_LEN].copy_from_slice(&number.to_be_bytes());
        sent(self.sender.send_to(&datagram[..Self::len(number)], self.group))
    }

    fn receive(&self) -> io::Result<Option<Option<u64>>> {
        let mut datagram = [0; 2048];
        let len = match self.receiver.recv(&mut datagram) {
            Ok(len) => len,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let number = datagram.first_chunk().copied().map(u64::from_be_bytes);
        let is_same = |number: &u64| {
            len == Self::len(*number)
                && datagram[NUMBER_LEN..len].iter().all(|octet| *octet == 0x5a)
        };
        Ok(Some(number.filter(is_same)))
    }
}

/// The result of a transmission. A packet that the network stack has no room for is lost, and the arrivals show it.
fn sent<E: Into<io::Error>>(result: std::result::Result<usize, E>) -> io::Result<()> {
    match result.map_err(Into::into) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A download by TCP: a server sends a pattern until it is stopped, and the client compares it.
pub(super) struct Download {
    server: Worker<io::Result<()>>,
    client: Worker<io::Result<u64>>,
}

impl Download {
    pub(super) fn start(
        (server, address): (&Namespace, SocketAddrV4),
        client: &Namespace,
    ) -> Result<Self> {
        let failed = |error| Error::io(format!("download from {address}"), error);
        let listener = server.run(|| TcpListener::bind(address))?.map_err(failed)?;
        let connect = || TcpStream::connect_timeout(&address.into(), TCP_BOUND);
        let receiver = client.run(connect)?.map_err(failed)?;
        let (sender, _) = listener.accept().map_err(failed)?;
        for stream in [&sender, &receiver] {
            stream.set_read_timeout(Some(TCP_BOUND)).map_err(failed)?;
            stream.set_write_timeout(Some(TCP_BOUND)).map_err(failed)?;
        }
        pace(&sender).map_err(failed)?;
        Ok(Self {
            server: Worker::start("lab-server", move |stop| serve(sender, stop))?,
            client: Worker::start("lab-client", move |_| compare(receiver))?,
        })
    }

    /// Stops; returns the octets that arrived as sent.
    pub(super) fn stop(self) -> Result<u64> {
        let failed = |error| Error::io("download over a redundant interface", error);
        self.server.stop().map_err(failed)?;
        self.client.stop().map_err(failed)
    }
}

/// Limits the rate of a socket.
fn pace(stream: &TcpStream) -> io::Result<()> {
    let len = size_of_val(&PACING) as libc::socklen_t;
    let value = (&raw const PACING).cast();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: the value has the stated length and outlives the call.
    match unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, value, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn octet_of(place: u64) -> u8 {
    // A prime period: a segment that is repeated or missing is detected.
    ((place % 65_521 * 31) >> 3) as u8
}

fn serve(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let pattern: Vec<u8> = (0..65_521).map(octet_of).collect();
    while !stop.load(Ordering::Acquire) {
        stream.write_all(&pattern)?;
    }
    stream.shutdown(Shutdown::Write)
}

fn compare(mut stream: TcpStream) -> io::Result<u64> {
    let pattern: Vec<u8> = (0..65_521).chain(0..CHUNK as u64).map(octet_of).collect();
    let (mut octets, mut total) = (vec![0; CHUNK], 0);
    loop {
        let len = match stream.read(&mut octets) {
            Ok(0) => return Ok(total),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let start = (total % 65_521) as usize;
        if octets[..len] != pattern[start..start + len] {
            let text = format!("the octets from {total} on differ from those sent");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        total += len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_repeated_packets_are_counted() {
        let mut record = PacketRecord { sent: 4, ..PacketRecord::default() };
        assert!([0, 2, 2, 2].into_iter().all(|number| record.arrive(number)));
        assert!(!record.arrive(4), "it was not sent");
        assert_eq!((record.arrived, record.lost(), record.repeated()), (2, 2, 2));
    }

    #[test]
    fn only_whole_replies_of_the_address_count() {
        let address = Ipv4Addr::new(192, 0, 2, 2);
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&address.octets());
        packet.extend([ECHO_REPLY, 0, 0, 0, 0x6f, 0x6e, 0, 7]);
        packet.extend(7_u64.to_be_bytes());
        packet.extend([0x5a; 40]);
        assert_eq!(reply_number(&packet, address), Some(7));
        assert_eq!(reply_number(&packet, Ipv4Addr::new(192, 0, 2, 3)), None);
        for place in [20, 24, packet.len() - 1] {
            let mut other = packet.clone();
            other[place] ^= 1;
            assert_eq!(reply_number(&other, address), None, "{place}");
        }
        assert_eq!(reply_number(&packet[..packet.len() - 1], address), None);
    }
}
