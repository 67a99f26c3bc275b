//! An end system that sends as most do: by a packet socket.

use std::hint;
use std::io;
use std::thread;

use onbeat_netdev::{Namespace, PacketSocket};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt;

use super::chain::Interface;
use super::frames;
use crate::traffic::{BATCH, socket};
use crate::{Error, Result};

/// The time of the next system call of a talker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once.
    Full,
    /// After the other threads of the same priority on this CPU.
    InTurn,
    /// At this number of frames per second.
    Rate(u64),
}

/// Sends frames of streams in turn by one interface.
#[derive(Debug)]
pub(super) struct Talker {
    socket: PacketSocket,
    /// Headers of the frames of one system call. Of a frame, only they and the shared payload are read,
    /// so that many streams need no more cache than one.
    headers: Vec<[u8; frames::HEADER_LEN]>,
    payload: Vec<u8>,
    streams: u32,
    pace: Pace,
    /// Stream of the next frame.
    next: u32,
    sent: u64,
}

impl Talker {
    /// Opens a talker of frames of `size` octets, of streams 0 to `streams - 1`.
    pub(super) fn open(
        namespace: &Namespace,
        interface: &Interface,
        streams: u32,
        octets: usize,
    ) -> Result<Self> {
        Ok(Self {
            socket: socket::sender(namespace, &interface.name)?,
            headers: vec![frames::header(); BATCH],
            payload: vec![0; octets - frames::HEADER_LEN],
            streams,
            pace: Pace::Full,
            next: 0,
            sent: 0,
        })
    }

    /// Sets its pace.
    pub(super) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Sends `frames` frames; returns nanoseconds per frame.
    pub(super) fn send(&mut self, frames: u32) -> Result<f64> {
        let begin_ns = now_ns();
        let mut left = frames as usize;
        while left > 0 {
            interrupt::check()?;
            let count = left.min(BATCH);
            for (header, stream) in self.headers[..count].iter_mut().zip(self.next..) {
                let stream = (stream % self.streams) as u16;
                header[frames::STREAM].copy_from_slice(&stream.to_be_bytes());
            }
            let batch = self.headers[..count].iter().map(|header| [&header[..], &self.payload[..]]);
            // Blocks until the socket has room.
            let offered = offered(self.socket.send_parts(batch, 0), count)
                .map_err(|error| Error::io("send frames by a packet socket", error))?;
            self.next = (self.next + offered as u32) % self.streams;
            self.sent += offered as u64;
            left -= offered;
            match self.pace {
                Pace::Full => {}
                Pace::InTurn => thread::yield_now(),
                Pace::Rate(rate) => {
                    let sent = u64::from(frames) - left as u64;
                    let next_ns = begin_ns + sent * SECOND / rate;
                    while now_ns() < next_ns {
                        hint::spin_loop();
                    }
                }
            }
        }
        Ok((now_ns() - begin_ns) as f64 / f64::from(frames))
    }

    /// Frames sent so far, including those that the interface dropped because its queue was full.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

/// Frames of a call of `count` that the interface accepted, or dropped and counted.
fn offered(taken: io::Result<usize>, count: usize) -> io::Result<usize> {
    match taken {
        // The frame after the accepted ones was dropped. The kernel does not report the reason, but
        // there is only one: the socket waits for room of its own.
        Ok(taken) => Ok(count.min(taken + 1)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOBUFS) => Ok(1),
            Some(libc::EINTR) => Ok(0),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use onbeat_testing::{Feature, require_all};
    use onbeat_wire::Frame;

    use super::super::chain::{Chain, Stations};
    use super::*;
    use crate::traffic::Receiver;

    #[test]
    fn a_dropped_frame_counts_as_sent() {
        let error = |code| Err(io::Error::from_raw_os_error(code));
        for (taken, expected) in [
            (Ok(32), Some(32)),
            (Ok(31), Some(32)),
            (Ok(5), Some(6)),
            (error(libc::ENOBUFS), Some(1)),
            (error(libc::EINTR), Some(0)),
            (error(libc::ENETDOWN), None),
        ] {
            let said = format!("{taken:?}");
            assert_eq!(offered(taken, 32).ok(), expected, "{said}");
        }
    }

    #[test]
    fn streams_take_turns() {
        const STREAMS: u32 = 300;
        const FRAMES: u32 = 1000;
        const NS: u64 = 1_000_000_000;
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let stations = Stations::new().unwrap();
        let chain = Chain::build(&stations, 0, true).unwrap();
        let socket = socket::receiver(stations.a.namespace(), &chain.a.name).unwrap();
        let mut receiver = Receiver::new(socket);
        let mut talker =
            Talker::open(stations.talker.namespace(), &chain.talker, STREAMS, 200).unwrap();
        // In parts that are no multiple of a batch or of the number of streams.
        for frames in [1, 33, FRAMES - 34] {
            assert!(talker.send(frames).unwrap() > 0.0);
        }
        assert_eq!(talker.sent(), u64::from(FRAMES));
        let mut received = 0;
        while received < FRAMES {
            assert!(receiver.wait(NS).unwrap(), "{received} of {FRAMES} frames arrived");
            receiver
                .receive(|got| {
                    let frame = Frame::parse(got.octets).unwrap();
                    assert_eq!(got.octets.len(), 200);
                    assert_eq!(frame.destination(), frames::destination(received % STREAMS));
                    assert_eq!(frame.source(), frames::SOURCE);
                    assert!(frame.vlans().eq(frames::spec(200).vlans));
                    received += 1;
                })
                .unwrap();
        }
        assert_eq!(received, FRAMES);
    }

    #[test]
    fn frames_dropped_by_the_interface_count_as_sent() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let stations = Stations::new().unwrap();
        let chain = Chain::build(&stations, 0, true).unwrap();
        // An interface without carrier drops all frames.
        stations.a.set_down(&chain.a.name).unwrap();
        let mut talker = Talker::open(stations.talker.namespace(), &chain.talker, 3, 64).unwrap();
        let before = chain.dropped(&stations).unwrap().to_a;
        talker.send(100).unwrap();
        assert_eq!(talker.sent(), 100);
        assert_eq!(chain.dropped(&stations).unwrap().to_a - before, 100);
        stations.talker.set_down(&chain.talker.name).unwrap();
        let error = talker.send(1).unwrap_err().to_string();
        assert!(error.contains("send frames by a packet socket"), "{error}");
    }
}
