//! A passive observer of the bus: all frames pass through the hub's port to the managing node.

use std::sync::atomic::{AtomicBool, Ordering};

use onbeat_netdev::Namespace;
use onbeat_powerlink_node::Bus;

use crate::Result;
use crate::traffic::{Receiver, socket};
use crate::worker::Worker;

const LOOK_NS: u64 = 20_000_000;

/// An observer of the bus with its thread.
pub(super) struct BusObserver(Worker<BusObservation>);

/// The observed frames.
#[derive(Default)]
pub(super) struct BusObservation {
    pub(super) bus: Bus,
    /// Frames that its socket dropped.
    pub(super) missed: u64,
}

impl BusObserver {
    pub(super) fn start(namespace: &Namespace, interface: &str) -> Result<Self> {
        let mut receiver = Receiver::new(socket::monitor(namespace, interface)?);
        let run = move |stop: &AtomicBool| {
            let mut seen = BusObservation::default();
            let mut last = false;
            while !last {
                last = stop.load(Ordering::Acquire);
                // The interface is down: it holds no frames.
                let _ = receiver.wait(if last { 0 } else { LOOK_NS });
                while receiver
                    .receive(|frame| {
                        seen.bus.observe(frame.realtime_ns.unwrap_or_default(), frame.octets);
                    })
                    .is_ok_and(|taken| taken > 0)
                {}
            }
            seen.missed = receiver.socket().take_drops().unwrap_or_default();
            seen
        };
        Ok(Self(Worker::start("lab-bus-observer", run)?))
    }

    /// Stops observing.
    pub(super) fn stop(self) -> BusObservation {
        self.0.stop()
    }
}
