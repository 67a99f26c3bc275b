//! A receiver at high priority, while a process at low priority is flooded by another interface.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{pause_until, wait_until};
use onbeat_report::Recorder;

use super::actors::Actor;
use super::board::{Board, LATENCIES};
use super::client::{Pattern, Sender};
use super::rig::{Rig, Side, StormLink};
use crate::{Error, Result};

/// The receiver's priority.
pub(super) const RECEIVER_PRIORITY: u8 = 80;
/// Stamps per second.
pub(super) const STAMPS: u64 = 1000;
/// Time within which a guard has detected waiting processes, on any machine.
const BOUND: Duration = Duration::from_secs(20);

/// Result for the receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StampResult {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) flood_sent: u64,
    pub(super) flood_received: u64,
    /// Real-time priority of the threads that receive the stamps, and of those that receive the flood;
    /// 0 without a guard.
    pub(super) priorities: [u64; 2],
}

/// Records the latencies of stamps in a phase of `recorder`, during a flood of this many packets/s.
pub(super) fn measure(
    rig: &Rig,
    side: Side,
    cpu: u16,
    for_ns: u64,
    flood: Option<u64>,
    recorder: &mut Recorder,
) -> Result<StampResult> {
    let (board, flood_board) = (Board::new()?, Board::new()?);
    let (receives, sends) = rig.sockets(side, StormLink::Stamps)?;
    let (flood_receives, flood_sends) = rig.sockets(side, StormLink::Storm)?;
    let receiver = Actor::receiver(&board, receives)?;
    let server = Actor::server(&flood_board, flood_receives)?;
    server.resume(cpu, 0)?;
    receiver.resume(cpu, RECEIVER_PRIORITY)?;
    let priority = |way| rig.priority(side, way);
    if side == Side::Guarded {
        let wanted = u64::from(RECEIVER_PRIORITY);
        let follows = || priority(StormLink::Stamps).is_ok_and(|now| now == wanted);
        if !wait_until(BOUND, follows)? {
            let what = "detection of the receiver by the guard".into();
            return Err(Error::Timeout { what, seconds: BOUND.as_secs_f64() });
        }
    }
    let start = now_ns();
    let constant = |rate| Pattern::Constant { rate };
    let flood = flood
        .map(|rate| Sender::start(flood_sends, constant(rate), start..u64::MAX))
        .transpose()?;
    // Meanwhile the neighbors resolve their addresses: the first stamp is not measured.
    let most = (LATENCIES as u64 * SECOND / STAMPS).min(for_ns);
    let stamps = Sender::stamps(sends, STAMPS)?;
    pause_until(start + most, || ())?;
    let priorities = [priority(StormLink::Stamps)?, priority(StormLink::Storm)?];
    let sent = stamps.end();
    let flood_sent = flood.map(Sender::end).unwrap_or(0);
    // Stamps in flight arrive or are lost.
    let all = || board.received.load(Relaxed) >= sent;
    wait_until(Duration::from_millis(200), all)?;
    let received = board.received.load(Relaxed);

    let flooded = flood_sent > 0;
    let name = format!("{}{}", side.name(), if flooded { ", flooded" } else { "" });
    let phase = recorder.phase(&name);
    for latency in board.latencies_ns.iter().take(received as usize) {
        recorder.record(phase, latency.load(Relaxed));
    }
    recorder.lose(phase, sent.saturating_sub(received));
    let flood_received = flood_board.received.load(Relaxed);
    Ok(StampResult { sent, received, flood_sent, flood_received, priorities })
}
