//! The stations: one thread sends all streams.

use std::sync::atomic::{AtomicBool, Ordering};

use onbeat_netdev::PacketSocket;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_wire::{EtherType, MacAddress, VlanTag};

use super::judge::Destination;
use super::plan::{Plan, Stream};
use crate::traffic::{ETHERTYPE, Stamp, filled, socket};
use crate::worker::Worker;
use crate::{Error, Result, World};

/// Maximum interval at which the thread checks for stop.
const LOOK_NS: u64 = 10_000_000;

/// Stations that send.
pub(super) struct Talkers(Worker<u64>);

impl Talkers {
    /// Sends all streams; `macs` are the addresses of the stations.
    pub(super) fn start(world: &World, plan: &Plan, macs: &[MacAddress]) -> Result<Self> {
        let mut sockets = Vec::new();
        for station in &plan.stations {
            let namespace = world.namespace(&station.name)?;
            sockets.push(socket::visible_sender(namespace, station.interface)?);
        }
        let mut lines = Vec::new();
        for (id, stream) in plan.streams.iter().enumerate() {
            lines.push(Line::new(id, stream, macs)?);
        }
        let talk = move |stop: &AtomicBool| talk(&sockets, &mut lines, stop);
        Ok(Self(Worker::start("lab-talker", talk)?))
    }

    /// Stops; returns the number of frames that interfaces refused.
    pub(super) fn stop(self) -> u64 {
        self.0.stop()
    }
}

fn talk(sockets: &[PacketSocket], lines: &mut [Line], stop: &AtomicBool) -> u64 {
    let mut refused = 0;
    while !stop.load(Ordering::Acquire) {
        let now = now_ns();
        let mut next = now + LOOK_NS;
        for line in &mut *lines {
            // After a delay, the schedule restarts: at most one batch is due at once.
            line.due_ns =
                line.due_ns.clamp(now.saturating_sub(16 * line.period_ns), now + line.period_ns);
            while line.due_ns <= now {
                line.due_ns += line.period_ns;
                refused += u64::from(sockets[line.from].send(line.next()).is_err());
            }
            next = next.min(line.due_ns);
        }
        sleep_until(next);
    }
    refused
}

/// A stream at its station.
struct Line {
    id: u32,
    from: usize,
    /// Frames, one of each size.
    frames: Vec<Vec<u8>>,
    payload: usize,
    sequence: u64,
    period_ns: u64,
    due_ns: u64,
}

impl Line {
    fn new(id: usize, stream: &Stream, macs: &[MacAddress]) -> Result<Self> {
        let destination = match stream.to {
            Destination::Station(station) => macs[station],
            Destination::Group(group) => MacAddress([0x01, 0x00, 0x5e, 0x40, 0, group]),
            Destination::Broadcast => MacAddress([0xff; 6]),
        };
        let mut header = [destination.0, macs[stream.from].0].concat();
        if let Some(vlan) = stream.vlan {
            let mut tag = [0; 4];
            let emitted = VlanTag { pcp: 3, ..VlanTag::new(vlan) }.emit(&mut tag);
            emitted.map_err(|error| Error::Frame(error.into()))?;
            header.extend(tag);
        }
        header.extend(EtherType(ETHERTYPE).to_octets());
        let payload = header.len();
        let frame = |size: &usize| [&header[..], filled(size - payload)].concat();
        Ok(Self {
            id: id as u32,
            from: stream.from,
            frames: stream.sizes.iter().map(frame).collect(),
            payload,
            sequence: 0,
            period_ns: SECOND / stream.rate.max(1),
            due_ns: 0,
        })
    }

    fn next(&mut self) -> &[u8] {
        let (now, count) = (now_ns(), self.frames.len() as u64);
        let frame = &mut self.frames[(self.sequence % count) as usize];
        let (stream, sequence) = (self.id, self.sequence);
        Stamp { stream, sequence, intended_ns: now, actual_ns: now }
            .emit(&mut frame[self.payload..]);
        self.sequence += 1;
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::super::judge::Content;
    use super::*;

    /// No frame of a station ends like a trailer by chance.
    #[test]
    fn every_frame_is_decoded() {
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            let macs: Vec<_> = (0..plan.stations.len() as u8)
                .map(|last| MacAddress([2, 0x0b, 0, 0, 0, last]))
                .collect();
            for (id, stream) in plan.streams.iter().enumerate() {
                let mut line = Line::new(id, stream, &macs).unwrap();
                for sequence in 0..2 * stream.sizes.len() as u64 {
                    let frame = line.next();
                    assert!(stream.sizes.contains(&frame.len()));
                    let decoded = decode(frame).unwrap();
                    assert_eq!(decoded.content, Content::Station { stream: id as u32, sequence });
                    assert_eq!(decoded.source, macs[stream.from]);
                    assert!(decoded.trailer.is_none() && !decoded.has_bad_trailer);
                }
            }
        }
    }
}
