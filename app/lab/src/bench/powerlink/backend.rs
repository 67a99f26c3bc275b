//! The measured back ends, one per line.

use std::sync::LazyLock;

use onbeat_link::Backend as Port;
use onbeat_powerlink_node::Sender;

use crate::bench::port::backend::controlled;

/// A row of the bench: both nodes by one back end.
pub(super) struct Backend {
    pub(super) name: &'static str,
    /// Description, one line.
    pub(super) summary: &'static str,
    pub(super) managing: Port,
    pub(super) controlled: Port,
    /// A program reflects the polls in place of the controlled node, once the network is in OPERATIONAL.
    pub(super) reflects: bool,
}

/// The optimum of response times.
pub(super) const LIMIT: &str = "limit";
/// The port that works everywhere: the baseline of the others.
pub(super) const BASELINE: &str = Port::Packet.name();

/// All rows, in order of display.
pub(super) static BACKENDS: LazyLock<Vec<Backend>> = LazyLock::new(|| {
    let row = |name, port, reflects, summary| Backend {
        name,
        summary,
        managing: port,
        controlled: controlled(port),
        reflects,
    };
    let reflected = "an XDP program reflects each poll by a redirect; the managing node of xdp";
    let limit = row(LIMIT, Port::Xdp, true, reflected);
    let ports = Port::ALL.into_iter().map(|(name, port)| row(name, port, false, summary(port)));
    std::iter::once(limit).chain(ports).collect()
});

const fn summary(port: Port) -> &'static str {
    match port {
        Port::Packet => "packet sockets; the nodes' threads send",
        Port::Xsk => "AF_XDP; the nodes' threads send",
        Port::Xdp => "AF_XDP; polls are answered by XDP_TX in the driver",
        Port::Txtime => "packet sockets; SoC by launch time, by the etf qdisc",
        Port::Module => "onbeat.ko responds in softirq, and sends SoC by a timer",
    }
}

impl Backend {
    /// Sender of SoC.
    pub(super) fn soc(&self) -> Sender {
        Sender::of_soc(self.managing)
    }

    /// Sender of poll responses.
    pub(super) fn response(&self) -> Sender {
        Sender::of_responses(self.controlled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_are_distinct_and_the_table_has_the_baseline() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            assert_eq!(backend.reflects, backend.name == LIMIT);
            assert!(BACKENDS[..index].iter().all(|other| other.name != backend.name));
        }
        let baseline = BACKENDS.iter().find(|backend| backend.name == BASELINE).unwrap();
        assert_eq!((baseline.soc(), baseline.response()), (Sender::Process, Sender::Process));
    }
}
