//! What FRER counts (802.1CB 9.2, 9.3, 10.8, 10.9): 64 bits each.
//!
//! Three readings of the standard are fixed here, for every data plane:
//!
//! * **Rogue and Discarded.** The 2017 text counts a rogue packet in both; the YANG module's port
//!   sum adds the two, which would count it twice. Here a rogue packet is in `rogue` *and* in
//!   `discarded`, and the port's `discard` is the sum of `discarded` alone: each packet once.
//! * **Tagless.** A packet with no sequence number that is not taken counts in `tagless` only. It
//!   is not in `discarded`: latent error detection reads that as "replicas eliminated".
//! * **Lost.** Every number that leaves the history unseen is `lost`, as the standard has it, and
//!   so are those from before the first accepted packet after a reset, which nobody lost.
//!   `lost_before_first` says how many of `lost` are of that kind.

use core::iter::Sum;
use core::ops::{Add, AddAssign};

/// A counter of the set `S`.
#[derive(Debug, Clone, Copy)]
pub struct Field<S> {
    /// Its name in the set and in JSON.
    pub name: &'static str,
    /// The clause of 802.1CB that defines it, or `extension`.
    pub clause: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Reads it.
    pub value: fn(&S) -> u64,
    /// Gives access to it.
    pub value_mut: fn(&mut S) -> &mut u64,
}

/// A set of counters: its fields, their list and their sum come from one table.
macro_rules! counters {
    ($(#[$meta:meta])* $set:ident { $($field:ident, $clause:literal, $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $set {
            $(#[doc = concat!($doc, " (", $clause, ").")] pub $field: u64,)*
        }

        impl $set {
            /// The counters in the standard's order.
            pub const FIELDS: &[Field<Self>] = &[$(Field {
                name: stringify!($field),
                clause: $clause,
                help: $doc,
                value: |set| set.$field,
                value_mut: |set| &mut set.$field,
            }),*];

            /// The counter with this name.
            pub fn field(name: &str) -> Option<&'static Field<Self>> {
                Self::FIELDS.iter().find(|field| field.name == name)
            }

            /// What each counter has above that of `other`.
            #[must_use]
            pub fn saturating_sub(self, other: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(other.$field)),* }
            }
        }

        impl AddAssign for $set {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Add for $set {
            type Output = Self;

            fn add(mut self, other: Self) -> Self {
                self += other;
                self
            }
        }

        impl Sum for $set {
            fn sum<I: Iterator<Item = Self>>(sets: I) -> Self {
                sets.fold(Self::default(), Add::add)
            }
        }
    };
}

counters! {
    /// Counters of a recovery function (10.8). A generator's resets (10.8.2) and packets whose tag
    /// could not be decoded (10.8.11) are in [`reading`](crate::reading).
    Counters {
        out_of_order, "10.8.3", "Accepted packets that did not follow the one before them by 1";
        rogue, "10.8.4", "Discarded packets whose number lies outside the history";
        passed, "10.8.5", "Accepted packets";
        discarded, "10.8.6", "Discarded packets, the rogue ones among them";
        lost, "10.8.7", "Numbers that left the history unseen";
        lost_before_first, "extension", "How many of `lost` precede the first packet after a reset";
        tagless, "10.8.8", "Packets with no sequence number, whether accepted or not";
        resets, "10.8.9", "Resets of sequence recovery, BEGIN and time-outs among them";
        latent_error_resets, "10.8.10", "Times latent error detection took its base anew";
    }
}

counters! {
    /// Per port and stream (9.2).
    StreamCounters {
        input_packets, "9.2.1", "Packets of the stream that came in at the port";
        output_packets, "9.2.2", "Packets of the stream that left by the port";
    }
}

counters! {
    /// Per port, over all its streams (9.3, 10.9).
    PortCounters {
        input_packets, "9.3.1", "Packets of any stream that came in at the port";
        output_packets, "9.3.2", "Packets of any stream that left by the port";
        passed, "10.9.1", "Packets that recovery accepted";
        discard, "10.9.2", "Packets that recovery discarded, rogue ones counted once";
    }
}

impl PortCounters {
    /// The port's sums, each packet counted once.
    ///
    /// `last` are the functions that decide on delivery: a stream's sequence recovery, or its
    /// individual recovery where it has nothing else. `before` are individual functions with
    /// another one behind them: what those discard is gone, what they pass is counted by `last`.
    pub fn sum(
        streams: impl IntoIterator<Item = StreamCounters>,
        last: impl IntoIterator<Item = Counters>,
        before: impl IntoIterator<Item = Counters>,
    ) -> Self {
        let streams: StreamCounters = streams.into_iter().sum();
        let last: Counters = last.into_iter().sum();
        let before: Counters = before.into_iter().sum();
        Self {
            input_packets: streams.input_packets,
            output_packets: streams.output_packets,
            passed: last.passed,
            discard: last.discarded + before.discarded,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_list_has_every_clause_once_in_order() {
        let mut counters = Counters { out_of_order: 1, lost: 5, ..<_>::default() };
        *(Counters::field("resets").unwrap().value_mut)(&mut counters) = 8;
        let listed = Counters::FIELDS.iter().map(|f| (f.name, f.clause, (f.value)(&counters)));
        let listed: Vec<_> = listed.collect();
        assert_eq!(listed[0], ("out_of_order", "10.8.3", 1));
        assert_eq!(listed[4], ("lost", "10.8.7", 5));
        assert_eq!(listed[5], ("lost_before_first", "extension", 0));
        assert_eq!(listed[7], ("resets", "10.8.9", 8));
        assert_eq!(listed[8], ("latent_error_resets", "10.8.10", 0));
        assert_eq!(listed.len(), 9);
        assert!(Counters::field("found").is_none());
    }

    #[test]
    fn a_port_counts_a_rogue_packet_once_and_a_packet_of_two_functions_once() {
        let sequence = Counters { passed: 5, discarded: 3, rogue: 2, ..<_>::default() };
        let individual = Counters { passed: 8, discarded: 4, rogue: 1, ..<_>::default() };
        let traffic = StreamCounters { input_packets: 12, output_packets: 5 };
        let port = PortCounters::sum([traffic], [sequence], [individual]);
        assert_eq!(
            port,
            PortCounters { input_packets: 12, output_packets: 5, passed: 5, discard: 7 }
        );
        assert_eq!(port.passed + port.discard, port.input_packets);
    }

    #[test]
    fn sums_do_not_stop_at_32_bits() {
        let half = Counters { passed: u64::from(u32::MAX), ..<_>::default() };
        let sum: Counters = [half, half].into_iter().sum();
        assert_eq!(sum.passed, 2 * u64::from(u32::MAX));
    }
}
