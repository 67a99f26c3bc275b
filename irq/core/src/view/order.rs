//! The order of rows.

use std::cmp::{Ordering, Reverse};

use super::{Groups, Table};

/// The order of rows: largest first; names and numbers ascending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Time caused.
    #[default]
    Caused,
    /// Time suffered.
    Suffered,
    /// Packets.
    Packets,
    /// Time per packet.
    PerPacket,
    /// Process id.
    Pid,
    /// Name.
    Command,
}

impl Order {
    /// All orders, with their names.
    pub const ALL: [(&'static str, Order); 6] = [
        ("caused", Order::Caused),
        ("suffered", Order::Suffered),
        ("packets", Order::Packets),
        ("per-packet", Order::PerPacket),
        ("pid", Order::Pid),
        ("command", Order::Command),
    ];

    /// The order with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, order)| *order)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }

    /// The next order, cyclically.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(_, order)| *order == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()].1
    }
}

impl Table {
    /// Sorts processes and rows without an owner; equal rows are in the order of process ids.
    pub fn sort(&mut self, order: Order) {
        let rows = &mut self.processes;
        rows.sort_by_key(|row| (row.pid, row.start_ticks, row.estimate));
        if order == Order::Command {
            rows.sort_by(|a, b| a.command.cmp(&b.command));
        }
        sort_by_amount(rows, order, |row| Amounts {
            caused_ns: row.caused_ns,
            suffered_ns: row.suffered_ns,
            packets: row.packets,
            ns_per_packet: row.ns_per_packet,
        });
        for row in rows {
            row.parts.sort_by_key(|part| Reverse(part.ns));
        }
        let rows = &mut self.unowned;
        match order {
            Order::Packets => rows.sort_by_key(|row| Reverse(row.packets)),
            Order::PerPacket => {
                rows.sort_by(|a, b| most_first(a.ns_per_packet, b.ns_per_packet));
            }
            _ => rows.sort_by_key(|row| Reverse(row.ns)),
        }
    }
}

impl Groups {
    /// Sorts groups; process id and name by the name of the group, with numbers in their order.
    pub fn sort(&mut self, order: Order) {
        let rows = &mut self.rows;
        rows.sort_by_cached_key(|row| (row.name.is_none(), natural(row.name.as_deref())));
        sort_by_amount(rows, order, |row| Amounts {
            caused_ns: row.caused_ns,
            suffered_ns: row.suffered_ns,
            packets: row.packets,
            ns_per_packet: row.ns_per_packet,
        });
    }
}

/// The values of a row by which it can be sorted.
struct Amounts {
    caused_ns: u64,
    suffered_ns: u64,
    packets: u64,
    ns_per_packet: Option<f64>,
}

/// Sorts rows, the most first. Rows that are equal, or are sorted by a name, stay in their order.
fn sort_by_amount<R>(rows: &mut [R], order: Order, of: impl Fn(&R) -> Amounts) {
    match order {
        Order::Caused => rows.sort_by_key(|row| Reverse((of(row).caused_ns, of(row).suffered_ns))),
        Order::Suffered => {
            rows.sort_by_key(|row| Reverse((of(row).suffered_ns, of(row).caused_ns)));
        }
        Order::Packets => rows.sort_by_key(|row| Reverse(of(row).packets)),
        Order::PerPacket => {
            rows.sort_by(|a, b| most_first(of(a).ns_per_packet, of(b).ns_per_packet));
        }
        Order::Pid | Order::Command => {}
    }
}

/// A leading number, and the whole name.
fn natural(name: Option<&str>) -> (u64, String) {
    let name = name.unwrap_or_default();
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    (name[..digits].parse().unwrap_or(u64::MAX), name.to_owned())
}

/// Rows without packets are last.
fn most_first(a: Option<f64>, b: Option<f64>) -> Ordering {
    b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))
}
