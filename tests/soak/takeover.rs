//! Daemons are killed (SIGKILL) at random times of start, reload and `onbeat down`, on every back end.
//! Afterwards the node starts, `down` leaves no state, and while the programs of an XDP node run, no
//! frame is lost.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         2,000 frames/s
//!                      \-------/
//!                        path2
//! ```

use std::fs;
use std::time::{Duration, Instant};

use onbeat_lab::World;
use onbeat_netdev::Ethtool;
use onbeat_node::config::Backend;
use onbeat_wire::random::Random;

use crate::common::process::{Process, random_part};
use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, eliminate, left_behind, program, replicate, run, run_in,
    two_paths, wait_for,
};
use crate::full_disk::SPARE;
use crate::runs::{Runs, one_of};

const RATE: u64 = 2000;
/// Frames between two events.
const BETWEEN: u64 = 20;
const NODES: [&str; 2] = ["a", "b"];

/// The stream under test, random others, and randomly an additional port.
fn config(node: &str, random: &mut Random) -> String {
    let stream = if node == "a" { replicate } else { eliminate };
    let others = random.below(8);
    let others: String = (0..others)
        .map(|n| stream(&format!("other{n}"), &format!("01:00:5e:00:01:{n:02x}"), VLAN))
        .collect();
    let spare = if random.chance(0.5) { SPARE } else { "" };
    format!("{PORTS}{spare}{}{others}", stream("axis", GROUP, VLAN))
}

/// The interfaces of the nodes, with all settings that a node may change.
fn interfaces(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for node in NODES {
        let handle = world.handle(node).unwrap();
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        for link in handle.links().unwrap() {
            let (mtu, promiscuity, xdp) = (link.mtu, link.promiscuity, link.xdp.len());
            let features = ethtool.features(&link.name).unwrap();
            let name = &link.name;
            found.push(format!("{node} {name} {mtu} {promiscuity} {xdp} {features:?}"));
        }
    }
    found
}

struct Soak {
    world: World,
    /// State of the interfaces before the first start.
    clean: Vec<String>,
    /// The longest start so far: the range of kill times.
    start: Duration,
}

impl Soak {
    fn flow(&self) -> Flow {
        Flow::start(&self.world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None)
    }

    fn onbeat(&self, node: &str, arguments: &[&str]) -> Process {
        Process::start(self.world.namespace(node).unwrap(), arguments)
    }

    fn configure(&mut self, node: &str, random: &mut Random) {
        let text = config(node, random);
        fs::write(file(node), &text).unwrap();
        self.world.set_config(node, text).unwrap();
    }

    fn start(&mut self, node: &str) {
        let before = Instant::now();
        self.world.start(node, program()).unwrap_or_else(|error| panic!("{error}"));
        self.start = self.start.max(before.elapsed());
    }

    fn kill_daemon(&mut self, node: &str) {
        if let Ok(daemon) = self.world.daemon(node) {
            // It may have exited already.
            let _ = daemon.kill();
        }
    }

    /// Starts the daemon and kills it at a random time.
    fn killed_start(&mut self, node: &str, random: &mut Random) {
        self.configure(node, random);
        let backend = self.world.backend().expect("a back end").to_string();
        let daemon = self.onbeat(node, &["run", &file(node), "--backend", &backend]);
        daemon.kill_within(random, self.start * 5 / 4);
    }

    /// Runs a command against a daemon and kills either of them at a random time.
    fn killed_command(&mut self, node: &str, command: &str, random: &mut Random) {
        let span = self.start;
        let process = self.onbeat(node, &[command, node]);
        if random.chance(0.5) {
            process.kill_within(random, span);
            return;
        }
        std::thread::sleep(random_part(random, span));
        self.kill_daemon(node);
        process.code(&format!("onbeat {command} {node}, whose daemon was killed,"));
    }

    fn kills_under_traffic(&mut self, random: &mut Random, runs: &mut Runs) {
        let flow = self.flow();
        flow.advance(BETWEEN);
        for _ in 0..=random.below(4) {
            let node = *one_of(random, &NODES);
            if random.chance(0.5) {
                self.configure(node, random);
                self.killed_command(node, "reload", random);
                runs.count("killed reloads", 1);
            }
            self.kill_daemon(node);
            for _ in 0..random.below(3) {
                self.killed_start(node, random);
                runs.count("killed starts", 1);
            }
            self.configure(node, random);
            self.start(node);
            flow.advance(BETWEEN);
        }
        runs.count("frames", flow.finish_whole());
    }

    /// The same; without a daemon no frame passes.
    fn kills_between_traffic(&mut self, random: &mut Random, runs: &mut Runs) {
        for _ in 0..=random.below(2) {
            let node = *one_of(random, &NODES);
            self.configure(node, random);
            self.killed_command(node, "reload", random);
            runs.count("killed reloads", 1);
            self.kill_daemon(node);
            self.start(node);
            // "a" may number from 0 again.
            let reset = run(&["reset", "axis", "--node", "b"]);
            assert_eq!(reset.code, 0, "{reset:?}");
            let flow = self.flow();
            flow.advance(BETWEEN);
            runs.count("frames", flow.finish_whole());
        }
    }

    fn down(&mut self, node: &str, random: &mut Random, runs: &mut Runs) {
        for _ in 0..random.below(3) {
            self.killed_command(node, "down", random);
            runs.count("killed downs", 1);
        }
        self.take_down(node);
    }

    fn take_down(&mut self, node: &str) {
        let down = run_in(self.world.namespace(node).unwrap(), &["down", node]);
        let gone_before = down.code == 2 && down.err.contains("no node ");
        assert!(down.code == 0 || gone_before, "{down:?}");
        let left = left_behind(node);
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    fn assert_clean(&self) {
        // The last reference to an interface may be released later.
        let clean = || interfaces(&self.world) == self.clean;
        let within = onbeat_realtime::interrupt::wait_until(Duration::from_secs(5), clean);
        assert!(within.unwrap(), "{:#?}\nbefore: {:#?}", interfaces(&self.world), self.clean);
    }

    /// Control: an injected defect is found at its position.
    fn control(&mut self, random: &mut Random) {
        self.world.set_backend(Some(Backend::Xdp));
        for node in NODES {
            self.configure(node, random);
            self.start(node);
        }
        assert!(NODES.iter().all(|node| !left_behind(node).is_empty()), "control");
        assert_ne!(interfaces(&self.world), self.clean, "control");
        let flow = self.flow();
        flow.advance(BETWEEN);
        self.take_down("b");
        let end = flow.begun() + BETWEEN;
        wait_for("more frames", || flow.begun() >= end);
        assert!(flow.finish().delivery.lost() > 0, "control: lost frames are counted");
        self.take_down("a");
        self.assert_clean();
    }
}

fn file(node: &str) -> String {
    format!("/run/onbeat/lab/{node}.toml")
}

pub(crate) fn soak(runs: &mut Runs) {
    let world = build(&two_paths("", ""));
    let clean = interfaces(&world);
    let mut soak = Soak { world, clean, start: Duration::ZERO };
    soak.control(&mut Random::new(0));
    while let Some(mut random) = runs.next() {
        let random = &mut random;
        let backend = *one_of(random, &[Backend::Xdp, Backend::Xdp, Backend::Packet, Backend::Xsk]);
        soak.world.set_backend(Some(backend));
        for node in NODES {
            for _ in 0..random.below(3) {
                soak.killed_start(node, random);
                runs.count("killed starts", 1);
                if random.chance(0.3) {
                    soak.down(node, random, runs);
                }
            }
            soak.configure(node, random);
            soak.start(node);
        }
        if backend == Backend::Xdp {
            soak.kills_under_traffic(random, runs);
        } else {
            soak.kills_between_traffic(random, runs);
        }
        for node in NODES {
            soak.down(node, random, runs);
        }
        soak.assert_clean();
    }
}
