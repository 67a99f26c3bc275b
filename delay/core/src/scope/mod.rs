//! Delay measurement on the wire: 10BASE-T on two channels of an oscilloscope.
//!
//! ```text
//! CSV ── csv ── volts ── manchester ── frames, each with its time ── delays
//! ```
//!
//! The paper's reference method (section 2.1.1). The time of a frame is that of the first bit of its destination
//! address, the reference point of IEEE 802.3 time stamps (90.7), to a fraction of a sample: it is fitted by a
//! straight line through all bits of the frame.

mod csv;
mod manchester;
pub mod synthesis;

use crate::capture::{LinkType, Packet};
use crate::key::Recognition;
use crate::matching::{Counts, Event, Matcher, Observation, Verdict, Window};
use crate::pairing::Side;

pub use csv::{Channel, Waveform, WaveformError, read_csv};
pub use manchester::{DecodedChannel, FCS_LEN, Frame, decode, fcs};

/// A frame on both channels.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// The arrival, in seconds of the waveform.
    pub arrival_s: f64,
    /// The delay, in nanoseconds.
    pub delay_ns: f64,
    /// The certainty of the match.
    pub verdict: Verdict,
}

/// Matches the frames of the channel before a hop with those after it. Frames with a wrong FCS are ignored;
/// `longest_ns` is the longest delay.
pub fn crossings(
    arrivals: &[Frame],
    departures: &[Frame],
    recognition: &Recognition,
    longest_ns: i64,
) -> (Vec<Crossing>, Counts) {
    let mut passages: Vec<(f64, bool, u64)> = Vec::new();
    for (side, frames) in [(Side::Arrivals, arrivals), (Side::Departures, departures)] {
        for frame in frames.iter().filter(|frame| frame.fcs_right) {
            let octets = frame.without_fcs();
            let packet = Packet {
                number: 0,
                time_ns: 0,
                interface: 0,
                interface_name: None,
                direction: None,
                link: LinkType::ETHERNET,
                wire_len: octets.len() as u32,
                octets,
            };
            if let Ok(key) = recognition.key_on(side, &packet) {
                passages.push((frame.time_s, side == Side::Departures, key));
            }
        }
    }
    passages.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut matcher = Matcher::new(Window { longest_ns, ..Window::default() });
    let mut crossings = Vec::new();
    let mut report = |event: Event<f64>| {
        if let Event::Matched { arrival, departure, verdict } = event {
            let delay_ns = (departure.tag - arrival.tag) * 1e9;
            crossings.push(Crossing { arrival_s: arrival.tag, delay_ns, verdict });
        }
    };
    for (time_s, leaves, key) in passages {
        // The matcher uses the time only for its order; the tag holds the exact time.
        let passage = Observation { time_ns: (time_s * 1e9).floor() as i64, tag: time_s };
        if leaves {
            matcher.depart(key, passage, &mut report);
        } else {
            matcher.arrive(key, passage, &mut report);
        }
    }
    matcher.finish(&mut report);
    let counts = *matcher.counts();
    (crossings, counts)
}
