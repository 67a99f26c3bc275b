//! What the bus does, seen by nobody on it: at the hub's port to the managing node everything passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_netdev::Namespace;
use onbeat_powerlink_node::Bus;

use crate::traffic::{Receiver, socket};
use crate::{Error, Result};

const LOOK_NS: u64 = 20_000_000;

/// An observer of the bus, and its thread.
pub(super) struct BusObserver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BusObservation>>,
}

/// What it saw.
#[derive(Default)]
pub(super) struct BusObservation {
    pub(super) bus: Bus,
    /// Frames that its socket had no room for.
    pub(super) missed: u64,
}

impl BusObserver {
    pub(super) fn start(namespace: &Namespace, interface: &str) -> Result<Self> {
        let mut receiver = Receiver::new(socket::monitor(namespace, interface)?);
        let stop = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&stop);
        let run = move || {
            let mut seen = BusObservation::default();
            let mut last = false;
            while !last {
                last = inside.load(Ordering::Acquire);
                // An error is that of an interface that was turned off: it holds no frames.
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
        let thread = thread::Builder::new()
            .name("lab-bus-observer".into())
            .spawn(run)
            .map_err(|error| Error::io("start the thread of the bus observer", error))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// What passed until now.
    pub(super) fn stop(mut self) -> BusObservation {
        self.stop.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(seen)) => seen,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => BusObservation::default(),
        }
    }
}

impl Drop for BusObserver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
