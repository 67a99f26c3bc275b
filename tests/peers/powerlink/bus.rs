//! A network of nodes of both implementations, and the capture of its frames.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use onbeat_delay::capture::{LinkType, Writer};
use onbeat_lab::traffic::{Receiver, socket};
use onbeat_lab::world::CutEnds;
use onbeat_lab::{Topology, World};
use onbeat_realtime::interrupt::wait_until;
use onbeat_report::CpuTimes;
use onbeat_wire::powerlink::NodeId;
use serde_json::Value;

use super::configuration::{CYCLE_US, NodeSpec, concise, network_file};
use super::record::Record;
use super::{Maker, Programs};
use crate::common::process::Process;
use crate::common::{BOUND, build, program};

/// Configuration files of the nodes, in the private /run of the world.
const DIRECTORY: &str = "/run/onbeat/lab";
const MN: u8 = NodeId::MN.0;
/// Every stack of the reference has its own semaphores; output is printed line by line.
const PRIVATE: &str = "mount -t tmpfs none /dev/shm && exec stdbuf -oL \"$@\"";
/// Starts of a program of the reference, which fails once in some hundred without a reason.
const STARTS: u32 = 3;

/// Captures, logs and results of the last run.
pub(crate) fn output() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("powerlink")
}

/// A running node.
struct RunningNode {
    maker: Maker,
    process: Process,
    log: PathBuf,
}

/// A network, named as its case.
pub(crate) struct Bus {
    name: String,
    // Dropped before the world, whose namespaces they run in.
    running: BTreeMap<u8, RunningNode>,
    world: World,
    tap: Receiver,
    writer: Writer<BufWriter<File>>,
    pub(crate) record: Record,
    programs: Programs,
    pub(crate) managing: Maker,
    nodes: Vec<NodeSpec>,
    in_driver: bool,
    started: Instant,
    cpu: CpuTimes,
}

impl Bus {
    /// Builds the network; no node runs.
    pub(crate) fn build(
        programs: &Programs,
        name: &str,
        managing: Maker,
        nodes: &[NodeSpec],
        mandatory: bool,
    ) -> Bus {
        Bus::build_with_cycle(programs, name, managing, nodes, mandatory, CYCLE_US)
    }

    pub(crate) fn build_with_cycle(
        programs: &Programs,
        name: &str,
        managing: Maker,
        nodes: &[NodeSpec],
        mandatory: bool,
        cycle_us: u32,
    ) -> Bus {
        let mut network = Topology::default();
        let ports: Vec<(String, u8)> = nodes
            .iter()
            .map(|node| node.id)
            .chain([MN])
            .map(|node| (format!("p{node}"), node))
            .collect();
        let names: Vec<&str> = ports.iter().map(|(port, _)| port.as_str()).collect();
        network.hub("hub", 1, 0, &names);
        for (row, (port, node)) in (0..).zip(&ports) {
            let host = format!("n{node}");
            network.host(&host, 2, row);
            network.link(&host, &format!("hub:{port}"), &format!("{host}:plk0"));
        }
        let world = build(&network);
        let tap = socket::monitor(world.namespace("hub").unwrap(), &format!("p{MN}")).unwrap();
        fs::write(format!("{DIRECTORY}/bus.toml"), network_file(nodes, mandatory, cycle_us))
            .unwrap();
        fs::write(format!("{DIRECTORY}/bus.cdc"), concise(nodes, mandatory, cycle_us)).unwrap();
        let capture = output().join(format!("{name}.pcap"));
        let file = BufWriter::new(File::create(capture).expect("a capture"));
        Bus {
            name: name.to_owned(),
            running: BTreeMap::new(),
            world,
            tap: Receiver::new(tap),
            writer: Writer::new(file, LinkType::ETHERNET).unwrap(),
            record: Record::default(),
            programs: programs.clone(),
            managing,
            nodes: nodes.to_vec(),
            in_driver: false,
            started: Instant::now(),
            cpu: CpuTimes::now().unwrap_or_default(),
        }
    }

    /// The same, and starts all nodes and waits until they are in OPERATIONAL.
    pub(crate) fn boot(
        programs: &Programs,
        name: &str,
        managing: Maker,
        nodes: &[NodeSpec],
        mandatory: bool,
    ) -> Bus {
        let mut bus = Bus::build(programs, name, managing, nodes, mandatory);
        nodes.iter().for_each(|node| bus.start(node.id));
        bus.start(MN);
        bus.wait_operational();
        bus
    }

    /// Controlled nodes of onbeat respond in the driver, which a veth permits if its peer merges packets. A managing
    /// node of onbeat runs on CPU 1, as that of the reference.
    pub(crate) fn respond_in_driver(&mut self) {
        self.in_driver = true;
        for node in &self.nodes {
            let mut command = Command::new("ethtool");
            command.args(["-K", &format!("p{}", node.id), "gro", "on"]);
            self.world.namespace("hub").unwrap().start_in(&mut command);
            assert!(command.status().expect("ethtool").success());
        }
    }

    fn maker(&self, node: u8) -> Maker {
        let found = self.nodes.iter().find(|spec| spec.id == node);
        found.map_or(self.managing, |spec| spec.maker)
    }

    /// Path of a file of a node: `log` of both outputs, or `json`.
    fn file(&self, node: u8, ending: &str) -> PathBuf {
        output().join(format!("{}-{node}.{ending}", self.name))
    }

    /// Starts a node; the reference's is started when it reports so.
    pub(crate) fn start(&mut self, node: u8) {
        let log = self.file(node, "log");
        let maker = self.maker(node);
        for left in (0..STARTS).rev() {
            let process = self.spawn(node, maker);
            self.running.insert(node, RunningNode { maker, process, log: log.clone() });
            if maker == Maker::Onbeat {
                return;
            }
            let mut exited = false;
            self.wait(&format!("node {node} is started"), |bus| {
                let running = bus.running.get_mut(&node).expect("it was started");
                exited = running.process.wait(Duration::ZERO).is_some();
                let log = fs::read_to_string(&log).unwrap_or_default();
                exited || log.contains("Stack entered state: ")
            });
            if !exited {
                return;
            }
            assert!(left > 0, "node {node} exits at its start: {}", self.diagnosis());
        }
    }

    fn spawn(&self, node: u8, maker: Maker) -> Process {
        let bus = |ending: &str| format!("{DIRECTORY}/bus.{ending}");
        let id = node.to_string();
        let mut command = match maker {
            Maker::Onbeat => {
                let mut command = if self.in_driver && node == MN {
                    let mut command = Command::new("taskset");
                    command.args(["--cpu-list", "1"]).arg(program());
                    command
                } else {
                    Command::new(program())
                };
                command.arg("powerlink").stdin(Stdio::null());
                match node {
                    MN => command.args(["mn", &bus("toml")]),
                    _ => command.args(["cn", &bus("toml"), "--node", &id]),
                };
                if self.in_driver && node != MN {
                    command.args(["--backend", "xdp"]);
                }
                command.args(["--json", "--quiet"]);
                command.stdout(File::create(self.file(node, "json")).unwrap());
                command
            }
            Maker::Reference => {
                let mut command = Command::new("unshare");
                // It keeps parameters in its working directory: none of an earlier run, and none elsewhere.
                let folder = format!("{DIRECTORY}/reference{node}");
                fs::create_dir_all(&folder).unwrap();
                command.current_dir(folder);
                command.args(["--mount", "sh", "-c", PRIVATE, "sh"]).stdin(Stdio::piped());
                match node {
                    MN => command.arg(&self.programs.managing).args(["-c", &bus("cdc")]),
                    _ => command.arg(&self.programs.controlled).args(["-n", &id]),
                };
                command.args(["-d", "plk0"]);
                command.stdout(File::create(self.file(node, "log")).unwrap());
                command
            }
        };
        // Of a node that is started again, only the last output is of interest.
        let errors = if maker == Maker::Onbeat { "log" } else { "err" };
        command.stderr(File::create(self.file(node, errors)).unwrap());
        self.world.namespace(&format!("n{node}")).unwrap().start_in(&mut command);
        Process::spawn_with_input(command)
    }

    /// Passes captured frames to the record and the file.
    pub(crate) fn drain(&mut self) {
        let Bus { tap, writer, record, .. } = self;
        let mut take = |frame: onbeat_netdev::ReceivedFrame<'_>| {
            let time_ns = frame.realtime_ns.expect("a time stamp") as i64;
            writer.write(time_ns, frame.octets, frame.octets.len() as u32).expect("a capture");
            record.take(time_ns, frame.octets);
        };
        while tap.receive(&mut take).expect("frames") > 0 {}
        assert_eq!(tap.socket().take_drops().expect("statistics"), 0, "frames not captured");
    }

    /// Waits for a condition, evaluated after each batch of frames.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, condition: impl FnMut(&mut Bus) -> bool) {
        self.wait_within(BOUND, what, condition);
    }

    #[track_caller]
    pub(crate) fn wait_within(
        &mut self,
        bound: Duration,
        what: &str,
        mut condition: impl FnMut(&mut Bus) -> bool,
    ) {
        let fulfilled = wait_until(bound, || {
            self.drain();
            condition(self)
        });
        let fulfilled = fulfilled.expect("no signal");
        assert!(fulfilled, "{}: not within {bound:?}: {what}\n{}", self.name, self.diagnosis());
    }

    /// Lets the network run for some time.
    #[track_caller]
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.wait_within(time + BOUND, "time passes", |_| Instant::now() >= end);
    }

    #[track_caller]
    pub(crate) fn wait_operational(&mut self) {
        let nodes: Vec<u8> = self.nodes.iter().map(|node| node.id).collect();
        self.wait("all nodes are in OPERATIONAL", |bus| {
            bus.record.all_operational(nodes.iter().copied())
        });
    }

    /// Terminates a node at once (SIGKILL).
    pub(crate) fn kill(&mut self, node: u8) {
        self.running.remove(&node).expect("a running node");
        self.drain();
    }

    /// Pulls the cable of a controlled node at the hub. The interface of a node of onbeat loses its carrier. That of
    /// the reference keeps it, as the reference may stop when its interface is down.
    pub(crate) fn cut(&mut self, node: u8) {
        match self.maker(node) {
            Maker::Onbeat => self.world.cut(&format!("n{node}"), CutEnds::First).unwrap(),
            Maker::Reference => self.bridge(node, None),
        }
    }

    pub(crate) fn restore(&mut self, node: u8) {
        match self.maker(node) {
            Maker::Onbeat => self.world.restore(&format!("n{node}")).unwrap(),
            Maker::Reference => self.bridge(node, Some("br0")),
        }
    }

    fn bridge(&self, node: u8, bridge: Option<&str>) {
        self.world.handle("hub").unwrap().set_master(&format!("p{node}"), bridge).unwrap();
    }

    /// Presses a key at a node of the reference.
    pub(crate) fn press(&mut self, node: u8, key: u8) {
        let running = self.running.get_mut(&node).expect("a running node");
        running.process.0.stdin.as_mut().expect("a pipe").write_all(&[key]).expect("it reads");
    }

    /// Octets that a node of the reference has printed behind a text; the lowest bit is printed first.
    pub(crate) fn printed(&self, node: u8, text: &str) -> Vec<u8> {
        let log = fs::read_to_string(self.file(node, "log")).unwrap_or_default();
        let bits = |line: &str| {
            let (_, bits) = line.split_once(text)?;
            Some(bits.bytes().rev().fold(0, |octet, bit| octet << 1 | u8::from(bit == b'*')))
        };
        log.lines().filter_map(bits).collect()
    }

    /// Stops a node of onbeat that is in OPERATIONAL: its exit status is 0.
    pub(crate) fn finish(&mut self, node: u8) -> Value {
        let (code, found) = self.stop(node);
        assert_eq!(code, 0, "{}: exit status of node {node}: {found:#}", self.name);
        found
    }

    /// Sends SIGINT to a node of onbeat; returns its exit status and its result.
    pub(crate) fn stop(&mut self, node: u8) -> (i32, Value) {
        let RunningNode { process, .. } = self.running.remove(&node).expect("a running node");
        process.signal(Signal::SIGINT);
        let code = process.code(&format!("node {node}"));
        self.drain();
        let text = fs::read_to_string(self.file(node, "json")).unwrap();
        (code, serde_json::from_str(&text).expect("a result"))
    }

    /// States, resets and the last output of every node.
    fn diagnosis(&self) -> String {
        let mut text = format!("{:?}\nresets: {:x?}\n", self.record.states, self.record.resets);
        for (node, RunningNode { maker, log, .. }) in &self.running {
            let log = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(5)..];
            text += &format!("node {node} of {maker:?}:\n  {}\n", last.join("\n  "));
        }
        text + &format!("captures and logs: {}", output().display())
    }

    /// Writes the capture to its end, and prints what ran.
    pub(crate) fn end(mut self, text: &str) {
        self.drain();
        let mut cpu = CpuTimes::default();
        cpu.add(self.cpu, CpuTimes::now().unwrap_or_default());
        println!(
            "{}: {text}; {} frames in {:.1} s, CPU steal {:.1} %",
            self.name,
            self.record.frames,
            self.started.elapsed().as_secs_f64(),
            cpu.steal_percent().unwrap_or_default()
        );
        self.writer.finish().and_then(|mut file| file.flush()).expect("a capture");
    }
}
