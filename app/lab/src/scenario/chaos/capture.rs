//! Captures at every port of every node, taken outside of the nodes.
//!
//! Sockets of a node do not see frames that a program in the kernel redirects. So captures are taken at
//! the far ends: on a wire's own interfaces and on those of hosts. A frame sent there enters a node; a
//! frame received there has left one.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::{now_ns, realtime_offset_ns};

use super::decode::{DecodeResult, decode};
use crate::Result;
use crate::traffic::{Receiver, socket};
use crate::worker::Worker;

/// Stored octets per frame: all octets of the frames of this scenario.
const SNAP: usize = 2048;
const LOOK_MS: u16 = 20;

/// A port of a node, by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Point {
    pub(super) node: usize,
    pub(super) port: usize,
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapturedFrame {
    pub(super) point: Point,
    /// It enters the node; otherwise it has left it.
    pub(super) entering: bool,
    /// Time stamp of the kernel (CLOCK_REALTIME, ns).
    pub(super) at: u64,
    pub(super) what: DecodeResult,
    /// Length of the frame, and offset of its stored octets in [`CapturedFrames::octets`].
    pub(super) len: u32,
    pub(super) kept: usize,
}

/// All captured frames.
#[derive(Debug, Default)]
pub(super) struct CapturedFrames {
    /// By port, in the order in which the frames passed.
    pub(super) frames: Vec<CapturedFrame>,
    pub(super) octets: Vec<u8>,
    /// Frames that a socket dropped, truncated or delivered without a time: the captures are
    /// incomplete.
    pub(super) missed: u64,
}

impl CapturedFrames {
    /// The stored octets of a frame.
    pub(super) fn kept(&self, frame: &CapturedFrame) -> &[u8] {
        &self.octets[frame.kept..frame.kept + SNAP.min(frame.len as usize)]
    }
}

/// Running captures.
pub(super) struct PortCaptures {
    shared: Arc<CaptureState>,
    worker: Worker<CapturedFrames>,
}

#[derive(Default)]
struct CaptureState {
    added: Mutex<Vec<(Point, Receiver)>>,
    /// Time of the last captured frame, and of the last poll.
    found_ns: AtomicU64,
    looked_ns: AtomicU64,
    frames: AtomicU64,
}

impl PortCaptures {
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(CaptureState::default());
        let inside = Arc::clone(&shared);
        let worker = Worker::start("lab-capture", move |stop| capture(&inside, stop))?;
        Ok(Self { shared, worker })
    }

    /// Captures at a port of a node, on the interface at its far end.
    pub(super) fn add(&self, point: Point, namespace: &Namespace, interface: &str) -> Result<()> {
        let receiver = Receiver::new(socket::monitor(namespace, interface)?);
        self.shared.added.lock().unwrap_or_else(PoisonError::into_inner).push((point, receiver));
        Ok(())
    }

    /// Time without new frames although the sockets were polled, in ns. It does not increase while the
    /// captures have no CPU time.
    pub(super) fn quiet_ns(&self) -> u64 {
        let looked = self.shared.looked_ns.load(Ordering::Acquire);
        looked.saturating_sub(self.shared.found_ns.load(Ordering::Acquire))
    }

    /// Number of frames captured so far.
    pub(super) fn frames(&self) -> u64 {
        self.shared.frames.load(Ordering::Acquire)
    }

    /// Stops, after reading the sockets empty.
    pub(super) fn stop(self) -> CapturedFrames {
        self.worker.stop()
    }
}

fn capture(shared: &CaptureState, stop: &AtomicBool) -> CapturedFrames {
    let mut captured = CapturedFrames::default();
    let mut receivers: Vec<(Point, Receiver)> = Vec::new();
    let (offset, mut last) = (realtime_offset_ns(), false);
    while !last {
        last = stop.load(Ordering::Acquire);
        receivers.append(&mut shared.added.lock().unwrap_or_else(PoisonError::into_inner));
        if !last {
            let mut fds: Vec<_> = receivers
                .iter()
                .map(|(_, receiver)| PollFd::new(receiver.socket().as_fd(), PollFlags::POLLIN))
                .collect();
            // An interruption of the wait by a signal is harmless.
            let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
        }
        let (before, looked) = (captured.frames.len(), now_ns());
        for (point, receiver) in &mut receivers {
            captured.missed += drain(*point, receiver, &mut captured.frames, &mut captured.octets);
        }
        let count = captured.frames.len() - before;
        if count > 0 {
            shared.found_ns.store(looked, Ordering::Release);
            shared.frames.fetch_add(count as u64, Ordering::AcqRel);
        }
        shared.looked_ns.store(looked, Ordering::Release);
    }
    // Times are compared with one another: a clock step makes them unusable.
    const STEP_NS: u64 = 1_000_000;
    captured.missed += u64::from(offset.abs_diff(realtime_offset_ns()) > STEP_NS);
    captured
}

/// Reads a socket empty; returns the number of frames that it dropped.
fn drain(
    point: Point,
    receiver: &mut Receiver,
    frames: &mut Vec<CapturedFrame>,
    octets: &mut Vec<u8>,
) -> u64 {
    let mut missed = 0;
    loop {
        let taken = receiver.receive(|frame| {
            let at = frame.realtime_ns.unwrap_or_else(|| {
                missed += 1;
                0
            });
            missed += u64::from(frame.truncated);
            let kept = octets.len();
            octets.extend(&frame.octets[..SNAP.min(frame.octets.len())]);
            frames.push(CapturedFrame {
                point,
                entering: frame.outgoing,
                at,
                what: decode(frame.octets),
                len: frame.octets.len() as u32,
                kept,
            });
        });
        match taken {
            Ok(0) => break,
            Ok(_) => {}
            // The interface is down or removed; earlier frames are still read.
            Err(error) if is_away(&error) => {}
            Err(_) => {
                missed += 1;
                break;
            }
        }
    }
    missed + receiver.socket().take_drops().unwrap_or(0)
}

fn is_away(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENETDOWN)
}
