//! Ready-made networks with traffic and faults, each ending in one result.
//!
//! A scenario is one file. To add one: write it, and add its line to `SCENARIOS`.

mod both_links;
pub mod chaos;
mod figures;
mod flapping;
mod flow;
mod ladder;
mod link_failure;
mod matrix;
mod outage;
mod phase;
mod powerlink;
mod probe;
mod restart;
mod rtt;
mod scale;
pub mod single_hop;
mod stage;
mod storm;
mod two_paths;
mod unmatched;

use std::path::PathBuf;
use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_report::{Outcome, html};

use crate::interrupt::Guard;
use crate::{Error, Result, Topology};
use stage::Stage;

/// How a scenario is run. What is `None`, the scenario chooses.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that nodes run: `onbeat`.
    pub onbeat_bin: PathBuf,
    /// The data plane of the nodes.
    pub backend: Option<Backend>,
    /// Where to write the report.
    pub html: Option<PathBuf>,
    /// Standard output is for JSON: the drawing goes to standard error.
    pub json: bool,
    /// No drawing, no progress.
    pub quiet: bool,
    /// The drawing has ANSI colours.
    pub colours: bool,
    /// What random choices start from: the same seed, the same choices.
    pub seed: u64,
    /// Frames per second of each stream.
    pub rate: Option<u64>,
    /// Octets of a frame, Ethernet header and tags included, FCS not.
    pub size: Option<usize>,
    /// How long a phase lasts, in seconds.
    pub seconds: Option<f64>,
    /// How often a link is cut, where it is cut again and again.
    pub cuts: Option<u32>,
    /// Round trips that are measured of each row, under each load.
    pub probes: Option<u64>,
    /// Controlled nodes of a POWERLINK network.
    pub nodes: Option<u8>,
    /// Cycle of a POWERLINK network.
    pub cycle: Option<Duration>,
    /// How many streams a node has.
    pub streams: Option<u32>,
    /// How long networks are made and disturbed, in minutes.
    pub minutes: Option<f64>,
    /// How much shorter "interrupt-storm" is than the paper's experiment.
    pub scale: Option<f64>,
    /// Where to write what was captured where a rule was broken.
    pub captures: PathBuf,
}

impl Options {
    /// Everything as the scenario chooses.
    #[must_use]
    pub fn new(onbeat_bin: impl Into<PathBuf>) -> Self {
        Self {
            onbeat_bin: onbeat_bin.into(),
            backend: None,
            html: None,
            json: false,
            quiet: false,
            colours: false,
            seed: 1,
            rate: None,
            size: None,
            seconds: None,
            cuts: None,
            probes: None,
            nodes: None,
            cycle: None,
            streams: None,
            minutes: None,
            scale: None,
            captures: "onbeat-chaos".into(),
        }
    }
}

/// A scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    network: fn() -> Topology,
    play: fn(&mut Stage<'_>) -> Result<()>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "link-failure",
        summary: "cut one path of a protected stream, then both: lost is what was sent without a path",
        network: link_failure::network,
        play: link_failure::play,
    },
    Scenario {
        name: "both-links",
        summary: "cut both paths at once, again and again: every outage ends with the first path",
        network: link_failure::network,
        play: both_links::play,
    },
    Scenario {
        name: "flapping",
        summary: "cut either path in random order, never both: nothing is lost",
        network: link_failure::network,
        play: flapping::play,
    },
    Scenario {
        name: "ladder",
        summary: "six nodes, three streams; every link that is protected fails once",
        network: ladder::network,
        play: ladder::play,
    },
    Scenario {
        name: "unmatched",
        summary: "ARP, IPv4, IPv6, LLDP and others pass while streams flow",
        network: unmatched::network,
        play: unmatched::play,
    },
    Scenario {
        name: "restart",
        summary: "kill and restart the daemons under traffic: nothing is lost",
        network: restart::network,
        play: restart::play,
    },
    Scenario {
        name: "matrix",
        summary: "{clean, cut, loss, reorder, duplicate, delay} on a path x {vector, match} recovery",
        network: matrix::network,
        play: matrix::play,
    },
    Scenario {
        name: "rtt-idle",
        summary: "round trips by each data plane, on an idle machine",
        network: rtt::network,
        play: rtt::play_idle,
    },
    Scenario {
        name: "rtt-loaded",
        summary: "round trips by each data plane, with CPU stressors on the nodes' cores",
        network: rtt::network,
        play: rtt::play_loaded,
    },
    Scenario {
        name: "rtt-background",
        summary: "round trips by each data plane, with 10 UDP senders through the same nodes and paths",
        network: rtt::network,
        play: rtt::play_background,
    },
    Scenario {
        name: "rtt",
        summary: "the three of them in one, side by side as in figures 7, 8 and 9 of the paper",
        network: rtt::network,
        play: rtt::play_all,
    },
    Scenario {
        name: "scale",
        summary: "streams come, change and go on a node that has 65,536, while others flow: nothing is lost",
        network: scale::network,
        play: scale::play,
    },
    Scenario {
        name: "interrupt-storm",
        summary: "a real-time task, a server and a receiver under a storm of packets: stock, and guarded",
        network: storm::network,
        play: storm::play,
    },
    Scenario {
        name: "single-hop",
        summary: "what a packet waits in one hop, by several methods, idle, under CPU load and network load",
        network: single_hop::network,
        play: single_hop::play,
    },
    Scenario {
        name: "powerlink",
        summary: "a POWERLINK network boots, exchanges values, and comes back after faults",
        network: powerlink::network,
        play: powerlink::play,
    },
    Scenario {
        name: "powerlink-paths",
        summary: "a POWERLINK bus as a FRER stream over two paths, either of which is cut: no cycle is lost",
        network: powerlink::paths::network,
        play: powerlink::paths::play,
    },
    Scenario {
        name: "chaos",
        summary: "random networks, streams and faults; every frame is judged by captures alone",
        network: chaos::network,
        play: chaos::play,
    },
];

impl Scenario {
    /// The network that it is played on.
    #[must_use]
    pub fn network(&self) -> Topology {
        (self.network)()
    }
}

/// All scenarios.
#[must_use]
pub fn list() -> &'static [Scenario] {
    SCENARIOS
}

/// Runs a scenario: draws its network, plays it, writes the report where one is wanted.
///
/// While it runs, SIGINT, SIGTERM and SIGHUP end it in order.
///
/// # Errors
/// Where there is no such scenario, or it cannot be played or measured. That its checks failed is
/// no error: [`Outcome::ok`] tells.
pub fn run(name: &str, options: &Options) -> Result<Outcome> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.ok_or_else(|| Error::Unknown {
        what: "scenario",
        name: name.into(),
        known: SCENARIOS.iter().map(|scenario| scenario.name.into()).collect(),
    })?;
    let _signals = Guard::install();
    let mut stage = Stage::new(scenario.name, options);
    (scenario.play)(&mut stage)?;
    let outcome = stage.finish();
    if let Some(path) = &options.html {
        onbeat_report::file::write(path, html::render(&outcome))
            .map_err(|error| Error::io(format!("write {}", path.display()), error))?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scenario_is_answered_with_those_there_are() {
        let error = run("link-failur", &Options::new("onbeat")).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no scenario \"link-failur\"; there are: link-failure,")
        );
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
