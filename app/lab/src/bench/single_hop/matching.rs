//! A pair of captures with a known truth, read plainly and matched, on one CPU.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use onbeat_delay::capture::{CaptureError, Reader};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Counts, Matcher, Window};
use onbeat_delay::pairing::{CapturePair, PairingError};
use onbeat_delay::synthetic::{Check, GroundTruth, Traffic, number_of};
use onbeat_realtime::interrupt;
use onbeat_report::Progress;
use onbeat_report::format::count;

use super::super::cpu::Cpus;
use super::Options;
use crate::{Error, Result};

pub(super) struct MatchingResults {
    pub(super) octets: u64,
    pub(super) truth: GroundTruth,
    pub(super) rounds: Vec<MatchingRound>,
    pub(super) counts: Counts,
    pub(super) check: Check,
    /// Peak memory of the process during matching, in octets; `None` if the kernel does not report it.
    pub(super) peak: Option<u64>,
}

/// CPU time in seconds.
pub(super) struct MatchingRound {
    /// Reading both files in blocks.
    pub(super) plain_s: f64,
    /// Reading their packets.
    pub(super) reading_s: f64,
    pub(super) matching_s: f64,
}

/// Packets between two updates of the progress.
const BATCH: u64 = 65_536;

pub(super) fn measure(
    options: &Options,
    cpus: &Cpus,
    progress: &mut Progress,
) -> Result<MatchingResults> {
    let traffic = Traffic::of(options.packets);
    progress.update(|| format!("creating captures of {}", count(options.packets, "packet")));
    let captures = CaptureFiles::write(&options.directory, &traffic)?;
    let _pinned = cpus.pin()?;
    captures.read_plainly()?;
    let mut found = MatchingResults {
        octets: captures.octets,
        truth: captures.truth,
        rounds: Vec::new(),
        counts: Counts::default(),
        check: Check::default(),
        peak: None,
    };
    // Resets the peak.
    let _ = fs::write("/proc/self/clear_refs", "5");
    for round in 0..options.rounds {
        progress.update(|| format!("matching, round {} of {}", round + 1, options.rounds));
        let plain_s = timed(|| captures.read_plainly())?;
        let reading_s = timed(|| captures.read_packets())?;
        let matching_s = timed(|| {
            (found.counts, found.check) = captures.matched(&traffic)?;
            Ok(())
        })?;
        found.rounds.push(MatchingRound { plain_s, reading_s, matching_s });
    }
    found.peak = peak();
    Ok(found)
}

/// Two files, removed on drop.
struct CaptureFiles {
    directory: PathBuf,
    arrivals: PathBuf,
    departures: PathBuf,
    octets: u64,
    truth: GroundTruth,
}

impl CaptureFiles {
    fn write(directory: &Path, traffic: &Traffic) -> Result<Self> {
        let directory = directory.join(format!("onbeat-bench-{}", std::process::id()));
        let failed = |error| Error::io(format!("write captures to {}", directory.display()), error);
        fs::DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let mut captures = Self {
            arrivals: directory.join("arrivals.pcap"),
            departures: directory.join("departures.pcap"),
            directory: directory.clone(),
            octets: 0,
            truth: GroundTruth::default(),
        };
        let create = |path: &Path| {
            File::create(path)
                .map(|file| BufWriter::with_capacity(1 << 20, InterruptibleFile(file)))
        };
        let write = || {
            let truth =
                traffic.write(create(&captures.arrivals)?, create(&captures.departures)?)?;
            let lengths = [&captures.arrivals, &captures.departures].map(fs::metadata);
            let [arrivals, departures] = lengths;
            Ok((truth, arrivals?.len() + departures?.len()))
        };
        let written = write();
        interrupt::check()?;
        (captures.truth, captures.octets) = written.map_err(failed)?;
        Ok(captures)
    }

    fn open(&self) -> Result<[File; 2]> {
        let open = |path: &Path| {
            File::open(path).map_err(|error| Error::io(format!("read {}", path.display()), error))
        };
        Ok([open(&self.arrivals)?, open(&self.departures)?])
    }

    fn read_plainly(&self) -> Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        for mut file in self.open()? {
            let mut read = || file.read(&mut buffer);
            while read().map_err(|error| Error::io("read a capture", error))? > 0 {
                interrupt::check()?;
            }
        }
        Ok(())
    }

    fn read_packets(&self) -> Result<()> {
        for file in self.open()? {
            let mut reader = Reader::new(file).map_err(unreadable)?;
            let mut packets = 0_u64;
            while reader.next_packet().map_err(unreadable)?.is_some() {
                packets += 1;
                if packets % BATCH == 0 {
                    interrupt::check()?;
                }
            }
        }
        Ok(())
    }

    fn matched(&self, traffic: &Traffic) -> Result<(Counts, Check)> {
        let window = Window { longest_ns: traffic.longest_ns(), ..Window::default() };
        let mut matcher = Matcher::new(window);
        let mut check = Check::default();
        let [arrivals, departures] = self.open()?.map(Reader::new);
        let (arrivals, departures) =
            (arrivals.map_err(unreadable)?, departures.map_err(unreadable)?);
        let mut pair = CapturePair::new(arrivals, departures, 0, Recognition::default(), number_of);
        let failed = |error: PairingError| unreadable(error.error);
        while pair.feed(BATCH, &mut matcher, &mut |event| check.event(&event)).map_err(failed)? {
            interrupt::check()?;
        }
        matcher.finish(&mut |event| check.event(&event));
        Ok((*matcher.counts(), check))
    }
}

impl Drop for CaptureFiles {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the directory for temporary files.
        let _ = fs::remove_file(&self.arrivals);
        let _ = fs::remove_file(&self.departures);
        let _ = fs::remove_dir(&self.directory);
    }
}

/// A file whose writes fail after Ctrl-C.
struct InterruptibleFile(File);

impl Write for InterruptibleFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        interrupt::check().map_err(io::Error::other)?;
        self.0.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn unreadable(error: CaptureError) -> Error {
    Error::io("read a capture of the bench", io::Error::other(error))
}

/// CPU time of the work in seconds, which excludes other work of the machine.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = on_cpu_s();
    work()?;
    Ok(on_cpu_s() - before)
}

fn on_cpu_s() -> f64 {
    let usage =
        getrusage(UsageWho::RUSAGE_THREAD).expect("the usage of the calling thread is available");
    (usage.user_time() + usage.system_time()).num_nanoseconds() as f64 / 1e9
}

fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
