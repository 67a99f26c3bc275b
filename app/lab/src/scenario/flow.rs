//! A stream between two hosts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onbeat_realtime::interrupt::wait_until;
use onbeat_wire::{MacAddress, VlanTag};

use crate::traffic::{
    Delivery, ExpectedStream, FrameSpec, Rate, Sink, Source, SourceConfig, SourceReport, settle,
};
use crate::{Result, World};

/// Priority of the streams' frames.
pub(super) const PCP: u8 = 6;

/// A stream between two hosts, each with one interface "eth0".
#[derive(Debug, Clone)]
pub(super) struct FlowSpec {
    pub(super) name: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// Group address that identifies the stream, and its VLAN.
    pub(super) destination: MacAddress,
    pub(super) vlan: u16,
    pub(super) rate: u64,
    pub(super) size: usize,
}

/// A running stream.
pub(super) struct Flow {
    pub(super) name: &'static str,
    stream: u32,
    source: Source,
    sink: Sink,
}

/// The result of a stream.
pub(super) struct FlowResult {
    pub(super) name: &'static str,
    pub(super) delivery: Delivery,
    /// Frames that arrived with a difference: octets, VLAN tag, or a remaining sequence tag.
    pub(super) changed: u64,
}

impl Flow {
    pub(super) fn start(world: &World, spec: &FlowSpec) -> Result<Self> {
        let stream = next_stream();
        let vlans = vec![VlanTag { pcp: PCP, ..VlanTag::new(spec.vlan) }];
        let expect = ExpectedStream { stream, vlans: vlans.clone() };
        let sink = Sink::start(world.namespace(spec.to)?, "eth0", &[expect])?;
        let talker = world.handle(spec.from)?;
        let config = SourceConfig {
            stream,
            frame: FrameSpec {
                destination: spec.destination,
                source: talker.link("eth0")?.mac.unwrap_or_default(),
                vlans,
                size: spec.size,
            },
            rate: Rate::PerSecond(spec.rate),
            limit: None,
            spin: Duration::ZERO,
        };
        let source = Source::start(talker.namespace(), "eth0", config)?;
        Ok(Self { name: spec.name, stream, source, sink })
    }

    /// The transmission of frames below this number has started; all others are sent after this call.
    pub(super) fn begun(&self) -> u64 {
        self.source.begun()
    }

    pub(super) fn sent(&self) -> u64 {
        self.source.sent()
    }

    pub(super) fn delivered(&self) -> u64 {
        self.sink.delivered(self.stream)
    }

    /// All frames below this number have arrived, except those given up.
    pub(super) fn complete_below(&self) -> u64 {
        self.sink.complete_below(self.stream)
    }

    /// Gives up frames below this number.
    pub(super) fn expect_from(&self, sequence: u64) {
        self.sink.expect_from(self.stream, sequence);
    }

    /// Stops the source.
    fn stop(self) -> Result<StoppedFlow> {
        let sent = self.source.stop()?;
        Ok(StoppedFlow { name: self.name, sent, sink: self.sink })
    }
}

/// Returns a stream number, unique in the process: late frames of an earlier stream are foreign.
pub(super) fn next_stream() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A stream whose source has stopped; frames may be in flight.
struct StoppedFlow {
    name: &'static str,
    sent: SourceReport,
    sink: Sink,
}

impl StoppedFlow {
    fn finish(self) -> Result<FlowResult> {
        let settled = settle(self.sent, self.sink)?;
        Ok(FlowResult { name: self.name, delivery: settled.delivery, changed: settled.changed })
    }
}

/// Stops all flows and evaluates them.
pub(super) fn finish_all(flows: Vec<Flow>) -> Result<Vec<FlowResult>> {
    // All sources first: no source runs while another flow settles.
    let stopped: Vec<StoppedFlow> = flows.into_iter().map(Flow::stop).collect::<Result<_>>()?;
    stopped.into_iter().map(StoppedFlow::finish).collect()
}

/// Waits until all frames sent by now have arrived; returns false if not. Missing frames are lost and
/// given up.
pub(super) fn caught_up(flows: &[Flow]) -> Result<bool> {
    const BOUND: Duration = Duration::from_secs(2);
    let begun: Vec<u64> = flows.iter().map(Flow::begun).collect();
    let caught_up = wait_until(BOUND, || {
        flows.iter().zip(&begun).all(|(flow, begun)| flow.complete_below() >= *begun)
    })?;
    flows.iter().zip(&begun).for_each(|(flow, begun)| flow.expect_from(*begun));
    Ok(caught_up)
}
