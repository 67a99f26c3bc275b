//! Reception of streams from an interface.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use onbeat_netdev::{Namespace, ReceivedFrame};
use onbeat_realtime::clock::{now_ns, realtime_offset_ns};
use onbeat_report::format::count;
use onbeat_wire::{Frame, VlanTag};

use super::receiver::Receiver;
use super::record::StreamRecord;
use super::socket;
use super::stamp::{Stamp, StampError};
use crate::worker::Worker;
use crate::{Error, Result};

/// A stream that a sink receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedStream {
    /// Its number.
    pub stream: u32,
    /// The VLAN tags that its frames must have here.
    pub vlans: Vec<VlanTag>,
}

/// A running reception of streams.
#[derive(Debug)]
pub struct Sink {
    streams: Arc<Vec<StreamProgress>>,
    worker: Worker<io::Result<SinkReport>>,
}

#[derive(Debug)]
struct StreamProgress {
    stream: u32,
    delivered: AtomicU64,
    complete_below: AtomicU64,
    expect_from: AtomicU64,
}

/// Result of a reception.
#[derive(Debug, Clone, Default)]
pub struct SinkReport {
    /// By stream, in the order of the expected streams.
    pub streams: Vec<(u32, StreamRecord)>,
    /// Frames that the socket dropped: missing frames may be among them.
    pub socket_drops: u64,
    /// Frames of the lab that were corrupted or truncated in transit.
    pub corrupted: u64,
    /// Foreign frames, and frames of unexpected streams.
    pub foreign: u64,
    /// Frames without a time stamp of the kernel; the time of reading is used instead.
    pub unstamped: u64,
}

impl SinkReport {
    /// The record of a stream.
    #[must_use]
    pub fn stream(&self, stream: u32) -> Option<&StreamRecord> {
        self.streams.iter().find(|(id, _)| *id == stream).map(|(_, record)| record)
    }

    /// Removes the record of a stream.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the socket dropped frames, or the stream was not expected.
    pub fn take(&mut self, stream: u32) -> Result<StreamRecord> {
        if self.socket_drops > 0 {
            return Err(Error::Invalid(format!(
                "the sink's socket dropped {}; use a lower rate, or a machine with more CPU \
                 time to spare",
                count(self.socket_drops, "frame")
            )));
        }
        let place = self.streams.iter().position(|(id, _)| *id == stream);
        let place = place
            .ok_or_else(|| Error::Invalid(format!("the sink does not receive stream {stream}")))?;
        Ok(self.streams.swap_remove(place).1)
    }
}

impl Sink {
    /// Starts to receive streams from an interface.
    ///
    /// # Errors
    /// The interface does not exist, or no socket can be opened.
    pub fn start(
        namespace: &Namespace,
        interface: &str,
        expected: &[ExpectedStream],
    ) -> Result<Self> {
        let socket = socket::receiver(namespace, interface)?;
        let progress = |expect: &ExpectedStream| StreamProgress {
            stream: expect.stream,
            delivered: AtomicU64::new(0),
            complete_below: AtomicU64::new(0),
            expect_from: AtomicU64::new(0),
        };
        let streams: Arc<Vec<_>> = Arc::new(expected.iter().map(progress).collect());
        let thread = SinkThread {
            streams: Arc::clone(&streams),
            report: SinkReport {
                streams: expected
                    .iter()
                    .map(|expect| (expect.stream, StreamRecord::default()))
                    .collect(),
                ..SinkReport::default()
            },
            expected: expected.to_vec(),
        };
        let receiver = Receiver::new(socket);
        Ok(Self {
            streams,
            worker: Worker::start("lab-sink", move |stop| thread.run(receiver, stop))?,
        })
    }

    /// Frames of a stream that have arrived so far.
    #[must_use]
    pub fn delivered(&self, stream: u32) -> u64 {
        self.progress(stream).map_or(0, |progress| progress.delivered.load(Ordering::Acquire))
    }

    /// All frames of a stream below this number have arrived, except those given up.
    #[must_use]
    pub fn complete_below(&self, stream: u32) -> u64 {
        self.progress(stream).map_or(0, |progress| progress.complete_below.load(Ordering::Acquire))
    }

    /// Gives up frames of a stream below `sequence`: they are known to be lost.
    pub fn expect_from(&self, stream: u32, sequence: u64) {
        if let Some(progress) = self.progress(stream) {
            progress.expect_from.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    fn progress(&self, stream: u32) -> Option<&StreamProgress> {
        self.streams.iter().find(|progress| progress.stream == stream)
    }

    /// Stops, after reading the socket empty.
    ///
    /// # Errors
    /// The socket failed.
    pub fn stop(self) -> Result<SinkReport> {
        self.worker.stop().map_err(|error| Error::io("receive frames", error))
    }
}

struct SinkThread {
    streams: Arc<Vec<StreamProgress>>,
    expected: Vec<ExpectedStream>,
    report: SinkReport,
}

impl SinkThread {
    fn run(mut self, mut receiver: Receiver, stop: &AtomicBool) -> io::Result<SinkReport> {
        const LOOK_NS: u64 = 10_000_000;
        loop {
            // Read before the socket is emptied: frames before the stop are included.
            let last = stop.load(Ordering::Acquire);
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
        for (progress, (_, record)) in self.streams.iter().zip(&mut self.report.streams) {
            record.expect_from(progress.expect_from.load(Ordering::Acquire));
            progress.delivered.store(record.delivered(), Ordering::Release);
            progress.complete_below.store(record.complete_below(), Ordering::Release);
        }
    }
}
