//! `onbeat doctor --fix`: changes settings of a host, and reports the changes.

use std::fmt::Write;
use std::path::PathBuf;

use onbeat_host::settings::{
    self, Change, Journal, Outcome, Report, Result, SettingKind, roll_back,
};
use serde::Serialize;

use super::{Finding, HostRoot, KernelDevices, Level, examine, examine_nodes, table};
use crate::metrics::Collector;

/// The command that restores changed settings.
pub const UNDO: &str = "onbeat doctor --restore";

/// The command that discards a damaged journal.
const DISCARD: &str = "onbeat doctor --restore --forget";

/// The host whose settings are examined and changed.
#[derive(Debug, Default)]
pub struct Target {
    /// Directory of its /proc, /sys and /run; `None`: this host.
    pub root: Option<PathBuf>,
}

impl Target {
    /// Examines the nodes that run on this host.
    pub fn examine_nodes(&self) -> Vec<Finding> {
        match &self.root {
            None => examine_nodes(&HostRoot::host(), &Collector::of_user().collect()),
            Some(_) => Vec::new(),
        }
    }

    /// Examines the host and these interfaces.
    pub fn examine(&self, interfaces: &[String]) -> Vec<Finding> {
        match &self.root {
            None => examine(&HostRoot::host(), interfaces),
            Some(root) => examine(&HostRoot::below(root, &KernelDevices), interfaces),
        }
    }

    /// A path below its root directory.
    pub fn below(&self, path: &str) -> PathBuf {
        self.root.as_ref().map_or(path.into(), |root| root.join(path.trim_start_matches('/')))
    }

    /// Directory of its journal.
    pub fn journal_directory(&self) -> PathBuf {
        self.below(Journal::DIRECTORY)
    }

    /// Its journal, locked.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn journal(&self) -> Result<Journal> {
        Journal::open(&self.journal_directory(), DISCARD)
    }

    /// Runs `f` on its settings.
    ///
    /// # Errors
    /// A thread or socket cannot be created.
    pub fn settings<T: Send>(
        &self,
        f: impl FnOnce(&mut settings::LiveHost) -> T + Send,
    ) -> Result<T> {
        match &self.root {
            None => settings::LiveHost::run(f),
            Some(root) => Ok(f(&mut settings::LiveHost::below(root))),
        }
    }

    /// Restores the changes of a report; returns those that could not be restored.
    ///
    /// # Errors
    /// As [`roll_back`].
    pub fn restore(&self, journal: &mut Journal, mut report: Report) -> Result<Vec<Change>> {
        self.settings(|host| roll_back(host, journal, &mut report.changes))??;
        report.changes.retain(|change| change.outcome == Outcome::Stuck);
        Ok(report.changes)
    }
}

/// Result of `--fix`, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct FixReport {
    /// Whether all settings are, or would be, as required.
    pub ok: bool,
    changes: Vec<settings::ChangeLine>,
    /// Effects that follow the changes.
    later: Vec<String>,
    cannot: Vec<String>,
    /// Findings that --fix does not change.
    left: Vec<Finding>,
    undo: Option<&'static str>,
}

impl FixReport {
    /// The changes of a report, and the remaining findings on the host and these interfaces.
    pub fn new(report: &Report, target: &Target, interfaces: &[String]) -> FixReport {
        let changed = |change: &Change| matches!(change.outcome, Outcome::Changed | Outcome::Stuck);
        let mut left = target.examine(interfaces);
        let is_left = |finding: &Finding| finding.fix.is_none_or(SettingKind::is_by_name);
        left.retain(|finding| finding.level >= Level::Warn && is_left(finding));
        FixReport {
            ok: report.is_good(),
            changes: settings::lines(&report.changes),
            later: report.later.clone(),
            cannot: report.cannot.clone(),
            left,
            undo: report.changes.iter().any(changed).then_some(UNDO),
        }
    }

    /// The result as text. A `session` restores the settings on exit; otherwise they last until the next boot.
    pub fn text(&self, report: &Report, session: bool) -> String {
        let mut text = settings::table(report);
        if report.changes.is_empty() && report.cannot.is_empty() {
            text.push_str("nothing to change\n");
        }
        // Writing to a String cannot fail.
        if let Some(undo) = self.undo {
            let _ = if session {
                writeln!(text, "restored on exit; restore after kill -9 with: {undo}")
            } else {
                writeln!(text, "until the next boot; restore with: {undo}")
            };
        }
        if !self.left.is_empty() {
            let _ = write!(text, "\nnot changed by --fix:\n{}", table(&self.left));
        }
        text
    }
}
