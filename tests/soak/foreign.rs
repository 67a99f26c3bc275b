//! XDP programs of other applications are attached to and detached from the ports of a node while it
//! starts, is killed, reloaded and taken down, on every back end, in both modes. Only `run --replace`
//! may replace one.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use onbeat_lab::World;
use onbeat_netdev::{Handle, XdpMode};
use onbeat_testing::{AttachMethod, ForeignProgram};
use onbeat_wire::random::Random;

use crate::common::process::{Process, random_part};
use crate::common::{
    BOUND, GROUP, PORTS, build, left_behind, one_node, program, replicate, run_in, wait_for,
    xdp_program,
};
use crate::runs::{Runs, one_of};

const INTERFACES: [&str; 3] = ["host", "path1", "path2"];
const FILE: &str = "/run/onbeat/lab/a.toml";
const STREAMS: &str = "/run/onbeat/lab/streams.toml";
const LOG: &str = "/run/onbeat/lab/a.log";
/// Steps of a run.
const STEPS: u64 = 12;
/// Approximate duration of a start.
const START: Duration = Duration::from_millis(300);

struct Soak {
    world: World,
    strangers: BTreeMap<&'static str, ForeignProgram>,
    daemon: Option<Process>,
    steps: Vec<String>,
}

impl Soak {
    fn handle(&self) -> &Handle {
        self.world.handle("a").unwrap()
    }

    /// The foreign programs that no longer run.
    fn replaced(&self) -> Vec<&str> {
        let gone = |(interface, stranger): &(&&str, &ForeignProgram)| {
            xdp_program(self.handle(), interface) != Some(stranger.id)
        };
        self.strangers.iter().filter(gone).map(|(interface, _)| *interface).collect()
    }

    fn attach(&mut self, random: &mut Random) {
        let interface = *one_of(random, &INTERFACES);
        if xdp_program(self.handle(), interface).is_some() {
            return;
        }
        let hold = *one_of(random, &[AttachMethod::Interface, AttachMethod::Link]);
        let mode = *one_of(random, &[XdpMode::Native, XdpMode::Generic]);
        let stranger = ForeignProgram::attach(self.handle(), interface, hold, mode);
        self.strangers.insert(interface, stranger);
    }

    fn detach(&mut self) {
        if let Some((_, stranger)) = self.strangers.pop_first() {
            stranger.detach(self.handle());
        }
    }

    /// Random ports; a node without streams does not need two.
    fn configure(&self, random: &mut Random) {
        let mode = *one_of(random, &["auto", "native", "generic"]);
        let ports = PORTS.replace("[[port]]\n", &format!("[[port]]\nmode = \"{mode}\"\n"));
        let stream = replicate("axis", GROUP, 100);
        let text = if random.chance(0.7) {
            format!("{ports}{stream}")
        } else {
            // Without path2.
            let kept = ports.rsplit_once("[[port]]").expect("three ports").0;
            let stream =
                stream.replace("  { port = \"path2\", tag = \"r-tag\", vlan = 12 },\n", "");
            format!("{kept}{stream}")
        };
        fs::write(FILE, text).unwrap();
    }

    fn onbeat(&self, arguments: &[&str]) -> i32 {
        let mut command = Command::new(program());
        let log = fs::File::create("/run/onbeat/lab/command.log").unwrap();
        command.args(arguments).stdout(Stdio::null()).stderr(log);
        self.handle().namespace().start_in(&mut command);
        let process = Process::spawn(command);
        process.code(&format!("onbeat {arguments:?}"))
    }

    /// Starts the daemon; waits until it is ready, refuses, or a random time has passed.
    fn start(&mut self, options: &[&str], kill_after: Option<Duration>) {
        let mut command = Command::new(program());
        command.args(["run", FILE]).args(options).stdout(Stdio::null());
        command.stderr(fs::File::create(LOG).unwrap());
        self.handle().namespace().start_in(&mut command);
        let mut daemon = Process::spawn(command);
        if let Some(after) = kill_after {
            std::thread::sleep(after);
            daemon.signal(Signal::SIGKILL);
            daemon.wait(BOUND).expect("it is killed");
            return;
        }
        let deadline = Instant::now() + BOUND;
        loop {
            if let Some(status) = daemon.wait(Duration::ZERO) {
                let log = fs::read_to_string(LOG).unwrap_or_default();
                assert_eq!(status.code(), Some(2), "{log}");
                return;
            }
            if self.onbeat(&["show", "a"]) == 0 {
                self.daemon = Some(daemon);
                return;
            }
            assert!(Instant::now() < deadline, "the node neither starts nor exits");
        }
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut daemon) = self.daemon.take() else { return };
        daemon.signal(signal);
        daemon.wait(BOUND).unwrap_or_else(|| panic!("the daemon ignores {signal}"));
    }

    /// Removes the pins of the node, which detaches its programs.
    fn lose_pins(&mut self) {
        self.end(Signal::SIGKILL);
        let pins = Path::new("/sys/fs/bpf/onbeat/a");
        if pins.exists() {
            fs::remove_dir_all(pins).unwrap();
        }
    }

    fn step(&mut self, random: &mut Random) {
        let backend = *one_of(random, &["xdp", "xdp", "packet", "xsk"]);
        let interface = *one_of(random, &INTERFACES);
        let step = random.below(14);
        self.steps.push(format!("{step} {backend} {interface}"));
        match step {
            0..=2 => self.attach(random),
            3 => self.detach(),
            4 | 5 if self.daemon.is_none() => {
                self.configure(random);
                self.start(&["--backend", backend], None);
            }
            6 if self.daemon.is_none() => {
                self.configure(random);
                let after = random_part(random, START);
                self.start(&["--backend", backend], Some(after));
            }
            7 => self.end(Signal::SIGKILL),
            8 => self.end(*one_of(random, &[Signal::SIGTERM, Signal::SIGINT])),
            9 => {
                self.onbeat(&["down", "a"]);
                if let Some(mut daemon) = self.daemon.take() {
                    daemon.wait(BOUND).expect("the daemon exits");
                }
            }
            10 => {
                self.configure(random);
                self.onbeat(&["reload", "a"]);
            }
            11 => {
                self.onbeat(&["stream", *one_of(random, &["add", "change"]), STREAMS]);
                self.onbeat(&["stream", "remove", "other"]);
            }
            12 => self.lose_pins(),
            13 => {
                let random_command: &[&str] = match random.below(5) {
                    0 => &["doctor", interface],
                    1 => &["run", "--check", FILE],
                    2 => &["run", FILE, "--backend", backend],
                    3 => &["delay", "mirror", interface, "--vlan", "11,12", "--for", "50ms"],
                    _ => &["down", FILE],
                };
                // A second daemon is refused; a first one would continue.
                if random_command != ["run", FILE, "--backend", backend] || self.daemon.is_some() {
                    self.onbeat(random_command);
                }
            }
            _ => {}
        }
        if let Some(daemon) = &mut self.daemon {
            if daemon.wait(Duration::ZERO).is_some() {
                self.daemon = None;
            }
        }
    }

    fn clear(&mut self) {
        self.end(Signal::SIGKILL);
        let down = run_in(self.handle().namespace(), &["down", "a"]);
        assert!(down.code == 0 || down.err.contains("no node "), "{down:?}");
        assert_eq!(left_behind("a"), Vec::<std::path::PathBuf>::new(), "left behind");
        while !self.strangers.is_empty() {
            self.detach();
        }
        let free = || INTERFACES.iter().all(|name| xdp_program(self.handle(), name).is_none());
        wait_for("interfaces without programs", free);
        self.steps.clear();
    }

    /// Control: a replaced program is detected.
    fn control(&mut self) {
        fs::write(FILE, format!("{PORTS}{}", replicate("axis", GROUP, 100))).unwrap();
        let stranger =
            ForeignProgram::attach(self.handle(), "path1", AttachMethod::Link, XdpMode::Native);
        self.strangers.insert("path1", stranger);
        self.start(&["--backend", "xdp"], None);
        assert!(self.daemon.is_none() && self.replaced().is_empty(), "control: refused");
        self.start(&["--backend", "xdp", "--replace"], None);
        let log = fs::read_to_string(LOG).unwrap_or_default();
        assert_eq!(self.replaced(), ["path1"], "control: replaced: {log}");
        self.strangers.clear();
        self.clear();
    }
}

pub(crate) fn soak(runs: &mut Runs) {
    let mut network = one_node("");
    network.nodes[0].config_text = Some(PORTS.into());
    let world = build(&network);
    fs::write(STREAMS, replicate("other", "01:00:5e:00:00:02", 100)).unwrap();
    let mut soak = Soak { world, strangers: BTreeMap::new(), daemon: None, steps: Vec::new() };
    soak.control();
    while let Some(mut random) = runs.next() {
        for _ in 0..STEPS {
            soak.step(&mut random);
            runs.count("steps", 1);
            runs.count("steps with a foreign program", u64::from(!soak.strangers.is_empty()));
            let replaced = soak.replaced();
            assert!(replaced.is_empty(), "replaced on {replaced:?} by {:#?}", soak.steps);
        }
        soak.clear();
    }
}
