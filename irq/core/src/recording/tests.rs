//! Tests of recordings: complete, cut off and invalid.

use std::collections::BTreeSet;

use super::*;
use crate::charge::sample::Sample;
use crate::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Interrupt, InterruptAmount, Owner,
    Process, ReceiveQueue, Runner,
};
use crate::names::{Description, Names, ProcessInfo};
use crate::view::Table;
use crate::{Interval, OwnCost, Tick};

const ETH0: Device = Device { netns: 1, index: 2 };
const QUEUE: ReceiveQueue = ReceiveQueue { device: ETH0, napi: 8 };
const SERVER: Process = Process { pid: 10, start_ticks: 1 };
const VICTIM: Process = Process { pid: 20, start_ticks: 2 };
const MS: u64 = 1_000_000;

struct FixedNames;

impl Names for FixedNames {
    fn process(&mut self, process: Process) -> ProcessInfo {
        let command = format!("p{}", process.pid).as_str().into();
        let user = Some("www".into());
        let description = Description { command, user, ..Description::default() };
        ProcessInfo { description: Some(description), ended: false }
    }

    fn device(&mut self, device: Device) -> String {
        format!("eth{}", device.index)
    }

    fn reason(&mut self, reason: u32) -> String {
        format!("why {reason}")
    }

    fn line(&mut self, number: u32) -> String {
        format!("nic-{number}")
    }

    fn queue(&mut self, _: ReceiveQueue) -> String {
        "eth2/3".into()
    }
}

/// On CPU 1: 60 ms for the server, some of it before it read from its socket; 30 ms for packets that are
/// dropped; all of it on the victim's time.
fn interval(number: u64, process: bool) -> Interval {
    let to_server = if process {
        Cause::Process { process: SERVER, device: ETH0, by: Attribution::Reader }
    } else {
        Cause::Socket { cookie: 99, device: ETH0 }
    };
    let dropped = Cause::Unowned(Class::Dropped { device: ETH0, reason: 3 });
    let amount = |ns, packets| Amount { ns, packets };
    let accounts = Accounts {
        caused: [(to_server, amount(60 * MS, 60)), (dropped, amount(30 * MS, 30))].into(),
        suffered: [(Runner::Process(VICTIM), 90 * MS)].into(),
        queues: [(QUEUE, amount(80 * MS, 90))].into(),
        measured_ns: 90 * MS,
        interrupts: [(Interrupt::Line(5), InterruptAmount { ns: MS, count: 7 })].into(),
        interrupted: [(Runner::Process(VICTIM), MS)].into(),
        hardirq_ns: MS,
    };
    Interval {
        from_ns: number * 100 * MS,
        to_ns: (number + 1) * 100 * MS,
        cpus: vec![Accounts::default(), accounts],
        unrecorded_ns: 0,
        samples: Vec::new(),
    }
}

fn header() -> RecordingHeader {
    RecordingHeader {
        started: "2025-01-31T12:00:00Z".into(),
        cpus: 2,
        user_hz: 100,
        tick_ns: Some(10 * MS),
        nodes: vec![(0, 0), (1, 1)],
        times: vec![Times { process: VICTIM, user_ticks: 1000, system_ticks: 100 }],
        ..RecordingHeader::default()
    }
}

/// The victim is charged 10 ticks in an interval, 1 of them in the kernel; a packet takes 1 ms.
fn recording() -> Vec<u8> {
    let mut writer = Writer::start(Vec::new(), header()).unwrap();
    for number in 0..4 {
        let tick = |_| Tick { cpu: 1, running: Some(VICTIM), packets: 9, bottom_half_ns: 9 * MS };
        let besides = IntervalExtras {
            // One interval has no measurement.
            own: OwnCost { programs_ns: (number != 2).then_some(5), process_ns: 7 },
            ticks: (0..10).map(tick).collect(),
        };
        let times = |process| {
            let since = number + 1;
            (process == VICTIM).then_some(Times {
                process,
                user_ticks: 1000 + 9 * since,
                system_ticks: 100 + since,
            })
        };
        let interval = interval(number, number > 0);
        writer.interval(&interval, besides, &mut FixedNames, times, |_| None).unwrap();
    }
    let end = RecordingTrailer { to_ns: 400 * MS, ..RecordingTrailer::default() };
    writer.finish(end, |cookie| (cookie == 99).then_some(SERVER.into())).unwrap()
}

fn open(octets: &[u8]) -> Result<Reader<&[u8]>> {
    Reader::open(octets)
}

fn summary(octets: &[u8], partial: bool) -> Result<Summary> {
    Summary::of(open(octets)?, partial)
}

#[test]
fn written_values_are_read_back() {
    let octets = recording();
    let mut found = summary(&octets, false).unwrap();
    let total = found.total();
    let interrupts = InterruptAmount { ns: 4 * MS, count: 28 };
    assert_eq!(total.interrupts, [(Interrupt::Line(5), interrupts)].into());
    assert_eq!((total.interrupted_ns(VICTIM), total.interrupt_imbalance_ns()), (4 * MS, 0));
    assert_eq!(found.line(5), "nic-5");
    assert_eq!(total.queues, [(QUEUE, Amount { ns: 320 * MS, packets: 360 })].into());
    assert_eq!(found.queue(QUEUE), "eth2/3");
    assert_eq!(found.queue(ReceiveQueue { napi: 9, ..QUEUE }), "eth2/napi-9");
    assert_eq!((total.measured_ns, total.hardirq_ns, total.imbalance_ns()), (360 * MS, 4 * MS, 0));
    // Packets from before the first read count for the reader.
    let to_server =
        total.caused[&Cause::Process { process: SERVER, device: ETH0, by: Attribution::Reader }];
    assert_eq!(to_server, Amount { ns: 240 * MS, packets: 240 });
    assert_eq!((found.length_ns, found.intervals), (400 * MS, 4));
    assert_eq!(found.own, OwnCost { programs_ns: Some(15), process_ns: 28 });
    assert_eq!(found.own_length_ns, 300 * MS);
    let description = found.process(VICTIM).description.unwrap();
    assert_eq!((description.command, description.user), ("p20".into(), Some("www".into())));
    assert_eq!(found.header.nodes, [(0, 0), (1, 1)]);
    assert_eq!((found.device(ETH0), found.reason(3)), ("eth2".into(), "why 3".into()));
    assert!(found.trailer.is_some() && found.cpus.len() == 1);
}

/// Stronger evidence replaces weaker.
#[test]
fn an_owner_is_recorded_until_a_process_reads() {
    let by = Attribution::Owner;
    let estimate = Owner { process: VICTIM, by };
    for (in_the_end, certain, estimated) in
        [(estimate, None, Some(60 * MS)), (SERVER.into(), Some(60 * MS), None)]
    {
        let mut writer = Writer::start(Vec::new(), header()).unwrap();
        let (besides, none) = (IntervalExtras::default(), |_| None);
        let interval = interval(0, false);
        writer.interval(&interval, besides, &mut FixedNames, none, |_| Some(estimate)).unwrap();
        let octets = writer.finish(RecordingTrailer::default(), |_| Some(in_the_end)).unwrap();
        let text = String::from_utf8(octets.clone()).unwrap();
        assert!(text.contains("\"by\":\"owner\""), "{text}");
        let mut found = summary(&octets, false).unwrap();
        let total = found.total();
        let ns = |cause| total.caused.get(&cause).map(|amount| amount.ns);
        assert_eq!(
            ns(Cause::Process { process: SERVER, device: ETH0, by: Attribution::Reader }),
            certain
        );
        assert_eq!(ns(Cause::Process { process: VICTIM, device: ETH0, by }), estimated);
        let table = Table::of(&total, 1, &mut found);
        assert_eq!(table.attributed.owner_ns, estimated.unwrap_or(0));
    }
}

#[test]
fn names_are_written_once() {
    let text = String::from_utf8(recording()).unwrap();
    assert_eq!(text.matches("\"command\":\"p20\"").count(), 1, "{text}");
    assert_eq!(text.matches("why 3").count(), 1);
}

#[test]
fn times_by_the_kernel_corrected_exactly_and_by_ticks() {
    let found = summary(&recording(), false).unwrap();
    let victim = found.corrections[&VICTIM];
    // 40 ticks of 10 ms, 4 of them in the kernel, of which 360 ms are others' packets, and 4 ms hard interrupts.
    assert_eq!((victim.user_ns, victim.system_ns), (360 * MS, 40 * MS));
    assert_eq!(victim.exact_ns, -364 * MS as i64);
    // 10 interrupts in a tick; 360 were handled while it ran.
    assert_eq!(found.per_tick, Some(10));
    assert_eq!(victim.by_ticks_ns, -360 * MS as i64);
    // The part above system time is subtracted from user time.
    assert_eq!(victim.corrected(victim.exact_ns), (36 * MS, 0));
    assert_eq!(victim.corrected(-10 * MS as i64), (360 * MS, 30 * MS));
    assert_eq!(victim.corrected(5), (360 * MS, 40 * MS + 5));
    assert_eq!(victim.corrected(i64::MIN / 4), (0, 0));
}

#[test]
fn a_kernel_that_excludes_softirqs_from_process_times() {
    let mut writer =
        Writer::start(Vec::new(), RecordingHeader { irq_time_accounting: Some(true), ..header() })
            .unwrap();
    let times = |process| Some(Times { process, user_ticks: 1000, system_ticks: 100 });
    writer
        .interval(&interval(0, true), IntervalExtras::default(), &mut FixedNames, times, |_| None)
        .unwrap();
    let found =
        summary(&writer.finish(RecordingTrailer::default(), |_| None).unwrap(), false).unwrap();
    assert_eq!(found.corrections[&VICTIM].exact_ns, 0);
    assert_eq!(found.corrections[&SERVER].exact_ns, 60 * MS as i64);
}

#[test]
fn timelines_of_a_recording() {
    let octets = recording();
    let found = summary(&octets, false).unwrap();
    let lines = Timelines::of(open(&octets).unwrap(), &found, 5, |process| process).unwrap();
    let sum_ms = |line: &Timeline| {
        let width_s = line[1].0 - line[0].0;
        (line.iter().map(|(_, share)| share * width_s * 1e3).sum::<f64>()).round()
    };
    assert_eq!((sum_ms(&lines.all), sum_ms(&lines.unowned)), (360.0, 120.0));
    let [(who, caused)] = lines.caused.as_slice() else { panic!("{lines:?}") };
    assert_eq!((*who, sum_ms(caused)), (SERVER, 240.0));
    let [(who, suffered)] = lines.suffered.as_slice() else { panic!("{lines:?}") };
    assert_eq!((*who, sum_ms(suffered)), (VICTIM, 360.0));
    assert!((0.899..0.901).contains(&suffered[0].1), "{suffered:?}");
    let none = Timelines::of(open(&octets).unwrap(), &found, 0, |_| ()).unwrap();
    assert!(none.caused.is_empty() && none.suffered.is_empty());
    let others = (sum_ms(&none.others_caused), sum_ms(&none.others_suffered));
    assert_eq!((others, sum_ms(&lines.others_caused)), ((240.0, 360.0), 0.0));
}

#[test]
fn a_truncated_recording_is_an_error() {
    let octets = recording();
    let first = octets.iter().position(|octet| *octet == b'\n').unwrap();
    // Every position would take a minute; these cover all positions of a line.
    for length in (0..octets.len()).step_by(13) {
        let cut = &octets[..length];
        match summary(cut, false) {
            Err(Error::NoRecording(_)) => assert!(length < first, "{length}"),
            Err(Error::CutOff { .. }) => assert!(length >= first, "{length}"),
            other => panic!("{length} of {}: {other:?}", octets.len()),
        }
        if length > first {
            let found = summary(cut, true).unwrap();
            assert_eq!(found.total().imbalance_ns(), 0);
            assert!(found.trailer.is_none());
            Timelines::of(open(cut).unwrap(), &found, 5, |process| process).unwrap();
        }
    }
}

#[test]
fn invalid_files_have_specific_errors() {
    let said = |octets: &[u8]| summary(octets, false).unwrap_err().to_string();
    for other in ["", "\n", "hello\n", "{}\n", "[1]\n", "\u{0}\u{1}\n", "{\"format\":\"x\"}\n"] {
        let text = said(other.as_bytes());
        assert!(text.starts_with("not a recording of `onbeat irq record`"), "{text}");
    }
    assert!(said(b"").ends_with("the first line is empty"));

    let text = String::from_utf8(recording()).unwrap();
    let newer = text.replacen("\"version\":4", "\"version\":5", 1);
    assert!(
        said(newer.as_bytes()).contains("format version 5 is not supported"),
        "{}",
        said(newer.as_bytes())
    );

    let (first, rest) = text.split_once('\n').unwrap();
    for (inserted, what) in [
        ("{}", "missing field `line`"),
        ("{\"line\":\"dance\"}", "unknown variant `dance`"),
        ("nonsense", "line 2 is invalid"),
        ("\u{fffd}", "line 2 is invalid"),
        (first, "another recording starts"),
    ] {
        let text = said(format!("{first}\n{inserted}\n{rest}").as_bytes());
        assert!(text.starts_with("line 2 is invalid: ") && text.contains(what), "{text}");
    }
}

/// Versions 1 and 2 have no evidence, but a cause of their own for inferred owners.
#[test]
fn recordings_of_former_versions_are_read() {
    let text = String::from_utf8(recording()).unwrap();
    let former = text.replace("\"version\":4", "\"version\":1").replace(",\"by\":\"reader\"", "");
    assert_ne!(former, text);
    let by = |text: &str| -> BTreeSet<Attribution> {
        let found = summary(text.as_bytes(), false).unwrap();
        let causes = found.total().caused.into_keys();
        causes
            .filter_map(|cause| match cause {
                Cause::Process { by, .. } => Some(by),
                _ => None,
            })
            .collect()
    };
    assert!(by(&former).contains(&Attribution::Reader));
    let inferred = former.replace("{\"process\":{\"process\":", "{\"inferred\":{\"process\":");
    assert_ne!(inferred, former);
    assert!(by(&inferred).contains(&Attribution::Estimate));
}

/// Half of each interval was sampled, in two windows.
#[test]
fn a_sampled_recording_has_errors() {
    let sampled = |number| {
        let mut interval = interval(number, true);
        let (mut sample, mut half) = (Sample::default(), interval.cpus[1].clone());
        half.caused.values_mut().for_each(|amount| amount.ns /= 2);
        sample.add_window(&half);
        half.caused.values_mut().for_each(|amount| amount.ns += number * MS);
        sample.add_window(&half);
        let skipped = Cause::Unowned(Class::Unsampled(ETH0));
        interval.cpus[1].caused.insert(skipped, Amount { ns: 90 * MS, packets: 7 });
        interval.cpus[1].measured_ns += 90 * MS;
        interval.samples = vec![Sample::default(), sample];
        interval
    };
    let header = RecordingHeader { sample_one_in: Some(2), tick_ns: None, ..header() };
    let mut writer = Writer::start(Vec::new(), header).unwrap();
    for number in 0..3 {
        let besides = IntervalExtras::default();
        writer.interval(&sampled(number), besides, &mut FixedNames, |_| None, |_| None).unwrap();
    }
    let octets = writer
        .finish(RecordingTrailer { to_ns: 300 * MS, ..RecordingTrailer::default() }, |_| None)
        .unwrap();
    let text = String::from_utf8(octets.clone()).unwrap();
    assert!(
        text.starts_with("{\"line\":\"begin\",\"format\":\"onbeat-irq-recording\",\"version\":4")
    );

    let found = summary(&octets, false).unwrap();
    let estimate = found.estimate();
    assert_eq!((estimate.windows, estimate.skipped_ns), (6, 270 * MS));
    let server = Cause::Process { process: SERVER, device: ETH0, by: Attribution::Reader };
    // The total, divided as the sampled part: two to one.
    assert_eq!(estimate.accounts.caused[&server], Amount { ns: 360 * MS, packets: 360 });
    let error = estimate.error(&server).expect("of six windows");
    assert!(error.ns > 0.0 && error.ns < 100.0 * MS as f64, "{error:?}");
    let lines = Timelines::of(open(&octets).unwrap(), &found, 5, |process| process).unwrap();
    // 120 ms of each 100 ms.
    assert!(lines.caused[0].1.iter().all(|(_, share)| (share - 1.2).abs() < 1e-6), "{lines:?}");
}

#[test]
fn unknown_members_are_skipped() {
    let text = String::from_utf8(recording()).unwrap();
    let more = text.replacen("\"from_ns\":0,", "\"from_ns\":0,\"mood\":\"fine\",", 1);
    assert_ne!(more, text);
    assert_eq!(summary(more.as_bytes(), false).unwrap().total().measured_ns, 360 * MS);
}
