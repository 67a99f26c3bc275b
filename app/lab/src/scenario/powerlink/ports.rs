//! A network on ports of this machine.

use std::time::Duration;

use onbeat_powerlink_node::File;
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::{pause_until, wait_until};
use onbeat_realtime::{Profile, Scheduling};
use onbeat_report::Check;
use onbeat_wire::powerlink::NodeId;

use super::actor::{ControlledActor, ManagingActor};
use super::observer::BusObserver;
use super::{BOUND_NS, LOSS, MANAGING, Options, cable, figures, name, topology};
use crate::fault::Impairment;
use crate::scenario::stage::Stage;
use crate::world::CutEnds;
use crate::{Result, World};

/// Priority of nodes: the measurement must not depend on other work of the machine.
const PRIORITY: u8 = 20;

/// A running network.
pub(super) struct Bus<'a> {
    file: &'a File,
    pub(super) managing: Option<ManagingActor>,
    pub(super) nodes: Vec<Option<ControlledActor>>,
    realtime: Profile,
}

impl<'a> Bus<'a> {
    pub(super) fn start(world: &World, file: &'a File) -> Result<Self> {
        let realtime = Profile::default().scheduled(Scheduling::Fifo(PRIORITY));
        // Without permission for priorities, nodes run like any other process.
        let realtime = if realtime.enter().is_ok() { realtime } else { Profile::default() };
        let nodes = file.network.nodes.iter().map(|_| None).collect();
        let mut bus = Bus { file, managing: None, nodes, realtime };
        for node in bus.ids() {
            bus.power_on(world, node)?;
        }
        let namespace = world.namespace("mn")?;
        bus.managing = Some(ManagingActor::managing(namespace, file, bus.realtime.clone())?);
        Ok(bus)
    }

    fn ids(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.nodes.len() as u8
    }

    fn power_on(&mut self, world: &World, node: u8) -> Result<()> {
        let (namespace, realtime) = (world.namespace(&name(node))?, self.realtime.clone());
        let actor = ControlledActor::controlled(namespace, self.file, NodeId(node), realtime)?;
        self.nodes[usize::from(node) - 1] = Some(actor);
        Ok(())
    }

    /// Number of nodes in OPERATIONAL, by their own state and that in the managing node.
    pub(super) fn operational(&self) -> u64 {
        let Some(managing) = &self.managing else { return 0 };
        let up = |node: &u8| {
            let actor = self.nodes[usize::from(*node) - 1].as_ref();
            managing.has(*node) && actor.is_some_and(ControlledActor::is_operational)
        };
        let managing_too = managing.is_operational();
        self.ids().filter(up).filter(|_| managing_too).count() as u64
    }

    fn knows(&self, node: u8) -> bool {
        self.managing.as_ref().is_some_and(|managing| managing.has(node))
    }

    /// Whether no node stopped with an error.
    fn runs(&self) -> bool {
        self.managing.as_ref().is_some_and(ManagingActor::is_running)
            && self.nodes.iter().flatten().all(ControlledActor::is_running)
    }

    /// Waits until all nodes are in OPERATIONAL; returns their number, and the time in ns.
    pub(super) fn settle(&self) -> Result<(u64, u64)> {
        let (begun, all) = (now_ns(), self.nodes.len() as u64);
        let bound = Duration::from_nanos(BOUND_NS);
        wait_until(bound, || self.operational() == all || !self.runs())?;
        Ok((self.operational(), now_ns() - begun))
    }
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options, file: &File) -> Result<()> {
    let count = file.network.nodes.len() as u8;
    let phase_ns = options.phases.ns()?;
    faults(stage, file, count, phase_ns)?;
    losses(stage, options, file, phase_ns)
}

/// Plays boot, failure and restart of a node, cut and repair of a cable.
fn faults(stage: &mut Stage<'_>, file: &File, count: u8, phase_ns: u64) -> Result<()> {
    let network = topology(count, None);
    stage.draw(&network);
    stage.show_step("building the network");
    let world = World::build(&network)?;
    let observer = BusObserver::start(world.namespace("hub")?, "p0")?;
    let all = u64::from(count);
    let mut times = figures::times();
    let in_operational = |name: &str, value| Check::eq(name, value, all, "nodes");

    stage.show_step("the network boots");
    let mut bus = Bus::start(&world, file)?;
    let (up, took_ns) = bus.settle()?;
    stage.check(in_operational("in OPERATIONAL after the boot", up));
    times.row(figures::time("boot", took_ns));
    pause_until(now_ns() + phase_ns, || stage.show_step("the network runs"))?;

    stage.show_step("node 1 fails and restarts");
    let begun = now_ns();
    let dead = bus.nodes[0].take();
    dead.map(ControlledActor::stop).transpose()?;
    let bound = Duration::from_nanos(BOUND_NS);
    let noticed = wait_until(bound, || !bus.knows(1))?;
    times.row(figures::time("detection of a failed node", now_ns() - begun));
    stage.check(Check::eq("failed node is detected", u64::from(noticed), 1_u64, ""));
    let others = bus.managing.as_ref().map_or(0, ManagingActor::operational);
    stage.check(Check::eq(
        "in OPERATIONAL meanwhile, without the failed node",
        u64::from(others),
        all - 1,
        "nodes",
    ));
    bus.power_on(&world, 1)?;
    let (up, took_ns) = bus.settle()?;
    stage.check(in_operational("in OPERATIONAL after its restart", up));
    times.row(figures::time("restart to OPERATIONAL", took_ns));

    stage.show_step("a cable is cut and repaired");
    let (last, begun) = (count, now_ns());
    world.cut(&cable(last), CutEnds::one(0))?;
    let cut_off = || {
        let node = bus.nodes[usize::from(last) - 1].as_ref();
        !bus.knows(last) && node.is_some_and(|node| !node.is_operational())
    };
    let noticed = wait_until(bound, cut_off)?;
    times.row(figures::time("detection of a cut cable by both ends", now_ns() - begun));
    stage.check(Check::eq("cut cable is detected by both ends", u64::from(noticed), 1_u64, ""));
    world.restore(&cable(last))?;
    let (up, took_ns) = bus.settle()?;
    stage.check(in_operational("in OPERATIONAL after the cable was repaired", up));
    times.row(figures::time("repair to OPERATIONAL", took_ns));
    pause_until(now_ns() + phase_ns / 2, || ())?;

    let managing = bus.managing.take().map(ManagingActor::stop).transpose()?;
    drop(bus);
    let seen = observer.stop();
    stage.figure("times", times);
    if let Some(ended) = managing {
        figures::exchanged(stage, &ended, all);
        figures::events(stage, "events of the managing node", &ended);
    }
    figures::bus(stage, &seen);
    Ok(())
}

/// Plays boot and operation while the managing node's cable loses 1 % of the frames.
fn losses(stage: &mut Stage<'_>, options: &Options, file: &File, phase_ns: u64) -> Result<()> {
    let count = file.network.nodes.len() as u8;
    stage.show_step("1 % of the frames is lost");
    let impairment = Impairment { loss: LOSS, seed: options.seed.seed, ..Impairment::default() };
    let world = World::build(&topology(count, Some(impairment)))?;
    let mut bus = Bus::start(&world, file)?;
    let (up, _) = bus.settle()?;
    let all = u64::from(count);
    let name = "in OPERATIONAL while 1 % of the frames is lost";
    stage.check(Check::eq(name, up, all, "nodes"));
    pause_until(now_ns() + phase_ns, || ())?;
    world.wire(MANAGING)?.set(Impairment::default());
    let (up, _) = bus.settle()?;
    stage.check(Check::eq("in OPERATIONAL after the losses", up, all, "nodes"));
    let managing = bus.managing.take().map(ManagingActor::stop).transpose()?;
    drop(bus);
    figures::losses(stage, &world, MANAGING)?;
    if let Some(ended) = managing {
        figures::events(stage, "events of the managing node, with losses", &ended);
    }
    Ok(())
}
