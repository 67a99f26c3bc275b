//! Faults that the module survives.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::genl::attachments;
use crate::machine::{load, unload};
use onbeat_link::{Filter, PacketPort, PortOptions};
use onbeat_netdev::Namespace;

const ATTACHMENTS: usize = 1_000;
const LOADS: usize = 25;
/// Between three frames and the next.
const PAUSE: Duration = Duration::from_micros(100);
/// Makes a child process of this program attach to an interface and stay.
const ATTACH: &str = "ONBEAT_TEST_ATTACH";

/// Frames from the far end, claimed ones and others, until dropped.
struct Traffic {
    /// Makes the kernel stamp received frames: to turn that on and off patches the receive
    /// path, and an emulated CPU that runs there meanwhile may trip over a breakpoint that is gone.
    _stamped: PacketPort,
    over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Returns once it flows.
    fn new(cable: &Cable) -> Self {
        let nothing = PortOptions {
            ether_types: vec![onbeat_wire::EtherType(0x88b7)],
            ..PortOptions::default()
        };
        let stamped = PacketPort::open(cable.far.namespace(), "f0", nothing).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let peer = raw_socket(&cable.far, "f0");
        let to = cable.near.link("p0").unwrap().mac.unwrap();
        let stop = Arc::clone(&over);
        let (flows, wait) = mpsc::channel();
        let sender = thread::spawn(move || {
            let claimed = frame(to, to, &[1; 46]);
            let mut other = claimed.clone();
            other[12..14].copy_from_slice(&[0x88, 0xb6]);
            let tagged = [&claimed[..12], &[0x81, 0x00, 0xe0, 0x05], &claimed[12..]].concat();
            while !stop.load(Ordering::Relaxed) {
                let mut sent = false;
                for frame in [&claimed, &other, &tagged] {
                    sent |= peer.try_send(frame);
                }
                if sent {
                    // Nobody waits any more, from the second time on.
                    let _ = flows.send(());
                }
                while peer.receive(Duration::ZERO).is_some() {}
                // A pace that leaves an emulated CPU time for what is tested.
                thread::sleep(PAUSE);
            }
        });
        wait.recv_timeout(BOUND).expect("traffic");
        Self { _stamped: stamped, over, sender: Some(sender) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let sender = self.sender.take().unwrap().join();
        assert!(sender.is_ok() || thread::panicking());
    }
}

/// Makes the port send cyclically and answer the traffic.
fn busy(port: &mut ModulePort) {
    let mac = port.mac_address();
    let slot = port.allocate(60).unwrap();
    let sent = frame(mac, mac, &[2; 46]);
    port.update(slot, &sent).unwrap();
    port.respond(Filter::new(&sent[..14], &[0xff; 14]).unwrap(), slot).unwrap();
    // A kernel that checks its locks takes longer than that for a frame, and would do nothing else.
    let period_ns = if Path::new("/proc/lockdep").exists() { 5_000_000 } else { 100_000 };
    port.send_every(slot, port.now(), period_ns).unwrap();
}

#[test]
fn attaching_and_detaching_under_traffic() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let _traffic = Traffic::new(&cable);
    for round in 0..ATTACHMENTS {
        let transmit = TransmitMethod::ALL[round % 3];
        // The virtual interface takes the kernel most of the time: now and then.
        let switch = round % 10 < 3;
        let options = PortOptions { switch, receive_buffers: 4, ..options(transmit) };
        if round % 100 == 0 {
            eprintln!("{round} attachments");
        }
        let Some(mut port) = try_open(&cable, options) else { continue };
        busy(&mut port);
        if round % 2 == 0 {
            while let Some(frame) = port.receive().unwrap() {
                port.release(frame);
            }
        }
    }
    assert_eq!(attachments(cable.near.namespace()), 0);
}

#[test]
fn unloading_under_traffic() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let _traffic = Traffic::new(&cable);
    for round in 0..LOADS {
        let transmit = TransmitMethod::ALL[round % 3];
        let options = PortOptions { switch: round % 2 == 0, ..options(transmit) };
        if let Some(mut port) = try_open(&cable, options) {
            busy(&mut port);
            unload();
            let slot = port.allocate(60).unwrap();
            assert!(port.update(slot, &[0; 60]).is_err());
        } else {
            unload();
        }
        let error = ModulePort::open(cable.near.namespace(), "p0", super::options(transmit));
        let error = error.unwrap_err();
        assert!(matches!(error, Error::NoModule { .. }), "{error}");
        assert!(error.to_string().contains("modprobe onbeat"), "{error}");
        load();
    }
}

#[test]
fn the_interface_changes_under_it() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    for transmit in TransmitMethod::ALL {
        let Some(mut port) = try_open(&cable, options(transmit)) else { continue };
        busy(&mut port);
        for round in 0..20 {
            cable.near.set_down("p0").unwrap();
            cable.near.set_mtu("p0", 1500 - 100 * (round % 3)).unwrap();
            cable.near.set_up("p0").unwrap();
            cable.near.wait_carrier("p0", BOUND).unwrap();
        }
        cable.near.set_mtu("p0", 1000).unwrap();
        let slot = port.allocate(1514).unwrap();
        let (code, detail) = refusal(port.update(slot, &[0; 1200]));
        assert_eq!(code, libc::EMSGSIZE);
        assert!(detail.contains("longer than the interface's MTU"), "{detail}");
        cable.near.set_mtu("p0", 1500).unwrap();
        let peer = raw_socket(&cable.far, "f0");
        assert!(peer.receive(BOUND).is_some(), "the cycle goes on");
    }
}

#[test]
fn the_interface_or_its_namespace_goes_away() {
    let Some(_module) = module() else { return };
    if !Cable::goes_away() {
        return;
    }
    for transmit in TransmitMethod::ALL {
        for switch in [false, true] {
            for by_namespace in [false, true] {
                let cable = Cable::new();
                let options = PortOptions { switch, ..options(transmit) };
                let Some(mut port) = try_open(&cable, options) else { continue };
                let traffic = Traffic::new(&cable);
                busy(&mut port);
                if by_namespace {
                    // The port's sockets hold the namespace: all of it goes at once.
                    drop(traffic);
                    drop(cable);
                    drop(port);
                    continue;
                }
                let elsewhere = Namespace::new().unwrap();
                if switch {
                    cable.near.move_to("p0", &elsewhere).unwrap();
                    assert_eq!(attachments(&elsewhere), 0, "it does not move along");
                } else {
                    // The far end goes with it.
                    drop(traffic);
                    cable.near.delete("p0").unwrap();
                }
                let slot = port.allocate(60).unwrap();
                assert_eq!(refusal(port.update(slot, &[0; 60])).0, libc::ENODEV);
                assert_eq!(attachments(cable.near.namespace()), 0);
            }
        }
    }
}

#[test]
fn its_owner_is_killed() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    for _ in 0..3 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile_configuration::child_attaches", "--nocapture"]);
        command.env(ATTACH, "p0").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut owner = cable.near.namespace().start_in(&mut command).spawn().unwrap();
        let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("attached")));
        assert_eq!(attachments(cable.near.namespace()), 1);
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(attachments(cable.near.namespace()), 0);
        let left = cable.near.links().unwrap();
        assert!(left.iter().all(|link| !link.name.starts_with("ob")), "{left:?}");
    }
    open(&cable, options(TransmitMethod::Direct));
}

/// Not a test of its own: the process of [`its_owner_is_killed`].
#[test]
fn child_attaches() {
    let Some(interface) = std::env::var_os(ATTACH) else { return };
    let home = Namespace::current().unwrap();
    let options = PortOptions { switch: true, ..options(TransmitMethod::Direct) };
    let mut port = ModulePort::open(&home, interface.to_str().unwrap(), options).unwrap();
    busy(&mut port);
    println!("\nattached");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or its parent is gone.
    let _ = std::io::stdin().lines().next();
}
