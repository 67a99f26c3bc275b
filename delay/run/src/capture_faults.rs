//! Captures of a simulated hop with the faults of real ones: the figures contain the truth, or are withheld.

use std::fs::File;
use std::io::BufWriter;

use clap::Parser as _;
use onbeat_delay::capture::{LinkType, Writer};
use onbeat_report::{Cell, Figure, Outcome, Progress};
use onbeat_testing::TemporaryDirectory;
use onbeat_wire::random::Random;
use onbeat_wire::{Ports, ipv4, udp};

use crate::{MatchOptions, Method, MethodResult};

const START_NS: i64 = 1_767_225_600_123_456_789;
const PACKETS: u32 = 20_000;
const PAYLOAD: usize = 164;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    options: MatchOptions,
}

fn packet(number: u32, ttl: u8) -> Vec<u8> {
    let mut octets = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN + PAYLOAD];
    let len = (udp::HEADER_LEN + PAYLOAD) as u16;
    let header =
        ipv4::Repr { ttl, ..ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), len) };
    header.emit(&mut octets).unwrap();
    let ports = Ports { source: 5000, destination: 5001 };
    let datagram = udp::Repr { ports, payload_len: PAYLOAD as u16 };
    datagram.emit(&mut octets[ipv4::HEADER_LEN..]).unwrap();
    octets[ipv4::HEADER_LEN + udp::HEADER_LEN..][..4].copy_from_slice(&number.to_be_bytes());
    octets
}

/// The time stamps of events in order of time, by the clock of a capture.
type Stamps = fn(&mut [i64]);

/// Matches captures of packets at random times, some 50 µs apart, that stay in the hop for `delay`.
fn measure(name: &str, delay: impl Fn(&mut Random) -> i64, stamps: [Stamps; 2]) -> Outcome {
    measure_with(name, |random, _| delay(random), stamps, &[]).outcome
}

/// As [`measure`]; the delay may depend on the time in ns since the start.
fn measure_with(
    name: &str,
    delay: impl Fn(&mut Random, i64) -> i64,
    stamps: [Stamps; 2],
    options: &[&str],
) -> MethodResult {
    let directory = TemporaryDirectory::new(name);
    let mut random = Random::new(25);
    let exponential = |random: &mut Random, mean: f64| -mean * (1.0 - random.uniform()).ln();
    let mut now_ns = START_NS;
    let mut arrivals = Vec::new();
    for number in 0..PACKETS {
        now_ns += exponential(&mut random, 50e3) as i64 + 3_000;
        arrivals.push((now_ns, number));
    }
    let departures = arrivals
        .iter()
        .map(|(time_ns, number)| (time_ns + delay(&mut random, time_ns - START_NS), *number));
    let mut departures: Vec<(i64, u32)> = departures.collect();
    departures.sort_unstable();
    let paths = ["in.pcap", "out.pcap"].map(|name| directory.file(name));
    for (((packets, path), stamps), ttl) in
        [arrivals, departures].iter().zip(&paths).zip(stamps).zip([64, 63])
    {
        let mut times: Vec<i64> = packets.iter().map(|(time_ns, _)| *time_ns).collect();
        stamps(&mut times);
        let output = BufWriter::new(File::create(path).unwrap());
        let mut capture = Writer::new(output, LinkType::RAW_IP).unwrap();
        for ((_, number), time_ns) in packets.iter().zip(times) {
            let octets = packet(*number, ttl);
            capture.write(time_ns, &octets, octets.len() as u32).unwrap();
        }
        capture.finish().unwrap();
    }
    let arguments = ["match".as_ref(), paths[0].as_os_str(), paths[1].as_os_str()];
    let options = options.iter().map(|option| option.as_ref());
    let options = Command::parse_from(arguments.into_iter().chain(options)).options;
    options.run(&mut Progress::new(true)).unwrap()
}

fn exact(_: &mut [i64]) {}

fn truncate<const STEP: i64>(times: &mut [i64]) {
    times.iter_mut().for_each(|time_ns| *time_ns -= *time_ns % STEP);
}

/// Interrupts each 100 µs, after which the kernel stamps the packets one after the other.
fn coalesce(times: &mut [i64]) {
    let mut last = 0;
    for time_ns in times {
        let interrupt = *time_ns - *time_ns % 100_000 + 105_000;
        *time_ns = interrupt.max(last + 120);
        last = *time_ns;
    }
}

/// The cells of a percentile in ns: value, lower and upper bound.
fn percentile(outcome: &Outcome, name: &str) -> [f64; 3] {
    let Some(Figure::Counters(table)) = outcome.figures.get("percentiles") else { panic!() };
    let row = table.rows.iter().find(|row| row[0] == Cell::from(name)).unwrap();
    [1, 2, 3].map(|column| match &row[column] {
        Cell::Number(number) => number.as_f64(),
        Cell::Text(text) => panic!("{name}: {text}"),
    })
}

#[track_caller]
fn contains(outcome: &Outcome, name: &str, truth_ns: f64) {
    let [_, lower, upper] = percentile(outcome, name);
    assert!(lower <= truth_ns && truth_ns <= upper, "{name}: {truth_ns} in {lower} to {upper}");
}

#[track_caller]
fn notes(outcome: &Outcome, text: &str) {
    assert!(outcome.notes.iter().any(|note| note.contains(text)), "{:?}", outcome.notes);
}

#[test]
fn exact_captures_have_narrow_intervals() {
    let outcome = measure("exact", |_| 700, [exact, exact]);
    assert_eq!(percentile(&outcome, "p50"), [700.0; 3]);
    assert!(!outcome.notes.iter().any(|note| note.contains("resolution")), "{:?}", outcome.notes);
}

#[test]
fn a_delay_below_a_microsecond_in_captures_of_microseconds() {
    let outcome = measure("us", |_| 700, [truncate::<1_000>; 2]);
    contains(&outcome, "p50", 700.0);
    notes(&outcome, "resolution of time stamps is 1.00 µs");
    notes(&outcome, "withheld: variation from packet to packet, and upper bounds");
}

#[test]
fn a_delay_far_below_a_millisecond_in_captures_of_milliseconds() {
    for (name, stamps) in [
        ("ms-both", [truncate::<1_000_000> as Stamps; 2]),
        ("ms-in", [truncate::<1_000_000>, exact as Stamps]),
    ] {
        let outcome = measure(name, |_| 50_000, stamps);
        contains(&outcome, "p50", 50_000.0);
        contains(&outcome, "p99", 50_000.0);
        notes(&outcome, "arrivals: the resolution of time stamps is 1.00 ms");
    }
}

#[test]
fn captures_coalesced_by_interrupts() {
    let delay = |random: &mut Random| 50_000 - (5_000.0 * (1.0 - random.uniform()).ln()) as i64;
    let outcome = measure("coalesced", delay, [coalesce, coalesce]);
    contains(&outcome, "p50", 53_466.0);
    contains(&outcome, "p99", 73_026.0);
    notes(&outcome, "departures: ");
    notes(&outcome, "stamped in batches");
}

/// The clock of departures is 5 s ahead and 20 ppm fast.
fn other_clock(times: &mut [i64]) {
    times.iter_mut().for_each(|time_ns| *time_ns += 5_000_000_000 + (*time_ns - START_NS) / 50_000);
}

/// As [`other_clock`], slewed by 2 µs in the middle fifth.
fn slewed_clock(times: &mut [i64]) {
    other_clock(times);
    let (first, span) = (times[0], (times[times.len() - 1] - times[0]) as f64);
    for time_ns in times {
        let share = (*time_ns - first) as f64 / span;
        *time_ns += (2_000.0 * ((share - 0.4) * 5.0).clamp(0.0, 1.0)) as i64;
    }
}

fn spread(random: &mut Random) -> i64 {
    10_000 - (8_000.0 * (1.0 - random.uniform()).ln()) as i64
}

#[test]
fn a_standing_queue_is_no_step_of_a_clock() {
    // A fifth of the time, 200 µs more.
    let delay = |random: &mut Random, since_ns: i64| {
        spread(random) + if (400_000_000..600_000_000).contains(&since_ns) { 200_000 } else { 0 }
    };
    let found = measure_with("queue", delay, [exact, other_clock], &["--two-clocks"]);
    let (outcome, p90) = (found.outcome, found.delays.value_at(0.9).unwrap());
    assert!((200_000..215_000).contains(&p90), "{p90}");
    // One queue does not show how often there is one.
    notes(&outcome, "withheld: p90, p99");
    notes(&outcome, "standing queue: all delays rose by 200 µs");
}

#[test]
fn a_slewed_clock_is_an_error_of_the_delays() {
    let delay = |random: &mut Random, _: i64| spread(random);
    let outcome = measure_with("slew", delay, [exact, slewed_clock], &["--two-clocks"]).outcome;
    contains(&outcome, "p50", 8_000.0 * 2_f64.ln());
    notes(&outcome, "delays may be too long by up to");
}

#[test]
fn a_step_is_reported_with_size_and_time() {
    fn stepped(times: &mut [i64]) {
        other_clock(times);
        let middle = times.len() / 2;
        times[middle..].iter_mut().for_each(|time_ns| *time_ns += 300_000);
    }
    let delay = |random: &mut Random, _: i64| spread(random);
    let outcome = measure_with("step", delay, [exact, stepped], &["--two-clocks"]).outcome;
    contains(&outcome, "p50", 8_000.0 * 2_f64.ln());
    notes(&outcome, "step of 300 µs ahead");
}

/// The asymmetry of a path of PTP is a constant difference of the clocks, which no capture shows.
#[test]
fn clocks_that_are_synchronized_with_an_error() {
    fn ahead(times: &mut [i64]) {
        times.iter_mut().for_each(|time_ns| *time_ns += 3_000);
    }
    let delay = |random: &mut Random, _: i64| spread(random);
    let truth = 10_000.0 + 8_000.0 * 2_f64.ln();
    let without = measure_with("ptp", delay, [exact, ahead], &[]).outcome;
    assert!(percentile(&without, "p50")[1] > truth, "{:?}", percentile(&without, "p50"));
    let error = &["--clock-error", "4us"];
    let with = measure_with("ptp-error", delay, [exact, ahead], error).outcome;
    contains(&with, "p50", truth);
    notes(&with, "differ by up to 4.00 µs");
}
