//! Two nodes in user space and two paths between them.
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 B b0 ---- l0 listener
//!                     a2 ---- b2
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_frer::plane::Plane;
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
    Tagged, VlanMatch,
};
use onbeat_frer_user::{Forwarder, Inside, Poll, Port};
use onbeat_netdev::testing::{Feature, require_all};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_wire::MacAddress;

const BOUND: Duration = Duration::from_secs(10);
const DESTINATION: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x0d]);
const VID: u16 = 10;

struct World {
    a: Handle,
    talker: Raw,
    listener: Raw,
    nodes: Option<[Forwarder; 2]>,
    // The interfaces go with their namespaces.
    _others: [Handle; 3],
}

/// With room for the R-TAG, and for tags that the kernel does not know as such.
const MTU: u32 = 1510;

fn pair(near: (&Handle, &str), far: (&Handle, &str)) {
    let end = VethEnd::new(far.1).mtu(MTU).namespace(far.0.namespace());
    near.0.create_veth(&VethEnd::new(near.1).mtu(MTU), &end).unwrap();
    for (handle, name) in [near, far] {
        handle.set_ipv6(name, false).unwrap();
        handle.set_up(name).unwrap();
    }
    for (handle, name) in [near, far] {
        handle.wait_carrier(name, BOUND).unwrap();
    }
}

fn member(port: u8, destination: MacAddress) -> Member {
    let vlan = VlanMatch { tagged: Tagged::Tagged, vlan: VID };
    let identification = Identification::Null { destination, vlan };
    Member { port: PortId(port), identification, individual: None }
}

fn egress(port: u8, tag: SequenceTag) -> Egress {
    Egress { port: PortId(port), tag, rewrite: Rewrite::default() }
}

fn talker(destination: MacAddress) -> Stream {
    Stream {
        name: format!("to {destination}"),
        members: vec![member(0, destination)],
        generate: true,
        recover: None,
        egress: vec![egress(1, SequenceTag::RTag), egress(2, SequenceTag::RTag)],
    }
}

fn listener(destination: MacAddress) -> Stream {
    Stream {
        name: format!("to {destination}"),
        members: vec![member(1, destination), member(2, destination)],
        generate: false,
        recover: Some(Recovery {
            algorithm: Algorithm::Vector { history_length: 64 },
            reset_timeout_ms: 0,
            take_no_sequence: false,
            latent: None,
        }),
        egress: vec![egress(0, SequenceTag::Remove)],
    }
}

impl World {
    fn new(poll: Poll) -> Self {
        let [t, a, b, l] =
            [(); 4].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        pair((&t, "t0"), (&a, "a0"));
        pair((&a, "a1"), (&b, "b1"));
        pair((&a, "a2"), (&b, "b2"));
        pair((&b, "b0"), (&l, "l0"));
        let node = |handle: &Handle, letter: char, stream: Stream| {
            let mut plane = Plane::new(3);
            plane.set(&stream).unwrap();
            let node = Forwarder::start(plane, poll, || Ok(())).unwrap();
            for number in 0..3 {
                let interface = format!("{letter}{number}");
                let port = Port::open(handle.namespace(), &interface, 256).unwrap();
                let set = move |inside: &mut Inside| inside.set_port(PortId(number), Some(port));
                node.control().run(set).unwrap();
            }
            node
        };
        let nodes = [node(&a, 'a', talker(DESTINATION)), node(&b, 'b', listener(DESTINATION))];
        let (talker, listener) = (Raw::open(&t, "t0"), Raw::open(&l, "l0"));
        Self { a, talker, listener, nodes: Some(nodes), _others: [t, b, l] }
    }

    fn nodes(&self) -> &[Forwarder; 2] {
        self.nodes.as_ref().unwrap()
    }

    /// Sends a frame and waits for it.
    fn passes(&self, frame: &[u8]) {
        self.talker.send(frame);
        assert_eq!(self.listener.receive(BOUND).as_deref(), Some(frame));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.nodes.take().into_iter().flatten().for_each(Forwarder::stop);
    }
}

fn frame(destination: MacAddress, tag: [u8; 4], number: u32, len: usize) -> Vec<u8> {
    let head = [&destination.0[..], &[2, 0, 0, 0, 0, 1], &tag, &[0x88, 0xb5]].concat();
    let mut frame = [&head[..], &number.to_be_bytes()].concat();
    frame.resize(len, 0x5a);
    frame
}

/// A plain packet socket that shows frames with their tags.
struct Raw(OwnedFd);

impl Raw {
    fn open(handle: &Handle, interface: &str) -> Self {
        let index = handle.index(interface).unwrap();
        handle.namespace().run(|| Self::of(index)).unwrap().unwrap()
    }

    fn of(index: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: libc::c_int = 1;
        for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
            // SAFETY: the value is an int that lives across the call.
            let result = unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    libc::SOL_PACKET,
                    option,
                    (&raw const on).cast(),
                    size_of_val(&on) as u32,
                )
            };
            assert_eq!(result, 0);
        }
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of_val(&address) as u32;
        // SAFETY: `address` is a sockaddr_ll of `length` octets that lives across the call.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(nix::unistd::write(&self.0, frame), Ok(frame.len()));
    }

    /// The next frame, its tag put back where it stood.
    fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = PollTimeout::try_from(timeout).unwrap();
        if poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], wait).unwrap() == 0 {
            return None;
        }
        let mut frame = vec![0; 2048];
        let mut control = [0_u64; 16];
        let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: msghdr is plain data, for which zeros are a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: all that the header points to lives across the call.
        let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        frame.truncate(usize::try_from(length).unwrap());
        // SAFETY: the kernel wrote the control buffer; auxiliary data is the only thing asked for.
        let header = unsafe { &*libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: as above.
        let aux =
            unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
        if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            let tag = [aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()].concat();
            frame.splice(12..12, tag);
        }
        Some(frame)
    }
}

const TAG: [u8; 4] = [0x81, 0x00, 0xb0, 0x0a];

#[test]
fn each_frame_arrives_once_and_as_it_was() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    for poll in [Poll::Sleep, Poll::Busy] {
        let world = World::new(poll);
        let lengths = [60, 64, 1000, 1514, 1518];
        for number in 0..500 {
            // Priority and drop eligibility stay, and so does the kind of tag.
            let [mut tpid, pcp] = [[0x81, 0x00], [(number as u8) << 5 | 0x10, 0x0a]];
            if number % 3 == 0 {
                tpid = [0x88, 0xa8];
            }
            let tag = [tpid[0], tpid[1], pcp[0], pcp[1]];
            world.passes(&frame(DESTINATION, tag, number, lengths[number as usize % 5]));
        }
        let [a, b] = world.nodes();
        let name = format!("to {DESTINATION}");
        let read = {
            let name = name.clone();
            move |inside: &mut Inside| inside.plane.read(&name, inside.now_ns)
        };
        let generation = a.control().run(read.clone()).unwrap().unwrap().generation.unwrap();
        assert_eq!(generation.next, 500);
        // The last one's second replica may still be under way.
        let deadline = std::time::Instant::now() + BOUND;
        loop {
            let counters =
                b.control().run(read.clone()).unwrap().unwrap().recovery.unwrap().counters;
            assert_eq!(counters.passed, 500);
            if counters.discarded == 500 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{counters:?}");
            std::thread::yield_now();
        }
        let traffic = a.control().run(|inside| [0, 1, 2].map(|port| inside.traffic(PortId(port))));
        let [talked, first, second] = traffic.unwrap().map(|traffic| traffic.unwrap().unwrap());
        assert_eq!((talked.received, first.sent, second.sent), (500, 500, 500));
    }
}

#[test]
fn nothing_is_lost_with_one_path() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let world = World::new(Poll::Sleep);
    let mut number = 0;
    let mut some = |world: &World| {
        for _ in 0..50 {
            number += 1;
            world.passes(&frame(DESTINATION, TAG, number, 200));
        }
    };
    for path in ["a1", "a2", "a1"] {
        some(&world);
        world.a.set_down(path).unwrap();
        some(&world);
        world.a.set_up(path).unwrap();
        world.a.wait_carrier(path, BOUND).unwrap();
    }
    some(&world);
}

#[test]
fn streams_come_change_and_go_while_others_flow() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let world = World::new(Poll::Sleep);
    let other = MacAddress([0x02, 0, 0, 0, 0, 0x0e]);
    for number in 0..100 {
        for (node, stream) in world.nodes().iter().zip([talker(other), listener(other)]) {
            let name = stream.name.clone();
            node.control().run(move |inside| inside.plane.set(&stream)).unwrap().unwrap();
            if number % 2 == 0 {
                assert!(node.control().run(move |inside| inside.plane.remove(&name)).unwrap());
            }
        }
        // Of no stream while it is away: nobody sends it on, so that what comes next is next.
        let frame = |destination| frame(destination, TAG, number, 64);
        if number % 2 == 0 {
            world.talker.send(&frame(other));
        } else {
            world.passes(&frame(other));
        }
        world.passes(&frame(DESTINATION));
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let error = Port::open(&Namespace::new().unwrap(), "nowhere0", 16).unwrap_err().to_string();
    assert!(error.contains("nowhere0"), "{error}");
}

#[test]
fn a_port_goes_away_and_comes_back() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let world = World::new(Poll::Sleep);
    let [a, _] = world.nodes();
    world.passes(&frame(DESTINATION, TAG, 1, 64));
    a.control().run(|inside| inside.set_port(PortId(1), None)).unwrap();
    world.passes(&frame(DESTINATION, TAG, 2, 64));
    let gone = a.control().run(|inside| inside.traffic(PortId(1)).is_none()).unwrap();
    assert!(gone);
    let port = Port::open(world.a.namespace(), "a1", 256).unwrap();
    a.control().run(|inside| inside.set_port(PortId(1), Some(port))).unwrap();
    world.passes(&frame(DESTINATION, TAG, 3, 64));
    let sent = a.control().run(|inside| inside.traffic(PortId(1)).unwrap().unwrap().sent).unwrap();
    assert_eq!(sent, 1);
}
