//! Which back ends an interface can be used with, and which is best for what.
//!
//! To add one: a file with its `examine`, and a line in [`examine`] and in [`Purpose::order`].

mod module;
mod packet;
mod txtime;
mod xdp;

use std::fmt;

use onbeat_netdev::{Handle, Link, Namespace, xdp::XdpFeatures};

use crate::{Backend, Result};

/// What a port is wanted for above all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Frames come to this process soon, and at little cost.
    Receive,
    /// [`crate::Port::respond`] answers soon, whatever this process is doing.
    Response,
    /// [`crate::Port::send_at`] and [`crate::Port::send_every`] send on time.
    Launch,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 3] = [Purpose::Receive, Purpose::Response, Purpose::Launch];

    /// Back ends that serve the purpose, the best first, each with the reason.
    fn order(self) -> &'static [(Backend, &'static str)] {
        match self {
            Purpose::Receive => &[
                (Backend::Xsk, "frames come before the network stack makes anything of them"),
                (Backend::Xdp, "frames come as by xsk"),
                (Backend::Packet, "works on every interface"),
            ],
            Purpose::Response => &[
                (Backend::Xdp, "answers in the driver, without this process"),
                (Backend::Module, "answers in the kernel, without this process"),
                (Backend::Xsk, "this process answers, and sees frames before the network stack"),
                (Backend::Packet, "this process answers"),
            ],
            Purpose::Launch => &[
                (
                    Backend::Txtime,
                    "the kernel or the NIC launches, at the instant that the frame carries",
                ),
                (Backend::Module, "a timer of the kernel launches, without this process"),
                (Backend::Xsk, "this process launches, by the shortest way to the driver"),
                (Backend::Xdp, "this process launches, as by xsk"),
                (Backend::Packet, "this process launches"),
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

/// Something to know, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What is the case.
    pub what: String,
    /// What to do, where something is to be done.
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

/// One back end on one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// The back end.
    pub backend: Backend,
    /// How it would work here; `None`: not at all, for the reasons in [`BackendReport::remarks`].
    pub mode: Option<String>,
    /// Why not, or what makes it less good than it could be.
    pub remarks: Vec<Remark>,
}

impl BackendReport {
    /// Whether a port can be opened.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.mode.is_some()
    }
}

/// What [`backends`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backends {
    /// The interface.
    pub interface: String,
    /// Each back end, in the order of the crate's documentation.
    pub all: Vec<BackendReport>,
}

impl Backends {
    /// The best usable back end for a purpose, and why it is.
    #[must_use]
    pub fn best(&self, purpose: Purpose) -> Option<(&BackendReport, &'static str)> {
        purpose.order().iter().find_map(|(backend, why)| {
            let report = self.all.iter().find(|report| report.backend == *backend)?;
            report.usable().then_some((report, *why))
        })
    }
}

/// What is known of the interface before any back end is looked at.
struct InterfaceFacts<'a> {
    namespace: &'a Namespace,
    link: Link,
    /// What the driver can do with XDP; `None`: the kernel does not say.
    xdp: Option<XdpFeatures>,
}

/// How a back end would work on the interface, `None`: not at all; and the remarks.
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

/// Tells for each back end whether an interface of `namespace` can be used with it, in which mode,
/// and what to do where it cannot, or not as well as it could. Changes nothing, and opens no port.
///
/// # Errors
/// Where the interface is not there, or the namespace cannot be entered.
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
    fn the_best_is_one_that_can_be_used() {
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
    fn remarks_show_what_to_do() {
        assert_eq!(Remark::new("it is off", "turn it on").to_string(), "it is off; turn it on");
        assert_eq!(Remark::note("it copies").to_string(), "it copies");
    }
}
