//! All streams: one thread sends them in turns, another receives at the hosts of the listeners.
//!
//! Frame n of all is frame n / streams of stream n % streams. So a lost frame has a time.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_netdev::{PacketSocket, ReceiveBuffers};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_realtime::interrupt::{self, wait_until};
use onbeat_report::format::count;
use onbeat_wire::Frame;

use super::network::{Ladder, host, name};
use crate::traffic::{FrameSpec, Stamp, StampError, StreamRecord, socket};
use crate::worker::Worker;
use crate::{Error, Result, World};

/// Frames that are due at once after a delay of the sender; queues of interfaces have room for 256.
const BURST: u64 = 16;
/// Pause before a frame that an interface refused is sent again.
const RETRY_NS: u64 = 1_000_000;
/// Octets of a frame that a note shows.
const SHOWN: usize = 48;
const READ_INTERVAL_NS: u64 = 5_000_000;
/// Time without frames after which none is in flight.
const QUIET_NS: u64 = 700_000_000;
const BOUND: Duration = Duration::from_secs(30);

/// Running streams.
pub(super) struct Traffic {
    progress: Arc<Progress>,
    talker: Worker<TalkerReport>,
    receiver: Worker<ReceiverReport>,
}

#[derive(Debug, Default)]
struct Progress {
    sent: AtomicU64,
    received: AtomicU64,
    received_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct TalkerReport {
    /// Frames that interfaces accepted.
    sent: u64,
    /// Times at which an interface refused a frame.
    retries: u64,
}

struct ReceiverReport {
    records: Vec<StreamRecord>,
    /// Numbers of frames that arrived again, of those of all streams.
    doubled: Vec<u64>,
    /// Frames that were changed, or arrived at another listener.
    wrong: u64,
    /// Frames of no talker.
    foreign: u64,
    /// The first octets of the first of these.
    first: Option<String>,
    /// Frames that a socket dropped.
    missed: u64,
}

/// What the hosts of the listeners received.
#[derive(Debug, Default)]
pub(super) struct DeliveryCounts {
    pub(super) sent: u64,
    pub(super) delivered: u64,
    pub(super) wrong: u64,
    pub(super) foreign: u64,
    pub(super) retries: u64,
    /// Fewest frames that a stream has sent.
    pub(super) fewest: u64,
    /// Numbers of lost frames, of those of all streams.
    pub(super) lost: Vec<u64>,
    /// Numbers of frames that arrived again.
    pub(super) doubled: Vec<u64>,
    /// The first octets of the first frame that was changed, or of another sender.
    pub(super) first: Option<String>,
}

struct Talker {
    socket: usize,
    frame: Vec<u8>,
}

impl Traffic {
    /// Sends `rate` frames per second of all streams.
    pub(super) fn start(world: &World, ladder: &Ladder, rate: u64) -> Result<Self> {
        let hosts = 0..ladder.nodes();
        let open = |open: fn(&_, &str) -> Result<PacketSocket>| -> Result<Vec<PacketSocket>> {
            hosts.clone().map(|node| open(world.namespace(&host(node))?, "eth0")).collect()
        };
        let (senders, receivers) = (open(socket::sender)?, open(socket::receiver)?);
        let mut talkers = Vec::new();
        let mut payload = 0;
        for (number, stream) in ladder.streams.iter().enumerate() {
            let spec = FrameSpec {
                destination: Ladder::address(number),
                source: world.handle(&host(stream.talker))?.link("eth0")?.mac.unwrap_or_default(),
                vlans: Vec::new(),
                size: Ladder::frame_octets(),
            };
            let (frame, offset) = spec.build()?;
            payload = offset;
            talkers.push(Talker { socket: stream.talker as usize, frame });
        }
        let listeners = ladder.streams.iter().map(|stream| stream.listener as usize).collect();
        let progress = Arc::new(Progress::default());
        let inside = Arc::clone(&progress);
        let receiver = Worker::start("lab-listeners", move |stop| {
            receive(&receivers, listeners, &inside, stop)
        })?;
        let inside = Arc::clone(&progress);
        let talker = Worker::start("lab-talkers", move |stop| {
            talk(&senders, talkers, payload, rate, &inside, stop)
        })?;
        Ok(Self { progress, talker, receiver })
    }

    /// Frames of all streams that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }

    pub(super) fn received(&self) -> u64 {
        self.progress.received.load(Ordering::Acquire)
    }

    /// Stops to send, and waits until no frame is in flight.
    pub(super) fn finish(self) -> Result<DeliveryCounts> {
        let Self { progress, talker, receiver } = self;
        let streams = talker.stop();
        let since = now_ns();
        wait_until(BOUND, || {
            let last_ns = progress.received_ns.load(Ordering::Acquire).max(since);
            now_ns().saturating_sub(last_ns) > QUIET_NS
        })?;
        let report = receiver.stop();
        if report.missed > 0 {
            return Err(Error::Invalid(format!(
                "sockets of the listeners dropped {}; use a lower --rate",
                count(report.missed, "frame")
            )));
        }
        interrupt::check()?;
        Ok(report.compare(&streams))
    }
}

impl ReceiverReport {
    fn compare(&self, talker: &TalkerReport) -> DeliveryCounts {
        let streams = self.records.len() as u64;
        let mut received = DeliveryCounts {
            sent: talker.sent,
            retries: talker.retries,
            wrong: self.wrong,
            foreign: self.foreign,
            doubled: self.doubled.clone(),
            first: self.first.clone(),
            fewest: talker.sent / streams.max(1),
            ..DeliveryCounts::default()
        };
        received.delivered = self.records.iter().map(StreamRecord::delivered).sum();
        let is_lost = |number: &u64| {
            self.records[(number % streams) as usize].arrival_ns(number / streams).is_none()
        };
        received.lost = (0..talker.sent).filter(is_lost).collect();
        received
    }
}

fn talk(
    sockets: &[PacketSocket],
    mut talkers: Vec<Talker>,
    payload: usize,
    rate: u64,
    progress: &Progress,
    stop: &AtomicBool,
) -> TalkerReport {
    let period_ns = SECOND / rate;
    let streams = talkers.len() as u64;
    let (mut report, mut due_ns) = (TalkerReport::default(), now_ns());
    while !stop.load(Ordering::Acquire) {
        due_ns = due_ns.max(now_ns().saturating_sub(BURST * period_ns));
        // A sender that cannot keep up with the rate stops, too.
        for _ in 0..BURST {
            if due_ns > now_ns() {
                break;
            }
            let talker = &mut talkers[(report.sent % streams) as usize];
            let (stream, sequence) = ((report.sent % streams) as u32, report.sent / streams);
            Stamp { stream, sequence, intended_ns: due_ns, actual_ns: now_ns() }
                .emit(&mut talker.frame[payload..]);
            due_ns += period_ns;
            if sockets[talker.socket].send(&talker.frame).is_err() {
                report.retries += 1;
                due_ns = now_ns() + RETRY_NS;
                break;
            }
            report.sent += 1;
            progress.sent.store(report.sent, Ordering::Release);
        }
        sleep_until(due_ns);
    }
    report
}

fn receive(
    sockets: &[PacketSocket],
    listeners: Vec<usize>,
    progress: &Progress,
    stop: &AtomicBool,
) -> ReceiverReport {
    let mut report = ReceiverReport {
        records: vec![StreamRecord::default(); listeners.len()],
        doubled: Vec::new(),
        wrong: 0,
        foreign: 0,
        first: None,
        missed: 0,
    };
    let mut buffers = ReceiveBuffers::new(ReceiveBuffers::MOST);
    let mut is_last = false;
    while !is_last {
        // Read before the sockets are emptied: frames before the stop are included.
        is_last = stop.load(Ordering::Acquire);
        // Sockets hold seconds of traffic.
        sleep_until(now_ns() + READ_INTERVAL_NS);
        let fds = sockets.iter().map(AsFd::as_fd);
        let mut polled: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // An interruption by a signal is harmless.
        let _ = poll(&mut polled, PollTimeout::ZERO);
        let is_ready = |polled: &PollFd<'_>| polled.any().unwrap_or(true);
        for host in (0..sockets.len()).filter(|host| is_ready(&polled[*host])) {
            loop {
                match take(&sockets[host], &mut buffers, host, &listeners, &mut report) {
                    Ok(0) => break,
                    Ok(frames) => {
                        progress.received.fetch_add(frames as u64, Ordering::AcqRel);
                        progress.received_ns.store(now_ns(), Ordering::Release);
                    }
                    Err(_) => {
                        report.missed += 1;
                        break;
                    }
                }
            }
        }
    }
    report.missed += sockets.iter().map(|socket| socket.take_drops().unwrap_or(1)).sum::<u64>();
    report
}

fn take(
    socket: &PacketSocket,
    buffers: &mut ReceiveBuffers,
    host: usize,
    listeners: &[usize],
    report: &mut ReceiverReport,
) -> io::Result<usize> {
    let streams = listeners.len() as u64;
    socket.receive(buffers, |received| {
        let parsed = Frame::parse(received.octets).map_err(|_| StampError::Foreign);
        let parsed =
            parsed.and_then(|frame| Stamp::parse(frame.payload()).map(|stamp| (frame, stamp)));
        let is_right = parsed.as_ref().is_ok_and(|(frame, stamp)| {
            let stream = stamp.stream as usize;
            listeners.get(stream) == Some(&host)
                && frame.destination() == Ladder::address(stream)
                && frame.vlans().next().is_none()
                && frame.sequence_tag().is_none()
        });
        match parsed {
            Ok((_, stamp)) if is_right => {
                let record = &mut report.records[stamp.stream as usize];
                if record.arrival_ns(stamp.sequence).is_some() {
                    report.doubled.push(stamp.sequence * streams + u64::from(stamp.stream));
                }
                // The time of reading: delays are not judged here.
                report.wrong += u64::from(!record.take(&stamp, now_ns()));
            }
            other => {
                let is_foreign = matches!(other, Err(StampError::Foreign));
                *if is_foreign { &mut report.foreign } else { &mut report.wrong } += 1;
                let octets = &received.octets[..received.octets.len().min(SHOWN)];
                report
                    .first
                    .get_or_insert_with(|| format!("at {}: {octets:02x?}", name(host as u32)));
            }
        }
    })
}
