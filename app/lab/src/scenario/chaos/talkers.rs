//! The talkers: one thread sends all streams of a host.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use onbeat_netdev::{Namespace, PacketSocket};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_wire::{EtherType, VlanTag, ipv4, rtag, udp};

use super::config::UDP_PORT;
use super::plan::{Stream, StreamKind};
use crate::traffic::{ETHERTYPE, Stamp, filled, socket};
use crate::worker::Worker;
use crate::{Error, Result};

const PCP: u8 = 6;
/// Interval at which a talker checks for stop or a new rate.
const LOOK_NS: u64 = 10_000_000;

/// A host that sends streams.
pub(super) struct Talker(Worker<u64>);

/// Frames per second of each stream.
pub(super) type Rates = Arc<Vec<AtomicU64>>;

impl Talker {
    /// Sends the streams that go in a direction from a host's interface.
    pub(super) fn start(
        namespace: &Namespace,
        interface: &str,
        streams: &[Stream],
        east: bool,
        rates: &Rates,
    ) -> Result<Self> {
        let socket = socket::visible_sender(namespace, interface)?;
        let mut own = Vec::new();
        for (id, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.east == east) {
            own.push(TalkerStream::new(id, stream)?);
        }
        let rates = Arc::clone(rates);
        let talk = move |stop: &AtomicBool| talk(&socket, &mut own, &rates, stop);
        Ok(Self(Worker::start("lab-talker", talk)?))
    }

    /// Stops; returns the number of frames that its interface refused.
    pub(super) fn stop(self) -> u64 {
        self.0.stop()
    }
}

fn talk(
    socket: &PacketSocket,
    lines: &mut [TalkerStream],
    rates: &Rates,
    stop: &AtomicBool,
) -> u64 {
    let mut refused = 0;
    while !stop.load(Ordering::Acquire) {
        let now = now_ns();
        let mut next = now + LOOK_NS;
        for line in &mut *lines {
            let rate = rates[line.id].load(Ordering::Acquire);
            let Some(period) = SECOND.checked_div(rate) else { continue };
            // After a pause or a delay, the schedule restarts: at most one batch is due at once.
            line.due_ns = line.due_ns.clamp(now.saturating_sub(16 * period), now + period);
            while line.due_ns <= now {
                line.due_ns += period;
                refused += u64::from(line.send(socket).is_err());
            }
            next = next.min(line.due_ns);
        }
        sleep_until(next);
    }
    refused
}

/// A stream at its talker.
struct TalkerStream {
    id: usize,
    frame: Vec<u8>,
    /// Offset of the R-TAG's number, and the number of the first frame.
    number: Option<(usize, u16)>,
    payload: usize,
    sequence: u64,
    due_ns: u64,
}

impl TalkerStream {
    fn new(id: usize, stream: &Stream) -> Result<Self> {
        let mut frame = Vec::with_capacity(stream.size);
        frame.extend(stream.headers.destination.0);
        frame.extend(stream.source.0);
        if let Some(vlan) = stream.headers.vlan {
            let mut tag = [0; 4];
            VlanTag { pcp: PCP, ..VlanTag::new(vlan) }.emit(&mut tag).map_err(frame_error)?;
            frame.extend(tag);
        }
        let number = match stream.numbered_from {
            Some(first) => {
                let mut tag = [0; rtag::TAG_LEN];
                rtag::Repr { sequence: first }.emit(&mut tag).map_err(frame_error)?;
                frame.extend(tag);
                Some((frame.len() - 2, first))
            }
            None => None,
        };
        if stream.kind == StreamKind::Ip {
            frame.extend(EtherType::IPV4.to_octets());
            let source = Ipv4Addr::new(192, 0, 2, 1);
            let headers = ipv4::HEADER_LEN + udp::HEADER_LEN;
            let data = stream.size - frame.len() - headers;
            let mut packet = vec![0; headers];
            let datagram = (udp::HEADER_LEN + data) as u16;
            ipv4::Repr::new(source, stream.group, datagram)
                .emit(&mut packet)
                .map_err(frame_error)?;
            let ports = onbeat_wire::Ports { source: UDP_PORT, destination: UDP_PORT };
            udp::Repr { ports, payload_len: data as u16 }
                .emit(&mut packet[ipv4::HEADER_LEN..])
                .map_err(frame_error)?;
            frame.extend(packet);
        } else {
            frame.extend(EtherType(ETHERTYPE).to_octets());
        }
        let payload = frame.len();
        frame.extend(filled(stream.size - payload));
        Ok(Self { id, frame, number, payload, sequence: 0, due_ns: 0 })
    }

    fn send(&mut self, socket: &PacketSocket) -> io::Result<()> {
        if let Some((at, first)) = self.number {
            let number = first.wrapping_add(self.sequence as u16);
            self.frame[at..at + 2].copy_from_slice(&number.to_be_bytes());
        }
        let now = now_ns();
        let (stream, sequence) = (self.id as u32, self.sequence);
        Stamp { stream, sequence, intended_ns: now, actual_ns: now }
            .emit(&mut self.frame[self.payload..]);
        self.sequence += 1;
        socket.send(&self.frame)
    }
}

fn frame_error(error: onbeat_wire::EmitError) -> Error {
    Error::Frame(error.into())
}

#[cfg(test)]
mod tests {
    use super::super::decode::{DecodeResult, decode};
    use super::super::plan::Plan;
    use super::*;

    /// The checker decodes the frames of a talker.
    #[test]
    fn every_frame_is_decoded() {
        for seed in 0..100 {
            for (id, stream) in Plan::draw(seed).streams.iter().enumerate() {
                let line = TalkerStream::new(id, stream).unwrap();
                let mut frame = line.frame.clone();
                let stamp = Stamp { stream: 3, sequence: 9, intended_ns: 1, actual_ns: 2 };
                stamp.emit(&mut frame[line.payload..]);
                assert_eq!(frame.len(), stream.size);
                let DecodeResult::TalkerFrame(seen) = decode(&frame) else { panic!("{stream:?}") };
                assert_eq!((seen.stream, seen.sequence), (3, 9));
                assert_eq!(seen.number, stream.numbered_from);
                let headers = (seen.destination, seen.vlan);
                assert_eq!(headers, (stream.headers.destination, stream.headers.vlan));
                *frame.last_mut().unwrap() ^= 1;
                assert_eq!(decode(&frame), DecodeResult::Corrupted);
            }
        }
    }
}
