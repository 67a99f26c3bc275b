//! Recovery in relays: rungs between both paths of a stream (a ladder), whose ends eliminate copies and replicate again.
//!
//! A pair of paths survives one failure. With rungs, one failure in each segment between them is survived: a relay that lost
//! its own path gets the frames of the other one.

use std::collections::HashMap;

use crate::network::{Arc, Network, Stream};
use crate::route::Route;

/// Where copies of a stream are eliminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecoverAt {
    /// At listeners, and where paths meet.
    #[default]
    Listeners,
    /// Also at relays with a link between both paths; required.
    Relays,
    /// Also at relays, if that survives more failures and fits.
    Auto,
}

/// Paths of a listener that has rungs, beyond those of the stream.
#[must_use]
pub fn has_rungs(stream: &Stream, route: &Route) -> bool {
    route.listeners.iter().any(|listener| listener.paths.len() > usize::from(stream.paths))
}

/// The route without its rungs.
pub(crate) fn without_rungs(stream: &Stream, route: &Route) -> Route {
    let mut route = route.clone();
    for listener in &mut route.listeners {
        listener.paths.truncate(stream.paths.into());
    }
    route
}

/// Adds each link between inner nodes of both paths, in both directions, that the condition permits; `None`: there is none.
pub(crate) fn with_rungs(
    network: &Network,
    leaving: &[Vec<Arc>],
    route: &Route,
    permits: impl Fn(Arc) -> bool,
) -> Option<Route> {
    let mut route = route.clone();
    let [listener] = &mut route.listeners[..] else { return None };
    let [first, second] = &listener.paths[..] else { return None };
    let (first, second) = (first.clone(), second.clone());
    // The position of each inner node: that of the arc by which its path goes on.
    let inner = |path: &[Arc]| -> HashMap<u32, usize> {
        path.iter().enumerate().skip(1).map(|(at, arc)| (network.ends(*arc).0, at)).collect()
    };
    let theirs = inner(&second);
    for (at, arc) in first.iter().enumerate().skip(1) {
        for &rung in &leaving[network.ends(*arc).0 as usize] {
            let Some(&there) = theirs.get(&network.ends(rung).1) else { continue };
            if !permits(rung) || !permits(rung.reverse()) {
                continue;
            }
            let over = |from: &[Arc], rung: Arc, to: &[Arc]| [from, &[rung], to].concat();
            listener.paths.push(over(&first[..at], rung, &second[there..]));
            listener.paths.push(over(&second[..there], rung.reverse(), &first[at..]));
        }
    }
    (listener.paths.len() > 2).then_some(route)
}
