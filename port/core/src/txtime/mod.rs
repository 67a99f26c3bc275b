//! Launch times: the kernel or the NIC sends a frame at the instant that it carries (`SO_TXTIME`).
//!
//! The back end `txtime` is [`crate::PacketPort`] with another launch method: this module determines
//! the treatment of launch times by the interface's queueing disciplines.

mod traffic_classes;

use onbeat_netdev::qdisc::Etf;
use onbeat_netdev::{Handle, Namespace};

use crate::{Backend, Error, Feature, Result, TxtimeOptions};

/// The arguments of `tc qdisc ...` for launch times. With this delta the kernel, or the driver of a NIC with
/// offload, may be a millisecond late.
const ETF: &str = "etf clockid CLOCK_TAI delta 1000000";

/// The launch-time settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Txtime {
    pub(crate) ahead_ns: u64,
    pub(crate) priority: u8,
    pub(crate) etf: Etf,
}

impl Txtime {
    /// Reads the launch-time support of the interface.
    pub(crate) fn find(
        namespace: &Namespace,
        interface: &str,
        options: &TxtimeOptions,
    ) -> Result<Self> {
        let handle = Handle::in_namespace(namespace)?;
        let queues = handle.link(interface)?.tx_queues;
        let classes = traffic_classes::classes(&handle.qdiscs(interface)?, queues);
        let unsupported = |why: String, remedy: String| Error::Unsupported {
            interface: interface.to_owned(),
            backend: Backend::Txtime,
            feature: Feature::SendAt,
            why,
            remedy,
        };
        let (priority, etf) = classes.timed(options.priority).map_err(|none| {
            let place = none.place.map_or("root".into(), |parent| format!("parent {parent}"));
            unsupported(none.why, format!("tc qdisc replace dev {interface} {place} {ETF}"))
        })?;
        if etf.deadline != options.deadline {
            let (is, remedy) = if etf.deadline {
                ("in", "configure etf without it, or open the port with it")
            } else {
                ("not in", "configure etf with it, or open the port without it")
            };
            return Err(unsupported(format!("its etf is {is} deadline mode"), remedy.into()));
        }
        if !etf.offload && !etf.deadline && etf.delta_ns <= 0 {
            let why = format!("its etf has a delta of {} ns, and sends no frames", etf.delta_ns);
            return Err(unsupported(why, format!("delete it, and configure it again: {ETF}")));
        }
        Ok(Self { ahead_ns: options.ahead_ns, priority, etf })
    }

    /// The time by which the launch time of a frame precedes its instant, in nanoseconds.
    ///
    /// Without offload etf sends when at most delta is left until the launch time, and drops a frame that it cannot
    /// send then: delta is the permitted lateness.
    pub(crate) fn allowance(&self) -> u64 {
        if self.etf.offload || self.etf.deadline { 0 } else { self.etf.delta_ns.max(0) as u64 }
    }

    /// The imprecision of a single launch, if there is any.
    pub(crate) fn inexact(&self) -> Option<&'static str> {
        let how = "etf in deadline mode sends as soon as possible, at the instant at the latest";
        self.etf.deadline.then_some(how)
    }

    /// The method of cyclic transmission by this process.
    pub(crate) fn cyclic(&self) -> String {
        let ns = self.ahead_ns;
        let exactness = self.inexact().map(|how| format!("; {how}")).unwrap_or_default();
        format!(
            "this process submits each frame up to {ns} ns ahead, in its current state, and cannot \
             recall it{exactness}"
        )
    }
}
