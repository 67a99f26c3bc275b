//! Rows of hard interrupts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::charge::{Accounts, Interrupt, InterruptAmount, IpiSender, Process};
use crate::names::Names;

/// Time of hard interrupts of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InterruptRow {
    /// Its kind: `device`, `local timer`, `rps`, `reschedule`.
    pub class: &'static str,
    /// The device's line: `virtio0-input.0`.
    pub line: Option<String>,
    /// The sender of interrupts from other CPUs: `server[100]`, `NET_RX`.
    pub sender: Option<String>,
    /// Nanoseconds.
    pub ns: u64,
    /// Interrupts.
    pub count: u64,
}

/// The rows, most time first.
pub(super) fn rows(accounts: &Accounts, names: &mut impl Names) -> Vec<InterruptRow> {
    let mut sums: BTreeMap<_, InterruptAmount> = BTreeMap::new();
    for (interrupt, amount) in &accounts.interrupts {
        let labels = match *interrupt {
            Interrupt::Line(number) => ("device", Some(names.line(number)), None),
            Interrupt::Vector(vector) => (vector.name(), None, None),
            Interrupt::Ipi { reason, sender } => (reason.name(), None, of_sender(sender, names)),
        };
        sums.entry(labels).or_default().add(*amount);
    }
    let row = |((class, line, sender), InterruptAmount { ns, count })| InterruptRow {
        class,
        line,
        sender,
        ns,
        count,
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    rows
}

fn of_sender(sender: IpiSender, names: &mut impl Names) -> Option<String> {
    Some(match sender {
        IpiSender::Process(process) => {
            let Process { pid, .. } = process;
            let description = names.process(process).description;
            description.map_or(format!("[{pid}]"), |about| format!("{}[{pid}]", about.command))
        }
        IpiSender::Softirq(vector) => vector.name().into(),
        IpiSender::Interrupt => "interrupt".into(),
        IpiSender::Idle => "idle".into(),
        IpiSender::Unknown => return None,
    })
}
