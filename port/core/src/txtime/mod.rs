//! Launch times: frames that the kernel, or the NIC, sends at the instant they carry (`SO_TXTIME`).
//!
//! The back end `txtime` is [`crate::PacketPort`] with another way to launch: this module finds out
//! what the interface's queueing disciplines make of a launch time.

mod traffic_classes;

use onbeat_netdev::qdisc::Etf;
use onbeat_netdev::{Handle, Namespace};

use crate::{Backend, Error, Feature, Result, TxtimeOptions};

/// What stands behind `tc qdisc ...` for launch times. With this delta the kernel, or the driver of
/// a NIC with offload, may be a millisecond late.
const ETF: &str = "etf clockid CLOCK_TAI delta 1000000";

/// How a port launches by launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Txtime {
    pub(crate) ahead_ns: u64,
    pub(crate) priority: u8,
    pub(crate) etf: Etf,
}

impl Txtime {
    /// What the interface offers.
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
                ("in", "set it up without, or open the port with it")
            } else {
                ("not in", "set it up with it, or open the port without")
            };
            return Err(unsupported(format!("its etf is {is} deadline mode"), remedy.into()));
        }
        if !etf.offload && !etf.deadline && etf.delta_ns <= 0 {
            let why = format!("its etf has a delta of {} ns, and sends nothing", etf.delta_ns);
            return Err(unsupported(why, format!("delete it, and set it up anew: {ETF}")));
        }
        Ok(Self { ahead_ns: options.ahead_ns, priority, etf })
    }

    /// What the launch time of a frame is ahead of the instant it is to leave at, in nanoseconds.
    ///
    /// Without offload etf sends when at most delta is left until the launch time, and gives a frame
    /// up that it then cannot send: so delta is how late it may be.
    pub(crate) fn allowance(&self) -> u64 {
        if self.etf.offload || self.etf.deadline { 0 } else { self.etf.delta_ns.max(0) as u64 }
    }

    /// What is less than exact with a single launch.
    pub(crate) fn inexact(&self) -> Option<&'static str> {
        let how = "etf in deadline mode sends as soon as may be, at the instant at the latest";
        self.etf.deadline.then_some(how)
    }

    /// What this process does for cyclic transmission.
    pub(crate) fn cyclic(&self) -> String {
        let ns = self.ahead_ns;
        let exactness = self.inexact().map(|how| format!("; {how}")).unwrap_or_default();
        format!(
            "this process hands each frame over up to {ns} ns ahead, as it then is, and no more to \
             be recalled{exactness}"
        )
    }
}
