//! A node of PRP whose programs run in generic mode, as on a NIC without native XDP. Frames of its peer are those of
//! packet sockets: generic XDP skips frames that a program of the same machine redirected.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use nix::ioctl_read_bad;
use nix::libc::FIONREAD;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use onbeat_node::control::NodesStatus;

use super::{H1, H2, PORT, Receiver, StopGuard, network, send, udp};
use crate::common::process::Process;
use crate::common::{BOUND, TemporaryFile, can_run, run, run_in, wait_for};

ioctl_read_bad!(unread_octets, FIONREAD, nix::libc::c_int);

const NODE: &str = "prot15";
const CONFIG: &str = r#"
[node]
name = "prot15"
protocol = "prp"
backend = "xdp"

[[port]]
name = "host"
interface = "prot15"
create = "veth"
mode = "generic"

[[port]]
name = "a"
interface = "lana"
lan = "a"
mode = "generic"

[[port]]
name = "b"
interface = "lanb"
lan = "b"
mode = "generic"
"#;

/// Short segments, which TCP appends to the buffer of an earlier one where that has room.
const SEGMENTS: usize = 50;
const OCTETS: usize = 20;

/// Sends segments one by one, which wait in the receiver's queue; compares what is read.
fn transfer(mut from: &TcpStream, mut to: &TcpStream) {
    setsockopt(from, sockopt::TcpNoDelay, &true).unwrap();
    let unread = || {
        let mut unread = 0;
        // SAFETY: an open descriptor, and a pointer to an int for the result.
        unsafe { unread_octets(to.as_raw_fd(), &raw mut unread) }.unwrap();
        unread as usize
    };
    let sent: Vec<u8> = (0..SEGMENTS * OCTETS).map(|at| ((at * at) >> 3) as u8).collect();
    for (segment, octets) in (1..).map(|number| number * OCTETS).zip(sent.chunks(OCTETS)) {
        from.write_all(octets).unwrap();
        wait_for("the segment", || unread() == segment);
    }
    let mut received = vec![0; sent.len()];
    to.read_exact(&mut received).unwrap();
    let wrong = sent.iter().zip(&received).position(|(sent, received)| sent != received);
    assert_eq!(wrong, None, "the first wrong octet");
}

#[test]
fn streams_are_unchanged_with_and_without_the_daemon() {
    if !can_run() {
        return;
    }
    let network = network();
    let (h1, h2) = (&network.h1, &network.h2);
    let made = run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot14"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    h1.add_address("prot14", IpAddr::V4(H1), 24).unwrap();
    let file = TemporaryFile::with("prot15.toml", CONFIG);
    let mut node = Process::start(h2.namespace(), &["run", file.name()]);
    let tables = || -> Option<NodesStatus> {
        serde_json::from_str(&run(&["show", NODE, "--nodes", "--json"]).out).ok()
    };
    wait_for("the node answers", || tables().is_some());
    h2.add_address(NODE, IpAddr::V4(H2), 24).unwrap();
    h2.set_up(NODE).unwrap();
    wait_for("it hears the other one on both LANs", || {
        tables().is_some_and(|tables| tables.lans.iter().all(|lan| lan.counters.received > 0))
    });
    let listener = h2.namespace().run(|| TcpListener::bind((H2, PORT)).unwrap()).unwrap();
    let connect = || TcpStream::connect_timeout(&(H2, PORT).into(), BOUND).unwrap();
    let connect = || h1.namespace().run(connect).unwrap();
    let client = connect();
    let (server, _) = listener.accept().unwrap();
    transfer(&client, &server);
    let of_lans = |count: fn(&onbeat_frer::prp::LanCounters) -> u64| {
        tables().unwrap().lans.iter().map(|lan| count(&lan.counters)).sum::<u64>()
    };
    let segments = SEGMENTS as u64;
    assert!(of_lans(|counters| counters.accepted) >= segments);
    assert!(of_lans(|counters| counters.duplicates) >= segments);

    // Programs at the tc ingress continue without the daemon, and while the next one starts.
    let mut receiver = Receiver::new(udp(h2, H2, PORT));
    let (stop, sender) = (AtomicBool::new(false), udp(h1, H1, 0));
    let sent = AtomicU32::new(0);
    let node = thread::scope(|scope| {
        let _stopped = StopGuard(&stop);
        scope.spawn(|| send(&sender, H2, &sent, &stop));
        let mut advance = |what: &str, done: &mut dyn FnMut() -> bool| {
            let enough = receiver.received() + 200;
            wait_for(what, || {
                receiver.drain();
                done() && receiver.received() >= enough
            });
        };
        advance("datagrams arrive", &mut || true);
        node.signal(Signal::SIGKILL);
        assert!(node.wait(BOUND).is_some());
        advance("datagrams arrive without the daemon", &mut || true);
        let next = Process::start(h2.namespace(), &["run", file.name()]);
        advance("the next node answers", &mut || tables().is_some());
        advance("datagrams arrive by the next node", &mut || true);
        next
    });
    receiver.has_each_once(sent.load(Ordering::Acquire));
    transfer(&client, &server);
    let again = connect();
    transfer(&again, &listener.accept().unwrap().0);
    drop(node);
    let down = run_in(h2.namespace(), &["down", NODE]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{}", down.out);
    crate::common::assert_gone(NODE);
    let undone = run_in(h1.namespace(), &["protect", "--undo", "prot14"]);
    assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
}
