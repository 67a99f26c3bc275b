//! Measurement in the hop's own kernel, by BPF programs on tracepoints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::Sample;
use onbeat_hooks::{Counts, Detail, Device, Fate, Filter, Hop as Followed, Packet, Stage, Tracer};
use onbeat_netdev::Handle;
use onbeat_wire::stamp::PORT;

use super::measurement::{DelaySample, Measurement, Method, MethodResult};
use super::rig::{Hop, Rig};
use crate::worker::Worker;
use crate::{Error, Result};

/// Interval at which completed packets are read.
const LOOK: Duration = Duration::from_millis(10);

/// Ingress interface of the hop.
const ARRIVALS: &str = "eth0";

/// The method of hooks.
pub(super) struct Hooks;

impl Method for Hooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measurement>>> {
        if matches!(rig.hop, Hop::Relay | Hop::Nothing) {
            // XDP forwards packets before an skb exists for the kernel's hooks.
            return Ok(None);
        }
        let namespace = rig.world.namespace("hop")?;
        let find = |name| Ok::<_, Error>(namespace.run(|| Device::find(name))??);
        let out = if rig.hop == Hop::Reflector { "eth0" } else { "eth1" };
        let filter = format!("udp and dst host {} and dst port {PORT}", rig.reflector().1);
        let filter =
            Filter::parse([filter.as_str()]).map_err(|error| Error::Invalid(error.to_string()))?;
        let followed = Followed {
            arrivals: find(ARRIVALS)?,
            departures: Some(find(out)?),
            filter,
            detail: Detail::Stages,
            device_stamps: false,
        };
        let device = namespace.run(Handle::open)??;
        Ok(Some(Box::new(HookTrace::start(followed, device)?)))
    }
}

/// A thread that follows packets: it owns the programs and their buffer.
struct HookTrace {
    /// The ingress device, and its packet counter at the start of the programs.
    device: Handle,
    received_before: u64,
    worker: Worker<Result<TracedPackets>>,
}

/// The followed packets, and the programs' counters.
type TracedPackets = (Vec<Packet>, Counts);

impl HookTrace {
    fn start(followed: Followed, device: Handle) -> Result<Self> {
        let (ready, is_ready) = mpsc::channel();
        let worker = Worker::start("lab-hooks", move |stop| follow(&followed, stop, ready))?;
        if is_ready.recv().is_err() {
            return Err(worker.stop().expect_err("a thread that exits before it is ready fails"));
        }
        let mut following = Self { device, received_before: 0, worker };
        following.received_before = following.received()?;
        Ok(following)
    }

    fn received(&self) -> Result<u64> {
        Ok(self.device.statistics(ARRIVALS)?.rx_packets)
    }
}

fn follow(followed: &Followed, stop: &AtomicBool, ready: Sender<()>) -> Result<TracedPackets> {
    let mut tracer = Tracer::start(followed)?;
    let _ = ready.send(());
    let mut packets = Vec::new();
    while !stop.load(Ordering::Acquire) {
        thread::sleep(LOOK);
        packets.extend(tracer.take()?);
    }
    packets.extend(tracer.stop()?);
    Ok((packets, tracer.counts()?))
}

impl Measurement for HookTrace {
    fn end(self: Box<Self>, _: &[Sample]) -> Result<MethodResult> {
        let received = self.received()? - self.received_before;
        let (mut packets, counts) = self.worker.stop()?;
        packets.sort_unstable_by_key(|packet| packet.begin_ns);
        let mut found = MethodResult::default();
        let mut driver_ns = 0_u64;
        let (mut read, mut answered) = (0_u64, 0_u64);
        for packet in packets {
            match packet.fate {
                Fate::Forwarded | Fate::Answered | Fate::AnsweredByKernel => {
                    let (time_ns, delay_ns) = (packet.begin_ns as i64, packet.total_ns.into());
                    found.delays.record(time_ns, delay_ns, Verdict::Certain);
                    found.each.push(DelaySample { time_ns, delay_ns, depth: packet.depth });
                    let driver = Stage::ALL.iter().position(|stage| *stage == Stage::Driver);
                    let driver = driver.and_then(|at| packet.stages_ns[at]);
                    driver_ns += u64::from(driver.unwrap_or(0));
                    answered += u64::from(packet.fate == Fate::Answered);
                }
                Fate::Dropped(_) => found.lose(),
                // The reply is a packet of its own.
                Fate::Delivered => read += 1,
            }
        }
        // It left at some time during the driver's work.
        found.too_long_ns = driver_ns as f64 / found.each.len().max(1) as f64;
        found.unseen = vec![
            ("no BPF program ran at its arrival", received.saturating_sub(counts.arrived)),
            ("no room in the table of packets", counts.table_full),
            ("merged or consumed by the kernel", counts.evicted),
            ("in flight at the end", counts.begun.saturating_sub(counts.ended)),
            ("read by a process, reply unknown", read.saturating_sub(answered)),
            ("no room in the buffer of reports", counts.unreported),
        ];
        Ok(found)
    }
}
