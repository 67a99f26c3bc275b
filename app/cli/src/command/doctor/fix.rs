//! `onbeat doctor --fix`

use std::ffi::OsString;
use std::fmt::Write;
use std::process::Command;

use onbeat_host::settings::{
    self, Change, Journal, Kind, Outcome, Report, Tuning, apply, lines, plan, roll_back,
};
use onbeat_node::doctor::{Finding, Level, table};
use onbeat_realtime::{CpuSet, DmaLatency, HeldSignals, Scheduling};
use serde::Serialize;

use super::Where;
use onbeat_terminal::exit::{Answer, Result, warn};
use onbeat_terminal::output;

/// How to put back.
const UNDO: &str = "onbeat doctor --restore";

#[derive(Debug, clap::Args)]
pub(super) struct Fix {
    /// Change what is set badly for real time, and can be changed while the host runs
    #[arg(long)]
    pub(super) fix: bool,
    /// Only print what would be changed
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// CPUs for the interfaces' interrupts and NAPI threads, such as 1 or 2-3; without it they stay
    #[arg(long, requires = "fix", value_name = "CPUS")]
    cpu: Vec<CpuSet>,
    /// SCHED_FIFO priority of the interfaces' NAPI threads
    #[arg(long, requires = "fix", value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    napi_priority: Option<u8>,
    /// Change these settings only: governor, rt-throttling, offloads, coalescing, energy-efficient,
    /// threaded-napi, irq-affinity, napi-priority, napi-affinity
    #[arg(long, requires = "fix", value_name = "SETTING", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Where a change fails, keep the others instead of putting all back
    #[arg(long, requires = "fix")]
    pub(super) keep_going: bool,
    /// Keep the CPUs from deep sleep, too (/dev/cpu_dma_latency), while COMMAND runs or until Ctrl-C,
    /// and then put all back
    #[arg(long, requires = "fix", conflicts_with = "dry_run")]
    pub(super) hold: bool,
    /// The longest wake-up of a CPU that --hold allows; without it 0: no sleep at all
    #[arg(long, requires = "hold", value_name = "MICROSECONDS")]
    latency_us: Option<u32>,
    /// What to run with --hold
    #[arg(last = true, requires = "hold")]
    pub(super) command: Vec<OsString>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Fixed {
    ok: bool,
    changes: Vec<settings::Line>,
    /// What follows once the changes are made.
    later: Vec<String>,
    cannot: Vec<String>,
    /// What is wrong and not changed by --fix.
    left: Vec<Finding>,
    undo: Option<&'static str>,
}

impl Fix {
    pub(super) fn tuning(&self, interfaces: Vec<String>) -> Tuning {
        let cpus: CpuSet = self.cpu.iter().flat_map(CpuSet::iter).collect();
        let default = Tuning::default();
        Tuning {
            interfaces,
            cpus: (!cpus.is_empty()).then_some(cpus),
            napi: self.napi_priority.map_or(default.napi, Scheduling::Fifo),
            only: if self.only.is_empty() { default.only } else { self.only.clone() },
        }
    }

    pub(super) fn execute(self, at: &Where, interfaces: Vec<String>, json: bool) -> Result {
        let tuning = self.tuning(interfaces);
        if self.dry_run {
            let survey = at.host(|host| settings::Host::survey(host, &tuning.interfaces))??;
            return print(at, &tuning, &plan(&tuning, &survey).into(), json, self.hold);
        }
        // From here on a signal must not end the process between two changes.
        let signals = HeldSignals::begin()?;
        let mut journal = at.journal()?;
        let latency = self.hold_latency(at)?;
        let keep_going = self.keep_going;
        let mut report = at.host(|host| apply(host, &mut journal, &tuning, keep_going))??;
        let printed = print(at, &tuning, &report, json, self.hold);
        let Some(latency) = latency else { return printed };
        let ended = match printed {
            Ok(Answer::Bad) if !keep_going => Ok(Answer::Bad),
            Ok(_) => self.session(&signals, &latency),
            Err(failure) => Err(failure),
        };
        let restored = end(at, &mut journal, &mut report.changes)?;
        ended.map(|answer| if restored { answer } else { Answer::Bad })
    }

    fn hold_latency(&self, at: &Where) -> Result<Option<DmaLatency>> {
        let latency_us = self.latency_us.unwrap_or(0);
        let device = at.below(DmaLatency::DEVICE);
        let hold = || DmaLatency::hold_device(&device, latency_us);
        Ok(self.hold.then(hold).transpose()?)
    }

    /// Until the command or the user ends it.
    fn session(&self, signals: &HeldSignals, latency: &DmaLatency) -> Result {
        let us = latency.latency_us();
        let Some((program, words)) = self.command.split_first() else {
            output::print(&format!(
                "holding {} at {us} us; Ctrl-C puts all back\n",
                DmaLatency::DEVICE
            ))?;
            signals.wait()?;
            return Ok(Answer::Good);
        };
        let status = signals.run(Command::new(program).args(words))?;
        Ok(Answer::good_if(status.success()))
    }
}

/// Restores the values from before the session; whether all could be restored.
fn end(at: &Where, journal: &mut Journal, changes: &mut [Change]) -> Result<bool> {
    at.host(|host| roll_back(host, journal, changes))??;
    for change in changes.iter().filter(|change| change.outcome == Outcome::Stuck) {
        let reason = change.reason.as_deref().unwrap_or_default();
        warn(format!("{} is not as before: {reason}; try: {UNDO}", change.setting.place));
    }
    Ok(changes.iter().all(|change| change.outcome != Outcome::Stuck))
}

/// Prints what was changed, for a `session` that restores it on exit or until the next boot.
fn print(at: &Where, tuning: &Tuning, report: &Report, json: bool, session: bool) -> Result {
    let ok = report.is_good();
    let changed = |change: &Change| matches!(change.outcome, Outcome::Changed | Outcome::Stuck);
    let undo = report.changes.iter().any(changed).then_some(UNDO);
    let mut left = at.examine(&tuning.interfaces);
    left.retain(|finding| finding.level >= Level::Warn && finding.fix.is_none());
    if json {
        output::print_json(&Fixed {
            ok,
            changes: lines(&report.changes),
            later: report.later.clone(),
            cannot: report.cannot.clone(),
            left,
            undo,
        })?;
        return Ok(Answer::good_if(ok));
    }
    let mut text = settings::table(report);
    if report.changes.is_empty() && report.cannot.is_empty() {
        text.push_str("nothing to change\n");
    }
    // Writing to a String cannot fail.
    if let Some(undo) = undo {
        let _ = if session {
            writeln!(text, "restored on exit; restore after kill -9 with: {undo}")
        } else {
            writeln!(text, "until the next boot; put back with: {undo}")
        };
    }
    if !left.is_empty() {
        let _ = write!(text, "\nnot changed by --fix:\n{}", table(&left));
    }
    output::print(&text)?;
    Ok(Answer::good_if(ok))
}
