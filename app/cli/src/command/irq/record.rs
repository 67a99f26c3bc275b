//! `onbeat irq record`

use std::fs::{self, File};
use std::io::LineWriter;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use onbeat_irq::charge::Process;
use onbeat_irq::names::{Stat, processes};
use onbeat_irq::recording::{self, Begin, Besides, End, Times, Writer};
use onbeat_irq::{TICK_NS, Ticks, Tracer, host};
use onbeat_realtime::interrupt;
use onbeat_report::Run;

use super::watch::{Watch, check_interval, wait};
use onbeat_terminal::exit::{Answer, Failure, Result, warn};
use onbeat_terminal::values::{duration, one_in};

/// Record softirq time, for `onbeat irq report`
///
/// While a command runs, for a time, or until Ctrl-C. The file is written as things happen: it takes
/// no more memory for a longer recording, and what there is of one that was cut off can be reported.
/// docs/irq.md describes its format.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq record -o storm.irq --for 30s
  onbeat irq record -o build.irq -- make -j2

Exit status: 0 success, 1 recorded, but the command failed, 2 error (root and Linux 6.3 with BTF are \
required).")]
pub(super) struct Record {
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// How finely to record
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    interval: Duration,
    /// Look at packets for one N-th of the time, and estimate the rest, with errors: costs less; without
    /// ticks, and not more finely than every 40 ms times N
    #[arg(long, value_name = "N", value_parser = one_in)]
    sample: Option<NonZeroU32>,
    /// The command to run; recording stops when it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Record {
    pub(super) fn execute(self) -> Result {
        check_interval(self.interval)?;
        let (tracer, ticks) = start(self.sample)?;
        let file =
            onbeat_host::output::create(&self.output).map_err(|error| self.cannot_write(&error))?;
        let _guard = interrupt::Guard::install();
        let recorded = self.record(tracer, ticks, file);
        if recorded.is_err() && fs::metadata(&self.output).is_ok_and(|file| file.len() == 0) {
            // Nothing is in it, and it was ours.
            let _ = fs::remove_file(&self.output);
        }
        recorded
    }

    fn record(&self, tracer: Tracer, mut ticks: Option<Ticks>, file: File) -> Result {
        let run = Run::begin("irq");
        let begin = Begin {
            started: onbeat_report::rfc3339(SystemTime::now()),
            command: self.command.clone(),
            cpus: tracer.accounts()?.len() as u32,
            user_hz: host::user_hz(),
            tick_ns: ticks.is_some().then_some(TICK_NS),
            sample_one_in: self.sample.map(NonZeroU32::get),
            irq_time_accounting: host::irq_time_accounting(),
            times: processes().map(|(process, stat)| times(process, &stat)).collect(),
            ..Begin::default()
        };
        let mut watch = Watch::new(tracer, self.sample)?;
        // Each has a whole stretch in it, and so a window.
        let interval = self.interval.max(2 * watch.stretch());
        let mut running = Running::start(&self.command)?;
        let written = |error: recording::Error| self.cannot_write(&error);
        let mut writer = Writer::begin(LineWriter::new(file), begin).map_err(written)?;
        let deadline = self.length.map(|length| Instant::now() + length);
        loop {
            let look = watch.look(interval, |until| running.wait(until, deadline))?;
            let besides = Besides {
                own: look.own,
                ticks: ticks.as_mut().map(Ticks::take).transpose()?.unwrap_or_default(),
            };
            let owner = |cookie| watch.meter.tracer().owner(cookie);
            let of = |process| Stat::of(process).map(|stat| times(process, &stat));
            writer
                .interval(&look.interval, besides, &mut watch.names, of, owner)
                .map_err(written)?;
            if look.last {
                break;
            }
        }
        let tracer = watch.meter.tracer();
        let end = End {
            to_ns: watch.meter.looked_ns(),
            lost_events: tracer.losses()?.events,
            conditions: serde_json::to_value(run.finish().conditions)?,
        };
        writer.end(end, |cookie| tracer.owner(cookie)).map_err(written)?;
        running.end()
    }

    fn cannot_write(&self, error: &impl std::fmt::Display) -> Failure {
        Failure::new(format!("{} cannot be written: {error}", self.output.display()))
    }
}

/// Begins to trace; where the kernel has no clock for the paper's algorithm, without it. That counts each
/// packet, and so has nothing to go by where they are sampled.
fn start(sample: Option<NonZeroU32>) -> Result<(Tracer, Option<Ticks>)> {
    if sample.is_some() {
        return Ok((Tracer::start_sampled()?, None));
    }
    match Tracer::start_with_ticks() {
        Ok((tracer, ticks)) => Ok((tracer, Some(ticks))),
        Err(error) => {
            let tracer = Tracer::start()?;
            warn(format!("{error}; the report will have no correction by ticks"));
            Ok((tracer, None))
        }
    }
}

fn times(process: Process, stat: &Stat) -> Times {
    Times { process, user_ticks: stat.user_ticks, system_ticks: stat.system_ticks }
}

/// The command, where there is one. It is ended with the recording.
struct Running {
    child: Option<Child>,
    command: String,
}

impl Running {
    fn start(command: &[String]) -> Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Self { child: None, command: String::new() });
        };
        let child = Command::new(program).args(arguments).spawn().map_err(|error| {
            Failure::new(format!(
                "{program:?} cannot be run: {error}; give a program and its arguments"
            ))
        })?;
        Ok(Self { child: Some(child), command: program.clone() })
    }

    /// Waits until an instant; false where it is over.
    fn wait(&self, until: Instant, deadline: Option<Instant>) -> Result<bool> {
        /// How long the end of the command may go unnoticed.
        const LOOK: Duration = Duration::from_millis(5);
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        loop {
            let now = Instant::now();
            if self.has_ended()? || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(false);
            }
            if now >= until {
                return Ok(true);
            }
            let next = if self.child.is_some() { until.min(now + LOOK) } else { until };
            if !wait(next)? {
                return Ok(false);
            }
        }
    }

    /// It stays where /proc shows its time until the recording has that.
    fn has_ended(&self) -> Result<bool> {
        let Some(child) = &self.child else { return Ok(false) };
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(Pid::from_raw(child.id() as i32)), flags).map_err(|errno| {
            Failure::new(format!("{:?} cannot be waited for: {errno}", self.command))
        })?;
        Ok(status != WaitStatus::StillAlive)
    }

    fn end(&mut self) -> Result {
        let Some(mut child) = self.child.take() else { return Ok(Answer::Good) };
        // It has ended, or is told to.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let status: ExitStatus = child.wait()?;
        if !status.success() {
            warn(format!("{:?} ended with {status}", self.command));
        }
        Ok(Answer::good_if(status.success()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    fn record(line: &str) -> std::result::Result<Record, String> {
        match parse(&format!("irq record {line}")).map_err(|error| error.to_string())? {
            Command::Irq(super::super::Arguments {
                command: super::super::Irq::Record(record),
            }) => Ok(record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_or_a_time() {
        let found = record("-o a.irq -- make -j2").unwrap();
        assert_eq!(found.command, ["make", "-j2"]);
        assert_eq!((found.length, found.interval), (None, Duration::from_millis(100)));
        let found = record("--output a.irq --for 30s --interval 1s").unwrap();
        assert_eq!((found.length, found.command.len()), (Some(Duration::from_secs(30)), 0));
        assert_eq!(record("-o a.irq --sample 20").unwrap().sample, NonZeroU32::new(20));
        for line in ["", "--for 3s", "-o a.irq make", "-o a.irq --for 3"] {
            assert!(record(line).is_err(), "{line}");
        }
    }

    #[test]
    fn it_is_over_when_the_command_or_the_time_is() {
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut running = Running::start(&["true".into()]).unwrap();
        while running.wait(soon(), None).unwrap() {}
        assert_eq!(running.end().unwrap(), Answer::Good);
        let mut running = Running::start(&["false".into()]).unwrap();
        while running.wait(soon(), None).unwrap() {}
        assert_eq!(running.end().unwrap(), Answer::Bad);
        let running = Running::start(&[]).unwrap();
        assert!(!running.wait(soon(), Some(Instant::now())).unwrap());
        assert!(running.wait(Instant::now(), Some(soon())).unwrap());
        assert!(Running::start(&["/no/such/program".into()]).is_err());
    }
}
