//! Back ends that an interface supports, and the best one for each purpose.
//!
//! To add one: a file with its `examine`, and a line in [`examine`] and in [`Purpose::order`].

mod module;
mod packet;
mod txtime;
mod xdp;

use std::fmt;

use onbeat_netdev::{Handle, Link, Namespace, xdp::XdpFeatures};

use crate::{Backend, Result};

/// The main purpose of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Frames reach this process with low latency and cost.
    Receive,
    /// [`crate::Port::respond`] answers with low latency, whether or not this process runs.
    Response,
    /// [`crate::Port::send_at`] and [`crate::Port::send_every`] send on time.
    Launch,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Purpose; 3] = [Purpose::Receive, Purpose::Response, Purpose::Launch];

    /// Returns the back ends that serve the purpose, best first, each with the reason.
    fn order(self) -> &'static [(Backend, &'static str)] {
        match self {
            Purpose::Receive => &[
                (Backend::Xsk, "receives frames before the network stack processes them"),
                (Backend::Xdp, "receives frames through an AF_XDP socket"),
                (Backend::Packet, "works on every interface"),
            ],
            Purpose::Response => &[
                (Backend::Xdp, "responds in the driver, without this process"),
                (Backend::Module, "responds in the kernel, without this process"),
                (
                    Backend::Xsk,
                    "this process responds, and receives frames before the network stack",
                ),
                (Backend::Packet, "this process responds"),
            ],
            Purpose::Launch => &[
                (Backend::Txtime, "the kernel or the NIC sends at the launch time of the frame"),
                (Backend::Module, "a kernel timer sends, without this process"),
                (
                    Backend::Xsk,
                    "this process sends through an AF_XDP socket, the shortest path to the driver",
                ),
                (Backend::Xdp, "this process sends through an AF_XDP socket"),
                (Backend::Packet, "this process sends"),
            ],
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Receive => "receive",
            Purpose::Response => "response",
            Purpose::Launch => "launch",
        })
    }
}

/// A remark on a back end, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The statement.
    pub what: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

impl Remark {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: Some(remedy.into()) }
    }

    fn note(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Some(remedy) => write!(f, "{}; {remedy}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The report on one back end on one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// The back end.
    pub backend: Backend,
    /// The mode of operation here; `None`: unusable, for the reasons in [`BackendReport::remarks`].
    pub mode: Option<String>,
    /// Reasons why it is unusable or less effective.
    pub remarks: Vec<Remark>,
}

impl BackendReport {
    /// Returns true if a port can be opened.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.mode.is_some()
    }
}

/// The result of [`backends`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backends {
    /// The interface.
    pub interface: String,
    /// A report for each back end, in the order of the crate's documentation.
    pub all: Vec<BackendReport>,
}

impl Backends {
    /// Returns the best usable back end for a purpose, with the reason.
    #[must_use]
    pub fn best(&self, purpose: Purpose) -> Option<(&BackendReport, &'static str)> {
        purpose.order().iter().find_map(|(backend, why)| {
            let report = self.all.iter().find(|report| report.backend == *backend)?;
            report.usable().then_some((report, *why))
        })
    }
}

/// Facts about the interface that all back ends need.
struct InterfaceFacts<'a> {
    namespace: &'a Namespace,
    link: Link,
    /// XDP features of the driver; `None`: the kernel does not report them.
    xdp: Option<XdpFeatures>,
}

/// The mode of operation on the interface (`None`: unusable), and the remarks.
type Assessment = (Option<String>, Vec<Remark>);

fn unusable(remark: Remark) -> Assessment {
    (None, vec![remark])
}

fn examine(backend: Backend, facts: &InterfaceFacts<'_>) -> BackendReport {
    let (mode, remarks) = match backend {
        Backend::Packet => packet::examine(facts),
        Backend::Xsk => xdp::examine_xsk(facts),
        Backend::Xdp => xdp::examine_xdp(facts),
        Backend::Txtime => txtime::examine(facts),
        Backend::Module => module::examine(facts),
    };
    BackendReport { backend, mode, remarks }
}

/// Reports for each back end if it can be used on an interface of `namespace`, its mode, and remedies for
/// restrictions. Changes nothing, and opens no port.
///
/// # Errors
/// The interface does not exist, or the namespace cannot be entered.
///
/// ```no_run
/// use onbeat_link::{Purpose, backends};
/// use onbeat_netdev::Namespace;
///
/// # fn main() -> onbeat_link::Result<()> {
/// let found = backends(&Namespace::current()?, "eth1")?;
/// for report in &found.all {
///     println!("{}: {}", report.backend, report.mode.as_deref().unwrap_or("not here"));
///     report.remarks.iter().for_each(|remark| println!("    {remark}"));
/// }
/// for purpose in Purpose::ALL {
///     if let Some((report, why)) = found.best(purpose) {
///         println!("best for {purpose}: {} ({why})", report.backend);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub fn backends(namespace: &Namespace, interface: &str) -> Result<Backends> {
    let handle = Handle::in_namespace(namespace)?;
    let facts = InterfaceFacts {
        namespace,
        link: handle.link(interface)?,
        xdp: onbeat_netdev::xdp::features(&handle, interface)?,
    };
    let all = Backend::ALL.iter().map(|(_, backend)| examine(*backend, &facts)).collect();
    Ok(Backends { interface: interface.to_owned(), all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(backend: Backend, mode: Option<&str>) -> BackendReport {
        BackendReport { backend, mode: mode.map(str::to_owned), remarks: Vec::new() }
    }

    #[test]
    fn the_best_back_end_is_usable() {
        let mut found = Backends {
            interface: "eth0".into(),
            all: vec![report(Backend::Packet, Some("ring")), report(Backend::Xdp, Some("native"))],
        };
        assert_eq!(found.best(Purpose::Response).unwrap().0.backend, Backend::Xdp);
        found.all[1].mode = None;
        for purpose in Purpose::ALL {
            assert_eq!(found.best(purpose).unwrap().0.backend, Backend::Packet);
        }
        found.all.clear();
        assert_eq!(found.best(Purpose::Launch), None);
    }

    #[test]
    fn remarks_show_the_remedy() {
        assert_eq!(Remark::new("it is off", "turn it on").to_string(), "it is off; turn it on");
        assert_eq!(Remark::note("it copies").to_string(), "it copies");
    }
}
