//! A network in virtual time, of up to the maximum size, with an independent checker.

use onbeat_powerlink::nmt::State;
use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_report::format::count;
use onbeat_report::{Check, Counters};
use onbeat_sim::{Conditions, MachineEvent, Network, NetworkConfig};
use onbeat_wire::powerlink::NodeId;

use super::observer::BusObservation;
use super::{BOUND_NS, Options, figures, topology};
use crate::scenario::stage::Stage;
use crate::{Result, Topology};

/// Lost receptions per million, while losses are simulated.
const LOSS_PER_MILLION: u32 = 10_000;

/// Virtual time between two checks of the condition and of signals.
const STEP_NS: u64 = SECOND / 4;

/// A network with an observer of its bus.
struct ObservedNetwork {
    network: Network,
    seen: BusObservation,
}

pub(super) fn play(
    stage: &mut Stage<'_>,
    options: &Options,
    nodes: u8,
    cycle_us: u32,
) -> Result<()> {
    stage.draw(&drawing());
    let config = NetworkConfig {
        nodes,
        cycle_us,
        mandatory: false,
        multiplexed_cycles: 0,
        conditions: Conditions::CLEAN,
        seed: options.seed.seed,
    };
    let mut watched =
        ObservedNetwork { network: Network::new(config), seen: BusObservation::default() };
    let mut times = figures::times();
    let all = u64::from(nodes);
    let last = NodeId(nodes);

    let took_ns = settle(stage, &mut watched, "the network boots")?;
    stage.check(up("in OPERATIONAL after the boot", &watched.network, nodes));
    times.row(figures::time("boot", took_ns));
    let exchanged = exchange(&mut watched, nodes, cycle_us);
    stage.check(Check::eq("values transferred in both directions", exchanged, 2 * all, "values"));

    watched.network.power(NodeId(1), false);
    run(stage, &mut watched, "node 1 is off", SECOND)?;
    let others =
        (2..=nodes).map(|node| figures::is_operational(watched.network.state(node))).sum::<u64>();
    stage.check(Check::eq("in OPERATIONAL while node 1 is off", others, all - 1, "nodes"));
    watched.network.power(NodeId(1), true);
    let took_ns = settle(stage, &mut watched, "node 1 restarts")?;
    stage.check(up("in OPERATIONAL after the restart of node 1", &watched.network, nodes));
    times.row(figures::time("restart of node 1 to OPERATIONAL", took_ns));

    watched.network.connect(last, false);
    run(stage, &mut watched, "a cable is cut", SECOND)?;
    let noticed = u64::from(watched.network.state(nodes) != State::Operational);
    stage.check(Check::eq("cut cable is detected by its node", noticed, 1_u64, ""));
    watched.network.connect(last, true);
    let took_ns = settle(stage, &mut watched, "the cable is repaired")?;
    stage.check(up("in OPERATIONAL after the cable was repaired", &watched.network, nodes));
    times.row(figures::time("repair to OPERATIONAL", took_ns));

    watched.network.bus.conditions.loss_per_million = LOSS_PER_MILLION;
    let phase_ns = options.phases.ns()?;
    run(stage, &mut watched, "1 % of the frames is lost", phase_ns)?;
    watched.network.bus.conditions.loss_per_million = 0;
    let took_ns = settle(stage, &mut watched, "losses have stopped")?;
    stage.check(up("in OPERATIONAL after the losses", &watched.network, nodes));
    times.row(figures::time("end of losses to OPERATIONAL of all nodes", took_ns));

    report(stage, &watched.network, times);
    figures::bus(stage, &watched.seen);
    Ok(())
}

/// The drawing of the network, with a few of its nodes.
fn drawing() -> Topology {
    topology(4, None)
}

fn up(name: &str, network: &Network, nodes: u8) -> Check {
    let states = (1..=nodes).map(|node| figures::is_operational(network.state(node)));
    Check::eq(name, states.sum::<u64>(), u64::from(nodes), "nodes")
}

/// Advances virtual time.
fn run(
    stage: &mut Stage<'_>,
    watched: &mut ObservedNetwork,
    what: &str,
    for_ns: u64,
) -> Result<()> {
    let ObservedNetwork { network, seen } = watched;
    let end_ns = network.bus.now_ns() + for_ns;
    while network.bus.now_ns() < end_ns {
        interrupt::check()?;
        let now_s = network.bus.now_ns() as f64 / SECOND as f64;
        stage.show_step(&format!("{what}; {now_s:.1} s of virtual time"));
        let step_ns = STEP_NS.min(end_ns - network.bus.now_ns());
        network.run_watched(step_ns, |time_ns, frame| seen.bus.observe(time_ns, frame));
    }
    Ok(())
}

/// Advances virtual time until all nodes are in OPERATIONAL; returns the time in ns.
fn settle(stage: &mut Stage<'_>, watched: &mut ObservedNetwork, what: &str) -> Result<u64> {
    let begun = watched.network.bus.now_ns();
    let took = |watched: &ObservedNetwork| watched.network.bus.now_ns() - begun;
    while !watched.network.is_operational() && took(watched) < BOUND_NS {
        run(stage, watched, what, STEP_NS)?;
    }
    Ok(took(watched))
}

/// The number of values transferred after three cycles: an input and an output of each node.
fn exchange(watched: &mut ObservedNetwork, nodes: u8, cycle_us: u32) -> u64 {
    let ObservedNetwork { network, seen } = watched;
    let values = |node: u8| (node ^ 0xff, node.wrapping_mul(3));
    for node in 1..=nodes {
        let (input, output) = values(node);
        network.set_input(NodeId(node), input);
        network.set_output(NodeId(node), output);
    }
    let three_ns = 3 * u64::from(cycle_us) * 1000;
    network.run_watched(three_ns, |time_ns, frame| seen.bus.observe(time_ns, frame));
    let arrived = |node: u8| {
        let (input, output) = values(node);
        u64::from(network.input(NodeId(node)) == input)
            + u64::from(network.output(NodeId(node)) == output)
    };
    (1..=nodes).map(arrived).sum()
}

fn report(stage: &mut Stage<'_>, network: &Network, times: Counters) {
    let checker = &network.checker;
    let violations = checker.violations();
    stage.check(Check::eq("violations of POWERLINK rules", violations.len() as u64, 0_u64, ""));
    for violation in violations.iter().take(10) {
        stage.note(format!("{:.6} s: {}", violation.time_ns as f64 / 1e9, violation.what));
    }
    stage.figure("times", times);
    let records = network.bus.stations[0].node.records.iter();
    let events = records.filter_map(|record| match record.what {
        MachineEvent::Managing(event) => Some((record.time_ns, event)),
        MachineEvent::Controlled(_) => None,
    });
    stage.figure("events of the managing node", figures::event_table(events));
    stage.note(format!(
        "virtual time: {:.1} s, {}, {}; no value is a measurement",
        network.bus.now_ns() as f64 / 1e9,
        count(checker.cycles(), "cycle"),
        count(checker.frames(), "frame")
    ));
}
