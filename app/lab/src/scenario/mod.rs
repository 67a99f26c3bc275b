//! Scenarios: ready-made networks with traffic and faults, each with one result.
//!
//! A scenario is one file with its network, its options (a `clap::Args`; groups that several scenarios
//! share are in `options`) and its `play`. To add one: write the file, and add an entry to `SCENARIOS`.
//! A test reports scenarios that no test in tests/ runs.

mod both_links;
pub mod chaos;
mod figures;
mod flapping;
mod fleet;
mod flow;
mod ladder;
mod link_failure;
mod matrix;
mod options;
mod outage;
mod phase;
mod plan;
mod powerlink;
mod probe;
mod protect;
mod restart;
mod rtt;
mod scale;
mod single_hop;
mod stage;
mod storm;
mod two_paths;
mod unmatched;

use std::fmt;

use clap::{ArgMatches, Args, Command};
use onbeat_realtime::interrupt::Guard;
use onbeat_report::table::wrap;
use onbeat_report::{Figure, Outcome};
use onbeat_terminal::output::screen_size;

use crate::{Error, Result, Topology};
use stage::Stage;

pub use options::RunSettings;

/// A scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Example options, for the help.
    pub example: &'static str,
    /// Description, a few sentences, which a run prints first.
    pub about: &'static str,
    /// Figures of the summary, by prefixes of their names.
    pub shows: &'static [&'static str],
    /// Defaults of shared options where they differ from those in `options`, by the option's name.
    defaults: &'static [(&'static str, &'static str)],
    network: fn() -> Topology,
    play: &'static dyn Play,
}

/// The play of a scenario, independent of the type of its options.
trait Play: Sync {
    /// Adds the options.
    fn augment(&self, command: Command) -> Command;

    /// Plays the scenario with options that [`Play::augment`] added.
    fn play(&self, stage: &mut Stage<'_>, matches: &ArgMatches) -> Result<()>;
}

/// A play with options of type `O`.
struct TypedPlay<O>(fn(&mut Stage<'_>, &O) -> Result<()>);

impl<O: Args> Play for TypedPlay<O> {
    fn augment(&self, command: Command) -> Command {
        O::augment_args(command)
    }

    fn play(&self, stage: &mut Stage<'_>, matches: &ArgMatches) -> Result<()> {
        (self.0)(stage, &O::from_arg_matches(matches)?)
    }
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "link-failure",
        summary: "cut one path of a protected stream, then both: only frames sent without a path are lost",
        example: "--rate 10000 --size 256 --seconds 2 --html report.html",
        about: "Nodes a and b send each frame of two streams over both paths, and deliver its \
                first copy. path2 takes 300 us longer than path1, so that the delay shows which \
                path carries the stream. Path1 is cut, then both, and path1 is restored first: \
                only frames sent without a path may be lost.",
        shows: &["delay by phase"],
        defaults: &[("seconds", "2.5")],
        network: link_failure::network,
        play: &TypedPlay(link_failure::play),
    },
    Scenario {
        name: "both-links",
        summary: "cut both paths at once, repeatedly: every outage ends with the first restored path",
        example: "--backend packet --seconds 0.5",
        about: "Nodes a and b protect two streams over two paths, of which path2 takes 300 us \
                longer. Both paths are cut at once, repeatedly, and one of them is restored first: \
                frames are lost while both are down, and none after.",
        shows: &["delay by phase"],
        defaults: &[("seconds", "1")],
        network: link_failure::network,
        play: &TypedPlay(both_links::play),
    },
    Scenario {
        name: "flapping",
        summary: "cut either path in random order, never both: no loss",
        example: "--cuts 1000 --seed 7 --json > flapping.json",
        about: "Nodes a and b protect two streams over two paths, of which path2 takes 300 us longer. Either path is \
                cut for up to 10 ms in random order, never both: no frame may be lost.",
        shows: &["delay by phase", "cuts of"],
        defaults: &[],
        network: link_failure::network,
        play: &TypedPlay(flapping::play),
    },
    Scenario {
        name: "ladder",
        summary: "cut each protected link of six nodes with three streams, once: no loss",
        example: "--backend xsk",
        about: "Six nodes form a ladder with three streams on different paths. Every link that is \
                no stream's only path is cut once: no frame may be lost.",
        shows: &["delay by phase"],
        defaults: &[],
        network: ladder::network,
        play: &TypedPlay(ladder::play),
    },
    Scenario {
        name: "plan",
        summary: "run the files of onbeat plan on twelve nodes; fail each link and node: loss as what-if reports",
        example: "--backend packet",
        about: "Twelve nodes in three rings run the files that onbeat plan writes for \
                /usr/share/doc/onbeat/examples/plan/rings.toml. Each link is cut, and each node loses all its links. Streams lose \
                frames exactly where --what-if reports an interruption, and no frame elsewhere.",
        shows: &["failures"],
        defaults: &[("seconds", "0.2")],
        network: plan::network,
        play: &TypedPlay(plan::play),
    },
    Scenario {
        name: "unmatched",
        summary: "send ARP, IPv4, IPv6, LLDP and other frames through nodes with active streams: no change",
        example: "--rate 5000",
        about: "In each node a bridge joins the host's port and path1, and two streams are \
                protected. Frames without a stream (ARP, IPv4, IPv6, LLDP and others) must pass \
                through the nodes unchanged.",
        shows: &["frames without a stream", "delay by phase"],
        defaults: &[],
        network: unmatched::network,
        play: &TypedPlay(unmatched::play),
    },
    Scenario {
        name: "restart",
        summary: "kill and restart the daemons under traffic: no loss",
        example: "--seconds 2",
        about: "The daemons of nodes a and b are killed, stopped and restarted under traffic. The \
                kernel continues to forward frames: none may be lost or duplicated, and counters \
                must continue.",
        shows: &["delay by phase"],
        defaults: &[("rate", "10000")],
        network: restart::network,
        play: &TypedPlay(restart::play),
    },
    Scenario {
        name: "matrix",
        summary: "impair one of two paths in five ways, with vector and with match recovery: no loss",
        example: "--seed 7 --html matrix.html",
        about: "Nodes a and b protect streams over two paths, with vector and with match recovery. path1 is clean, is cut, \
                loses, reorders, duplicates or delays frames; path2 is clean. No frame may be lost; vector recovery delivers no duplicates.",
        shows: &["cells"],
        defaults: &[("seconds", "1")],
        network: matrix::network,
        play: &TypedPlay(matrix::play),
    },
    Scenario {
        name: "protect",
        summary: "impair one of two LANs, and cut the paths of a redundant interface, with PRP: no loss, no duplicate",
        example: "--seed 7 --html protect.html",
        about: "Nodes a and b protect all frames of the stations behind them by PRP, as `onbeat protect --for` does. LAN A \
                is clean, is cut, loses, reorders, duplicates or delays frames; LAN B is clean. Then hosts h1 and h2 have \
                redundant interfaces, as of `onbeat protect`. A download by TCP, a ping flood and multicast use them while \
                the paths are cut in turn. No frame may be lost or delivered twice.",
        shows: &["cells", "runs", "TCP retransmissions"],
        defaults: &[("seconds", "1")],
        network: protect::network,
        play: &TypedPlay(protect::play),
    },
    Scenario {
        name: "rtt-idle",
        summary: "measure round trips through each data plane, on an idle machine",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes with each data plane, on an idle \
                machine, compared with plain redirection without FRER.",
        shows: &["round trip, "],
        defaults: &[],
        network: rtt::network,
        play: &TypedPlay(rtt::play_idle),
    },
    Scenario {
        name: "rtt-loaded",
        summary: "measure round trips through each data plane, with CPU stressors on the nodes' cores",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes with each data plane, while CPU stressors run on the \
                nodes' cores.",
        shows: &["round trip, "],
        defaults: &[],
        network: rtt::network,
        play: &TypedPlay(rtt::play_loaded),
    },
    Scenario {
        name: "rtt-background",
        summary: "measure round trips through each data plane, with 10 UDP senders through the same nodes and paths",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes with each data plane, while 10 UDP senders use the \
                same nodes and paths.",
        shows: &["round trip, "],
        defaults: &[],
        network: rtt::network,
        play: &TypedPlay(rtt::play_background),
    },
    Scenario {
        name: "rtt",
        summary: "run all three round-trip scenarios, as in figures 7, 8 and 9 of the paper on XDP FRER",
        example: "--probes 10000 --html rtt.html",
        about: "Single probes make round trips through two nodes with each data plane. The machine is idle, has CPU stressors, or background traffic (figures \
                7, 8 and 9 of the paper on XDP FRER).",
        shows: &["round trip, "],
        defaults: &[],
        network: rtt::network,
        play: &TypedPlay(rtt::play_all),
    },
    Scenario {
        name: "scale",
        summary: "add, change and remove streams of a node with 65,536 streams, under traffic: no loss",
        example: "--streams 3000",
        about: "A node has many streams, some of which are added, changed and removed while others \
                are active: no frame of these may be lost.",
        shows: &["time from request to response", "reload that changes"],
        defaults: &[("seconds", "5")],
        network: scale::network,
        play: &TypedPlay(scale::play),
    },
    Scenario {
        name: "fleet",
        summary: "roll plans out over etcd under traffic and faults: no frame is lost or doubled",
        example: "--nodes 8 --streams 100 --rollouts 3 --html fleet.html",
        about: "Three servers of etcd and an agent beside each node roll plans out to a ladder of rings, while all streams \
                send. Each plan moves all paths. In each phase a link, an agent, the controller or the leader of etcd \
                fails; a path of each stream is left. No frame may be lost or arrive twice. The same change in one step, \
                the control, must lose frames.",
        shows: &[
            "time of a roll-out",
            "faults by phase",
            "frames",
            "resident memory of an agent",
            "CPU time",
        ],
        defaults: &[],
        network: fleet::network,
        play: &TypedPlay(fleet::play),
    },
    Scenario {
        name: "interrupt-storm",
        summary: "measure a real-time task and receivers under a packet storm, with and without `onbeat irq guard`",
        example: "--runs 20 --deadlines-only --html storm.html",
        about: "A real-time task and a UDP server share a CPU with the receive processing of a packet storm. This is measured with the stock kernel, and \
                with `onbeat irq guard`.",
        shows: &[
            "deadlines missed",
            "packets received by the server",
            "work of the task",
            "interrupt time",
        ],
        defaults: &[],
        network: storm::network,
        play: &TypedPlay(storm::play),
    },
    Scenario {
        name: "single-hop",
        summary: "measure packet delay in one hop by several methods: idle, under CPU load and under network load",
        example: "--compare bridge,reflector --load idle,cpu,10000 --cpus 1 --for 5s",
        about: "Probes pass through one hop, whose delay is measured by several methods at the same time: \
                idle, under CPU load, and with other traffic.",
        shows: &["comparison as in the paper", "loads"],
        defaults: &[("size", "192"), ("seconds", "1")],
        network: single_hop::network,
        play: &TypedPlay(single_hop::play),
    },
    Scenario {
        name: "powerlink",
        summary: "boot a POWERLINK network, exchange values, and recover from faults",
        example: "--nodes 8 --cycle 20ms --json",
        about: "A POWERLINK network boots to OPERATIONAL, exchanges values, and recovers from faults: lost frames, \
                restarted nodes, a restarted managing node.",
        shows: &["times", "losses"],
        defaults: &[("seconds", "2")],
        network: powerlink::network,
        play: &TypedPlay(powerlink::play),
    },
    Scenario {
        name: "powerlink-paths",
        summary: "run a POWERLINK bus as FRER streams over two paths and cut each path: no cycle is lost",
        example: "--nodes 4",
        about: "A managing node reaches its controlled nodes over two paths, on which its frames \
                are FRER streams. Each path is cut: no cycle may be lost.",
        shows: &["times", "streams"],
        defaults: &[("nodes", "4"), ("seconds", "2")],
        network: powerlink::paths::network,
        play: &TypedPlay(powerlink::paths::play),
    },
    Scenario {
        name: "chaos",
        summary: "run random networks, streams and faults; check every frame from captures outside the nodes",
        example: "--minutes 10 --seed 7 --backend packet",
        about: "Random networks with random streams run under random faults. Every frame is \
                checked by captures outside of the nodes; the seed reproduces the run.",
        shows: &["checked", "faults", "networks"],
        defaults: &[],
        network: chaos::network,
        play: &TypedPlay(chaos::play),
    },
    Scenario {
        name: "chaos-prp",
        summary: "run random networks of PRP nodes and faults; check every frame from captures outside the nodes",
        example: "--minutes 10 --seed 7",
        about: "Random networks of hosts with a redundant interface, RedBoxes, stations without redundancy and two LANs of \
                bridges run under random faults. Without --backend, each node has XDP or packet sockets, by the seed. Every frame is checked by captures outside of the nodes; the seed \
                reproduces the run.",
        shows: &["checked", "faults", "networks"],
        defaults: &[],
        network: chaos::prp::network,
        play: &TypedPlay(chaos::prp::play),
    },
];

impl Scenario {
    /// The network of the scenario.
    #[must_use]
    pub fn network(&self) -> Topology {
        (self.network)()
    }

    /// A command with the options of the scenario.
    #[must_use]
    pub fn command(&self) -> Command {
        let command = self.play.augment(Command::new(self.name));
        self.defaults.iter().fold(command, |command, (option, value)| {
            command.mut_arg(option, |option| option.default_value(*value))
        })
    }

    /// The description, wrapped to the width of the screen, but not to lines that are hard to read.
    fn introduction(&self) -> String {
        let lines = wrap(self.about, screen_size().columns.min(100));
        lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "\n"
    }

    /// Number of lines that a run printed before its result: the description and the network.
    #[must_use]
    pub fn introduction_lines(&self, outcome: &Outcome) -> usize {
        let drawing = match outcome.figures.get("topology") {
            Some(Figure::Topology(topology)) => topology.text(false).lines().count(),
            _ => 0,
        };
        self.introduction().lines().count() + drawing + 1
    }

    /// Runs the scenario with the options that its [command](Self::command) parsed: draws its network and
    /// plays it.
    ///
    /// Meanwhile, SIGINT, SIGTERM and SIGHUP stop it in order.
    ///
    /// # Errors
    /// The scenario cannot be played or measured. Failed checks are no error: [`Outcome::ok`] reports
    /// them.
    pub fn run(&self, matches: &ArgMatches, common: &RunSettings) -> Result<Outcome> {
        let _signals = Guard::install();
        let mut stage = Stage::new(self.name, common);
        stage.print_description(&self.introduction());
        self.play.play(&mut stage, matches)?;
        let mut outcome = stage.finish();
        if let Ok(Some(seed)) = matches.try_get_one::<u64>("seed") {
            outcome.seed(*seed);
        }
        Ok(outcome)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All scenarios.
#[must_use]
pub fn list() -> &'static [Scenario] {
    SCENARIOS
}

/// Finds a scenario by name.
///
/// # Errors
/// [`Error::Unknown`].
pub fn find(name: &str) -> Result<&'static Scenario> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    scenario.ok_or_else(|| Error::Unknown {
        what: "scenario",
        name: name.into(),
        known: SCENARIOS.iter().map(|scenario| scenario.name.into()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_unknown_scenario_lists_all() {
        let error = find("link-failur").unwrap_err().to_string();
        assert!(error.starts_with("unknown scenario \"link-failur\"; use one of: link-failure,"));
    }

    #[test]
    fn unknown_options_of_a_scenario_are_rejected() {
        let parse = |scenario: &Scenario, options: &[&str]| {
            scenario.command().try_get_matches_from([&[scenario.name], options].concat())
        };
        let foreign = [["--streams", "99"], ["--cycle", "5ms"], ["--seconds", "1.0"]];
        for scenario in list() {
            assert!(parse(scenario, &[]).is_ok(), "{scenario:?}");
            let command = scenario.command();
            for option in foreign {
                let known = |name| command.get_arguments().any(|own| own.get_long() == Some(name));
                let parsed = parse(scenario, &option);
                assert_eq!(parsed.is_ok(), known(&option[0][2..]), "{scenario:?} {option:?}");
            }
        }
        for option in &foreign[..2] {
            let error = parse(find("link-failure").unwrap(), option).unwrap_err().to_string();
            assert!(
                error.contains(option[0]) && error.contains("link-failure [OPTIONS]"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_network_is_valid() {
        for scenario in list() {
            let network = scenario.network().checked().unwrap();
            assert!(!network.hosts.is_empty(), "{}", scenario.name);
        }
    }

    #[test]
    fn names_are_unique() {
        for (place, scenario) in list().iter().enumerate() {
            assert!(list()[..place].iter().all(|other| other.name != scenario.name));
        }
    }
}
