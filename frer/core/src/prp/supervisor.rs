//! Supervision frames of a node, and of the stations for which it sends; hellos of a RedBox.

use alloc::vec::Vec;

use onbeat_wire::prp::hello::Hello;
use onbeat_wire::prp::supervision;
use onbeat_wire::{EtherType, MacAddress};

use super::host_port::{Announcements, HELLO_MS, HostPort, HostPortTimes, LanPresence};
use super::{LIFE_CHECK_MS, Parameters};

/// Shortest time between supervision frames of many stations, in milliseconds.
const SHORTEST_INTERVAL_MS: u32 = 50;

/// Frames that a node sends of its own.
#[derive(Debug, Default)]
pub struct DueFrames {
    /// Supervision frames without a trailer, to be numbered and sent on both LANs.
    pub frames: Vec<Vec<u8>>,
    /// Of a RedBox: its hello, and others, to be sent by the host port.
    pub to_host: Vec<Vec<u8>>,
    /// The RedBox whose stations this one serves from now on: it takes over.
    pub former: Option<MacAddress>,
    /// Time until the next ones, in milliseconds.
    pub next_ms: u32,
}

impl DueFrames {
    /// Adds the frames after a takeover.
    pub fn announce(&mut self, announcements: Announcements) {
        self.frames.extend(announcements.to_lans);
        self.to_host.extend(announcements.to_segment);
    }
}

/// The supervision frames of a node.
#[derive(Debug, Default)]
pub struct Supervisor {
    number: u16,
    /// Number of the last hello.
    hellos: u16,
    presence: LanPresence,
    /// Time from the last call until the next frames, in milliseconds.
    rest_ms: u32,
    /// The last station with a frame: 0 the node itself, from 1 a station behind it.
    station: u32,
    /// Frames sent.
    pub sent: u64,
}

impl Supervisor {
    /// Returns what is due: within LifeCheckInterval one frame of the node and one of each station behind it, spread over
    /// the interval, and the hellos of a RedBox. `silence_ms`: the rest of the silence after a start. `received`: frames
    /// from both LANs so far. It brings the state of the host port of a RedBox up to date.
    #[must_use]
    pub fn due(
        &mut self,
        parameters: &Parameters,
        behind: &[MacAddress],
        silence_ms: Option<u32>,
        host_port: &mut HostPort,
        received: u64,
        now_ns: u64,
    ) -> DueFrames {
        let &Parameters { mac, is_segment, entry_forget_ms, .. } = parameters;
        let mut due = DueFrames::default();
        if let Some(rest_ms) = silence_ms {
            self.rest_ms = rest_ms;
        } else if self.rest_ms == 0 {
            (due.frames, self.rest_ms) = self.frames(mac, behind);
        }
        if is_segment {
            let hears_lan = self.presence.is_present(received, now_ns);
            let times = HostPortTimes::new(entry_forget_ms);
            due.former = host_port.supervise(mac, hears_lan, times, now_ns);
            let serves = !host_port.is_blocked(now_ns);
            due.to_host.push(self.hello(mac, host_port.is_on_lan, serves));
        }
        let longest_ms = if is_segment { HELLO_MS } else { u32::MAX };
        due.next_ms = self.rest_ms.min(longest_ms);
        self.rest_ms -= due.next_ms;
        due
    }

    /// Returns the hello of a RedBox that ends.
    pub fn farewell(&mut self, node: MacAddress) -> Vec<u8> {
        self.hello(node, false, false)
    }

    fn hello(&mut self, sender: MacAddress, is_on_lan: bool, serves: bool) -> Vec<u8> {
        self.hellos = self.hellos.wrapping_add(1);
        Hello { sender, number: self.hellos, is_on_lan, serves }.emit().to_vec()
    }

    /// Returns supervision frames, and the time until the next ones in milliseconds.
    fn frames(&mut self, node: MacAddress, behind: &[MacAddress]) -> (Vec<Vec<u8>>, u32) {
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
