//! Ready-made networks with traffic and faults, each ending in one result.
//!
//! A scenario is one file with its network, its options (a `clap::Args`; groups that several share are in
//! `options`) and its `play`. To add one: write it, and add its entry to `SCENARIOS`. A test finds a
//! scenario without a run in tests/.

mod both_links;
pub mod chaos;
mod figures;
mod flapping;
mod flow;
mod ladder;
mod link_failure;
mod matrix;
mod options;
mod outage;
mod phase;
mod powerlink;
mod probe;
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
use onbeat_report::{Figure, Outcome, html, summary};

use crate::{Error, Result, Topology};
use stage::Stage;

pub use options::Common;

/// A scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    /// Options of an example, for help.
    pub example: &'static str,
    /// What it does and why, in a few sentences, which a run prints first.
    pub about: &'static str,
    /// Figures of a summary, by what their names begin with.
    pub shows: &'static [&'static str],
    network: fn() -> Topology,
    play: &'static dyn Play,
}

/// The play of a scenario, with the type of its options erased.
trait Play: Sync {
    /// Adds the options.
    fn augment(&self, command: Command) -> Command;

    /// Plays it with options that [`Play::augment`] added.
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
        summary: "cut one path of a protected stream, then both: lost is what was sent without a path",
        example: "--rate 10000 --size 256 --seconds 2 --html report.html",
        about: "Nodes a and b send each frame of two streams over both paths, and deliver the first copy of it. \
                path2 takes 300 us longer than path1, so that the delay shows which path carries the stream. \
                Path1 is cut, then both, and path1 comes back first: only frames sent without a path may be lost.",
        shows: &["delay by phase"],
        network: link_failure::network,
        play: &TypedPlay(link_failure::play),
    },
    Scenario {
        name: "both-links",
        summary: "cut both paths at once, again and again: every outage ends with the first path",
        example: "--backend packet --seconds 0.5",
        about: "Nodes a and b protect two streams over two paths, of which path2 takes 300 us longer. Both paths \
                are cut at once, again and again, and one of them comes back first: frames are lost while both are \
                down, and none after.",
        shows: &["delay by phase"],
        network: link_failure::network,
        play: &TypedPlay(both_links::play),
    },
    Scenario {
        name: "flapping",
        summary: "cut either path in random order, never both: nothing is lost",
        example: "--cuts 1000 --seed 7 --json > flapping.json",
        about: "Nodes a and b protect two streams over two paths, of which path2 takes 300 us longer. Either path is \
                cut for up to 10 ms in random order, never both: no frame may be lost.",
        shows: &["delay by phase", "cuts of"],
        network: link_failure::network,
        play: &TypedPlay(flapping::play),
    },
    Scenario {
        name: "ladder",
        summary: "six nodes, three streams; every link that is protected fails once",
        example: "--backend xsk",
        about: "Six nodes form a ladder, through which three streams take paths of their own. Every link on which no \
                stream depends alone is cut once: no frame may be lost.",
        shows: &["delay by phase"],
        network: ladder::network,
        play: &TypedPlay(ladder::play),
    },
    Scenario {
        name: "unmatched",
        summary: "ARP, IPv4, IPv6, LLDP and others pass while streams flow",
        example: "--rate 5000",
        about: "In each node a bridge joins the host's port and path1, and two streams are protected. Frames of no \
                stream (ARP, IPv4, IPv6, LLDP and others) must pass unchanged.",
        shows: &["frames of no stream", "delay by phase"],
        network: unmatched::network,
        play: &TypedPlay(unmatched::play),
    },
    Scenario {
        name: "restart",
        summary: "kill and restart the daemons under traffic: nothing is lost",
        example: "--seconds 2",
        about: "The daemons of nodes a and b are killed, stopped and restarted under traffic. The kernel keeps on \
                moving frames: none may be lost or arrive twice, and counters must continue.",
        shows: &["delay by phase"],
        network: restart::network,
        play: &TypedPlay(restart::play),
    },
    Scenario {
        name: "matrix",
        summary: "{clean, cut, loss, reorder, duplicate, delay} on a path x {vector, match} recovery",
        example: "--seed 7 --html matrix.html",
        about: "One path is impaired in each of six ways, the other is clean, with vector and with match recovery. No \
                frame may be lost; vector recovery delivers none twice.",
        shows: &["cells"],
        network: matrix::network,
        play: &TypedPlay(matrix::play),
    },
    Scenario {
        name: "rtt-idle",
        summary: "round trips by each data plane, on an idle machine",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes by each data plane, on an idle machine, and beside \
                plain redirection without FRER.",
        shows: &["round trip, "],
        network: rtt::network,
        play: &TypedPlay(rtt::play_idle),
    },
    Scenario {
        name: "rtt-loaded",
        summary: "round trips by each data plane, with CPU stressors on the nodes' cores",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes by each data plane, while CPU stressors run on the \
                nodes' cores.",
        shows: &["round trip, "],
        network: rtt::network,
        play: &TypedPlay(rtt::play_loaded),
    },
    Scenario {
        name: "rtt-background",
        summary: "round trips by each data plane, with 10 UDP senders through the same nodes and paths",
        example: "--probes 1000",
        about: "Single probes make round trips through two nodes by each data plane, while 10 UDP senders use the \
                same nodes and paths.",
        shows: &["round trip, "],
        network: rtt::network,
        play: &TypedPlay(rtt::play_background),
    },
    Scenario {
        name: "rtt",
        summary: "the three of them in one, side by side as in figures 7, 8 and 9 of the paper",
        example: "--probes 10000 --html rtt.html",
        about: "Single probes make round trips through two nodes by each data plane: idle, with CPU stressors, and with \
                background traffic (figures 7, 8 and 9 of the paper).",
        shows: &["round trip, "],
        network: rtt::network,
        play: &TypedPlay(rtt::play_all),
    },
    Scenario {
        name: "scale",
        summary: "streams come, change and go on a node that has 65,536, while others flow: nothing is lost",
        example: "--streams 3000",
        about: "A node holds many streams, of which some are added, changed and removed while others flow: no frame of \
                these may be lost.",
        shows: &["from request to answer", "reload that changes"],
        network: scale::network,
        play: &TypedPlay(scale::play),
    },
    Scenario {
        name: "interrupt-storm",
        summary: "a real-time task, a server and a receiver under a storm of packets: stock, and guarded",
        example: "--scale 0.2 --html storm.html",
        about: "A real-time task and a UDP server share a CPU with the receive processing of a storm of packets: by \
                the stock kernel, and with `onbeat irq guard`.",
        shows: &["deadlines missed", "work that the task did", "interrupt time"],
        network: storm::network,
        play: &TypedPlay(storm::play),
    },
    Scenario {
        name: "single-hop",
        summary: "what a packet waits in one hop, by several methods, idle, under CPU load and network load",
        example: "--compare bridge,reflector --load idle,cpu,10000 --cpus 1 --for 5s",
        about: "Probes pass one hop, whose delay is measured by several methods at the same time: idle, under CPU load, \
                and beside other traffic.",
        shows: &["as the paper compares it", "loads"],
        network: single_hop::network,
        play: &TypedPlay(single_hop::play),
    },
    Scenario {
        name: "powerlink",
        summary: "a POWERLINK network boots, exchanges values, and comes back after faults",
        example: "--nodes 8 --cycle 20ms --json",
        about: "A POWERLINK network boots to OPERATIONAL, exchanges values, and recovers from faults: lost frames, \
                restarted nodes, a restarted managing node.",
        shows: &["times", "losses"],
        network: powerlink::network,
        play: &TypedPlay(powerlink::play),
    },
    Scenario {
        name: "powerlink-paths",
        summary: "a POWERLINK bus as a FRER stream over two paths, either of which is cut: no cycle is lost",
        example: "--nodes 4",
        about: "A managing node reaches its controlled nodes over two paths, on which its frames are FRER streams. Either \
                path is cut: no cycle may be lost.",
        shows: &["times", "streams"],
        network: powerlink::paths::network,
        play: &TypedPlay(powerlink::paths::play),
    },
    Scenario {
        name: "chaos",
        summary: "random networks, streams and faults; every frame is judged by captures alone",
        example: "--minutes 10 --seed 7 --backend packet",
        about: "Random networks with random streams run under random faults. Captures outside of the nodes decide about \
                every frame; the seed repeats the run.",
        shows: &["judged", "faults", "networks"],
        network: chaos::network,
        play: &TypedPlay(chaos::play),
    },
];

impl Scenario {
    /// The network that it is played on.
    #[must_use]
    pub fn network(&self) -> Topology {
        (self.network)()
    }

    /// A command with its options.
    #[must_use]
    pub fn command(&self) -> Command {
        self.play.augment(Command::new(self.name))
    }

    /// What it does, in the lines of a screen.
    fn introduction(&self) -> String {
        let lines = wrap(self.about, summary::COLUMNS);
        lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "\n"
    }

    /// Lines that a run printed before its result: what the scenario does, and its network.
    #[must_use]
    pub fn introduction_lines(&self, outcome: &Outcome) -> usize {
        let drawing = match outcome.figures.get("topology") {
            Some(Figure::Topology(topology)) => topology.text(false).lines().count(),
            _ => 0,
        };
        self.introduction().lines().count() + drawing + 1
    }

    /// Runs it with the options that its [command](Self::command) parsed: draws its network, plays it,
    /// writes the report where one is wanted.
    ///
    /// While it runs, SIGINT, SIGTERM and SIGHUP end it in order.
    ///
    /// # Errors
    /// Where it cannot be played or measured. That its checks failed is no error: [`Outcome::ok`]
    /// reports it.
    pub fn run(&self, matches: &ArgMatches, common: &Common) -> Result<Outcome> {
        let _signals = Guard::install();
        let mut stage = Stage::new(self.name, common);
        stage.print_description(&self.introduction());
        self.play.play(&mut stage, matches)?;
        let mut outcome = stage.finish();
        if let Ok(Some(seed)) = matches.try_get_one::<u64>("seed") {
            outcome.seed(*seed);
        }
        if let Some(path) = &common.html {
            onbeat_host::output::write(path, html::render(&outcome))
                .map_err(|error| Error::io(format!("write {}", path.display()), error))?;
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

/// The scenario of a name.
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
    fn an_unknown_scenario_is_answered_with_those_there_are() {
        let error = find("link-failur").unwrap_err().to_string();
        assert!(
            error.starts_with("there is no scenario \"link-failur\"; there are: link-failure,")
        );
    }

    #[test]
    fn an_option_that_a_scenario_does_not_have_is_refused() {
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
    fn every_network_is_one() {
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
