//! The back ends that are measured, a line each.

use onbeat_netdev::Handle;
use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle};
use onbeat_powerlink_node::{Backend as Port, Sender};

use crate::bench::port::rig::MN;

/// A row of the bench: both nodes by one back end.
pub(super) struct Backend {
    pub(super) name: &'static str,
    /// What it is, in a line.
    pub(super) summary: &'static str,
    pub(super) managing: Port,
    pub(super) controlled: Port,
    /// Makes the managing node's interface ready; or says why that cannot be.
    pub(super) prepare: fn(&Handle) -> Result<(), String>,
}

/// The port that works everywhere: what the others are held against.
pub(super) const BASELINE: &str = "packet";

/// All rows, in the order in which they are shown.
pub(super) const BACKENDS: &[Backend] = &[
    both(BASELINE, "packet sockets; the nodes' threads send", Port::Packet),
    both("xsk", "AF_XDP; the nodes' threads send", Port::Xsk),
    both("xdp", "AF_XDP; polls are answered by XDP_TX in the driver", Port::Xdp),
    Backend {
        controlled: Port::Packet,
        prepare: etf,
        ..both("txtime", "packet sockets; SoC by launch time, kept by etf", Port::Txtime)
    },
    both("module", "onbeat.ko answers in softirq, and sends SoC by a timer", Port::Module),
];

/// How much earlier etf wakes up than it sends: what a timer may be late by.
const ETF_DELTA_NS: i32 = 200_000;

const fn both(name: &'static str, summary: &'static str, port: Port) -> Backend {
    Backend { name, summary, managing: port, controlled: port, prepare: |_| Ok(()) }
}

fn etf(handle: &Handle) -> Result<(), String> {
    let qdisc = Qdisc {
        parent: QdiscHandle::ROOT,
        handle: QdiscHandle::NONE,
        discipline: Discipline::Etf(Etf { delta_ns: ETF_DELTA_NS, ..Etf::default() }),
    };
    handle.replace_qdisc(MN, &qdisc).map_err(|error| error.to_string())
}

impl Backend {
    /// Who sends SoC.
    pub(super) fn soc(&self) -> Sender {
        Sender::of_soc(self.managing)
    }

    /// Who answers polls.
    pub(super) fn response(&self) -> Sender {
        Sender::of_responses(self.controlled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_rows_apart_and_the_table_has_what_others_are_held_against() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            assert!(BACKENDS[..index].iter().all(|other| other.name != backend.name));
        }
        let baseline = BACKENDS.iter().find(|backend| backend.name == BASELINE).unwrap();
        assert_eq!((baseline.soc(), baseline.response()), (Sender::Process, Sender::Process));
    }
}
