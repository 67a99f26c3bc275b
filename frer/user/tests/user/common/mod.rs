//! Shared parts of the tests: two nodes in user space and two paths between them.
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 B b0 ---- l0 listener
//!                     a2 ---- b2
//! ```

use std::os::fd::BorrowedFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_frer::plane::Plane;
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanMatch,
};
use onbeat_frer_user::{Error, Forwarder, PollMode, Port, ThreadState};
use onbeat_frer_xdp::Steering;
use onbeat_link::raw::Umem;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::RawSocket;
use onbeat_wire::MacAddress;

pub(crate) const BOUND: Duration = Duration::from_secs(10);
pub(crate) const DESTINATION: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x0d]);
pub(crate) const VID: u16 = 10;
/// Customer tag, priority 5, drop eligible, [`VID`].
pub(crate) const TAG: [u8; 4] = [0x81, 0x00, 0xb0, 0x0a];
pub(crate) const PORTS: u8 = 3;

/// With room for the R-TAG, and for tags unknown to the kernel.
const MTU: u32 = 1510;
const MAX_STREAMS: u32 = 64;
const CHUNKS: u32 = 4096;

/// The kind of sockets of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortSockets {
    Packet,
    Xsk,
    /// Ports to the hosts and the first path have different kinds.
    Mixed,
}

pub(crate) const ALL: [PortSockets; 3] =
    [PortSockets::Packet, PortSockets::Xsk, PortSockets::Mixed];

impl PortSockets {
    fn is_xsk(self, port: u8) -> bool {
        match self {
            PortSockets::Packet => false,
            PortSockets::Xsk => true,
            PortSockets::Mixed => port == 1,
        }
    }
}

/// A node that forwards in a thread of this process.
pub(crate) struct Node {
    pub(crate) handle: Handle,
    by: PortSockets,
    names: Vec<String>,
    forwarder: Option<Forwarder>,
    umem: Umem,
    steering: Steering,
    streams: Vec<Stream>,
}

impl Node {
    fn start(handle: Handle, letter: char, poll: PollMode, by: PortSockets) -> Self {
        let forwarder = Forwarder::start(Plane::new(PORTS.into()), poll, || Ok(())).unwrap();
        let (umem, pool) = Umem::new(CHUNKS).unwrap();
        forwarder.control().run(move |inside| inside.set_pool(pool)).unwrap();
        let mut node = Self {
            handle,
            by,
            names: (0..PORTS).map(|port| format!("{letter}{port}")).collect(),
            forwarder: Some(forwarder),
            umem,
            steering: Steering::open(MAX_STREAMS).unwrap(),
            streams: Vec::new(),
        };
        (0..PORTS).for_each(|port| node.open(port));
        node
    }

    pub(crate) fn forwarder(&self) -> &Forwarder {
        self.forwarder.as_ref().unwrap()
    }

    /// Opens a port.
    pub(crate) fn open(&mut self, port: u8) {
        let (interface, namespace) = (&self.names[usize::from(port)], self.handle.namespace());
        let opened = if self.by.is_xsk(port) {
            let spec = PortSpec {
                name: interface.clone(),
                interface: interface.clone(),
                ifindex: self.handle.index(interface).unwrap(),
                mode: Mode::Native,
                queues: ReceiveQueues::Concurrent,
                running: Vec::new(),
            };
            // An interface is identified by its index in the namespace of the thread.
            namespace.run(|| self.steering.attach(&spec, false)).unwrap().unwrap();
            let steer = |queue, socket: BorrowedFd<'_>| {
                self.steering.deliver(interface, queue, socket).unwrap();
                Ok::<_, Error>(())
            };
            Port::xsk(namespace, interface, &self.umem, false, steer).unwrap()
        } else {
            Port::packet(namespace, interface, 256).unwrap()
        };
        self.forwarder().control().set_port(PortId(port), Some(opened)).unwrap();
    }

    /// Removes a port.
    pub(crate) fn close(&mut self, port: u8) {
        self.steering.detach(&self.names[usize::from(port)]).unwrap();
        self.forwarder().control().set_port(PortId(port), None).unwrap();
    }

    /// Calls a function while the forwarding thread stands still.
    pub(crate) fn stalled<T>(&self, work: impl FnOnce() -> T) -> T {
        let (blocked, is_blocked) = channel();
        let (release, is_released) = channel::<()>();
        let control = self.forwarder().control().clone();
        let thread = thread::spawn(move || {
            let wait = move |_: &mut ThreadState| {
                blocked.send(()).unwrap();
                // Until the other end is dropped.
                let _ = is_released.recv();
            };
            control.run(wait).unwrap();
        });
        is_blocked.recv().unwrap();
        let result = work();
        drop(release);
        thread.join().unwrap();
        result
    }

    /// Adds a stream, or changes the one of that name.
    pub(crate) fn set(&mut self, stream: &Stream) {
        self.streams.retain(|known| known.name != stream.name);
        self.streams.push(stream.clone());
        self.steering.apply(&self.names, &self.streams).unwrap();
        let stream = stream.clone();
        self.forwarder().control().run(move |inside| inside.plane.set(&stream)).unwrap().unwrap();
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.streams.retain(|known| known.name != name);
        self.steering.apply(&self.names, &self.streams).unwrap();
        let name = name.to_owned();
        assert!(self.forwarder().control().run(move |inside| inside.plane.remove(&name)).unwrap());
    }

    pub(crate) fn read(&self, stream: &str) -> StreamReading {
        let name = stream.to_owned();
        let control = self.forwarder().control();
        control.run(move |inside| inside.plane.read(&name, inside.now_ns)).unwrap().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.forwarder.take().into_iter().for_each(Forwarder::stop);
    }
}

/// The network.
pub(crate) struct World {
    pub(crate) a: Node,
    pub(crate) b: Node,
    pub(crate) talker: RawSocket,
    pub(crate) listener: RawSocket,
    // The interfaces are removed with their namespaces.
    _hosts: [Handle; 2],
}

impl World {
    /// Creates the network without streams.
    pub(crate) fn bare(poll: PollMode, by: PortSockets) -> Self {
        let [t, a, b, l] =
            [(); 4].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        pair((&t, "t0"), (&a, "a0"));
        pair((&a, "a1"), (&b, "b1"));
        pair((&a, "a2"), (&b, "b2"));
        pair((&b, "b0"), (&l, "l0"));
        let (talker, listener) = (RawSocket::open(&t, "t0"), RawSocket::open(&l, "l0"));
        let [a, b] = [(a, 'a'), (b, 'b')].map(|(handle, c)| Node::start(handle, c, poll, by));
        Self { a, b, talker, listener, _hosts: [t, l] }
    }

    /// Creates the network with one stream over both paths.
    pub(crate) fn new(poll: PollMode, by: PortSockets) -> Self {
        let mut world = Self::bare(poll, by);
        world.a.set(&talker(DESTINATION));
        world.b.set(&listener(DESTINATION));
        world
    }

    /// Sends a frame of the talker.
    pub(crate) fn send(&self, frame: &[u8]) {
        self.talker.send(frame);
    }

    /// Sends a frame and waits for it.
    pub(crate) fn passes(&self, frame: &[u8]) {
        self.send(frame);
        assert_eq!(self.listener.receive(BOUND).as_deref(), Some(frame));
    }
}

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
    let vlan = VlanMatch { tagged: TagMatch::Tagged, vlan: VID };
    let identification = Identification::Null { destination, vlan };
    Member { port: PortId(port), identification, individual: None }
}

pub(crate) fn egress(port: u8, tag: SequenceTag) -> Egress {
    Egress { port: PortId(port), tag, rewrite: Rewrite::default() }
}

pub(crate) fn name(destination: MacAddress) -> String {
    format!("to {destination}")
}

pub(crate) fn talker(destination: MacAddress) -> Stream {
    Stream {
        name: name(destination),
        members: vec![member(0, destination)],
        generate: true,
        recover: None,
        egress: vec![egress(1, SequenceTag::RTag), egress(2, SequenceTag::RTag)],
    }
}

pub(crate) fn listener(destination: MacAddress) -> Stream {
    Stream {
        name: name(destination),
        members: vec![member(1, destination), member(2, destination)],
        generate: false,
        recover: Some(Recovery::vector(64)),
        egress: vec![egress(0, SequenceTag::Remove)],
    }
}

pub(crate) fn frame(destination: MacAddress, tag: [u8; 4], number: u32, len: usize) -> Vec<u8> {
    let head = [&destination.0[..], &[2, 0, 0, 0, 0, 1], &tag, &[0x88, 0xb5]].concat();
    let mut frame = [&head[..], &number.to_be_bytes()].concat();
    frame.resize(len, 0x5a);
    frame
}
