//! A pair of captures with known ground truth, for tests and benches.
//!
//! Simulates a hop that forwards UDP as a router does: MAC addresses, TTL and header checksum change. Some packets
//! are lost, some overtaken by up to a thousand others, some duplicated; some are in runs of the same payload, half
//! of these without a distinguishing identification.
//!
//! The source address of a frame holds the packet's number; matching must not use it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use onbeat_wire::random::Random;
use onbeat_wire::{EtherType, MacAddress, Ports, ethernet, ipv4, udp};

use crate::capture::{LinkType, Packet, Writer};
use crate::matching::Event;

/// The parameters of the traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// The number of arriving packets.
    pub packets: u64,
    /// Octets of a frame, FCS not included; at least 60.
    pub frame_len: usize,
    /// The interval between two arrivals, in nanoseconds.
    pub interval_ns: i64,
    /// The shortest delay, in nanoseconds; most packets take less than an interval more.
    pub delay_ns: i64,
    /// The share that others overtake.
    pub reordered: f64,
    /// Maximum number of overtaking packets.
    pub overtaken_by: u64,
    /// The share that is lost.
    pub lost: f64,
    /// The share that is duplicated.
    pub duplicated: f64,
    /// The share that starts a run of 2 to 16 packets of the same payload.
    pub runs: f64,
    /// The seed of the pseudo-random numbers.
    pub seed: u64,
}

impl Traffic {
    /// The mixture for benchmarks of matching: the paper's packet of 192 octets, a million packets/s, 10 %
    /// overtaken by up to 1,000, 1 % lost, 0.1 % duplicated.
    pub fn of(packets: u64) -> Self {
        Traffic {
            packets,
            frame_len: 192,
            interval_ns: 1000,
            delay_ns: 20_000,
            reordered: 0.1,
            overtaken_by: 1000,
            lost: 0.01,
            duplicated: 0.001,
            runs: 0.001,
            seed: 1,
        }
    }

    /// The longest delay, including duplicates, in nanoseconds.
    pub fn longest_ns(&self) -> i64 {
        2 * self.delay_ns + (1 + self.overtaken_by as i64) * self.interval_ns
    }

    /// Writes both captures, and returns their ground truth.
    pub fn write(&self, arrivals: impl Write, departures: impl Write) -> io::Result<GroundTruth> {
        let mut arrivals = Writer::new(arrivals, LinkType::ETHERNET)?;
        let mut departures = Departures {
            writer: Writer::new(departures, LinkType::ETHERNET)?,
            frame: Frame::new(self.frame_len),
            under_way: BinaryHeap::new(),
        };
        let mut random = Random::new(self.seed);
        let mut truth = GroundTruth::default();
        let mut run = Run::default();
        let mut frame = Frame::new(self.frame_len);
        for number in 0..self.packets {
            let now = START_NS + number as i64 * self.interval_ns;
            departures.write_until(now)?;
            let identity = run.next(number, self.runs, &mut random);
            truth.arrivals += 1;
            truth.identical += u64::from(identity.identification == 0);
            arrivals.write(now, frame.fill(&identity, false), self.frame_len as u32)?;

            if random.chance(self.lost) {
                truth.lost += 1;
                continue;
            }
            let mut delay = self.delay_ns + random.below(self.interval_ns as u64) as i64;
            if random.chance(self.reordered) {
                delay += (1 + random.below(self.overtaken_by)) as i64 * self.interval_ns;
            }
            departures.under_way.push(Reverse((now + delay, identity)));
            if random.chance(self.duplicated) {
                let again = delay + random.below(self.delay_ns as u64) as i64;
                departures.under_way.push(Reverse((now + again, identity)));
                truth.duplicates += 1;
            }
        }
        departures.write_until(i64::MAX)?;
        arrivals.finish()?;
        departures.writer.finish()?;
        Ok(truth)
    }
}

/// The ground truth of a pair of captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroundTruth {
    /// Packets that arrived.
    pub arrivals: u64,
    /// Of these, lost packets.
    pub lost: u64,
    /// Duplicated frames.
    pub duplicates: u64,
    /// Packets that are indistinguishable from others of their run.
    pub identical: u64,
}

/// Returns the number of a frame's packet in the traffic.
pub fn number_of(packet: &Packet<'_>) -> u64 {
    let octet = |at: usize| packet.octets.get(at).copied().unwrap_or(0);
    u64::from_be_bytes([0, 0, 0, octet(7), octet(8), octet(9), octet(10), octet(11)])
}

/// Compares the events of a matcher that was fed with such captures, each packet tagged with [`number_of`], with
/// the ground truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Check {
    /// Correct matches by verdict, certain first.
    pub right: [u64; 3],
    /// Wrong matches by verdict, certain first.
    pub wrong: [u64; 3],
    /// Matches of a packet that arrived before the one matched before it.
    pub out_of_order: u64,
    last: u64,
}

impl Check {
    /// Processes an event.
    pub fn event(&mut self, event: &Event<u64>) {
        if let Event::Matched { arrival, departure, verdict } = event {
            let side = if arrival.tag == departure.tag { &mut self.right } else { &mut self.wrong };
            side[*verdict as usize] += 1;
            self.out_of_order += u64::from(arrival.tag < self.last);
            self.last = arrival.tag;
        }
    }

    /// The share of correct matches among those that are not counted as ambiguous.
    pub fn right_share(&self) -> f64 {
        let right = self.right[0] + self.right[1];
        right as f64 / (right + self.wrong[0] + self.wrong[1]).max(1) as f64
    }
}

/// The time of the first arrival: 1 January 2026, within the range of pcap.
const START_NS: i64 = 1_767_225_600_000_000_000;
const ETHERNET_LEN: usize = ethernet::HEADER_LEN;
const PAYLOAD_AT: usize = ETHERNET_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
const TTL: u8 = 64;

/// The distinguishing fields of a packet, in order of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    number: u64,
    /// The seed of the payload.
    payload: u64,
    /// 0: none, as Linux sends unfragmentable packets.
    identification: u16,
}

/// Further packets of the same payload.
#[derive(Default)]
struct Run {
    left: u64,
    payload: u64,
    identified: bool,
}

impl Run {
    fn next(&mut self, number: u64, starts: f64, random: &mut Random) -> Identity {
        let numbered = 1 + (number % 65_535) as u16;
        if self.left == 0 {
            self.payload = random.number();
            if !random.chance(starts) {
                return Identity { number, payload: self.payload, identification: numbered };
            }
            self.left = 2 + random.below(15);
            self.identified = random.chance(0.5);
        }
        self.left -= 1;
        let identification = if self.identified { numbered } else { 0 };
        Identity { number, payload: self.payload, identification }
    }
}

struct Departures<W> {
    writer: Writer<W>,
    frame: Frame,
    under_way: BinaryHeap<Reverse<(i64, Identity)>>,
}

impl<W: Write> Departures<W> {
    fn write_until(&mut self, now: i64) -> io::Result<()> {
        while let Some(Reverse((time, identity))) = self.under_way.peek() {
            if *time > now {
                break;
            }
            let wire_len = self.frame.octets.len() as u32;
            self.writer.write(*time, self.frame.fill(identity, true), wire_len)?;
            self.under_way.pop();
        }
        Ok(())
    }
}

/// A frame that is rewritten for each packet.
struct Frame {
    octets: Vec<u8>,
}

impl Frame {
    fn new(len: usize) -> Self {
        Frame { octets: vec![0; len.max(60)] }
    }

    /// Writes the packet as it arrives, or as it departs.
    fn fill(&mut self, identity: &Identity, left: bool) -> &[u8] {
        let payload_len = (self.octets.len() - PAYLOAD_AT) as u16;
        let [_, _, _, number @ ..] = identity.number.to_be_bytes();
        let [a, b, c, d, e] = number;
        let link = ethernet::Repr {
            destination: MacAddress([2, 0, 0, 0, 0, if left { 3 } else { 1 }]),
            source: MacAddress([2, a, b, c, d, e]),
            ethertype: EtherType::IPV4,
        };
        let internet = ipv4::Repr {
            identification: identity.identification,
            ttl: TTL - u8::from(left),
            ..ipv4::Repr::new(
                [10, 0, 0, 1].into(),
                [10, 0, 1, 1].into(),
                payload_len + udp::HEADER_LEN as u16,
            )
        };
        let datagram = udp::Repr { ports: Ports { source: 5000, destination: 5001 }, payload_len };
        let written = link
            .emit(&mut self.octets)
            .and_then(|_| internet.emit(&mut self.octets[ETHERNET_LEN..]))
            .and_then(|_| datagram.emit(&mut self.octets[ETHERNET_LEN + ipv4::HEADER_LEN..]));
        written.expect("a frame has room for its headers");
        let mut random = Random::new(identity.payload);
        for word in self.octets[PAYLOAD_AT..].chunks_mut(8) {
            word.copy_from_slice(&random.number().to_le_bytes()[..word.len()]);
        }
        &self.octets
    }
}
