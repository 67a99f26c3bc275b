//! Common packets of two samples, under assumptions about the hop and the captures.

use std::collections::HashMap;

use super::sample::{Sample, SampledPacket};
use crate::key::{NoKeyReason, Recognition};
use crate::pairing::Side;

/// Octets compared under assumptions other than the user's: fewer than a sample keeps.
const COMPARED: usize = 128;
/// Minimum number of octets that identify packets without their addresses: IPv4, UDP and some payload.
pub(super) const DISTINCTIVE: usize = 32;

/// A change by the hop that the user has not specified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HopChange {
    None,
    /// Departures are forwarded arrivals, although the user expects replies.
    Forwards,
    Replies,
    Translates,
}

/// A packet on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommonPacket<'a> {
    pub(super) arrival: &'a SampledPacket,
    pub(super) departure: &'a SampledPacket,
}

impl CommonPacket<'_> {
    /// Departure less arrival, in nanoseconds, by the captures.
    pub(super) fn difference_ns(&self) -> i64 {
        self.departure.time_ns.saturating_sub(self.arrival.time_ns)
    }
}

/// The packets of two samples with a common key.
#[derive(Debug)]
pub(super) struct CommonPackets<'a> {
    pub(super) change: HopChange,
    /// True if departures are replies.
    pub(super) replies: bool,
    /// The number of common keys, and of keys of the smaller sample.
    pub(super) keys: usize,
    pub(super) smaller: usize,
    /// The number of common keys under the user's options.
    pub(super) as_matched: usize,
    /// Packets whose key is unique in both samples, in order of the first sample.
    pub(super) packets: Vec<CommonPacket<'a>>,
}

/// Minimum number of common keys that is no coincidence.
const FEWEST: usize = 5;
/// Without addresses, common keys must also be this share of the smaller sample, in percent, and this share of
/// them, in percent, must be unique on both sides. The contents of heartbeats and probes repeat.
const SHARE_PERCENT: usize = 1;
const UNIQUE_PERCENT: usize = 75;

impl<'a> CommonPackets<'a> {
    /// Finds the common packets. Returns those of the weakest assumption that explains nearly as many packets as
    /// the best one, or `None` if no assumption explains any.
    pub(super) fn find(
        samples: [&'a Sample; 2],
        recognition: &Recognition,
        octets: Option<usize>,
    ) -> Option<Self> {
        let octets = octets.unwrap_or(COMPARED).min(recognition.octets);
        let compared = Recognition { octets, ..*recognition };
        let plain = Self::under(HopChange::None, samples, &compared);
        let as_matched = plain.keys;
        let mut candidates = vec![plain];
        if compared.reply {
            let forwarded = Recognition { reply: false, ..compared };
            candidates.push(Self::under(HopChange::Forwards, samples, &forwarded));
        }
        for (change, assumed) in [
            (HopChange::Replies, Recognition { reply: true, ..compared }),
            (HopChange::Translates, Recognition { nat: true, ..compared }),
        ] {
            if assumed != compared && octets >= DISTINCTIVE {
                let common = Self::under(change, samples, &assumed);
                candidates.extend(Some(common).filter(Self::is_no_coincidence));
            }
        }
        let best = candidates.iter().map(|common| common.keys).max()?;
        let mut found = candidates.into_iter().find(|common| common.keys * 10 >= best * 8)?;
        found.as_matched = as_matched;
        let enough = FEWEST.min(found.smaller.div_ceil(2)).max(1);
        (found.keys >= enough).then_some(found)
    }

    /// Returns true if equal contents indicate the same packets.
    fn is_no_coincidence(&self) -> bool {
        self.keys * 100 >= self.smaller * SHARE_PERCENT
            && self.packets.len() * 100 >= self.keys * UNIQUE_PERCENT
    }

    fn under(change: HopChange, samples: [&'a Sample; 2], assumed: &Recognition) -> Self {
        let arrivals = by_key(Side::Arrivals, samples[0], assumed);
        let departures = by_key(Side::Departures, samples[1], assumed);
        let smaller = arrivals.len().min(departures.len());
        let both =
            arrivals.iter().filter_map(|(key, arrival)| Some((*arrival, *departures.get(key)?)));
        let (mut keys, mut packets) = (0, Vec::new());
        for pair in both {
            keys += 1;
            if let (Some(arrival), Some(departure)) = pair {
                packets.push(CommonPacket { arrival, departure });
            }
        }
        packets.sort_by_key(|common| common.arrival.time_ns);
        CommonPackets { change, replies: assumed.reply, keys, smaller, as_matched: 0, packets }
    }
}

/// Maps each key to its packet; `None`: more than one.
fn by_key<'a>(
    side: Side,
    sample: &'a Sample,
    recognition: &Recognition,
) -> HashMap<u64, Option<&'a SampledPacket>> {
    let mut packets = HashMap::new();
    for sampled in sample.packets() {
        let Ok(key) = recognition.key_on(side, &sampled.packet()) else { continue };
        packets.entry(key).and_modify(|other| *other = None).or_insert(Some(sampled));
    }
    packets
}

/// The number of octets, starting at the IP header, that every truncated packet of both samples has;
/// `None` if that is zero.
pub(super) fn shortest_cut(samples: [&Sample; 2], recognition: &Recognition) -> Option<usize> {
    let compared = Recognition { octets: COMPARED.min(recognition.octets), ..*recognition };
    let packets = samples.into_iter().flat_map(Sample::packets);
    let captured = packets.filter_map(|sampled| match compared.key(&sampled.packet()) {
        Err(NoKeyReason::Cut { captured }) => Some(captured),
        _ => None,
    });
    let shortest = captured.fold(compared.octets, usize::min);
    (shortest > 0).then_some(shortest)
}
