//! Packets that two samples have in common, under assumptions about the hop and the captures.

use std::collections::HashMap;

use super::sample::{Sample, SampledPacket};
use crate::key::{Recognition, Unrecognised};

/// Octets compared where a packet is not matched as the user says: fewer than a sample keeps.
const COMPARED: usize = 128;
/// Octets that tell packets apart without their addresses: IPv4, UDP and some payload.
const TELLING: usize = 44;

/// What a hop does to packets that the user has not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
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
    /// Departure less arrival, in nanoseconds, as the captures have them.
    pub(super) fn difference_ns(&self) -> i64 {
        self.departure.time_ns.saturating_sub(self.arrival.time_ns)
    }
}

/// The packets of two samples that have a key in common.
#[derive(Debug)]
pub(super) struct CommonPackets<'a> {
    pub(super) change: Change,
    /// Keys that both samples hold, and those of the sample that holds fewer.
    pub(super) keys: usize,
    pub(super) smaller: usize,
    /// Keys as they were matched that both samples hold.
    pub(super) as_matched: usize,
    /// Packets whose key is there once in either, in order of the first sample.
    pub(super) packets: Vec<CommonPacket<'a>>,
}

/// Fewest keys in common that are no coincidence, and the share of the smaller sample that they
/// have to be, in percent.
const FEWEST: usize = 8;
const SHARE_PERCENT: usize = 5;

impl<'a> CommonPackets<'a> {
    /// Finds what samples have in common by the least assumption that explains nearly as much as
    /// any other; `None` where none does.
    pub(super) fn find(
        samples: [&'a Sample; 2],
        recognition: &Recognition,
        octets: Option<usize>,
    ) -> Option<Self> {
        let compared = Recognition { octets: octets.unwrap_or(COMPARED), ..*recognition };
        let mut candidates = Vec::new();
        for (change, assumed) in [
            (Change::None, compared),
            (Change::Replies, Recognition { reply: true, ..compared }),
            (Change::Translates, Recognition { nat: true, ..compared }),
        ] {
            let is_other = assumed != compared && compared.octets >= TELLING;
            if change == Change::None || is_other {
                candidates.push(Self::under(change, samples, &assumed));
            }
        }
        let as_matched = candidates.first().map_or(0, |plain| plain.keys);
        let best = candidates.iter().map(|common| common.keys).max()?;
        let mut found = candidates.into_iter().find(|common| common.keys * 10 >= best * 8)?;
        found.as_matched = as_matched;
        let enough = FEWEST.min(found.smaller.div_ceil(2)).max(1);
        (found.keys >= enough && found.keys * 100 >= found.smaller * SHARE_PERCENT).then_some(found)
    }

    fn under(change: Change, samples: [&'a Sample; 2], assumed: &Recognition) -> Self {
        let [arrivals, departures] = samples.map(|sample| by_key(sample, assumed));
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
        CommonPackets { change, keys, smaller, as_matched: 0, packets }
    }
}

/// Each key's packet; `None`: more than one.
fn by_key<'a>(
    sample: &'a Sample,
    recognition: &Recognition,
) -> HashMap<u64, Option<&'a SampledPacket>> {
    let mut packets = HashMap::new();
    for sampled in sample.packets() {
        let Ok(key) = recognition.key(&sampled.packet()) else { continue };
        packets.entry(key).and_modify(|other| *other = None).or_insert(Some(sampled));
    }
    packets
}

/// Octets, from the start of the IP header on, that every packet of both samples holds which the
/// capture cut; `None` where that is nothing.
pub(super) fn shortest_cut(samples: [&Sample; 2], recognition: &Recognition) -> Option<usize> {
    let compared = Recognition { octets: COMPARED.min(recognition.octets), ..*recognition };
    let packets = samples.into_iter().flat_map(Sample::packets);
    let captured = packets.filter_map(|sampled| match compared.key(&sampled.packet()) {
        Err(Unrecognised::Cut { captured }) => Some(captured),
        _ => None,
    });
    let shortest = captured.fold(compared.octets, usize::min);
    (shortest > 0).then_some(shortest)
}
