//! Traces packets through this host, stage by stage.

mod doubled;
mod nic_stamps;
mod requirement;
mod stages;

use std::num::NonZeroU64;
use std::time::Duration;

use onbeat_bpf::Reasons;
use onbeat_delay::matching::Verdict;
use onbeat_delay::stats::StampError;
use onbeat_hooks::{Counts, Detail, Device, Fate, Filter, Hop, Packet, Tracer};
use onbeat_realtime::{clock, interrupt};
use onbeat_report::format::{count, parse_duration};
use onbeat_report::{Check, Input, Outcome, Progress, Run};

use self::doubled::DoubledHooks;
use self::nic_stamps::NicTimestamps;
use self::requirement::HooksRequest;
use self::stages::{FateCounts, FateGroup, HookCost};
use crate::clock::ClockCondition;
use crate::error::{Error, Result};
use crate::options::{DelayOptions, MIN_MATCHED_OR_COUNT, MatchRequirement};
use crate::outcome::{self, Origin};
use crate::requirement::required;
use crate::sink::DelaySink;

/// Packets to trace through this host.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("min_matched", |number| number.help(format!(
    "Fail if fewer packets, or less than half of the traced packets, are sent or read [default: \
     {MIN_MATCHED_OR_COUNT}]"
))))]
pub struct HooksOptions {
    /// Interface that receives the packets
    #[arg(value_name = "IFACE")]
    arrivals: String,
    /// Interface that sends the packets [default: any]
    #[arg(long = "out", value_name = "IFACE")]
    departures: Option<String>,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Stop after NUMBER packets that were sent or read
    #[arg(short, long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Measure only the total delay of each packet, until the sending driver starts: no stages, at about half of
    /// the cost
    #[arg(long)]
    whole: bool,
    /// Start the delay of a packet at the NIC's receive time stamp; enables these time stamps for every packet
    #[arg(long)]
    device_stamps: bool,
    #[command(flatten)]
    required: MatchRequirement,
    #[command(flatten)]
    report: DelayOptions,
    /// Trace only packets that match all terms, joined by `and`. Terms: ip, ip6, arp, udp, tcp, icmp, icmp6, ether
    /// proto N, ip proto N, [src|dst] host ADDRESS, [src|dst] port N
    #[arg(last = true, value_name = "FILTER")]
    filter: Vec<String>,
}

/// Interval of reading completed packets from the kernel.
const LOOK_NS: u64 = 10_000_000;
/// Packets are reported on completion; they are sorted by arrival if they complete within this time.
const ORDER_NS: u64 = 100_000_000;

/// The observations of a hop.
struct Collector {
    left: FateGroup,
    read: FateGroup,
    fates: FateCounts,
    sink: DelaySink,
    device: Option<NicTimestamps>,
    doubled: DoubledHooks,
}

impl HooksOptions {
    /// Traces packets until the time has passed, the number is reached, or an interrupt.
    ///
    /// # Errors
    /// An error of the options, the BPF programs, or a file of samples.
    pub fn run(&self, progress: &mut Progress) -> Result<Outcome> {
        let settings = self.report.check()?;
        let filter =
            Filter::parse(self.filter.iter().map(String::as_str)).map_err(Error::option)?;
        let arrivals = Device::find(&self.arrivals)?;
        let departures = self.departures.as_deref().map(Device::find).transpose()?;
        let detail = if self.whole { Detail::Whole } else { Detail::Stages };
        let device_stamps = self.device_stamps;
        let hop = Hop { arrivals, departures, filter, detail, device_stamps };
        let device = if device_stamps { Some(NicTimestamps::begin(&self.arrivals)?) } else { None };

        let run = Run::begin("delay-hooks");
        let interfaces = [Some(&self.arrivals), self.departures.as_ref()];
        interfaces.into_iter().flatten().for_each(|name| run.inputs().add(Input::interface(name)));
        let mut seen = Collector {
            left: FateGroup::new("packets that left"),
            read: FateGroup::new("packets that a process read"),
            fates: FateCounts::default(),
            sink: DelaySink::new(&self.report.files)?,
            device,
            doubled: DoubledHooks::load(&hop, settings.confidence)?,
        };
        let clock = ClockCondition::begin();
        let (counts, cost) = self.follow(&hop, &mut seen, progress)?;
        seen.sink.finish()?;

        let mut outcome = run.finish();
        clock.finish(&mut outcome);
        outcome.figure(
            "packets",
            seen.fates.table(&counts, seen.doubled.excluded(), &Reasons::of_kernel()),
        );
        let stamps = (Origin::Arrival, StampError::default());
        let inflation = seen.doubled.inflation();
        outcome::fill_corrected(&mut outcome, &seen.sink, stamps, &settings, Some(inflation));
        seen.doubled.fill(&mut outcome);
        for group in [&seen.left, &seen.read] {
            group.fill(&mut outcome);
        }
        if let Some(device) = &seen.device {
            device.fill(&mut outcome);
        }
        outcome.check(Check::eq("packets not reported", counts.unreported, 0_u64, ""));
        let request = HooksRequest {
            arrivals: &self.arrivals,
            departures: self.departures.as_deref(),
            is_filtered: !self.filter.is_empty(),
            min_matched: required(self.required.min_matched, self.count.map(NonZeroU64::get)),
        };
        requirement::check_with_causes(&mut outcome, &seen.fates, &counts, &request);
        cost.fill(&mut outcome);
        for note in self.notes(&hop, &counts, &seen) {
            outcome.note(note);
        }
        Ok(outcome)
    }

    fn follow(
        &self,
        hop: &Hop,
        seen: &mut Collector,
        progress: &mut Progress,
    ) -> Result<(Counts, HookCost)> {
        let _guard = interrupt::Guard::install();
        let mut tracer = Tracer::start(hop)?;
        let mut cost = HookCost::new();
        let begun_ns = clock::now_ns();
        let end_ns = self.length.map(|length| begun_ns + length.as_nanos() as u64);
        let mut pending: Vec<Packet> = Vec::new();
        loop {
            let now_ns = clock::now_ns();
            cost.watch(&tracer, now_ns)?;
            seen.doubled.watch(clock::now_ns)?;
            let until = end_ns.map_or(now_ns + LOOK_NS, |end_ns| end_ns.min(now_ns + LOOK_NS));
            let interrupted = interrupt::pause_until(until, || ()).is_err();
            seen.take(tracer.take()?, &mut pending)?;
            let now_ns = clock::now_ns();
            seen.until(now_ns.saturating_sub(ORDER_NS), &mut pending);
            let found = seen.fates.found() + pending.len() as u64;
            progress.update(|| format!("{} done", count(found, "packet")));
            let enough = self.count.is_some_and(|count| seen.fates.ended_well() >= count.get());
            if interrupted || enough || end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
                break;
            }
        }
        cost.end(&tracer)?;
        seen.take(tracer.stop()?, &mut pending)?;
        seen.until(u64::MAX, &mut pending);
        seen.doubled.finish();
        progress.clear();
        Ok((tracer.counts()?, cost))
    }

    fn notes(&self, hop: &Hop, counts: &Counts, seen: &Collector) -> Vec<String> {
        let mut notes = Vec::new();
        if hop.arrivals.has_xdp {
            notes.push(format!(
                "{} has an XDP program: packets that it forwards do not reach the hooks",
                self.arrivals
            ));
        }
        if counts.table_full > 0 {
            notes.push(format!(
                "{} not traced: too many were in transit; use a filter",
                count(counts.table_full, "packet")
            ));
        }
        if counts.unreported > 0 {
            notes.push(format!(
                "{} not recorded: the ring of the hooks was full; use a filter",
                count(counts.unreported, "packet")
            ));
        }
        if seen.left.is_empty() && !seen.read.is_empty() {
            notes.push(
                "no packet was sent; the stages are those of the packets that were read".into(),
            );
        }
        notes.push(format!(
            "a packet's time starts {}when the driver of {} passes it to the stack, or when the stack starts to process \
             it{}",
            if self.device_stamps { "at the stamp of the NIC; else " } else { "" },
            self.arrivals,
            if self.whole { ", and ends when a driver starts to send it" } else { "" }
        ));
        notes
    }
}

impl Collector {
    /// Processes completed packets.
    fn take(&mut self, mut packets: Vec<Packet>, pending: &mut Vec<Packet>) -> Result<()> {
        if let Some(device) = &mut self.device {
            device.begin_in(&mut packets)?;
        }
        pending.extend(packets);
        Ok(())
    }

    /// Processes the packets that arrived before a time, in order.
    fn until(&mut self, moment_ns: u64, pending: &mut Vec<Packet>) {
        pending.sort_unstable_by_key(|packet| packet.begin_ns);
        let old = pending.partition_point(|packet| packet.begin_ns < moment_ns);
        pending.drain(..old).for_each(|packet| self.packet(&packet));
    }

    fn packet(&mut self, packet: &Packet) {
        self.fates.count(packet.fate);
        match packet.fate {
            Fate::Forwarded | Fate::Answered | Fate::AnsweredByKernel => {
                self.left.record(packet);
                if !self.doubled.is_doubled(packet) {
                    let delay_ns = Some(i64::from(packet.total_ns));
                    self.sink.record(packet.begin_ns as i64, delay_ns, Verdict::Certain);
                }
            }
            Fate::Delivered => self.read.record(packet),
            Fate::Dropped(_) => self.sink.lose(packet.begin_ns as i64),
        }
    }
}
