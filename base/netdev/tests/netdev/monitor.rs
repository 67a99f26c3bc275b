//! Link events.

use std::{os::fd::AsFd, time::Instant};

use crate::common::{BOUND, Cable};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{setsockopt, sockopt},
};
use onbeat_netdev::{Bridge, LinkEvent, Monitor, VethEnd};
use onbeat_testing::{Feature, require_all};

/// Returns the first event that matches `wanted`.
fn find(monitor: &mut Monitor, mut wanted: impl FnMut(&LinkEvent) -> bool) -> Option<LinkEvent> {
    let deadline = Instant::now() + BOUND;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match monitor.next_within(left).unwrap() {
            Some(event) if wanted(&event) => return Some(event),
            Some(_) => {}
            None => return None,
        }
    }
}

#[test]
fn added_changed_and_removed_devices_are_reported() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let mut monitor = Monitor::in_namespace(left.namespace()).unwrap();

    left.create_veth(&VethEnd::new("new0"), &VethEnd::new("new1")).unwrap();
    let index = left.index("new0").unwrap();
    let mut ready = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut ready, PollTimeout::from(10_000_u16)), Ok(1), "the descriptor wakes");
    let added =
        find(&mut monitor, |event| matches!(event, LinkEvent::Added(link) if link.name == "new0"));
    assert!(added.is_some());

    left.set_up("new0").unwrap();
    let changed = find(
        &mut monitor,
        |event| matches!(event, LinkEvent::Changed(link) if link.name == "new0" && link.up),
    );
    assert!(changed.is_some());

    left.delete("new0").unwrap();
    let removed = find(&mut monitor, |event| matches!(event, LinkEvent::Removed { .. }));
    assert!(
        matches!(&removed, Some(LinkEvent::Removed { name, .. }) if name == "new0" || name == "new1")
    );
    let other = find(&mut monitor, |event| matches!(event, LinkEvent::Removed { .. }));
    let indexes: Vec<_> = [removed, other]
        .into_iter()
        .flatten()
        .map(|event| match event {
            LinkEvent::Removed { index, .. } => index,
            _ => 0,
        })
        .collect();
    assert!(indexes.contains(&index) && indexes.len() == 2, "{indexes:?}");
}

#[test]
fn a_port_that_leaves_its_bridge_still_exists() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Bridge]) {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    left.create_bridge(&Bridge::new("br")).unwrap();
    left.set_master("l0", Some("br")).unwrap();
    let mut monitor = Monitor::in_namespace(left.namespace()).unwrap();
    left.set_master("l0", None).unwrap();
    // A later event: a removal of the port would have been reported before it.
    left.rename("br", "fence").unwrap();
    let mut removed = false;
    let fence = find(&mut monitor, |event| {
        removed |= matches!(event, LinkEvent::Removed { .. });
        matches!(event, LinkEvent::Changed(link) if link.name == "fence")
    });
    assert!(fence.is_some() && !removed);
}

#[test]
fn an_overrun_is_reported() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let mut monitor = Monitor::in_namespace(left.namespace()).unwrap();
    // The kernel raises it to its minimum, which is sufficient for a few events.
    setsockopt(&monitor.as_fd(), sockopt::RcvBuf, &1).unwrap();
    for mtu in 1000..1100 {
        left.set_mtu("l0", mtu).unwrap();
    }
    left.create_veth(&VethEnd::new("unheard"), &VethEnd::new("unheard1")).unwrap();
    assert!(find(&mut monitor, |event| *event == LinkEvent::Lost).is_some());
    while monitor.next_event().unwrap().is_some() {}
    left.set_mtu("unheard", 1234).unwrap();
    let heard =
        find(&mut monitor, |event| matches!(event, LinkEvent::Changed(link) if link.mtu == 1234));
    assert!(heard.is_some(), "a device made while events were lost is known, not added");
}

#[test]
fn a_wait_without_events_ends_at_its_bound() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    left.delete("l0").unwrap();
    let mut monitor = Monitor::in_namespace(left.namespace()).unwrap();
    assert_eq!(monitor.next_event().unwrap(), None);
    assert_eq!(monitor.next_within(std::time::Duration::from_millis(2)).unwrap(), None);
}
