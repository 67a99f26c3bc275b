//! Interfaces that are missing at the start, or that udev has yet to name.

use std::thread;
use std::time::{Duration, Instant};

use onbeat_netdev::Handle;
use onbeat_netdev::udev::has_yet_to_name;

use crate::config::PortConfig;

/// Interval of reading whether udev has named an interface.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for names at the start. Then the port waits while the node runs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait at the first start for interfaces that are missing. The address and the MTU of an interface that the node
/// makes depend on them. The others protect nothing meanwhile.
const LONGEST_WAIT_FOR_MISSING: Duration = Duration::from_secs(5);

/// Waits until the interfaces of ports exist and udev has named them. Waits for missing ones at the first start only, and
/// if there are others.
pub(super) fn wait(handle: &Handle, ports: &[PortConfig], is_first: bool) {
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        let ports = ports.iter().filter(|port| port.create.is_none());
        let links = ports.map(|port| handle.link(&port.interface));
        let (links, missing): (Vec<_>, Vec<_>) = links.partition(Result::is_ok);
        let longest = if links.iter().flatten().any(has_yet_to_name) {
            LONGEST_WAIT
        } else if is_first && !links.is_empty() && !missing.is_empty() {
            LONGEST_WAIT_FOR_MISSING
        } else {
            return;
        };
        if start.elapsed() >= longest {
            return;
        }
        if !std::mem::replace(&mut is_reported, true) {
            let wait_s = longest.as_secs();
            let missing = missing.into_iter().filter_map(Result::err);
            missing.for_each(|error| tracing::warn!("{error}; the start waits up to {wait_s} s"));
        }
        thread::sleep(INTERVAL);
    }
}
