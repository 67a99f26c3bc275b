//! Counters of FRER (802.1CB 9.2, 9.3, 10.8, 10.9), 64 bits each.
//!
//! Three interpretations of the standard hold for every data plane:
//!
//! * **Rogue and Discarded.** The 2017 text counts a rogue packet in both; the YANG module's port
//!   sum adds the two, which would count it twice. Here a rogue packet is in `rogue` *and* in
//!   `discarded`, and the port's `discard` is the sum of `discarded` alone: each packet once.
//! * **Tagless.** A packet without a sequence number that is discarded counts in `tagless` only. It is not in
//!   `discarded`: latent error detection reads that as "replicas eliminated".
//! * **Lost.** Every number that leaves the history unseen is `lost`, as the standard requires. This includes
//!   numbers from before the first accepted packet after a reset, which were not lost on the network.
//!   `lost_before_first` counts these.

use core::iter::Sum;
use core::ops::{Add, AddAssign};

/// A counter of the set `S`.
#[derive(Debug, Clone, Copy)]
pub struct Field<S> {
    /// The name in the set and in JSON.
    pub name: &'static str,
    /// The clause of 802.1CB with the definition, or `extension`.
    pub clause: &'static str,
    /// A description of one line.
    pub help: &'static str,
    /// Returns the value.
    pub value: fn(&S) -> u64,
    /// Returns a mutable reference to the value.
    pub value_mut: fn(&mut S) -> &mut u64,
}

/// A set of counters: fields, list and sum are generated from one table.
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

            /// Returns the counter of this name.
            pub fn field(name: &str) -> Option<&'static Field<Self>> {
                Self::FIELDS.iter().find(|field| field.name == name)
            }

            /// Returns the growth of each counter since `other`; 0 where it decreased.
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
    /// Counters of a recovery function (10.8). Resets of a generator (10.8.2) and packets whose tag could not
    /// be decoded (10.8.11) are in [`reading`](crate::reading).
    Counters {
        out_of_order, "10.8.3", "Accepted packets that did not follow the one before them by 1";
        rogue, "10.8.4", "Discarded packets whose number lies outside the history";
        passed, "10.8.5", "Accepted packets";
        discarded, "10.8.6", "Discarded packets, including rogue ones";
        lost, "10.8.7", "Numbers that left the history unseen";
        lost_before_first, "extension", "The part of `lost` that precedes the first packet after a reset";
        tagless, "10.8.8", "Packets with no sequence number, whether accepted or not";
        resets, "10.8.9", "Resets of sequence recovery, including BEGIN and timeouts";
        latent_error_resets, "10.8.10", "Resets of the base of latent error detection";
        contended, "extension", "Accepted packets that were not judged: other CPUs changed the function in each try";
    }
}

counters! {
    /// Counters of a port and stream (9.2).
    StreamCounters {
        input_packets, "9.2.1", "Packets of the stream received at the port";
        output_packets, "9.2.2", "Packets of the stream sent by the port";
    }
}

counters! {
    /// Counters of a port over all its streams (9.3, 10.9).
    PortCounters {
        input_packets, "9.3.1", "Packets of any stream received at the port";
        output_packets, "9.3.2", "Packets of any stream sent by the port";
        passed, "10.9.1", "Packets that recovery accepted";
        discard, "10.9.2", "Packets that recovery discarded; rogue packets count once";
    }
}

impl PortCounters {
    /// Returns the sums of a port; each packet counts once.
    ///
    /// `last` are the functions that decide on delivery: the sequence recovery of a stream, or its individual
    /// recovery if it has no sequence recovery. `before` are individual functions followed by another
    /// function: packets that they discard count here, packets that they pass are counted by `last`.
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
        assert_eq!(listed[9], ("contended", "extension", 0));
        assert_eq!(listed.len(), 10);
        assert!(Counters::field("found").is_none());
    }

    #[test]
    fn a_port_sum_counts_each_packet_once() {
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
    fn sums_exceed_32_bits() {
        let half = Counters { passed: u64::from(u32::MAX), ..<_>::default() };
        let sum: Counters = [half, half].into_iter().sum();
        assert_eq!(sum.passed, 2 * u64::from(u32::MAX));
    }
}
