//! `onbeat doctor --fix`

use std::ffi::OsString;
use std::process::Command;

use onbeat_host::settings::{Host, Report, SettingKind, Tuning, apply, plan};
use onbeat_node::doctor::{FixReport, Target, UNDO};
use onbeat_realtime::{BlockedSignals, CpuSet, DmaLatency, Scheduling};
use onbeat_terminal::exit::{CommandResult, Result, warn};
use onbeat_terminal::output;
use onbeat_terminal::values::one_of;

#[derive(Debug, clap::Args)]
pub(super) struct FixOptions {
    /// Change settings that are unsuitable for real time and can be changed at run time
    #[arg(long)]
    pub(super) fix: bool,
    /// Print the changes without making them
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// CPUs for the interfaces' interrupts and NAPI threads, such as 1 or 2-3 [default: unchanged]
    #[arg(long, requires = "fix", value_name = "CPUS")]
    cpu: Vec<CpuSet>,
    /// SCHED_FIFO priority of the interfaces' NAPI threads
    #[arg(long, requires = "fix", value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    napi_priority: Option<u8>,
    /// Change only these settings. `manager` is never changed by default, because this ends connections over the interface
    #[arg(long, requires = "fix", value_name = "SETTING", value_delimiter = ',')]
    #[arg(value_parser = one_of(SettingKind::ALL.map(|kind| (kind.name(), kind))))]
    only: Vec<SettingKind>,
    /// Keep the other changes if one fails, instead of restoring all
    #[arg(long, requires = "fix")]
    pub(super) keep_going: bool,
    /// Also prevent deep CPU sleep states (/dev/cpu_dma_latency); hold the settings while COMMAND runs or
    /// until Ctrl-C, then restore them
    #[arg(long, requires = "fix", conflicts_with = "dry_run")]
    pub(super) hold: bool,
    /// Longest CPU wake-up time that --hold allows; 0 prevents all sleep states [default: 0]
    #[arg(long, requires = "hold", value_name = "MICROSECONDS")]
    latency_us: Option<u32>,
    /// Command to run with --hold
    #[arg(last = true, requires = "hold")]
    pub(super) command: Vec<OsString>,
}

impl FixOptions {
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

    pub(super) fn execute(self, at: &Target, interfaces: Vec<String>, json: bool) -> Result {
        let tuning = self.tuning(interfaces);
        let print = |report: &Report| -> Result {
            let fixed = FixReport::new(report, at, &tuning.interfaces);
            if json {
                output::print_json(&fixed)?;
            } else {
                output::print(&fixed.text(report, self.hold))?;
            }
            Ok(CommandResult::good_if(fixed.ok))
        };
        if self.dry_run {
            let survey = at.settings(|host| host.survey(&tuning))??;
            return print(&plan(&tuning, &survey).into());
        }
        // From here on a signal must not terminate the process between two changes.
        let signals = BlockedSignals::begin()?;
        let mut journal = at.journal()?;
        let latency = self.hold_latency(at)?;
        let report = at.settings(|host| apply(host, &mut journal, &tuning, self.keep_going))??;
        let printed = print(&report);
        let Some(latency) = latency else { return printed };
        let ended = match printed {
            Ok(CommandResult::Negative) if !self.keep_going => Ok(CommandResult::Negative),
            Ok(_) => self.session(&signals, &latency),
            Err(failure) => Err(failure),
        };
        let stuck = at.restore(&mut journal, report)?;
        for change in &stuck {
            let reason = change.reason.as_deref().unwrap_or_default();
            warn(format!("{} not restored: {reason}; try: {UNDO}", change.setting.place));
        }
        ended.map(|answer| if stuck.is_empty() { answer } else { CommandResult::Negative })
    }

    fn hold_latency(&self, at: &Target) -> Result<Option<DmaLatency>> {
        let latency_us = self.latency_us.unwrap_or(0);
        let device = at.below(DmaLatency::DEVICE);
        let hold = || DmaLatency::hold_device(&device, latency_us);
        Ok(self.hold.then(hold).transpose()?)
    }

    /// Holds the settings until the command exits or a signal is received.
    fn session(&self, signals: &BlockedSignals, latency: &DmaLatency) -> Result {
        let us = latency.latency_us();
        let Some((program, words)) = self.command.split_first() else {
            output::print(&format!(
                "holding {} at {us} us; Ctrl-C restores all settings\n",
                DmaLatency::DEVICE
            ))?;
            signals.wait()?;
            return Ok(CommandResult::Success);
        };
        let status = signals.run(Command::new(program).args(words))?;
        Ok(CommandResult::good_if(status.success()))
    }
}
