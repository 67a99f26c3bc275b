//! Decoder of 10BASE-T frames in a sampled voltage (IEEE 802.3 clauses 7 and 14).
//!
//! A bit takes 100 ns and has an edge in its middle: up for a one, down for a zero. Edges between bits exist only
//! between equal bits. So two edges a whole bit apart are both in the middle of bits, as all edges of the preamble:
//! they locate all further edges.

/// The length of a bit, in seconds.
pub(super) const BIT_S: f64 = 100e-9;
/// Maximum deviation of an edge from its position.
const TOLERANCE: f64 = 0.25;
/// Minimum number of preamble bits. Hops remove some, and so does the start of the signal.
const PREAMBLE: usize = 12;
/// Octets of the frame check sequence.
pub const FCS_LEN: usize = 4;
/// The shortest frame: two addresses, EtherType, FCS.
const SHORTEST: usize = 14 + FCS_LEN;
/// An edge crosses this share of the amplitude on both sides.
const HYSTERESIS: f64 = 0.3;

/// A frame on the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The start of the first bit of the destination address, in seconds of the waveform.
    pub time_s: f64,
    /// The standard error of `time_s` because of noise, in seconds.
    pub error_s: f64,
    /// The excess of the sender's bit length over 100 ns, in parts per million.
    pub bit_ppm: f64,
    /// Octets from the destination address to the FCS.
    pub octets: Vec<u8>,
    /// True if the FCS is correct.
    pub fcs_right: bool,
}

impl Frame {
    /// The frame as in a capture.
    pub fn without_fcs(&self) -> &[u8] {
        &self.octets[..self.octets.len() - FCS_LEN]
    }
}

/// The content of a channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecodedChannel {
    /// Frames, in order of time.
    pub frames: Vec<Frame>,
    /// Signals with a preamble that are not whole frames: cut off by the end of the record, or disturbed.
    pub fragments: usize,
}

/// An edge: its position in samples, and true if it rises.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at: f64,
    up: bool,
}

/// Finds the frames of one channel; `start_s` and `interval_s` are those of its waveform.
pub fn decode(volts: &[f32], start_s: f64, interval_s: f64) -> DecodedChannel {
    let edges = edges(volts);
    let bit = BIT_S / interval_s;
    let mut decoded = DecodedChannel::default();
    let mut rest = &edges[..];
    while let Some(begin) = rest.windows(2).position(|pair| is_bit(pair, bit)) {
        let (bits, used) = bits(&rest[begin..], bit);
        rest = &rest[begin + used..];
        let Some(first) = first_bit(&bits) else { continue };
        match frame(&bits, first, bit) {
            Some(mut frame) => {
                frame.time_s = start_s + frame.time_s * interval_s;
                frame.error_s *= interval_s;
                decoded.frames.push(frame);
            }
            None => decoded.fragments += 1,
        }
    }
    decoded
}

fn is_bit(pair: &[Edge], bit: f64) -> bool {
    (pair[1].at - pair[0].at - bit).abs() < TOLERANCE * bit
}

/// Returns all edges of the signal, each where it crosses the middle.
fn edges(volts: &[f32]) -> Vec<Edge> {
    let Some((low, high)) = extremes(volts) else { return Vec::new() };
    let middle = 0.5 * (low + high);
    let reach = HYSTERESIS * 0.5 * (high - low);
    let level = |i: usize| f64::from(volts[i]) - middle;
    let mut edges = Vec::new();
    let mut up = None;
    for i in 0..volts.len() {
        let now = match level(i) {
            level if level > reach => true,
            level if level < -reach => false,
            _ => continue,
        };
        if up.is_some_and(|before| before != now) {
            // Back to the crossing of the middle, between two samples.
            let side = |i: usize| (level(i) > 0.0) == now;
            let after = (1..=i).rev().find(|&i| !side(i - 1)).unwrap_or(i);
            let (from, to) = (level(after - 1), level(after));
            let at = (after - 1) as f64 + from / (from - to);
            edges.push(Edge { at, up: now });
        }
        up = Some(now);
    }
    edges
}

/// Returns the levels of the signal, which only noise exceeds.
fn extremes(volts: &[f32]) -> Option<(f64, f64)> {
    // A single sample may be a glitch; a half bit has several samples.
    let held = |pick: fn(f32, f32) -> f32| {
        volts.windows(2).map(move |pair| f64::from(pick(pair[0], pair[1])))
    };
    let high = held(f32::min).max_by(f64::total_cmp)?;
    let low = held(f32::max).min_by(f64::total_cmp)?;
    (high > low).then_some((low, high))
}

/// Decodes the bits from an edge that is in the middle of one; returns them, and the number of edges consumed.
fn bits(edges: &[Edge], bit: f64) -> (Vec<Edge>, usize) {
    let mut bits = vec![edges[0]];
    let mut last = edges[0].at;
    for (i, edge) in edges.iter().enumerate().skip(1) {
        let apart = (edge.at - last) / bit;
        if apart < 1.0 - TOLERANCE {
            // Between two bits.
            continue;
        }
        if apart > 1.0 + TOLERANCE {
            return (bits, i);
        }
        bits.push(*edge);
        last = edge.at;
    }
    (bits, edges.len())
}

/// Returns the first bit after preamble and start frame delimiter, whose end is the first pair of ones.
fn first_bit(bits: &[Edge]) -> Option<usize> {
    let same = bits.windows(2).position(|pair| pair[0].up == pair[1].up)?;
    (bits[same].up && same >= PREAMBLE).then_some(same + 2)
}

/// Decodes the frame of these bits, with times in samples.
fn frame(bits: &[Edge], first: usize, bit: f64) -> Option<Frame> {
    // Up to seven excess bits may follow (IEEE 802.3 4.2.4.2.1); they are dropped.
    let octets: Vec<u8> = bits
        .get(first..)?
        .chunks_exact(8)
        .map(|bits| bits.iter().rev().fold(0, |octet, bit| octet << 1 | u8::from(bit.up)))
        .collect();
    if octets.len() < SHORTEST {
        return None;
    }
    let (contents, check) = octets.split_at(octets.len() - FCS_LEN);
    let fcs_right = fcs(contents).to_le_bytes() == *check;

    // Middle of bit n = start + (n + 1/2)·bit: a least-squares line through all of them.
    let count = bits.len() as f64;
    let place = |i: usize| i as f64 - first as f64 + 0.5;
    let mean_place = (0..bits.len()).map(place).sum::<f64>() / count;
    let mean_at = bits.iter().map(|edge| edge.at).sum::<f64>() / count;
    let (mut spread, mut common) = (0.0, 0.0);
    for (i, edge) in bits.iter().enumerate() {
        spread += (place(i) - mean_place).powi(2);
        common += (place(i) - mean_place) * (edge.at - mean_at);
    }
    let slope = common / spread;
    let start = mean_at - slope * mean_place;
    let squares: f64 =
        bits.iter().enumerate().map(|(i, edge)| (edge.at - start - slope * place(i)).powi(2)).sum();
    let variance = squares / (count - 2.0);
    Some(Frame {
        time_s: start,
        error_s: (variance * (1.0 / count + mean_place.powi(2) / spread)).sqrt(),
        bit_ppm: (slope / bit - 1.0) * 1e6,
        octets,
        fcs_right,
    })
}

/// Computes the frame check sequence of a frame's octets (IEEE 802.3 3.2.9), in little-endian order as on the wire.
pub fn fcs(octets: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for octet in octets {
        sum ^= u32::from(*octet);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}
