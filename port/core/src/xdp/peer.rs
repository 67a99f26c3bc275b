//! Transmission to the peer of a veth.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onbeat_netdev::{Handle, Namespace, xdp};
use onbeat_realtime::Scheduling;
use onbeat_realtime::scheduling::ThreadPolicy;

use super::abi::port_transmission;
use super::shared_state::SharedState;
use crate::Result;
use crate::error::failed;

/// Time between two queries of the driver's features.
const INTERVAL: Duration = Duration::from_millis(50);

/// Sets whether the program on a veth sends answers to the peer, in a thread of normal priority.
///
/// It can send while the peer runs NAPI, which the driver reports as a feature of this end (Linux 6.3). The driver
/// drops frames otherwise, without an error.
pub(super) struct VethPeer {
    /// The thread, and the channel whose end is that of the thread.
    thread: Option<(JoinHandle<()>, Sender<()>)>,
}

impl VethPeer {
    /// Queries once, then starts the thread.
    pub(super) fn watch(
        namespace: &Namespace,
        interface: &str,
        state: &Arc<SharedState>,
    ) -> Result<Self> {
        let mut query = Query {
            handle: Handle::in_namespace(namespace)?,
            interface: interface.to_owned(),
            state: Arc::clone(state),
            transmission: port_transmission::PORT_TRANSMIT_REDIRECT,
        };
        state.set_transmission(query.transmission);
        if !query.update() {
            return Ok(Self { thread: None });
        }
        let (end, ended) = mpsc::channel();
        let run = move || {
            set_normal_priority();
            repeat(INTERVAL, &ended, || {
                query.update();
            });
        };
        let thread = thread::Builder::new().name("veth-peer".into()).spawn(run);
        let thread =
            thread.map_err(failed(interface, "start a thread for the peer of the veth"))?;
        Ok(Self { thread: Some((thread, end)) })
    }
}

impl Drop for VethPeer {
    fn drop(&mut self) {
        if let Some((thread, end)) = self.thread.take() {
            drop(end);
            // It does not panic.
            let _ = thread.join();
        }
    }
}

struct Query {
    handle: Handle,
    interface: String,
    state: Arc<SharedState>,
    transmission: port_transmission,
}

impl Query {
    /// Updates the program's transmission; returns false if the kernel does not report the feature. A failed query
    /// changes nothing.
    fn update(&mut self) -> bool {
        let interface = &self.interface;
        let features = match xdp::features(&self.handle, interface) {
            Ok(Some(features)) => features,
            Ok(None) => {
                tracing::warn!(
                    "{interface}: responses are lost if the peer of this veth runs no NAPI, which Linux before 6.3 \
                     does not report; in the peer's namespace: ethtool -K PEER gro on"
                );
                return false;
            }
            Err(error) => {
                tracing::debug!("{interface}: {error}");
                return true;
            }
        };
        let transmission = match features.ndo_xmit {
            true => port_transmission::PORT_TRANSMIT_REDIRECT,
            false => port_transmission::PORT_TRANSMIT_NONE,
        };
        if transmission == self.transmission {
            return true;
        }
        self.transmission = transmission;
        self.state.set_transmission(transmission);
        if features.ndo_xmit {
            tracing::info!("{interface}: responses are sent in the driver: the peer runs NAPI");
        } else {
            tracing::warn!(
                "{interface}: responses are not sent in the driver, but by this process: the peer of this veth runs \
                 no NAPI; in the peer's namespace: ethtool -K PEER gro on"
            );
        }
        true
    }
}

/// Performs `action` after each interval until the other end of the channel is dropped.
fn repeat(interval: Duration, ended: &Receiver<()>, mut action: impl FnMut()) {
    // Not by park: an action with a thread of its own can leave a token, and the next wait would end at once.
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        action();
    }
}

/// A thread that a real-time thread starts inherits its policy.
fn set_normal_priority() {
    if ThreadPolicy::of(0).is_ok_and(ThreadPolicy::is_real_time) {
        if let Err(error) = ThreadPolicy::from(Scheduling::Other).set(0) {
            tracing::debug!("normal priority: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn actions_with_threads_have_intervals() {
        const INTERVAL: Duration = Duration::from_millis(5);
        let (end, ended) = mpsc::channel();
        let (mut end, mut actions) = (Some(end), 0);
        let start = Instant::now();
        repeat(INTERVAL, &ended, || {
            // As a query in another namespace can do.
            thread::current().unpark();
            actions += 1;
            if actions == 10 {
                end = None;
            }
        });
        assert_eq!(actions, 10);
        assert!(start.elapsed() >= 10 * INTERVAL);
    }
}
