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
mod options;
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

use onbeat_realtime::interrupt::Guard;
use onbeat_report::{Outcome, html};

use crate::{Error, Result, Topology};
use Parameter::{
    Backend, Captures, Cuts, Cycle, Minutes, Nodes, Probes, Rate, Scale, Seconds, Seed, Size,
    Streams,
};
use stage::Stage;

pub use options::{Options, Parameter};

/// A scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    /// The options that it has. A [`Stage`] reads no others, and a run reads each.
    pub parameters: &'static [Parameter],
    network: fn() -> Topology,
    play: fn(&mut Stage<'_>) -> Result<()>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "link-failure",
        summary: "cut one path of a protected stream, then both: lost is what was sent without a path",
        parameters: &[Backend, Rate, Size, Seconds],
        network: link_failure::network,
        play: link_failure::play,
    },
    Scenario {
        name: "both-links",
        summary: "cut both paths at once, again and again: every outage ends with the first path",
        parameters: &[Backend, Rate, Size, Seconds],
        network: link_failure::network,
        play: both_links::play,
    },
    Scenario {
        name: "flapping",
        summary: "cut either path in random order, never both: nothing is lost",
        parameters: &[Backend, Rate, Size, Cuts, Seed],
        network: link_failure::network,
        play: flapping::play,
    },
    Scenario {
        name: "ladder",
        summary: "six nodes, three streams; every link that is protected fails once",
        parameters: &[Backend, Rate, Size, Seconds],
        network: ladder::network,
        play: ladder::play,
    },
    Scenario {
        name: "unmatched",
        summary: "ARP, IPv4, IPv6, LLDP and others pass while streams flow",
        parameters: &[Backend, Rate, Size, Seconds],
        network: unmatched::network,
        play: unmatched::play,
    },
    Scenario {
        name: "restart",
        summary: "kill and restart the daemons under traffic: nothing is lost",
        parameters: &[Backend, Rate, Size, Seconds],
        network: restart::network,
        play: restart::play,
    },
    Scenario {
        name: "matrix",
        summary: "{clean, cut, loss, reorder, duplicate, delay} on a path x {vector, match} recovery",
        parameters: &[Backend, Rate, Size, Seconds, Seed],
        network: matrix::network,
        play: matrix::play,
    },
    Scenario {
        name: "rtt-idle",
        summary: "round trips by each data plane, on an idle machine",
        parameters: &[Backend, Rate, Size, Probes],
        network: rtt::network,
        play: rtt::play_idle,
    },
    Scenario {
        name: "rtt-loaded",
        summary: "round trips by each data plane, with CPU stressors on the nodes' cores",
        parameters: &[Backend, Rate, Size, Probes],
        network: rtt::network,
        play: rtt::play_loaded,
    },
    Scenario {
        name: "rtt-background",
        summary: "round trips by each data plane, with 10 UDP senders through the same nodes and paths",
        parameters: &[Backend, Rate, Size, Probes],
        network: rtt::network,
        play: rtt::play_background,
    },
    Scenario {
        name: "rtt",
        summary: "the three of them in one, side by side as in figures 7, 8 and 9 of the paper",
        parameters: &[Backend, Rate, Size, Probes],
        network: rtt::network,
        play: rtt::play_all,
    },
    Scenario {
        name: "scale",
        summary: "streams come, change and go on a node that has 65,536, while others flow: nothing is lost",
        parameters: &[Backend, Rate, Size, Seconds, Streams],
        network: scale::network,
        play: scale::play,
    },
    Scenario {
        name: "interrupt-storm",
        summary: "a real-time task, a server and a receiver under a storm of packets: stock, and guarded",
        parameters: &[Scale, Seed],
        network: storm::network,
        play: storm::play,
    },
    Scenario {
        name: "single-hop",
        summary: "what a packet waits in one hop, by several methods, idle, under CPU load and network load",
        parameters: &[Rate, Size, Seconds],
        network: single_hop::network,
        play: single_hop::play,
    },
    Scenario {
        name: "powerlink",
        summary: "a POWERLINK network boots, exchanges values, and comes back after faults",
        parameters: &[Nodes, Cycle, Seconds, Seed],
        network: powerlink::network,
        play: powerlink::play,
    },
    Scenario {
        name: "powerlink-paths",
        summary: "a POWERLINK bus as a FRER stream over two paths, either of which is cut: no cycle is lost",
        parameters: &[Backend, Nodes, Cycle, Seconds],
        network: powerlink::paths::network,
        play: powerlink::paths::play,
    },
    Scenario {
        name: "chaos",
        summary: "random networks, streams and faults; every frame is judged by captures alone",
        parameters: &[Backend, Minutes, Seed, Captures],
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

/// Runs a scenario: draws its network, plays it, writes the report where one is wanted.
///
/// While it runs, SIGINT, SIGTERM and SIGHUP end it in order.
///
/// # Errors
/// Where there is no such scenario, it does not have an option, or it cannot be played or measured. That its checks failed is
/// no error: [`Outcome::ok`] tells.
pub fn run(name: &str, options: &Options) -> Result<Outcome> {
    let scenario = find(name)?;
    scenario.check(options)?;
    let _signals = Guard::install();
    let mut stage = Stage::new(scenario, options);
    (scenario.play)(&mut stage)?;
    stage.assert_all_read();
    let outcome = stage.finish();
    if let Some(path) = &options.html {
        onbeat_host::output::write(path, html::render(&outcome))
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
    fn an_option_that_a_scenario_does_not_have_is_refused() {
        let options = Options {
            streams: Some(99),
            cycle: Some(std::time::Duration::from_millis(5)),
            seconds: Some(1.0),
            ..Options::new("no-such-program")
        };
        let error = run("link-failure", &options).unwrap_err().to_string();
        assert_eq!(
            error,
            "scenario \"link-failure\" has no option --cycle, --streams; its options: --backend, \
             --rate, --size, --seconds"
        );
        for scenario in list() {
            let refused =
                [Streams, Cycle, Seconds].iter().any(|p| !scenario.parameters.contains(p));
            assert_eq!(scenario.check(&options).is_err(), refused, "{}", scenario.name);
            assert!(scenario.check(&Options::new("onbeat")).is_ok(), "{}", scenario.name);
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
