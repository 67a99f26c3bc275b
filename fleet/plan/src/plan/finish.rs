//! Delays and windows of all routes, and the streams that they refuse.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::planner::Planner;
use super::{Plan, PreviousRoutes, PreviousStream, Refusal, RelayRecovery, StreamPlan};
use crate::delay::{self, CopyTimes, DelayBounds, DelayRange, RoutedStream};
use crate::labels;
use crate::ladder::{self, RecoverAt};
use crate::network::{Arc, Network, Stream};
use crate::route::Route;
use crate::window::{Window, WindowError};

impl Planner<'_> {
    /// Computes delays and windows; refuses the streams that exceed their limits.
    pub(super) fn finish(
        self,
        mut streams: Vec<StreamPlan>,
        mut routes: Vec<Option<Route>>,
        previous: &PreviousRoutes,
        kept: usize,
    ) -> Plan {
        let network = self.network;
        let mut marks = self.marks;
        loop {
            let mut indices = Vec::with_capacity(routes.len());
            let mut routed = Vec::with_capacity(routes.len());
            for (index, route) in routes.iter().enumerate() {
                let Some(route) = route else { continue };
                indices.push(index);
                routed.push(RoutedStream::new(network, &mut marks, &network.streams[index], route));
            }
            let bounds = delay::bounds_of(network, &routed);
            let mut delays = vec![Vec::new(); routes.len()];
            let mut windows = vec![None; routes.len()];
            let mut relays = vec![Vec::new(); routes.len()];
            let mut refusals = match bounds.is_bounded {
                true => Vec::new(),
                false => unbounded(network, &bounds, &routes, previous),
            };
            let late = if bounds.is_bounded { &routed[..] } else { &[] };
            for (&index, routed) in indices.iter().zip(late) {
                let stream = routed.stream;
                let times = bounds.copy_times(routed);
                let listeners = routed.route.listeners.iter();
                let mut ranges = Vec::with_capacity(listeners.len());
                let range = |paths| bounds.range(network, routed, times.as_ref(), paths);
                ranges.extend(listeners.map(range));
                let previous = previous.get(&stream.name);
                let old = previous.map_or(&[][..], |old| &old.delays);
                if let Some(refusal) = exceeded(stream, &ranges) {
                    refusals.push((index, refusal));
                } else if stream.paths > 1 {
                    let window = Window::new(stream.interval_ns, ranges.iter().chain(old));
                    let of_relays = || match &times {
                        Some(times) => relay_windows(network, &bounds, routed, times, previous),
                        None => Ok(Vec::new()),
                    };
                    match window.and_then(|window| Ok((window, of_relays()?))) {
                        Ok((window, of_relays)) => {
                            (windows[index], relays[index]) = (Some(window), of_relays);
                        }
                        Err(error) => refusals.push((index, Refusal::Window(error))),
                    }
                }
                delays[index] = ranges;
            }
            protect_kept(network, &routes, previous, &mut refusals);
            let mut labels = Vec::new();
            if refusals.is_empty() {
                match labels::assign(network, &routes, previous) {
                    Ok(assigned) => labels = assigned,
                    Err(full) => {
                        refusals.extend(full.into_iter().map(|index| (index, Refusal::Label)));
                    }
                }
            }
            if refusals.is_empty() {
                let mut load = vec![0; self.capacity.len()];
                for RoutedStream { stream, route, is_disjoint, .. } in routed {
                    let rate = stream.rate();
                    match is_disjoint {
                        true => {
                            route.paths().flatten().for_each(|arc| load[arc.index()] += rate);
                        }
                        false => route.arcs().iter().for_each(|arc| load[arc.index()] += rate),
                    }
                }
                return Plan {
                    streams,
                    routes,
                    delays,
                    windows,
                    relays,
                    labels,
                    load,
                    bounds,
                    kept,
                };
            }
            for (index, refusal) in refusals {
                // Recovery in relays is given up first where it is not required.
                let stream = &network.streams[index];
                let optional = routes[index].as_ref().filter(|route| {
                    stream.recover_at == RecoverAt::Auto && ladder::has_rungs(stream, route)
                });
                if let Some(route) = optional {
                    routes[index] = Some(ladder::without_rungs(stream, route));
                    continue;
                }
                streams[index] = StreamPlan::Refused(refusal);
                routes[index] = None;
            }
        }
    }
}

/// Recovery in relays, each for the copies that arrive there by the old and the new plan.
fn relay_windows(
    network: &Network,
    bounds: &DelayBounds,
    routed: &RoutedStream<'_>,
    times: &CopyTimes,
    previous: Option<&PreviousStream>,
) -> Result<Vec<RelayRecovery>, WindowError> {
    let relays = routed.route.recovering_relays(network, routed.stream);
    let recovery = |node: u32| {
        let delay = bounds.at_relay(network, routed, times, node);
        let name = &network.nodes[node as usize].name;
        let old = previous.and_then(|old| old.relay_delays.get(name));
        let window = Window::new(routed.stream.interval_ns, [&delay].into_iter().chain(old))?;
        Ok(RelayRecovery { node, delay, window })
    };
    relays.into_iter().map(recovery).collect()
}

/// The arcs of all paths of a route.
fn arcs(route: &Option<Route>) -> impl Iterator<Item = Arc> {
    route.iter().flat_map(Route::paths).flatten().copied()
}

/// The number of streams, of those in question, that one round refuses.
fn portion(streams: usize) -> usize {
    1 + streams / 32
}

/// Whether a stream has the route of the previous plan.
fn is_kept(
    network: &Network,
    routes: &[Option<Route>],
    previous: &PreviousRoutes,
    index: usize,
) -> bool {
    let old = previous.get(&network.streams[index].name).and_then(|old| old.route.as_ref());
    old.is_some() && old == routes[index].as_ref()
}

/// In place of kept streams that are late and were not before, refuses new ones of their arcs, those with the largest rate
/// first. A kept stream without new ones on its arcs remains refused.
fn protect_kept(
    network: &Network,
    routes: &[Option<Route>],
    previous: &PreviousRoutes,
    refusals: &mut Vec<(usize, Refusal)>,
) {
    let is_kept = |index: usize| is_kept(network, routes, previous, index);
    let was_in_time = |stream: &Stream| {
        previous.get(&stream.name).is_some_and(|old| exceeded(stream, &old.delays).is_none())
    };
    let is_late_and_kept = |(index, refusal): &(usize, Refusal)| {
        matches!(refusal, Refusal::Delay { bound_ns: Some(_), .. })
            && is_kept(*index)
            && was_in_time(&network.streams[*index])
    };
    let late: Vec<usize> = refusals
        .iter()
        .filter(|refusal| is_late_and_kept(refusal))
        .map(|(index, _)| *index)
        .collect();
    if late.is_empty() {
        return;
    }
    // The late stream of each arc.
    let mut late_of = HashMap::new();
    for &index in &late {
        arcs(&routes[index]).for_each(|arc| _ = late_of.entry(arc).or_insert(index));
    }
    let delays = |index: usize| arcs(&routes[index]).find_map(|arc| late_of.get(&arc).copied());
    let new = (0..routes.len()).filter(|index| !is_kept(*index));
    let mut new: Vec<(usize, usize)> =
        new.filter_map(|index| Some((index, delays(index)?))).collect();
    if new.is_empty() {
        return;
    }
    new.sort_by_cached_key(|(index, _)| Reverse(network.streams[*index].rate()));
    new.truncate(portion(new.len()));
    refusals.retain(|refusal| !is_late_and_kept(refusal));
    let refused: HashSet<usize> = refusals.iter().map(|(index, _)| *index).collect();
    new.retain(|(index, _)| !refused.contains(index));
    refusals.extend(new.into_iter().map(|(index, stream)| (index, Refusal::Displaces { stream })));
}

/// Streams to refuse so that delays become bounded: of those on the arc with the longest queue, new ones before those with
/// the paths of the previous plan, and of these the ones with the largest rate.
fn unbounded(
    network: &Network,
    bounds: &DelayBounds,
    routes: &[Option<Route>],
    previous: &PreviousRoutes,
) -> Vec<(usize, Refusal)> {
    let worst = network.arcs().max_by_key(|arc| bounds.queue_ns[arc.index()]);
    let uses = |index: &usize| arcs(&routes[*index]).any(|arc| Some(arc) == worst);
    let mut users: Vec<usize> = (0..routes.len()).filter(uses).collect();
    let streams = &network.streams;
    let is_kept = |index: usize| is_kept(network, routes, previous, index);
    users.sort_by_cached_key(|index| (is_kept(*index), Reverse(streams[*index].rate())));
    let first = users.iter().filter(|index| !is_kept(**index)).count();
    users.truncate(portion(users.len()).min(if first > 0 { first } else { users.len() }));
    let refusal = |index: usize| {
        (index, Refusal::Delay { listener: streams[index].listeners[0], bound_ns: None })
    };
    users.into_iter().map(refusal).collect()
}

/// The limit of delay that a stream exceeds.
fn exceeded(stream: &Stream, ranges: &[DelayRange]) -> Option<Refusal> {
    let limit = stream.max_delay_ns?;
    let position = ranges.iter().position(|range| range.longest_ns > limit)?;
    let (listener, bound_ns) = (stream.listeners[position], Some(ranges[position].longest_ns));
    Some(Refusal::Delay { listener, bound_ns })
}
