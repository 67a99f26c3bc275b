//! Reports of changes, as text and JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{
    Change, Entry, Outcome, Report, RestoreOutcome, RestoredEntry, SettingKind, SettingLocation,
};

/// A change in the `--json` output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeLine {
    /// The setting, such as `rt-throttling`.
    id: &'static str,
    interface: Option<String>,
    what: &'static str,
    /// The file or command with which a user reads the value.
    r#where: String,
    before: String,
    after: String,
    outcome: Outcome,
    reason: Option<String>,
    why: &'static str,
    cost: &'static str,
}

/// A restored value in the `--json` output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredLine {
    id: &'static str,
    interface: Option<String>,
    r#where: String,
    before: String,
    outcome: RestoreOutcome,
    reason: Option<String>,
}

impl From<RestoredEntry> for RestoredLine {
    fn from(restored: RestoredEntry) -> Self {
        let RestoredEntry { entry: Entry { kind, place, before, .. }, outcome, reason } = restored;
        let interface = place.interface().map(str::to_owned);
        Self { id: kind.name(), interface, r#where: place.to_string(), before, outcome, reason }
    }
}

/// Returns the changes for the `--json` output.
#[must_use]
pub fn lines(changes: &[Change]) -> Vec<ChangeLine> {
    let line = |change: &Change| {
        let setting = &change.setting;
        ChangeLine {
            id: setting.kind.name(),
            interface: setting.interface.clone(),
            what: setting.kind.what(),
            r#where: setting.place.to_string(),
            before: setting.shown(),
            after: setting.wanted.clone(),
            outcome: change.outcome,
            reason: change.reason.clone(),
            why: setting.kind.why(),
            cost: setting.kind.cost(),
        }
    };
    changes.iter().map(line).collect()
}

/// The setting in words, with the name of the manager if there are several.
fn what(kind: SettingKind, place: &SettingLocation) -> String {
    match place {
        SettingLocation::Manager { manager, .. } => format!("network manager {manager}"),
        _ => kind.what().to_owned(),
    }
}

/// Returns the text report: each change with its location; reason and cost once per kind.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let mut explained = None;
    for change in &report.changes {
        let setting = &change.setting;
        let outcome = match change.outcome {
            Outcome::Planned => "would",
            Outcome::Changed => "changed",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "FAILED",
            Outcome::RolledBack => "undone",
            Outcome::Stuck => "STUCK",
        };
        let subject = setting.interface.as_ref().map_or(String::new(), |name| format!("{name}: "));
        let (kind, place) = (setting.kind, &setting.place);
        let (before, after) = (setting.shown(), &setting.wanted);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{outcome:<8} {subject}{}: {before} -> {after}", what(kind, place));
        let _ = writeln!(text, "         {place}");
        if let Some(reason) = &change.reason {
            let _ = writeln!(text, "         {reason}");
        }
        if explained != Some((kind, &setting.interface)) {
            let _ = writeln!(text, "         why: {}; cost: {}", kind.why(), kind.cost());
            explained = Some((kind, &setting.interface));
        }
    }
    for later in &report.later {
        let _ = writeln!(text, "then     {later}");
    }
    for cannot in &report.cannot {
        let _ = writeln!(text, "CANNOT   {cannot}");
    }
    text
}

/// Returns the text report of restored values.
#[must_use]
pub fn restored_table(restored: &[RestoredEntry]) -> String {
    let mut text = String::new();
    for RestoredEntry { entry, outcome, reason } in restored {
        let subject = entry.place.interface().map_or(String::new(), |name| format!("{name}: "));
        let outcome = match outcome {
            RestoreOutcome::Restored => "restored",
            RestoreOutcome::Gone => "gone",
            RestoreOutcome::Failed => "FAILED",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{outcome:<8} {subject}{}: {}",
            what(entry.kind, &entry.place),
            entry.before
        );
        let _ = writeln!(text, "         {}", entry.place);
        if let Some(reason) = reason {
            let _ = writeln!(text, "         {reason}");
        }
    }
    text
}
