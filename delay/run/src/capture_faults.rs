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
    packet_between([[10, 0, 0, 1], [10, 0, 1, 1]], number, ttl)
}

fn packet_between([from, to]: [[u8; 4]; 2], number: u32, ttl: u8) -> Vec<u8> {
    let mut octets = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN + PAYLOAD];
    let len = (udp::HEADER_LEN + PAYLOAD) as u16;
    let header = ipv4::Repr { ttl, ..ipv4::Repr::new(from.into(), to.into(), len) };
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

/// Two hosts with a path between them. Packets go in both directions, 50 µs apart.
struct BothWays {
    /// The delay beyond [`spread`] of a packet that enters the path at this time, in each direction.
    added_ns: [fn(i64) -> i64; 2],
    /// The clock of the second host less that of the first one.
    ahead_ns: fn(i64) -> i64,
}

impl BothWays {
    fn measure(&self, name: &str, options: &[&str]) -> MethodResult {
        self.run(name, options).unwrap()
    }

    fn run(&self, name: &str, options: &[&str]) -> crate::Result<MethodResult> {
        const HOSTS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 1, 1]];
        let directory = TemporaryDirectory::new(name);
        let mut random = Random::new(7);
        let mut captures = [Vec::new(), Vec::new()];
        for number in 0..PACKETS {
            for (from, ttls) in [(0, [64, 63]), (1, [64, 63])] {
                let since_ns = i64::from(number) * 50_000 + from as i64 * 25_000;
                let left_ns = since_ns + (random.uniform() * 20_000.0) as i64;
                let arrived_ns = left_ns + spread(&mut random) + (self.added_ns[from])(left_ns);
                let addresses = [HOSTS[from], HOSTS[1 - from]];
                for (host, since_ns, ttl) in
                    [(from, left_ns, ttls[0]), (1 - from, arrived_ns, ttls[1])]
                {
                    let clock_ns = if host == 1 { (self.ahead_ns)(since_ns) } else { 0 };
                    let octets = packet_between(addresses, number, ttl);
                    captures[host].push((since_ns, START_NS + since_ns + clock_ns, octets));
                }
            }
        }
        let paths = ["a.pcap", "b.pcap"].map(|name| directory.file(name));
        for (packets, path) in captures.iter_mut().zip(&paths) {
            packets.sort_unstable();
            let output = BufWriter::new(File::create(path).unwrap());
            let mut capture = Writer::new(output, LinkType::RAW_IP).unwrap();
            for (_, time_ns, octets) in packets {
                capture.write(*time_ns, octets, octets.len() as u32).unwrap();
            }
            capture.finish().unwrap();
        }
        let arguments = ["match".as_ref(), paths[0].as_os_str(), paths[1].as_os_str()];
        let options = options.iter().map(|option| option.as_ref());
        let options = Command::parse_from(arguments.into_iter().chain(options)).options;
        options.run(&mut Progress::new(true))
    }

    /// By two clocks, with the packets of the other direction.
    fn both(&self, name: &str) -> MethodResult {
        self.measure(name, &["--two-clocks", "--back", "src host 10.0.1.1"])
    }
}

const MIDDLE_NS: i64 = 500_000_000;

/// 5 s ahead and 20 ppm fast.
fn steady(since_ns: i64) -> i64 {
    5_000_000_000 + since_ns / 50_000
}

fn none(_: i64) -> i64 {
    0
}

fn later(since_ns: i64) -> i64 {
    if since_ns >= MIDDLE_NS { 200_000 } else { 0 }
}

fn for_a_while(since_ns: i64) -> i64 {
    if (400_000_000..600_000_000).contains(&since_ns) { 200_000 } else { 0 }
}

#[test]
fn both_directions_distinguish_a_longer_path_from_a_step_of_a_clock() {
    let path = BothWays { added_ns: [later, none], ahead_ns: steady };
    let found = path.both("path");
    notes(&found.outcome, "change of the path: all delays are longer by 200 µs");
    // The shortest delays are 10 µs in each direction.
    notes(&found.outcome, "packets of both directions take at most 21.");
    // Half of the packets, by a path that is longer.
    let p75 = found.delays.value_at(0.75).unwrap();
    assert!((200_000..215_000).contains(&p75), "{p75}");
    // One direction has both readings, and the delays of a step.
    let one = path.measure("one", &["--two-clocks", "--filter", "src host 10.0.0.1"]);
    notes(&one.outcome, "step of 200 µs ahead");
    notes(&one.outcome, "If it is a change of the path");
    assert!(one.delays.value_at(0.75).unwrap() < 30_000);
}

#[test]
fn packets_of_the_other_direction_are_not_measured() {
    // Without a filter the captures show which packets go there: those of the other direction are left out.
    let path = BothWays { added_ns: [for_a_while, none], ahead_ns: |_| 0 };
    let both = path.measure("unfiltered", &["--two-clocks"]);
    let one = path.measure("filtered", &["--two-clocks", "--filter", "src host 10.0.0.1"]);
    for share in [0.1, 0.5, 0.9] {
        assert_eq!(both.delays.value_at(share), one.delays.value_at(share), "{share}");
    }
}

#[test]
fn a_path_that_becomes_shorter_was_longer_before() {
    let path =
        BothWays { added_ns: [|since_ns| 200_000 - later(since_ns), none], ahead_ns: steady };
    let found = path.both("shorter");
    notes(&found.outcome, "change of the path: all delays are shorter by 200 µs");
    let p75 = found.delays.value_at(0.75).unwrap();
    assert!((200_000..215_000).contains(&p75), "{p75}");
}

#[test]
fn a_clock_changes_both_directions() {
    let clock =
        BothWays { added_ns: [none; 2], ahead_ns: |since_ns| steady(since_ns) + later(since_ns) };
    let outcome = clock.both("clock").outcome;
    notes(&outcome, "step of a clock: 200 µs ahead");
    contains(&outcome, "p50", 8_000.0 * 2_f64.ln());
}

#[test]
fn two_steps_of_a_clock_are_no_standing_queue() {
    let clock = BothWays {
        added_ns: [none; 2],
        ahead_ns: |since_ns| steady(since_ns) + for_a_while(since_ns),
    };
    let found = clock.both("two-steps");
    notes(&found.outcome, "step of a clock: 200 µs ahead");
    notes(&found.outcome, "step of a clock: 200 µs back");
    assert!(found.delays.value_at(0.95).unwrap() < 60_000);
    notes(&found.outcome, "packets of both directions take at most 20.");
    // In the opposite sense.
    let clock_back = BothWays {
        added_ns: [none; 2],
        ahead_ns: |since_ns| steady(since_ns) - for_a_while(since_ns),
    };
    let found = clock_back.both("two-steps-back");
    notes(&found.outcome, "step of a clock: 200 µs back");
    notes(&found.outcome, "packets of both directions take at most 20.");
    // One direction has both readings: it takes the likelier one, and names the other one.
    let one = clock.measure("two-steps-one", &["--two-clocks", "--filter", "src host 10.0.0.1"]);
    notes(&one.outcome, "Two steps of a clock in opposite directions would look the same");

    let queue = BothWays { added_ns: [for_a_while, none], ahead_ns: steady };
    let found = queue.both("queue-both");
    notes(&found.outcome, "standing queue: all delays rose by 200 µs");
    notes(&found.outcome, "The other direction has no change");
    // The other direction alone has a queue: nothing of this one.
    let back = BothWays { added_ns: [none, for_a_while], ahead_ns: steady };
    let found = back.both("back-only");
    assert!(
        !found.outcome.notes.iter().any(|note| note.contains("queue")),
        "{:?}",
        found.outcome.notes
    );
    assert!(found.delays.value_at(0.95).unwrap() < 60_000);
}

#[test]
fn a_step_with_a_change_of_the_path_has_both_readings() {
    // The clock is set at the time at which the path back becomes longer.
    let both = BothWays {
        added_ns: [none, |since_ns| later(since_ns) / 2],
        ahead_ns: |since_ns| steady(since_ns) + later(since_ns),
    };
    notes(&both.both("mixture").outcome, "If it is a change of the path");
}

#[test]
fn a_filter_without_packets_of_the_other_direction_is_refused() {
    let still = BothWays { added_ns: [none; 2], ahead_ns: steady };
    // That of the packets that go there.
    let exchanged = &["--two-clocks", "--back", "src host 10.0.0.1"];
    let error = still.run("exchanged", exchanged).err().unwrap().to_string();
    assert!(error.contains("add up to -") && error.contains("exchange the captures"), "{error}");
    let error = still.run("empty", &["--two-clocks", "--back", "tcp"]).err().unwrap().to_string();
    assert!(
        error.contains(
            "--back \"tcp\": no packet that passes this and the other filters is in both captures"
        ),
        "{error}"
    );
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
