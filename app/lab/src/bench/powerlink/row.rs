//! A network of two nodes on a wire of its own, paused while others are measured.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_netdev::{Handle, Namespace};
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{ManagingNode, Step};
use onbeat_powerlink_node::{Counts, File, NodePlacement as At, Runner, Simulation, Station};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_realtime::interrupt;
use onbeat_wire::powerlink::NodeId;

use super::backend::Backend;
use super::trace::TraceFigures;
use super::wire::Wire;
use crate::bench::port::backend::prepare;
use crate::bench::port::placement::Placement;
use crate::bench::port::rig::{CN, CN_MAC, MN, MN_MAC, TO_CN, TO_MN, pair};
use crate::{Error, Result};

const NODE: NodeId = NodeId(1);

/// Time within which a network of two nodes reaches OPERATIONAL.
const BOOT: Duration = Duration::from_secs(60);
/// Maximum duration of a round beyond its cycles.
const BOUND_NS: u64 = 60 * SECOND;
/// Interval of checks whether a round is over.
const LOOK_NS: u64 = 1_000_000;

/// The cycles of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowCycles {
    period_us: u32,
    /// Cycles before the measured ones, which do not count: the network was paused, and caches are
    /// cold.
    warm_up: u64,
    counted: u64,
}

impl RowCycles {
    pub(super) fn new(period_us: u32, counted: u64) -> Self {
        let warm_up = (100_000 / u64::from(period_us)).clamp(20, 200);
        RowCycles { period_us, warm_up, counted }
    }

    fn bound_ns(self) -> u64 {
        (self.warm_up + self.counted) * u64::from(self.period_us) * 1000 + BOUND_NS
    }
}

/// Room for the events of a round: three frames per cycle, and a margin, so that excess frames are
/// noticed.
pub(super) fn events(counted: Option<u64>) -> u32 {
    (4 * counted.unwrap_or(0) + 4096) as u32
}

/// The record of a row in a round.
#[derive(Debug)]
pub(super) struct RowRecord {
    pub(super) taken: TraceFigures,
    /// Events that did not fit in the record, and foreign frames.
    pub(super) lost: u64,
    pub(super) foreign: u64,
    /// Counters of the nodes in this round: managing node, controlled node.
    pub(super) counts: [Counts; 2],
}

/// A node and its runner.
struct NodeEnd<S: Station> {
    runner: Runner<S>,
    simulation: Simulation,
}

/// A network.
pub(super) struct Row {
    pub(super) backend: &'static Backend,
    // Closed before the interfaces are removed.
    mn: NodeEnd<ManagingNode>,
    /// `None`: the wire's program answers in its place.
    cn: Option<NodeEnd<ControlledNode>>,
    wire: Wire,
    namespaces: [Handle; 3],
}

/// A network of one controlled node with a value per direction. A loss is counted, and has no other
/// effect.
fn file(period_us: u32) -> File {
    let text = format!(
        "[network]\ncycle-us = {period_us}\nasync-slot-us = 500\nloss-threshold = 0\n\
         pre-operational-1-ms = 100\n\
         [[node]]\nid = 1\npres-timeout-us = {}\n\
         input = [{{ type = \"u32\", simulate = \"copy\" }}]\n\
         output = [{{ type = \"u32\", simulate = \"counter\" }}]\n",
        period_us / 2
    );
    File::parse(&text, "the network of the bench").expect("the file is valid")
}

impl Row {
    /// The interfaces, and both nodes, off; or the reason why the back end is unavailable.
    pub(super) fn open(
        backend: &'static Backend,
        period_us: u32,
        events: u32,
    ) -> Result<std::result::Result<Self, String>> {
        let station = || Handle::in_namespace(&Namespace::with_loopback()?);
        let (mn, wire, cn) = (station()?, station()?, station()?);
        pair(&wire, TO_MN, &mn, MN, MN_MAC)?;
        pair(&wire, TO_CN, &cn, CN, CN_MAC)?;
        let programs = Wire::start(&wire, [TO_MN, TO_CN], events)?;
        if let Err(why) = prepare(&mn, backend.managing) {
            return Ok(Err(why));
        }
        let file = file(period_us);
        let managing = At {
            namespace: mn.namespace(),
            interface: MN,
            backend: backend.managing,
            sender: backend.soc(),
            virtual_ethernet: None,
        };
        let controlled = At {
            namespace: cn.namespace(),
            interface: CN,
            backend: backend.controlled,
            sender: backend.response(),
            virtual_ethernet: None,
        };
        let managing = file.managing(&managing);
        let controlled = file.controlled(NODE, &controlled);
        let (managing, controlled) = match (managing, controlled) {
            (Ok(managing), Ok(controlled)) => (managing, controlled),
            (Err(error), _) | (_, Err(error)) => return Ok(Err(error.to_string())),
        };
        Ok(Ok(Row {
            backend,
            mn: NodeEnd { runner: managing, simulation: Simulation::managing(&file) },
            cn: Some(NodeEnd {
                runner: controlled,
                simulation: Simulation::controlled(&file, NODE),
            }),
            wire: programs,
            namespaces: [mn, wire, cn],
        }))
    }

    /// Brings the network to OPERATIONAL.
    pub(super) fn boot(&mut self, place: &Placement) -> Result<()> {
        let (name, bound_ns) = (self.backend.name, now_ns() + BOOT.as_nanos() as u64);
        let up = AtomicBool::new(false);
        let turn = |node: &ManagingNode| {
            up.store(node.step(NODE) == Some(Step::Operational), Ordering::Relaxed);
        };
        let what = format!("boot of the network of {name}");
        self.play(place, turn, |_, ended| {
            wait(&what, bound_ns, || up.load(Ordering::Relaxed) || ended())
        })?;
        if self.backend.reflects {
            // An interface has one program: the node's is removed first.
            self.cn = None;
            let [_, _, cn] = &self.namespaces;
            self.wire.reflect(cn, CN)?;
        }
        Ok(())
    }

    /// Runs the network for a number of cycles; `tick` is called periodically.
    pub(super) fn run(
        &mut self,
        cycles: RowCycles,
        place: &Placement,
        mut tick: impl FnMut(),
    ) -> Result<RowRecord> {
        let turns = AtomicU64::new(0);
        let bound_ns = now_ns() + cycles.bound_ns();
        let before = self.counts();
        let turn = |_: &ManagingNode| {
            turns.fetch_add(1, Ordering::Relaxed);
        };
        let recorded = self.play(place, turn, |wire, ended| {
            let mut until = |count: u64| {
                wait("end of a round", bound_ns, || {
                    tick();
                    turns.load(Ordering::Relaxed) >= count || ended()
                })
            };
            until(cycles.warm_up)?;
            wire.begin()?;
            until(turns.load(Ordering::Relaxed) + cycles.counted)?;
            wire.end()
        })?;
        let after = self.counts();
        let counts = [0, 1].map(|end| since(after[end], before[end]));
        let period_ns = u64::from(cycles.period_us) * 1000;
        let (lost, foreign) = (recorded.lost, recorded.foreign);
        Ok(RowRecord { taken: TraceFigures::of(recorded.events, period_ns), lost, foreign, counts })
    }

    fn counts(&self) -> [Counts; 2] {
        let controlled = self.cn.as_ref().map(|cn| cn.runner.counts());
        [self.mn.runner.counts(), controlled.unwrap_or_default()]
    }

    /// Runs both nodes during a task, which receives whether one of them has exited.
    fn play<T>(
        &mut self,
        place: &Placement,
        turn: impl Fn(&ManagingNode) + Sync,
        during: impl FnOnce(&mut Wire, &dyn Fn() -> bool) -> Result<T>,
    ) -> Result<T> {
        let Row { mn, cn, wire, .. } = self;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let managing = scope.spawn(|| {
                run_end(mn, place, place.mn_cpu, &stop, |node, simulation| {
                    simulation.turn(node);
                    turn(node);
                })
            });
            let stop = &stop;
            let controlled = cn.as_mut().map(|cn| {
                scope.spawn(move || {
                    run_end(cn, place, place.cn_cpu, stop, |node, simulation| simulation.turn(node))
                })
            });
            let done = during(wire, &|| stop.load(Ordering::Relaxed));
            stop.store(true, Ordering::Relaxed);
            for thread in std::iter::once(managing).chain(controlled) {
                let ended = thread.join();
                ended.unwrap_or_else(|panic| resume_unwind(panic))?;
            }
            done
        })
    }
}

/// Sets the flag when its thread exits for any reason, so that no thread waits for a node that has
/// exited.
struct FlagGuard<'a>(&'a AtomicBool);

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a node on a CPU until `stop` is set.
fn run_end<S: Station>(
    end: &mut NodeEnd<S>,
    place: &Placement,
    cpu: usize,
    stop: &AtomicBool,
    mut turn: impl FnMut(&mut S, &mut Simulation),
) -> Result<()> {
    let _stop_flag = FlagGuard(stop);
    let _placed = place.take(cpu)?;
    let NodeEnd { runner, simulation } = end;
    Ok(runner.run(|node| turn(node, simulation), |_| !stop.load(Ordering::Relaxed))?)
}

/// Waits until a condition holds.
fn wait(what: &str, bound_ns: u64, mut condition: impl FnMut() -> bool) -> Result<()> {
    let begun = now_ns();
    while !condition() {
        interrupt::check()?;
        let now = now_ns();
        if now > bound_ns {
            let seconds = (now - begun) as f64 / SECOND as f64;
            return Err(Error::Timeout { what: what.to_owned(), seconds });
        }
        sleep_until(now + LOOK_NS);
    }
    Ok(())
}

fn since(after: Counts, before: Counts) -> Counts {
    Counts {
        turns: after.turns - before.turns,
        not_sent: after.not_sent - before.not_sent,
        forgotten: after.forgotten - before.forgotten,
        launched: after.launched - before.launched,
        answered: after.answered - before.answered,
        responses: after.responses - before.responses,
    }
}
