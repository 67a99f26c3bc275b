//! Transmission by an interface without an XDP program on it.

use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use super::messages::MessageSender;
use super::{BATCH, Pool, Umem, Unsent, XskSender, XskSocket};
use crate::Result;
use crate::xsk::MAX_FRAME;

/// Chunks of a sender: the number of frames that may be queued in a driver.
const CHUNKS: u32 = 2048;

/// Octets of an Ethernet header, which an MTU excludes.
const HEADER: usize = 14;
/// Octets of a VLAN tag, which an MTU excludes as well if it is the outer one, of a customer.
const TAG: usize = 4;
const ADDRESSES: usize = 12;

/// Collects frames and sends them by one interface in one call, bypassing its queueing discipline.
///
/// It sends by a transmit ring of AF_XDP, which the kernel copies frames from: with a packet socket it parses each
/// frame and the header of each message. It uses a packet socket where another socket of AF_XDP has the first queue,
/// where AF_XDP or the memory is not permitted, or where frames of the interface's MTU are longer than a chunk.
#[derive(Debug)]
pub struct PacketSender(Method);

#[derive(Debug)]
enum Method {
    Ring(Box<RingSender>),
    Messages(MessageSender),
}

impl PacketSender {
    /// Opens an interface of `namespace`, for frames of up to its MTU.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        Ok(Self(match RingSender::open(namespace, interface) {
            Ok(Some(sender)) => Method::Ring(Box::new(sender)),
            Ok(None) | Err(_) => Method::Messages(MessageSender::open(namespace, interface)?),
        }))
    }

    /// As [`PacketSender::open`], always by messages on a packet socket.
    ///
    /// # Errors
    /// Those of [`PacketSender::open`].
    pub fn by_messages(namespace: &Namespace, interface: &str) -> Result<Self> {
        Ok(Self(Method::Messages(MessageSender::open(namespace, interface)?)))
    }

    /// Adds a frame that consists of these two parts. A frame longer than the interface's maximum is dropped.
    pub fn push(&mut self, head: &[u8], rest: &[u8]) {
        match &mut self.0 {
            Method::Ring(sender) => sender.push(head, rest),
            Method::Messages(sender) => sender.push(head, rest),
        }
    }

    /// Sends the added frames. Frames that the interface does not accept are dropped, not repeated.
    pub fn flush(&mut self) {
        match &mut self.0 {
            Method::Ring(sender) => sender.flush(),
            Method::Messages(sender) => sender.flush(),
        }
    }

    /// The number of frames sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        match &self.0 {
            Method::Ring(sender) => sender.sender.sent(),
            Method::Messages(sender) => sender.sent(),
        }
    }

    /// The frames that were dropped.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        match &self.0 {
            Method::Ring(sender) => sender.unsent(),
            Method::Messages(sender) => sender.unsent(),
        }
    }
}

/// Sends by a transmit ring of AF_XDP, with memory of its own.
#[derive(Debug)]
struct RingSender {
    sender: XskSender,
    pool: Pool,
    mtu: MtuReader,
    /// The MTU when the first of the added frames was added; `None`: there are none.
    limit: Option<usize>,
    added: usize,
    too_long: u64,
}

impl RingSender {
    /// `None`: frames of the present MTU do not fit into chunks.
    fn open(namespace: &Namespace, interface: &str) -> Result<Option<Self>> {
        let mtu = MtuReader::open(namespace, interface)?;
        if mtu.last + HEADER + TAG > MAX_FRAME {
            return Ok(None);
        }
        let system = crate::error::failed(interface, "allocate memory for frames");
        let (umem, pool) = Umem::new(CHUNKS).map_err(system)?;
        let sender = XskSocket::sender(namespace, interface, &umem)?;
        Ok(Some(Self { sender, pool, mtu, limit: None, added: 0, too_long: 0 }))
    }

    fn push(&mut self, head: &[u8], rest: &[u8]) {
        if self.added == BATCH {
            self.flush();
        }
        // The kernel sends frames of AF_XDP whatever the MTU.
        let mtu = *self.limit.get_or_insert_with(|| self.mtu.read());
        if exceeds(mtu, head, rest) {
            self.too_long += 1;
            return;
        }
        self.sender.push_copy(head, rest, &mut self.pool);
        self.added += 1;
    }

    fn flush(&mut self) {
        self.sender.flush(&mut self.pool);
        (self.limit, self.added) = (None, 0);
    }

    fn unsent(&self) -> Unsent {
        let unsent = self.sender.unsent();
        Unsent { too_long: unsent.too_long + self.too_long, ..unsent }
    }
}

/// Whether the kernel would refuse the frame on a packet socket, as longer than the MTU permits.
fn exceeds(mtu: usize, head: &[u8], rest: &[u8]) -> bool {
    let len = head.len() + rest.len();
    let octet = |at: usize| {
        let of_rest = || rest.get(at - head.len());
        if at < head.len() { head.get(at) } else { of_rest() }.copied().unwrap_or_default()
    };
    let has_tag =
        || [ADDRESSES, ADDRESSES + 1].map(octet) == (libc::ETH_P_8021Q as u16).to_be_bytes();
    len > mtu + HEADER && !(len <= mtu + HEADER + TAG && has_tag())
}

/// Reads the MTU of an interface.
#[derive(Debug)]
struct MtuReader {
    /// Receives nothing: for the system call.
    socket: PacketSocket,
    name: [libc::c_char; libc::IFNAMSIZ],
    last: usize,
}

impl MtuReader {
    fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let socket = namespace.run(|| PacketSocket::open(link.index))?;
        let operation = "open a packet socket (requires CAP_NET_RAW)";
        let socket = socket.map_err(crate::error::failed(interface, operation))?;
        let mut name = [0; libc::IFNAMSIZ];
        // A name of an existing interface is shorter.
        for (to, from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(link.name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Self { socket, name, last: link.mtu as usize })
    }

    /// Returns the present MTU, or the last one if the interface was removed or renamed.
    fn read(&mut self) -> usize {
        // SAFETY: ifreq is plain data, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_name = self.name;
        let fd = self.socket.as_fd().as_raw_fd();
        // SAFETY: the request lives through the call, which writes the MTU into it.
        let done = unsafe { libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request) };
        if done == 0 {
            // SAFETY: the call wrote this field of the union.
            self.last = unsafe { request.ifr_ifru.ifru_mtu } as usize;
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use onbeat_netdev::VethEnd;
    use onbeat_testing::{Feature, require_all};

    use super::*;
    use crate::raw::PacketReceiver;

    const BOUND: Duration = Duration::from_secs(10);
    const FRAMES: u64 = 300;

    /// Sends frames of 1,000 octets in two parts, below and above the MTU.
    fn check_sender(sender: &mut PacketSender, receiver: &mut PacketReceiver, handle: &Handle) {
        let octets = |number: u64| {
            let mut octets = vec![number as u8; 1000];
            octets[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
            octets
        };
        let send = |sender: &mut PacketSender| {
            for number in 0..FRAMES {
                let octets = octets(number);
                let (head, rest) = octets.split_at(number as usize % 20);
                sender.push(head, rest);
            }
            sender.flush();
        };
        send(sender);
        assert_eq!((sender.sent(), sender.unsent()), (FRAMES, Unsent::default()));
        let mut received = 0;
        let deadline = Instant::now() + BOUND;
        while received < FRAMES {
            assert!(Instant::now() < deadline, "{received} of {FRAMES} frames arrived");
            // IPv6 sends frames of its own when the MTU is raised.
            let is_ours = |frame: &&[u8]| frame[12..14] == [0x88, 0xb5];
            let found = receiver.look();
            for frame in receiver.iter().flatten().filter(is_ours) {
                assert_eq!(frame, octets(received));
                received += 1;
            }
            receiver.release(found);
        }

        handle.set_mtu("a", 985).unwrap();
        send(sender);
        let unsent = Unsent { too_long: FRAMES, ..Unsent::default() };
        assert_eq!((sender.sent(), sender.unsent()), (FRAMES, unsent));
        handle.set_mtu("a", 986).unwrap();
        send(sender);
        assert_eq!((sender.sent(), sender.unsent()), (2 * FRAMES, unsent));
        handle.set_mtu("a", 1500).unwrap();
        handle.set_down("a").unwrap();
        send(sender);
        let unsent = Unsent { interface_down: FRAMES, ..unsent };
        assert_eq!((sender.sent(), sender.unsent()), (2 * FRAMES, unsent));
        handle.set_up("a").unwrap();
        handle.wait_carrier("a", BOUND).unwrap();
        while !receiver.is_empty() {
            let found = receiver.look();
            receiver.release(found);
        }
    }

    #[test]
    fn both_methods_send_and_count_alike() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let namespace = Namespace::new().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
        ["a", "b"].iter().for_each(|name| handle.set_ipv6(name, false).unwrap());
        ["a", "b"].iter().for_each(|name| handle.set_up(name).unwrap());
        handle.wait_carrier("a", BOUND).unwrap();
        let mut receiver = PacketReceiver::open(&namespace, "b", 1024).unwrap();
        let mut ring = PacketSender::open(&namespace, "a").unwrap();
        assert!(matches!(ring.0, Method::Ring(_)));
        check_sender(&mut ring, &mut receiver, &handle);
        // The first one has the queue.
        let mut messages = PacketSender::open(&namespace, "a").unwrap();
        assert!(matches!(messages.0, Method::Messages(_)));
        check_sender(&mut messages, &mut receiver, &handle);
        drop(ring);
        let ring = PacketSender::open(&namespace, "a").unwrap();
        assert!(matches!(ring.0, Method::Ring(_)), "the queue is released");
    }

    #[test]
    fn long_frames_are_sent_by_messages() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let namespace = Namespace::new().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle.create_veth(&VethEnd::new("a").mtu(9000), &VethEnd::new("b").mtu(9000)).unwrap();
        ["a", "b"].iter().for_each(|name| handle.set_ipv6(name, false).unwrap());
        ["a", "b"].iter().for_each(|name| handle.set_up(name).unwrap());
        handle.wait_carrier("a", BOUND).unwrap();
        let mut sender = PacketSender::open(&namespace, "a").unwrap();
        assert!(matches!(sender.0, Method::Messages(_)));
        sender.push(&[2; 14], &[0; 9000]);
        sender.flush();
        assert_eq!((sender.sent(), sender.unsent()), (1, Unsent::default()));
    }

    #[test]
    fn frames_are_limited_as_on_a_packet_socket() {
        let frame = |len: usize, tpid: [u8; 2]| {
            let mut frame = vec![0; len];
            frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid);
            frame
        };
        for (len, tpid, expected) in [
            (1514, [0x88, 0xb5], false),
            (1515, [0x88, 0xb5], true),
            (1518, [0x81, 0x00], false),
            (1519, [0x81, 0x00], true),
            (1518, [0x88, 0xa8], true),
        ] {
            let frame = frame(len, tpid);
            for split in [0, 13, 18, len] {
                let (head, rest) = frame.split_at(split);
                assert_eq!(exceeds(1500, head, rest), expected, "{len} {tpid:?} {split}");
            }
        }
    }
}
