//! `onbeat irq guard`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_host::settings::{self, ChangeLine, RestoreOutcome};
use onbeat_host::trust;
use onbeat_irq_guard::{self as guard, Event, Usage, journal_directory};
use onbeat_node::config::load_guard;
use onbeat_realtime::BlockedSignals;
use serde::Serialize;

use crate::command::restored;
use onbeat_terminal::exit::{CommandResult, Failure, Result, load_to_preview, warn};
use onbeat_terminal::output::{self, Reader};

/// Run receive processing at the priority of the waiting process
///
/// Interfaces of the file's [guard] table receive in threads (threaded NAPI). The priority of these threads
/// follows the highest priority among the threads that wait for packets of the interface. Packets for
/// low-priority processes then do not delay those for higher ones. Processes can have budgets: packets that
/// exceed a budget are dropped early.
///
/// Runs until Ctrl-C, then restores all settings. After a kill -9, the next start or --restore restores
/// them. /usr/share/doc/onbeat/docs/reference/guard.md describes the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq guard guard.toml --dry-run
  onbeat irq guard guard.toml
  onbeat irq guard guard.toml --json | jq -c 'select(.event == \"priority-changed\")'
  onbeat irq guard --restore

Exit status: 0 all settings are restored, 1 a setting could not be restored, 2 error.")]
pub(super) struct Guard {
    /// Configuration of a node, or a file with only a [guard] table
    #[arg(value_name = "FILE", required_unless_present = "restore")]
    file: Option<PathBuf>,
    /// Print the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Restore the settings that a killed guard left
    #[arg(long, conflicts_with_all = ["file", "dry_run"])]
    restore: bool,
    /// Discard settings that cannot be restored, such as those of a deleted interface, and a damaged journal
    // clap does not enforce `requires` if FILE excludes --restore.
    #[arg(long, requires = "restore", conflicts_with_all = ["file", "dry_run"])]
    forget: bool,
    /// Print JSON: one object per line for each event, one object for other output
    #[arg(long)]
    json: bool,
}

/// Output of `--dry-run --json`.
#[derive(Serialize)]
struct PreviewReport {
    changes: Vec<ChangeLine>,
    later: Vec<String>,
    cannot: Vec<String>,
    events: Vec<Event>,
}

/// Interval at which the use of budgets is printed.
const USAGE_INTERVAL: Duration = Duration::from_secs(1);

impl Guard {
    pub(super) fn execute(self) -> Result {
        let directory = journal_directory()?;
        let Some(file) = &self.file else {
            let _signals = BlockedSignals::begin()?;
            if self.forget {
                restored::discard_damaged(&directory)?;
            }
            let restored = guard::restore(&directory, self.forget)?;
            return restored::print(restored, self.forget, self.json);
        };
        if self.dry_run {
            let config = load_to_preview(file, load_guard)?;
            return self.preview(guard::preview(&config)?);
        }
        let config = trust::load(file, load_guard)?;
        // Before any other thread starts: a change in progress is completed or undone.
        let signals = BlockedSignals::begin()?;
        let mut printer = Printer::new(self.json);
        let mut failure = None;
        let restored = {
            let mut go_on = |pause: Duration| match signals.wait_for(pause) {
                Ok(signal) => signal.is_none(),
                Err(error) => {
                    warn(error);
                    false
                }
            };
            let mut print = |events: &[Event], usage: &[Usage]| {
                failure = failure.take().or(printer.print(events, usage).err());
            };
            guard::run(&config, &directory, &mut go_on, &mut print)?
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        let count = |outcome| restored.iter().filter(|one| one.outcome == outcome).count();
        let (restored_now, failed) =
            (count(RestoreOutcome::Restored), count(RestoreOutcome::Failed));
        printer.print(&[Event::Restored { restored: restored_now, failed }], &[])?;
        for one in restored.iter().filter(|one| one.outcome == RestoreOutcome::Failed) {
            let reason = one.reason.as_deref().unwrap_or_default();
            let place = &one.entry.place;
            warn(format!("{place} not restored: {reason}; try: onbeat irq guard --restore"));
        }
        Ok(CommandResult::good_if(restored.iter().all(|one| one.outcome != RestoreOutcome::Failed)))
    }

    fn preview(&self, preview: guard::Preview) -> Result {
        let guard::Preview { report, events } = preview;
        let answer = CommandResult::good_if(report.is_good());
        if self.json {
            output::print_json(&PreviewReport {
                changes: settings::lines(&report.changes),
                later: report.later,
                cannot: report.cannot,
                events,
            })?;
            return Ok(answer);
        }
        let mut text = settings::table(&report);
        for event in events {
            text.push_str(&format!("would    {event}\n"));
        }
        if text.is_empty() {
            text.push_str("nothing to change now\n");
        }
        output::print(&text)?;
        Ok(answer)
    }
}

/// Prints events, and the use of budgets when it changes.
struct Printer {
    json: bool,
    reader: Reader,
    last: Option<Instant>,
    /// By process.
    printed: BTreeMap<u32, Usage>,
}

impl Printer {
    fn new(json: bool) -> Self {
        Self { json, reader: Reader::Open, last: None, printed: BTreeMap::new() }
    }

    fn print(&mut self, events: &[Event], usage: &[Usage]) -> std::result::Result<(), Failure> {
        let mut text = String::new();
        for event in events {
            text.push_str(&self.line(event, event)?);
        }
        let due = self.last.is_none_or(|last| last.elapsed() >= USAGE_INTERVAL);
        if due && !usage.is_empty() {
            self.last = Some(Instant::now());
            for one in usage {
                if self.printed.get(&one.process.pid) == Some(one) {
                    continue;
                }
                text.push_str(&self.line(one, one)?);
            }
            self.printed = usage.iter().map(|one| (one.process.pid, one.clone())).collect();
        }
        if !text.is_empty() && self.reader == Reader::Open {
            self.reader = output::print_to_reader(&text)?;
        }
        Ok(())
    }

    fn line(&self, words: impl std::fmt::Display, json: &impl Serialize) -> Result<String> {
        Ok(if self.json { serde_json::to_string(json)? } else { words.to_string() } + "\n")
    }
}

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn guard_requires_a_file_or_restore() {
        for line in [
            "irq guard a.toml",
            "irq guard a.toml --dry-run --json",
            "irq guard --restore --forget",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "irq",
            "irq guard",
            "irq guard --forget",
            "irq guard a.toml --restore",
            "irq guard --restore --dry-run",
            "irq guard a.toml --forget",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
