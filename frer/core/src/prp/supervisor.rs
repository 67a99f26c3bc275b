//! Supervision frames of a node, and of the stations for which it sends.

use alloc::vec::Vec;

use onbeat_wire::prp::supervision;
use onbeat_wire::{EtherType, MacAddress};

use super::LIFE_CHECK_MS;

/// Shortest time between supervision frames of many stations, in milliseconds.
const SHORTEST_INTERVAL_MS: u32 = 50;

/// The supervision frames of a node.
#[derive(Debug, Default)]
pub struct Supervisor {
    number: u16,
    /// The last station with a frame: 0 the node itself, from 1 a station behind it.
    station: u32,
    /// Frames sent.
    pub sent: u64,
}

impl Supervisor {
    /// Returns the frames that are due, and the time until the next ones in milliseconds: within LifeCheckInterval, one
    /// of the node and one of each station behind it, spread over the interval. They have no trailer.
    #[must_use]
    pub fn frames(&mut self, node: MacAddress, behind: &[MacAddress]) -> (Vec<Vec<u8>>, u32) {
        let redbox = (!behind.is_empty()).then_some(node);
        let stations = behind.len() as u32 + 1;
        let interval_ms = (LIFE_CHECK_MS / stations).max(SHORTEST_INTERVAL_MS);
        let due = (stations * interval_ms).div_ceil(LIFE_CHECK_MS);
        let frames = (0..due).map(|_| {
            self.station = (self.station + 1) % stations;
            let station = self.station.checked_sub(1).map_or(node, |n| behind[n as usize]);
            self.frame(node, station, redbox)
        });
        (frames.collect(), interval_ms)
    }

    fn frame(
        &mut self,
        source: MacAddress,
        node: MacAddress,
        redbox: Option<MacAddress>,
    ) -> Vec<u8> {
        let sequence = self.number;
        self.number = sequence.wrapping_add(1);
        let kind = supervision::NodeKind::DuplicateDiscard;
        let version = supervision::VERSION;
        let content = supervision::Repr { path: 0, version, sequence, kind, node, redbox };
        let mut octets = [supervision::DESTINATION.0, source.0].concat();
        octets.extend(EtherType::PRP.to_octets());
        let start = octets.len();
        octets.resize(start + content.buffer_len(), 0);
        let written = content.emit(&mut octets[start..]);
        debug_assert!(written.is_ok(), "the buffer has its length");
        octets
    }
}
