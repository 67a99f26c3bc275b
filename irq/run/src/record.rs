//! Recording of the ledger: while a command runs, for a time, or until a signal.

use std::fs::{self, File};
use std::io::{self, LineWriter};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use onbeat_irq::names::{Stat, processes};
use onbeat_irq::{Ticks, Tracer, host};
use onbeat_irq_core::TICK_NS;
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::recording::{
    self, IntervalExtras, RecordingHeader, RecordingTrailer, Times, Writer,
};
use onbeat_realtime::interrupt;
use onbeat_report::Run;

use crate::watch::{Watch, wait};
use crate::{Error, Result};

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    /// The file to write.
    pub output: PathBuf,
    /// Stops after this time.
    pub length: Option<Duration>,
    /// The length of the intervals.
    pub interval: Duration,
    /// Samples packets for one part in this many of the time.
    pub sample: Option<NonZeroU32>,
    /// The command to run; the recording stops when it exits. Empty: none.
    pub command: Vec<String>,
}

impl Recorder {
    /// Records. `without_ticks` receives the error if this kernel has no clock for the paper's algorithm. The
    /// result is the exit status of the command, if there is one.
    ///
    /// # Errors
    /// [`Error`]. An empty file is removed.
    pub fn run(&self, without_ticks: impl FnOnce(onbeat_irq::Error)) -> Result<Option<ExitStatus>> {
        let (tracer, ticks) = start(self.sample, without_ticks)?;
        let created = onbeat_host::output::create(&self.output);
        let file = created.map_err(|error| self.cannot_write(error.into()))?;
        let _guard = interrupt::Guard::install();
        let recorded = self.record(tracer, ticks, file);
        if recorded.is_err() && fs::metadata(&self.output).is_ok_and(|file| file.len() == 0) {
            // It is empty, and this process created it.
            let _ = fs::remove_file(&self.output);
        }
        recorded
    }

    fn record(
        &self,
        tracer: Tracer,
        mut ticks: Option<Ticks>,
        file: File,
    ) -> Result<Option<ExitStatus>> {
        let run = Run::begin("irq");
        let mut watch = Watch::new(tracer, self.sample)?;
        let tracer = watch.meter.tracer();
        let header = RecordingHeader {
            started: onbeat_report::rfc3339(SystemTime::now()),
            command: self.command.clone(),
            cpus: tracer.accounts()?.len() as u32,
            user_hz: host::user_hz(),
            tick_ns: ticks.is_some().then_some(TICK_NS),
            sample_one_in: self.sample.map(NonZeroU32::get),
            irq_time_accounting: host::irq_time_accounting(),
            nodes: host::cpu_nodes().into_iter().collect(),
            absent: tracer.absent().iter().map(ToString::to_string).collect(),
            interrupt_entry_ns: Some(tracer.entry_ns()).filter(|ns| *ns != 0),
            times: processes().map(|(process, stat)| times(process, &stat)).collect(),
            ..RecordingHeader::default()
        };
        // Each contains a whole sampling interval, and so a window.
        let interval = self.interval.max(2 * watch.period());
        let mut running = RunningCommand::start(&self.command)?;
        let written = |source| self.cannot_write(source);
        let mut writer = Writer::start(LineWriter::new(file), header).map_err(written)?;
        let deadline = self.length.map(|length| Instant::now() + length);
        loop {
            let reading = watch.read(interval, |until| running.wait(until, deadline))?;
            let besides = IntervalExtras {
                own: reading.own,
                ticks: ticks.as_mut().map(Ticks::take).transpose()?.unwrap_or_default(),
            };
            let owner = |cookie| watch.meter.tracer().owner(cookie);
            let of = |process| Stat::of(process).map(|stat| times(process, &stat));
            writer
                .interval(&reading.interval, besides, &mut watch.names, of, owner)
                .map_err(written)?;
            if reading.last {
                break;
            }
        }
        let tracer = watch.meter.tracer();
        let end = RecordingTrailer {
            to_ns: watch.meter.last_reading_ns(),
            lost_events: tracer.losses()?.events,
            conditions: serde_json::to_value(run.finish().conditions)?,
        };
        writer.finish(end, |cookie| tracer.owner(cookie)).map_err(written)?;
        running.end()
    }

    fn cannot_write(&self, source: recording::Error) -> Error {
        Error::Write { path: self.output.clone(), source }
    }
}

/// Starts the tracer; without ticks if the kernel has no clock for the paper's algorithm. That algorithm counts
/// each packet, so a sampled recording has no ticks either.
fn start(
    sample: Option<NonZeroU32>,
    without_ticks: impl FnOnce(onbeat_irq::Error),
) -> Result<(Tracer, Option<Ticks>)> {
    if sample.is_some() {
        return Ok((Tracer::start_sampled()?, None));
    }
    match Tracer::start_with_ticks() {
        Ok((tracer, ticks)) => Ok((tracer, Some(ticks))),
        Err(error) => {
            let tracer = Tracer::start()?;
            without_ticks(error);
            Ok((tracer, None))
        }
    }
}

fn times(process: Process, stat: &Stat) -> Times {
    Times { process, user_ticks: stat.user_ticks, system_ticks: stat.system_ticks }
}

/// The command, if there is one. It is killed with the recording.
struct RunningCommand {
    child: Option<Child>,
    command: String,
}

impl RunningCommand {
    fn start(command: &[String]) -> Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Self { child: None, command: String::new() });
        };
        let child = Command::new(program)
            .args(arguments)
            .spawn()
            .map_err(|source| Error::Start { command: program.clone(), source })?;
        Ok(Self { child: Some(child), command: program.clone() })
    }

    /// Waits until an instant; false if the recording is over.
    fn wait(&self, until: Instant, deadline: Option<Instant>) -> Result<bool> {
        /// Maximum delay before the exit of the command is noticed.
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
            if !wait(next) {
                return Ok(false);
            }
        }
    }

    /// The command stays a zombie, so that /proc shows its time until it is recorded.
    fn has_ended(&self) -> Result<bool> {
        let Some(child) = &self.child else { return Ok(false) };
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(Pid::from_raw(child.id() as i32)), flags)
            .map_err(|errno| self.cannot_wait(errno.into()))?;
        Ok(status != WaitStatus::StillAlive)
    }

    fn end(&mut self) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        // It has exited, or is killed now.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        child.wait().map(Some).map_err(|source| self.cannot_wait(source))
    }

    fn cannot_wait(&self, source: io::Error) -> Error {
        Error::Wait { command: self.command.clone(), source }
    }
}

impl Drop for RunningCommand {
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

    #[test]
    fn the_recording_ends_with_the_command_or_the_time() {
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut running = RunningCommand::start(&["true".into()]).unwrap();
        while running.wait(soon(), None).unwrap() {}
        assert!(running.end().unwrap().unwrap().success());
        let mut running = RunningCommand::start(&["false".into()]).unwrap();
        while running.wait(soon(), None).unwrap() {}
        assert!(!running.end().unwrap().unwrap().success());
        let running = RunningCommand::start(&[]).unwrap();
        assert!(!running.wait(soon(), Some(Instant::now())).unwrap());
        assert!(running.wait(Instant::now(), Some(soon())).unwrap());
        assert!(RunningCommand::start(&["/no/such/program".into()]).is_err());
    }
}
