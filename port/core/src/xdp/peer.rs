//! Transmission to the peer of a veth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl VethPeer {
    /// Queries once, then starts the thread.
    pub(super) fn watch(
        namespace: &Namespace,
        interface: &str,
        state: &Arc<SharedState>,
    ) -> Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut query = Query {
            handle: Handle::in_namespace(namespace)?,
            interface: interface.to_owned(),
            state: Arc::clone(state),
            transmission: port_transmission::PORT_TRANSMIT_REDIRECT,
        };
        state.set_transmission(query.transmission);
        if !query.update() {
            return Ok(Self { ended, thread: None });
        }
        let stop = Arc::clone(&ended);
        let run = move || {
            set_normal_priority();
            loop {
                thread::park_timeout(INTERVAL);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                query.update();
            }
        };
        let thread = thread::Builder::new().name("veth-peer".into()).spawn(run);
        let thread =
            thread.map_err(failed(interface, "start a thread for the peer of the veth"))?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for VethPeer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
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

/// A thread that a real-time thread starts inherits its policy.
fn set_normal_priority() {
    if ThreadPolicy::of(0).is_ok_and(ThreadPolicy::is_real_time) {
        if let Err(error) = ThreadPolicy::from(Scheduling::Other).set(0) {
            tracing::debug!("normal priority: {error}");
        }
    }
}
