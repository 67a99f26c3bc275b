//! Captures of an interface.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   CaptureSocket                  a plain packet socket
//! ```

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::conformance::{ETHER_TYPE, conformance, frame};
use crate::common::{BOUND, Cable, raw_socket};
use onbeat_link::raw::{CaptureClock, CaptureOptions, CaptureSocket, StampPolicy};
use onbeat_link::{PacketPort, PortOptions};
use onbeat_netdev::{Ethtool, Namespace};
use onbeat_testing::{Feature, RawSocket, require_all};
use onbeat_wire::MacAddress;

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// A frame as it was seen: octets, when, whether it left.
type CapturedRecord = (Vec<u8>, Option<u64>, bool);

/// The next `count` frames of the tests.
fn take(socket: &mut CaptureSocket, count: usize) -> Vec<CapturedRecord> {
    let begun = std::time::Instant::now();
    let mut seen: Vec<CapturedRecord> = Vec::new();
    while seen.len() < count {
        assert!(begun.elapsed() < BOUND, "{seen:?}");
        assert!(socket.wait(10_000_000).unwrap());
        socket.take(|frame| {
            assert_eq!(frame.octets.len(), frame.wire_len);
            if frame.octets.len() > 12 && [A.0, B.0].iter().any(|mac| frame.octets[6..12] == *mac) {
                seen.push((frame.octets.to_vec(), frame.time_ns, frame.outgoing));
            }
        });
    }
    seen
}

/// A directory for journals that is this process's own.
fn nowhere() -> PathBuf {
    std::env::temp_dir().join(format!("onbeat-captures-{}", std::process::id()))
}

fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[test]
fn both_directions_are_stamped_by_one_clock() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let options = CaptureOptions { outgoing: true, stamps: StampPolicy::Best };
    let mut socket =
        CaptureSocket::open(cable.near.namespace(), "p0", options, &nowhere()).unwrap();
    assert_eq!(socket.clock(), CaptureClock::Monotonic);
    assert!(socket.nic_unavailable_reason().is_some());
    let (near, far): (RawSocket, RawSocket) =
        (raw_socket(&cable.near, "p0"), raw_socket(&cable.far, "f0"));
    let (came, left) = (frame(A, B, b"comes"), frame(B, A, b"leaves"));
    for _ in 0..100 {
        let earlier = monotonic_ns();
        far.send(&came);
        near.send(&left);
        let seen = take(&mut socket, 2);
        let later = monotonic_ns();
        for (octets, time_ns, outgoing) in seen {
            assert_eq!(&octets, if outgoing { &left } else { &came });
            let time_ns = time_ns.unwrap();
            assert!((earlier..=later).contains(&time_ns), "{earlier} {time_ns} {later}");
        }
    }
    assert_eq!((socket.drops().unwrap(), socket.steps()), (0, 0));
}

#[test]
fn what_comes_alone_and_with_its_tag() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let mut socket = CaptureSocket::open(
        cable.near.namespace(),
        "p0",
        CaptureOptions { outgoing: false, stamps: StampPolicy::Kernel },
        &nowhere(),
    )
    .unwrap();
    assert_eq!(socket.nic_unavailable_reason(), None);
    let (near, far) = (raw_socket(&cable.near, "p0"), raw_socket(&cable.far, "f0"));
    let mut tagged = frame(A, B, b"tagged");
    tagged.splice(12..12, [0x81, 0, 0x20, 5]);
    // More than the ring is long.
    for _ in 0..40_000 {
        near.send(&frame(B, A, b"leaves"));
        far.send(&tagged);
        for (octets, _, outgoing) in take(&mut socket, 1) {
            assert!(octets == tagged && !outgoing, "{octets:x?}");
        }
    }
    assert_eq!(socket.drops().unwrap(), 0);
}

#[test]
fn unread_confirmations_are_counted() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let mut socket =
        CaptureSocket::open(cable.near.namespace(), "p0", CaptureOptions::default(), &nowhere())
            .unwrap();
    let far = raw_socket(&cable.far, "f0");
    for _ in 0..33_000 {
        far.send(&frame(A, B, b"comes"));
    }
    let begun = std::time::Instant::now();
    let mut taken = 0;
    while taken + socket.drops().unwrap() < 33_000 {
        assert!(begun.elapsed() < BOUND, "{taken} taken, {} dropped", socket.drops().unwrap());
        taken += socket.take(|_| ()) as u64;
    }
    assert!(socket.drops().unwrap() >= 33_000 - 32_768, "{taken}");
}

#[test]
fn a_refusal_names_the_way_out() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let open = |name, options| {
        let opened = CaptureSocket::open(cable.near.namespace(), name, options, &nowhere());
        opened.unwrap_err().to_string()
    };
    let missing = open("no-such", CaptureOptions::default());
    assert!(missing.contains("\"no-such\" not found; interfaces here: "), "{missing}");
    let nic = open("p0", CaptureOptions { outgoing: true, stamps: StampPolicy::Nic });
    assert!(nic.contains("let the kernel stamp both directions"), "{nic}");
    if !Cable::stamps() {
        let nic = open("p0", CaptureOptions { outgoing: false, stamps: StampPolicy::Nic });
        assert!(nic.contains("ethtool -T"), "{nic}");
    }
}

/// Set for a process that has a capture socket and is killed: where its journals are.
const KILLED: &str = "ONBEAT_CAPTURE_KILLED";

/// No test of its own: the process that [`a_killed_capture`] starts. In the interface's namespace it opens a
/// capture socket, prints the clock of its stamps, and waits to be killed.
#[test]
fn the_one_that_is_killed() {
    let Some(directory) = env::var_os(KILLED) else { return };
    let here = Namespace::current().unwrap();
    let socket =
        CaptureSocket::open(&here, "p0", CaptureOptions::default(), Path::new(&directory)).unwrap();
    println!("\nclock {:?}", socket.clock());
    // The parent never writes: this ends by a signal, or when the parent is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A NIC that stamps goes on after its capture was killed. The next capture restores its setting, also one
/// that the kernel stamps. Without stamps of a NIC nothing is left.
#[test]
fn a_killed_capture() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    let home = cable.near.namespace();
    let directory = nowhere().join("killed");
    let stamps = || Ethtool::in_namespace(home).unwrap().hardware_stamps("p0").ok();
    let before = stamps();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "capture::the_one_that_is_killed", "--nocapture"])
        .env(KILLED, &directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = home.start_in(&mut command).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let clock = said.find_map(|line| Some(line.unwrap().strip_prefix("clock ")?.to_owned()));
    let by_nic = clock.unwrap().starts_with("Nic");
    let during = stamps();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(stamps(), during, "a signal that cannot be caught");
    // The NIC stamps received frames only: those that a port sends are confirmed by the driver.
    let options = PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() };
    let mut port = PacketPort::open(home, "p0", options).unwrap();
    conformance(&mut port, &mut raw_socket(&cable.far, "f0"));
    drop(port);
    let files = || {
        let path = directory.join(home.inode().to_string());
        fs::read_dir(path).map_or(0, Iterator::count)
    };
    // A journal, and the lock of the killed process.
    assert_eq!((during != before, files()), (by_nic, 2 * usize::from(by_nic)), "{during:?}");
    let options = CaptureOptions { outgoing: false, stamps: StampPolicy::Kernel };
    drop(CaptureSocket::open(home, "p0", options, &directory).unwrap());
    assert_eq!((stamps(), files()), (before, 0), "as it was");
    if by_nic {
        drop(CaptureSocket::open(home, "p0", CaptureOptions::default(), &directory).unwrap());
        assert_eq!((stamps(), files()), (before, 0), "one that ends by itself");
    }
}
