//! Round trips of single probes through two nodes and two paths, as the paper "Lightweight
//! Implementation of Per-packet Service Protection in eBPF/XDP" measures them (5.3, figures 7 to 9):
//! on an idle machine, with CPU stressors on the nodes' cores, with background traffic through the
//! same nodes.
//!
//! ```text
//!                      path1
//!   talker --- a ================== b --- listener        once for each row
//!                      path2
//!   sends, receives                       reflects (XDP)
//! ```
//!
//! `row` is the table of compared data planes, `rig` builds them, `schedule` defines the order of
//! measurements, `cpu_layout` assigns CPUs; `programs`, `napi` and `background` are parts of a row; `case`
//! holds its result, and `figures` builds the result of the scenario.

mod background;
mod case;
mod cpu_layout;
mod figures;
mod napi;
mod programs;
mod rig;
mod row;
mod schedule;

use std::time::Duration;

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt;
use onbeat_report::CpuTimes;
use onbeat_wire::VlanTag;

use self::case::RttCase;
use self::cpu_layout::CpuLayout;
use self::rig::Rig;
use self::row::Row;
use self::schedule::{Block, Schedule};
use super::flow::{PCP, next_stream};
use super::options::{DataPlaneOptions, FrameOptions};
use super::stage::Stage;
use super::two_paths::{THERE, TwoPaths, VLAN};
use crate::load::{Stress, Stressor};
use crate::traffic::{
    ExpectedStream, FrameSpec, Rate, Sink, Source, SourceConfig, SourceReport, sent_all, settle,
};
use crate::{Error, Result, Topology, rounds};

/// Other load of the machine while probes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Idle,
    /// CPU stressors on the nodes' cores.
    Stress,
    /// UDP through the nodes.
    Background,
}

impl Load {
    const ALL: [Load; 3] = [Load::Idle, Load::Stress, Load::Background];

    /// Its name in figures.
    fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Stress => "CPU stressors",
            Load::Background => "UDP background",
        }
    }
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
#[command(mut_arg("backend", |backend| backend.help(
    "Measure only this data plane: programs in the kernel (xdp), or the node's process with packet sockets (packet) \
     or AF_XDP sockets (xsk) [default: each]"
)))]
pub(super) struct Options {
    #[command(flatten)]
    plane: DataPlaneOptions,
    #[command(flatten)]
    frames: FrameOptions,
    /// Number of measured round trips per row and load
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    probes: u64,
}

/// The network of one row.
pub(super) fn network() -> Topology {
    TwoPaths::vector(1000).topology()
}

pub(super) fn play_idle(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    play(stage, options, &[Load::Idle])
}

pub(super) fn play_loaded(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    play(stage, options, &[Load::Stress])
}

pub(super) fn play_background(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    play(stage, options, &[Load::Background])
}

pub(super) fn play_all(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    play(stage, options, &Load::ALL)
}

fn play(stage: &mut Stage<'_>, options: &Options, loads: &[Load]) -> Result<()> {
    const MOST: u64 = 1_000_000;
    let Options { plane, frames, probes } = options;
    if !(1..=MOST).contains(probes) {
        let reason = format!("use 1 to {MOST}");
        return Err(Error::Option { option: "probes", value: probes.to_string(), reason });
    }
    let place = CpuLayout::choose()?;
    stage.draw(&network());
    let _hosts = place.with_hosts()?;
    let rig = Rig::build(stage, plane, loads, &place)?;
    let rows: Vec<Row> = rig.present().collect();
    let mut cases: Vec<RttCase> = loads
        .iter()
        .flat_map(|load| rows.iter().map(move |row| RttCase::new(*row, *load)))
        .filter(|case| case.row.is_for(case.load))
        .collect();
    let of_load = |load| (0..cases.len()).filter(|case| cases[*case].load == load).collect();
    let schedule = Schedule::new(loads, of_load, *probes, frames.rate);
    RttRun {
        stage,
        frames,
        rig: &rig,
        place: &place,
        schedule: &schedule,
        left_ns: 0,
        start_ns: now_ns(),
    }
    .all(&mut cases)?;
    figures::fill(stage, frames, &rig.rows, &cases, &schedule, &place);
    Ok(())
}

/// A measurement in progress.
struct RttRun<'r, 's> {
    stage: &'r mut Stage<'s>,
    frames: &'r FrameOptions,
    rig: &'r Rig,
    place: &'r CpuLayout,
    schedule: &'r Schedule,
    left_ns: u64,
    start_ns: u64,
}

impl RttRun<'_, '_> {
    fn all(&mut self, cases: &mut [RttCase]) -> Result<()> {
        self.left_ns = self.schedule.duration_ns();
        let announced = format!("estimated duration: {}", rounds::in_words(self.left_ns));
        self.stage.progress.line(&announced);
        for block in &self.schedule.blocks {
            let stressed = block.load == Load::Stress;
            let _stress =
                stressed.then(|| Stress::start(&self.place.nodes(), &Stressor::ALL)).transpose()?;
            for &case in &block.cases {
                interrupt::check()?;
                self.turn(block, &mut cases[case])?;
            }
        }
        Ok(())
    }

    /// Runs the turn of a row in a round.
    fn turn(&mut self, block: &Block, case: &mut RttCase) -> Result<()> {
        let world = &self.rig.world;
        let background = (block.load == Load::Background)
            .then(|| background::start(world, &case.row))
            .transpose()?;
        let before = CpuTimes::now();
        let (sent, sink) = self.probes(block, &case.row)?;
        if let (Some(before), Some(now)) = (before, CpuTimes::now()) {
            case.cpu.add(before, now);
        }
        // Stopped first, so that probes queued behind it are processed.
        if let Some(background) = background {
            case.background.add(background.stop());
        }
        let settled = settle(sent, sink)?;
        case.add(&settled, self.schedule.warm_up(), self.start_ns);
        self.left_ns = self.left_ns.saturating_sub(self.schedule.turn_ns(block));
        Ok(())
    }

    /// Sends the probes of a turn; its receiver keeps running.
    fn probes(&mut self, block: &Block, row: &Row) -> Result<(SourceReport, Sink)> {
        let talker = self.rig.world.handle(&row.station("talker"))?;
        let vlans = vec![VlanTag { pcp: PCP, ..VlanTag::new(VLAN) }];
        let stream = next_stream();
        let expect = ExpectedStream { stream, vlans: vlans.clone() };
        let sink = Sink::start(talker.namespace(), "eth0", &[expect])?;
        let probes = self.schedule.warm_up() + block.probes;
        let config = SourceConfig {
            stream,
            frame: FrameSpec {
                destination: THERE,
                source: talker.link("eth0")?.mac.unwrap_or_default(),
                vlans,
                size: self.frames.size,
            },
            rate: Rate::PerSecond(self.frames.rate),
            limit: Some(probes),
            spin: Duration::ZERO,
        };
        let source = {
            let _interrupt = self.place.as_interrupt()?;
            Source::start(talker.namespace(), "eth0", config)?
        };
        let (round, all) = (block.round + 1, self.schedule.rounds);
        let (load, begun, left_ns) = (block.load.name(), now_ns(), self.left_ns);
        let progress = &mut self.stage.progress;
        let sent = sent_all(source, self.schedule.turn_ns(block), || {
            progress.update(|| {
                let left = rounds::in_words(left_ns.saturating_sub(now_ns() - begun));
                format!("round {round} of {all}, {load}, {}: {left} remaining", row.name)
            });
        })?;
        Ok((sent, sink))
    }
}
