//! Streams are added, changed and removed on a node with many streams, while others are active.
//!
//! ```text
//!                 path1
//!   talker --- a ======= b --- listener
//!                 path2
//!   a: the active streams, and others up to the maximum
//! ```
//!
//! No frame of the active streams may be lost. The time of a change is measured by its client: from the
//! connection to the control socket until the response.

use std::fs;
use std::time::Duration;

use onbeat_node::control::{Request, Response};
use onbeat_realtime::clock::now_ns;
use onbeat_report::{Check, Measurement, PhaseState, Recorder};
use onbeat_wire::MacAddress;

use super::flow::Flow;
use super::options::StreamOptions;
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::stage::Stage;
use super::two_paths::{self, TwoPaths, VLAN};
use super::{figures, flow};
use crate::world::Daemon;
use crate::{Error, Result, Topology, World};

/// Default number of streams of node a.
const STREAMS: u32 = 65_536;
const FEWEST: u32 = 16;
/// Number of active streams.
const FLOWING: u32 = 2;
/// Maximum number of streams that a reload changes.
const RELOADED: u32 = 10_000;
const RELOADS: usize = 5;

/// Function of a stream on node a.
#[derive(Debug, Clone, Copy)]
enum StreamRole {
    /// Numbered and sent over both paths.
    Out,
    /// Recovered from both paths.
    Home,
}

/// Streams that differ by their number only.
#[derive(Debug, Clone, Copy)]
struct Group {
    name: &'static str,
    way: StreamRole,
    /// An octet of their addresses, unique among groups.
    octet: u8,
    count: u32,
}

/// Streams of node a other than the active ones.
#[derive(Debug, Clone, Copy)]
struct OtherStreams {
    /// Streams changed by reloads.
    reloaded: Group,
    /// Streams changed one by one.
    single: [Group; 2],
}

impl Group {
    /// The table of the whole group.
    fn all(&self, priority: u8) -> String {
        let name = format!("{}-{{n}}", self.name);
        format!(
            "{}count = {}\nstep = {{ destination = 1 }}\n",
            self.table(&name, 0, priority),
            self.count
        )
    }

    /// The table of one stream.
    fn one(&self, number: u32, priority: u8) -> String {
        self.table(&self.name_of(number), number, priority)
    }

    fn name_of(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    fn table(&self, name: &str, number: u32, priority: u8) -> String {
        let [_, _, high, low] = number.to_be_bytes();
        let address = MacAddress([0x01, 0x00, 0x5e, self.octet, high, low]);
        let null =
            |vlan| format!(r#"{{ type = "null", destination = "{address}", vlan = {vlan} }}"#);
        match self.way {
            StreamRole::Out => format!(
                r#"
[[stream]]
name = "{name}"
generate = true
member = [{{ port = "host", identify = {} }}]
egress = [
  {{ port = "path1", tag = "r-tag", vlan = 11, priority = {priority} }},
  {{ port = "path2", tag = "r-tag", vlan = 12, priority = {priority} }},
]
"#,
                null(VLAN)
            ),
            StreamRole::Home => format!(
                r#"
[[stream]]
name = "{name}"
member = [
  {{ port = "path1", identify = {} }},
  {{ port = "path2", identify = {} }},
]
recover = {{ algorithm = "vector", history-length = 64 }}
egress = [{{ port = "host", tag = "none", vlan = {VLAN}, priority = {priority} }}]
"#,
                null(11),
                null(12)
            ),
        }
    }
}

impl OtherStreams {
    fn of(streams: u32) -> Self {
        let others = streams - FLOWING;
        let reloaded = (others / 2).min(RELOADED);
        let out = (others - reloaded) / 2;
        let home = others - reloaded - out;
        let group = |name, way, octet, count| Group { name, way, octet, count };
        Self {
            reloaded: group("reloaded", StreamRole::Out, 2, reloaded),
            single: [
                group("out", StreamRole::Out, 3, out),
                group("home", StreamRole::Home, 4, home),
            ],
        }
    }

    /// Their tables; frames of the reloaded streams get this priority.
    fn tables(&self, priority: u8) -> String {
        let single = self.single.iter().map(|group| group.all(0));
        [self.reloaded.all(priority)].into_iter().chain(single).collect()
    }
}

/// The network.
pub(super) fn network() -> Topology {
    with_streams(STREAMS, 0)
}

fn with_streams(streams: u32, priority: u8) -> Topology {
    let room = format!("[node]\nmax-streams = {streams}");
    let mut network = TwoPaths { node: [room, String::new()], ..TwoPaths::vector(1000) }.topology();
    if let Some(text) = &mut network.nodes[0].config_text {
        text.push_str(&OtherStreams::of(streams).tables(priority));
    }
    network
}

fn config(streams: u32, priority: u8) -> String {
    with_streams(streams, priority).nodes.swap_remove(0).config_text.unwrap_or_default()
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    flows: StreamOptions,
    /// Number of streams of a node
    #[arg(long, value_name = "NUMBER", default_value_t = STREAMS,
        value_parser = clap::value_parser!(u32).range(i64::from(FEWEST)..=i64::from(STREAMS)))]
    streams: u32,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let streams = options.streams;
    let phase_ns = options.flows.phases.ns()?;
    let others = OtherStreams::of(streams);
    let mut world = stage.open(&with_streams(streams, 0), &options.flows.plane)?;
    let flows = two_paths::start(&world, &options.flows.frames)?;
    let mut course = PhaseLog::default();
    course.begin("no change", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("no change", &flows, phase_ns / 5)?;
    let node = world.daemon("a")?;
    course.begin("streams change one by one", PhaseState::Up, &flows, || Ok(()))?;
    let singly = change_singly(stage, node, &flows, &others, phase_ns)?;
    let reloads = format!("{} streams change at once", others.reloaded.count);
    course.begin(&reloads, PhaseState::Up, &flows, || Ok(()))?;
    let took = reload(stage, node, &flows, streams)?;
    course.end();
    let flowed = flow::finish_all(flows)?;

    let mut statuses = stage.statuses(&world)?;
    let found = statuses[0].streams.len() as u64;
    stage.check(Check::eq("streams of node a at the end", found, u64::from(streams), ""));
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("lost", lost, 0_u64, "frames"));
    check_clean(stage, &flowed);
    two_paths::check_counters(stage, &statuses, &flowed);
    stage.figure("time from request to response", singly.figure());
    let what = format!("reload that changes {} of {streams} streams", others.reloaded.count);
    stage.figure(what, Measurement::of_runs("ms", &took));
    memory(stage, &mut world, statuses[0].memory.as_ref().map(|memory| memory.octets), streams)?;
    // The others have no result.
    statuses[0].streams.retain(|stream| flowed.iter().any(|flow| flow.name == stream.name));
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

/// Changes, removes and adds streams of all groups, each by a separate request.
fn change_singly(
    stage: &mut Stage<'_>,
    node: &Daemon,
    flows: &[Flow],
    others: &OtherStreams,
    for_ns: u64,
) -> Result<Recorder> {
    let mut recorder = Recorder::new();
    let series =
        ["change a stream", "remove a stream", "add a stream"].map(|what| recorder.phase(what));
    let end_ns = now_ns() + for_ns;
    let mut number: u32 = 0;
    while number == 0 || now_ns() < end_ns {
        let group = others.single[number as usize % others.single.len()];
        // Prime, so that all streams of a group are used before one is repeated.
        let stream = (u64::from(number) * 7919 % u64::from(group.count)) as u32;
        let tables = |priority| (group.one(stream, priority), "scale.toml".to_owned());
        let [(changed, file), (again, _)] = [tables(5), tables(0)];
        let requests = [
            Request::ChangeStreams { text: changed, file: file.clone(), force: false },
            Request::RemoveStreams { streams: vec![group.name_of(stream)], force: false },
            Request::AddStreams { text: again, file, force: false },
        ];
        for (series, request) in series.into_iter().zip(requests) {
            recorder.record(series, done(node, &request)?.as_nanos() as u64);
        }
        number += 1;
        stage.show_flows(&format!("stream {number} changed, removed, added"), flows);
    }
    Ok(recorder)
}

/// Reloads, and returns the durations in ms.
fn reload(stage: &mut Stage<'_>, node: &Daemon, flows: &[Flow], streams: u32) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for number in 1..=RELOADS {
        stage.show_flows(&format!("reload {number} of {RELOADS}"), flows);
        node.configure(&config(streams, number as u8))?;
        took.push(done(node, &Request::Reload { force: false })?.as_secs_f64() * 1e3);
    }
    Ok(took)
}

/// Sends a request, and returns the time until its response.
fn done(node: &Daemon, request: &Request) -> Result<Duration> {
    let from = now_ns();
    let answer = node.request(request)?;
    let took = Duration::from_nanos(now_ns() - from);
    match answer {
        Response::Done { .. } => Ok(took),
        other => {
            Err(Error::Invalid(format!("unexpected response of node a to a change: {other:?}")))
        }
    }
}

/// Memory per stream in the kernel's tables and in the daemon.
fn memory(
    stage: &mut Stage<'_>,
    world: &mut World,
    tables: Option<u64>,
    streams: u32,
) -> Result<()> {
    let status = format!("/proc/{}/status", world.daemon("a")?.pid());
    let text = fs::read_to_string(&status);
    let text = text.map_err(|error| Error::io(format!("read {status}"), error))?;
    let resident = text.lines().find_map(|line| {
        let kilobytes = line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?;
        kilobytes.parse::<u64>().ok()
    });
    let mut report = |what: &str, octets: u64| {
        let name = format!("{what}, per stream of {streams} streams");
        stage.figure(name, Measurement::new("octets", octets / u64::from(streams)));
    };
    if let Some(octets) = tables {
        report("tables in the kernel", octets);
    }
    if let Some(kilobytes) = resident {
        report("resident memory of the daemon", kilobytes * 1024);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn a_node_has_the_requested_number_of_streams() {
        for streams in [FEWEST, 17, 30_000] {
            let config = Config::parse(&config(streams, 3), "x.toml").unwrap();
            assert_eq!(config.streams.len(), streams as usize);
        }
    }

    #[test]
    fn the_table_of_one_stream_matches_that_of_its_group() {
        for group in OtherStreams::of(64).single {
            let with = |tables: String| {
                let two = TwoPaths::vector(1000).topology();
                let text = two.nodes[0].config_text.clone().unwrap() + &tables;
                Config::parse(&text, "x.toml").unwrap()
            };
            let (all, one) = (with(group.all(5)), with(group.one(7, 5)));
            let name = group.name_of(7);
            let find = |config: &Config| {
                config.streams.iter().find(|stream| stream.name == name).cloned().unwrap()
            };
            assert_eq!(find(&all), find(&one));
        }
    }
}
