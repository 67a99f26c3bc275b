//! Admission: the order in which streams get their routes, and moves of single streams.

use super::planner::Planner;
use super::{Refusal, StreamPlan, StreamResult};
use crate::network::{Network, Stream};
use crate::route::Route;

/// Streams that are moved, one at a time, for one that lacks capacity.
const MOVES: usize = 8;

/// The order in which streams are routed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    LargestRate,
    SmallestRate,
    /// By rate times the number of links of the least pair in the idle network.
    LeastUse,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::LargestRate, Self::LeastUse, Self::SmallestRate];

    fn of(self, planner: &mut Planner<'_>) -> Vec<usize> {
        let streams = &planner.network.streams;
        let key = |stream: &Stream| match self {
            Self::LargestRate => u64::MAX - stream.rate(),
            Self::SmallestRate => stream.rate(),
            Self::LeastUse => stream.rate() * planner.idle_links(stream),
        };
        let keys = streams.iter().map(key).zip(streams).enumerate();
        let mut order: Vec<(u64, &str, usize)> =
            keys.map(|(index, (key, stream))| (key, &stream.name[..], index)).collect();
        order.sort_unstable();
        order.into_iter().map(|(.., index)| index).collect()
    }
}

/// Routes of all streams within the capacities.
pub(super) struct Admission<'a> {
    pub(super) planner: Planner<'a>,
    pub(super) results: Vec<StreamResult>,
    pub(super) kept: usize,
}

impl<'a> Admission<'a> {
    pub(super) fn new(network: &'a Network, previous: &[Option<&Route>], order: Order) -> Self {
        let mut planner = Planner::new(network);
        let order = order.of(&mut planner);
        let streams = &network.streams;
        let mut results = vec![None; streams.len()];
        let mut kept = 0;
        // Copied in their order in memory: the order by rate jumps.
        let mut old: Vec<Option<Route>> = previous.iter().map(|old| old.cloned()).collect();
        for &index in &order {
            let Some(route) = old[index].take() else { continue };
            if planner.keep(&streams[index], &route) {
                results[index] = Some((StreamPlan::Protected, Some(route)));
                kept += 1;
            }
        }
        planner.set_costs();
        for &index in &order {
            if results[index].is_none() {
                results[index] = Some(planner.route(&streams[index]));
            }
        }
        planner.retry(&order, &mut results);
        Self { planner, results: results.into_iter().flatten().collect(), kept }
    }

    /// The protected streams.
    pub(super) fn count(&self) -> usize {
        self.results.iter().filter(|(stream, _)| *stream == StreamPlan::Protected).count()
    }

    pub(super) fn lacks_capacity(&self) -> bool {
        self.results
            .iter()
            .any(|(stream, _)| matches!(stream, StreamPlan::Refused(Refusal::Capacity { .. })))
    }
}

impl Planner<'_> {
    /// Routes streams that lack capacity again, after moving one stream away from their full arcs.
    pub(super) fn retry(&mut self, order: &[usize], results: &mut [Option<StreamResult>]) {
        let network = self.network;
        let mut is_full = vec![false; self.room.len()];
        for &refused in order {
            let Some((StreamPlan::Refused(Refusal::Capacity { arcs }), _)) = &results[refused]
            else {
                continue;
            };
            arcs.iter().for_each(|arc| is_full[arc.index()] = true);
            let uses_full = |route: &Route| route.paths().flatten().any(|arc| is_full[arc.index()]);
            let full = arcs.clone();
            let candidates: Vec<usize> = order
                .iter()
                .rev()
                .copied()
                .filter(|index| {
                    matches!(&results[*index], Some((StreamPlan::Protected, Some(route))) if uses_full(route))
                })
                .take(MOVES)
                .collect();
            full.iter().for_each(|arc| is_full[arc.index()] = false);
            for moved in candidates {
                let Some((_, Some(route))) = results[moved].clone() else { continue };
                let (stream, other) = (&network.streams[refused], &network.streams[moved]);
                self.release(other, &route);
                let first = self.route(stream);
                if first.0 == StreamPlan::Protected {
                    let second = self.route(other);
                    if second.0 == StreamPlan::Protected {
                        results[refused] = Some(first);
                        results[moved] = Some(second);
                        break;
                    }
                    if let Some(route) = &second.1 {
                        self.release(other, route);
                    }
                }
                if let Some(route) = &first.1 {
                    self.release(stream, route);
                }
                self.admit(other, &route);
            }
        }
    }
}
