//! How fast captures are matched on one core, and how right: generates a pair of captures, reads
//! them plainly, matches them, and holds every match against the truth.
//!
//!     cargo run --release -p onbeat-delay --example match_speed -- DIRECTORY [PACKETS]

use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::Path;
use std::time::Instant;

use onbeat_delay::capture::Reader;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Matcher, Window};
use onbeat_delay::pairing::Pair;
use onbeat_delay::synthetic::{Check, Traffic, number_of};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: match_speed DIRECTORY [PACKETS]")?;
    let packets = arguments.next().map_or(Ok(10_000_000), |packets| packets.parse())?;
    let traffic = Traffic::of(packets);
    let paths = ["arrivals.pcap", "departures.pcap"].map(|name| Path::new(&directory).join(name));
    let create = |path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
    let truth = traffic.write(create(&paths[0])?, create(&paths[1])?)?;
    println!("{truth:?}");

    let mut size = 0;
    // The second pass finds the files in memory, as the matching after it does.
    for pass in ["first", "second"] {
        let begin = Begin::now();
        size = 0;
        for path in &paths {
            let mut file = File::open(path)?;
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    read => size += read,
                }
            }
        }
        begin.print(&format!("plain reading, {pass} pass"), packets, size);
    }

    let begin = Begin::now();
    for path in &paths {
        let mut reader = Reader::new(File::open(path)?)?;
        while reader.next_packet()?.is_some() {}
    }
    begin.print("reading packets", packets, size);

    for rounds in 0..3 {
        let begin = Begin::now();
        let window =
            Window { longest_ns: traffic.longest_ns(), packets: 1 << 16, ..Window::default() };
        let mut matcher = Matcher::new(window);
        let mut check = Check::default();
        let readers = [File::open(&paths[0])?, File::open(&paths[1])?].map(Reader::new);
        let [arrivals, departures] = readers;
        let mut pair = Pair::new(arrivals?, departures?, 0, Recognition::default(), number_of);
        while pair.feed(65_536, &mut matcher, &mut |event| check.event(&event))? {}
        matcher.finish(&mut |event| check.event(&event));
        begin.print("matching", packets, size);
        if rounds == 2 {
            println!("{:?}\n{check:?}", matcher.counts());
            println!(
                "{:.6} % right; room for {} entries",
                100.0 * check.right_share(),
                matcher.capacity()
            );
        }
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    Ok(())
}

/// When a part of the work began, by the clock and by the time that this process was on a CPU:
/// on a machine with other work, only the latter says what the code costs.
struct Begin {
    at: Instant,
    on_cpu_s: f64,
}

impl Begin {
    fn now() -> Self {
        Begin { at: Instant::now(), on_cpu_s: on_cpu_s() }
    }

    fn print(&self, what: &str, packets: u64, size: usize) {
        let elapsed = self.at.elapsed().as_secs_f64();
        let seconds = on_cpu_s() - self.on_cpu_s;
        let (millions, gigabytes) = (packets as f64 / 1e6 / seconds, size as f64 / 1e9 / seconds);
        println!(
            "{what}: {seconds:.3} s on the CPU ({elapsed:.3} s elapsed), {millions:.2} million \
             packets/s, {gigabytes:.2} GB/s"
        );
    }
}

/// The first number of schedstat: nanoseconds on a CPU. There is one thread.
fn on_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
