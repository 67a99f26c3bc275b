//! Takes streams from an interface.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_netdev::{Namespace, ReceivedFrame};
use onbeat_realtime::clock::{now_ns, realtime_offset_ns};
use onbeat_report::format::count;
use onbeat_wire::{Frame, VlanTag};

use super::receiver::Receiver;
use super::record::StreamRecord;
use super::socket;
use super::stamp::{Stamp, StampError};
use crate::{Error, Result};

/// A stream that a sink takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// Its number.
    pub stream: u32,
    /// The VLAN tags that its frames should carry here.
    pub vlans: Vec<VlanTag>,
}

/// Streams that are being taken.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<SinkReport>>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    streams: Vec<Progress>,
}

#[derive(Debug)]
struct Progress {
    stream: u32,
    delivered: AtomicU64,
    complete_below: AtomicU64,
    expect_from: AtomicU64,
}

/// What arrived.
#[derive(Debug, Clone, Default)]
pub struct SinkReport {
    /// By stream, in the order in which they were expected.
    pub streams: Vec<(u32, StreamRecord)>,
    /// Frames that the socket had no room for: what is missing may be among them.
    pub socket_drops: u64,
    /// Frames of the lab that were changed or cut on their way.
    pub corrupted: u64,
    /// Frames of others, and of streams that were not expected.
    pub foreign: u64,
    /// Frames without a time stamp of the kernel; the time of reading stands in for it.
    pub unstamped: u64,
}

impl SinkReport {
    /// What arrived of a stream.
    #[must_use]
    pub fn stream(&self, stream: u32) -> Option<&StreamRecord> {
        self.streams.iter().find(|(id, _)| *id == stream).map(|(_, record)| record)
    }

    /// Takes the record of a stream out.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the socket dropped frames or the stream was not expected.
    pub fn take(&mut self, stream: u32) -> Result<StreamRecord> {
        if self.socket_drops > 0 {
            return Err(Error::Invalid(format!(
                "the sink's socket dropped {}; use a lower rate, or a machine with more CPU \
                 time to spare",
                count(self.socket_drops, "frame")
            )));
        }
        let place = self.streams.iter().position(|(id, _)| *id == stream);
        let place =
            place.ok_or_else(|| Error::Invalid(format!("the sink took no stream {stream}")))?;
        Ok(self.streams.swap_remove(place).1)
    }
}

impl Sink {
    /// Begins to take streams from an interface.
    ///
    /// # Errors
    /// Where the interface is not there or no socket can be opened.
    pub fn start(namespace: &Namespace, interface: &str, expected: &[Expect]) -> Result<Self> {
        let socket = socket::receiver(namespace, interface)?;
        let progress = |expect: &Expect| Progress {
            stream: expect.stream,
            delivered: AtomicU64::new(0),
            complete_below: AtomicU64::new(0),
            expect_from: AtomicU64::new(0),
        };
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            streams: expected.iter().map(progress).collect(),
        });
        let taker = Taker {
            shared: Arc::clone(&shared),
            report: SinkReport {
                streams: expected
                    .iter()
                    .map(|expect| (expect.stream, StreamRecord::default()))
                    .collect(),
                ..SinkReport::default()
            },
            expected: expected.to_vec(),
        };
        let thread = thread::Builder::new()
            .name("lab-sink".into())
            .spawn(move || taker.run(Receiver::new(socket)))
            .map_err(|error| Error::io("start a thread for a sink", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Frames of a stream that have arrived so far.
    #[must_use]
    pub fn delivered(&self, stream: u32) -> u64 {
        self.progress(stream).map_or(0, |progress| progress.delivered.load(Ordering::Acquire))
    }

    /// Every frame of a stream below this number that was waited for has arrived.
    #[must_use]
    pub fn complete_below(&self, stream: u32) -> u64 {
        self.progress(stream).map_or(0, |progress| progress.complete_below.load(Ordering::Acquire))
    }

    /// Does not wait for frames of a stream below `sequence` any more: they are known to be lost.
    pub fn expect_from(&self, stream: u32, sequence: u64) {
        if let Some(progress) = self.progress(stream) {
            progress.expect_from.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    fn progress(&self, stream: u32) -> Option<&Progress> {
        self.shared.streams.iter().find(|progress| progress.stream == stream)
    }

    /// Stops taking, after what the socket holds.
    ///
    /// # Errors
    /// Where the socket failed.
    pub fn stop(mut self) -> Result<SinkReport> {
        self.shared.stop.store(true, Ordering::Release);
        self.thread
            .take()
            .map_or_else(
                || Err(io::Error::other("it was stopped before")),
                |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
            .map_err(|error| Error::io("receive frames", error))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Taker {
    shared: Arc<Shared>,
    expected: Vec<Expect>,
    report: SinkReport,
}

impl Taker {
    fn run(mut self, mut receiver: Receiver) -> io::Result<SinkReport> {
        const LOOK_NS: u64 = 10_000_000;
        loop {
            // Asked before the socket is emptied: what came before the stop is taken.
            let last = self.shared.stop.load(Ordering::Acquire);
            receiver.wait(if last { 0 } else { LOOK_NS })?;
            loop {
                let offset_ns = realtime_offset_ns();
                let count = receiver.receive(|frame| self.take(&frame, offset_ns))?;
                if count == 0 {
                    break;
                }
                self.publish();
            }
            self.report.socket_drops += receiver.socket().take_drops()?;
            if last {
                return Ok(self.report);
            }
        }
    }

    fn take(&mut self, received: &ReceivedFrame<'_>, offset_ns: i64) {
        let parsed = Frame::parse(received.octets)
            .map_err(|_| StampError::Foreign)
            .and_then(|frame| Stamp::parse(frame.payload()).map(|stamp| (frame, stamp)));
        let (frame, stamp) = match parsed {
            Ok(found) => found,
            Err(StampError::Corrupted) => return self.report.corrupted += 1,
            Err(StampError::Foreign) => return self.report.foreign += 1,
        };
        let place = self.expected.iter().position(|expect| expect.stream == stamp.stream);
        let Some(place) = place else { return self.report.foreign += 1 };
        let arrival_ns = match received.realtime_ns {
            Some(at) => (at as i64 - offset_ns) as u64,
            None => {
                self.report.unstamped += 1;
                now_ns()
            }
        };
        let record = &mut self.report.streams[place].1;
        record.sequence_tagged += u64::from(frame.sequence_tag().is_some());
        record.wrong_vlan +=
            u64::from(!frame.vlans().eq(self.expected[place].vlans.iter().copied()));
        if !record.take(&stamp, arrival_ns) {
            self.report.corrupted += 1;
        }
    }

    fn publish(&mut self) {
        for (progress, (_, record)) in self.shared.streams.iter().zip(&mut self.report.streams) {
            record.expect_from(progress.expect_from.load(Ordering::Acquire));
            progress.delivered.store(record.delivered(), Ordering::Release);
            progress.complete_below.store(record.complete_below(), Ordering::Release);
        }
    }
}
