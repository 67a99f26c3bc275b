//! Changes according to a plan, and their restoration; independent of files and devices.

use onbeat_netdev::InterfaceIdentity;
use serde::{Deserialize, Serialize};

use super::{Error, Result};
use super::{Host, Log, Plan, Refusal, Setting, SettingKind, SettingLocation, Tuning, plan};

/// The journal entry of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredEntry")]
pub struct Entry {
    /// The setting.
    pub kind: SettingKind,
    /// Its location.
    pub place: SettingLocation,
    /// The former value.
    pub before: String,
    /// The interface, if the location is within a network namespace.
    pub interface: Option<InterfaceIdentity>,
}

/// An entry of this version or of the former one, which recorded only the inode of the namespace.
#[derive(Deserialize)]
struct StoredEntry {
    kind: SettingKind,
    place: SettingLocation,
    before: String,
    #[serde(default)]
    interface: Option<InterfaceIdentity>,
    #[serde(default)]
    namespace: Option<u64>,
}

impl From<StoredEntry> for Entry {
    fn from(stored: StoredEntry) -> Self {
        let StoredEntry { kind, place, before, interface, namespace } = stored;
        let former = namespace.zip(place.interface());
        let former = former.map(|(namespace, name)| InterfaceIdentity::former(namespace, name));
        Self { kind, place, before, interface: interface.or(former) }
    }
}

impl Entry {
    /// Returns whether it is for this location of this interface.
    fn is_of(&self, place: &SettingLocation, interface: Option<&InterfaceIdentity>) -> bool {
        let is_same = match (&self.interface, interface) {
            (Some(own), Some(other)) => own.is_same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.place == *place && is_same
    }
}

/// The outcome of a planned change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A dry run: the change would be made.
    Planned,
    /// Made and verified.
    Changed,
    /// Not supported by this kernel, driver or device.
    Skipped,
    /// Failed; the value is unchanged.
    Failed,
    /// Made and undone.
    RolledBack,
    /// The value is neither the new nor the former one; the journal keeps it.
    Stuck,
}

/// A planned change with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The change.
    pub setting: Setting,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if it was not made.
    pub reason: Option<String>,
}

/// The outcome of restoring a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// The former value is restored.
    Restored,
    /// The location no longer exists.
    Gone,
    /// The former value is not restored; the journal keeps it.
    Failed,
}

/// An entry of the journal with the outcome of restoring it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredEntry {
    /// The entry.
    pub entry: Entry,
    /// The outcome.
    pub outcome: RestoreOutcome,
    /// The reason of a failure.
    pub reason: Option<String>,
}

/// The result of [`apply`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All attempted changes, in order.
    pub changes: Vec<Change>,
    /// Descriptions of changes that become possible after these; empty once they are made.
    pub later: Vec<String>,
    /// Descriptions of requested settings that are impossible.
    pub cannot: Vec<String>,
}

impl Report {
    /// Returns whether all settings are as requested, or would be; unsupported settings do not count as
    /// failures.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = [Outcome::Planned, Outcome::Changed, Outcome::Skipped];
        self.cannot.is_empty() && self.changes.iter().all(|change| good.contains(&change.outcome))
    }
}

/// The initial changes of a plan, as a dry run.
impl From<Plan> for Report {
    fn from(plan: Plan) -> Report {
        let planned = |setting| Change { setting, outcome: Outcome::Planned, reason: None };
        let changes = plan.settings.into_iter().map(planned).collect();
        Report { changes, later: plan.later, cannot: plan.cannot }
    }
}

/// Applies the requested settings: plans, writes the journal, makes and verifies one change after the other,
/// and plans again until no change is left. If one fails, all changes of this call are undone; with
/// `keep_going` only the failed one.
///
/// A value that an earlier call changed keeps its journal entry: [`restore`] restores the original value.
///
/// # Errors
/// The host cannot be surveyed or the journal cannot be written; the changes are rolled back.
pub fn apply(
    host: &mut dyn Host,
    log: &mut dyn Log,
    tuning: &Tuning,
    keep_going: bool,
) -> Result<Report> {
    let mut report = Report::default();
    let earlier = log.entries();
    match phases(host, log, tuning, keep_going, &mut report) {
        Ok(true) => {
            // A change of the interface's own setting replaces the modes of its instances.
            let is_replaced = |entry: &Entry| match &entry.place {
                SettingLocation::NapiModes { interface } => report.changes.iter().any(|change| {
                    change.outcome == Outcome::Changed
                        && change.setting.place
                            == SettingLocation::Threaded { interface: interface.clone() }
                }),
                _ => false,
            };
            // Unchanged values need no restoration.
            let unchanged = |entry: &Entry| {
                !earlier.contains(entry)
                    && !is_replaced(entry)
                    && report.changes.iter().any(|change| {
                        change.setting.place == entry.place
                            && matches!(change.outcome, Outcome::Skipped | Outcome::Failed)
                    })
            };
            if let Err(error) = remove_entries(log, unchanged) {
                tracing::warn!("{error}; the journal contains unchanged values, which is harmless");
            }
            Ok(report)
        }
        Ok(false) => undo(host, log, &mut report.changes, &earlier).map(|()| report),
        Err(error) => {
            if let Err(other) = undo(host, log, &mut report.changes, &earlier) {
                tracing::warn!("{other}");
            }
            Err(error)
        }
    }
}

/// Runs the phases; returns whether all succeeded, as required by `keep_going`.
fn phases(
    host: &mut dyn Host,
    log: &mut dyn Log,
    tuning: &Tuning,
    keep_going: bool,
    report: &mut Report,
) -> Result<bool> {
    loop {
        let Plan { mut settings, cannot, .. } = plan(tuning, &host.survey(tuning)?);
        report.cannot = cannot;
        let changes = &mut report.changes;
        settings.retain(|setting| {
            changes.iter().all(|change: &Change| change.setting.place != setting.place)
        });
        if settings.is_empty() {
            return Ok(true);
        }
        record(host, log, &settings)?;
        for setting in settings {
            let change = change(host, setting);
            let failed = matches!(change.outcome, Outcome::Failed | Outcome::Stuck);
            changes.push(change);
            if failed && !keep_going {
                return Ok(false);
            }
        }
    }
}

/// Makes changes without a plan: writes the journal, makes and verifies one change after the other. A failed
/// change is undone, and the others are made.
///
/// As with [`apply`], a value that was changed before keeps its journal entry.
///
/// # Errors
/// The journal cannot be written; no change is made.
pub fn change_all(
    host: &mut dyn Host,
    log: &mut dyn Log,
    settings: Vec<Setting>,
) -> Result<Vec<Change>> {
    record(host, log, &settings)?;
    Ok(settings.into_iter().map(|setting| change(host, setting)).collect())
}

/// Writes the journal entries of coming changes, except those it already contains.
fn record(host: &dyn Host, log: &mut dyn Log, settings: &[Setting]) -> Result<()> {
    let mut entries = log.entries();
    let known = entries.len();
    for setting in settings {
        let Setting { kind, place, now, .. } = setting;
        let interface = place.interface().filter(|_| place.is_in_namespace());
        let interface = interface.map(|name| host.identify(name)).transpose();
        let interface = interface.map_err(|refusal| Error::Identity(refusal.to_string()))?;
        if !entries.iter().any(|entry| entry.is_of(place, interface.as_ref())) {
            let (kind, place, before) = (*kind, place.clone(), now.clone());
            entries.push(Entry { kind, place, before, interface });
        }
    }
    if entries.len() == known { Ok(()) } else { log.replace(entries) }
}

/// Makes one change; undoes it if it is incomplete.
fn change(host: &mut dyn Host, setting: Setting) -> Change {
    let made = host.write(&setting.place, &setting.wanted).and_then(|()| {
        let now = host.read(&setting.place)?;
        if setting.place.agrees(&now, &setting.wanted) {
            return Ok(());
        }
        let wanted = &setting.wanted;
        Err(Refusal::Failed(format!(
            "{wanted} was written without an error, but the value is {now}"
        )))
    });
    let (outcome, reason) = match made {
        Ok(()) => (Outcome::Changed, None),
        Err(refusal) => match (restore_value(host, &setting.place, &setting.now), &refusal) {
            (Err(why), _) => {
                (Outcome::Stuck, Some(format!("{refusal}; former value not restored: {why}")))
            }
            (Ok(_), Refusal::Failed(_)) => (Outcome::Failed, Some(refusal.to_string())),
            (Ok(_), _) => (Outcome::Skipped, Some(refusal.to_string())),
        },
    };
    Change { setting, outcome, reason }
}

/// Undoes the changes of [`apply`] in reverse order; changes of earlier calls stay.
///
/// # Errors
/// The journal cannot be written. Values that could not be restored are [`Outcome::Stuck`] in `changes`.
pub fn roll_back(host: &mut dyn Host, log: &mut dyn Log, changes: &mut [Change]) -> Result<()> {
    // If an earlier call changed the same location, its entry is older than the value found by this call.
    let settled = |entry: &Entry| {
        changes
            .iter()
            .any(|change| change.setting.place == entry.place && change.setting.now == entry.before)
    };
    let mut entries = log.entries();
    entries.retain(|entry| !settled(entry));
    undo(host, log, changes, &entries)
}

/// Undoes the changes and removes all journal entries except `earlier` ones and those that are stuck; also
/// entries that were planned and not attempted.
fn undo(
    host: &mut dyn Host,
    log: &mut dyn Log,
    changes: &mut [Change],
    earlier: &[Entry],
) -> Result<()> {
    for change in changes.iter_mut().rev() {
        if !matches!(change.outcome, Outcome::Changed | Outcome::Stuck) {
            continue;
        }
        let made = change.outcome == Outcome::Changed;
        match restore_value(host, &change.setting.place, &change.setting.now) {
            Ok(_) => change.outcome = if made { Outcome::RolledBack } else { Outcome::Failed },
            Err(why) => {
                change.outcome = Outcome::Stuck;
                change.reason.get_or_insert(why);
            }
        }
    }
    let stuck = |place: &SettingLocation| {
        changes
            .iter()
            .any(|change| change.setting.place == *place && change.outcome == Outcome::Stuck)
    };
    remove_entries(log, |entry| !earlier.contains(entry) && !stuck(&entry.place))
}

/// Restores all values of the journal in reverse order and removes their entries.
///
/// # Errors
/// The journal cannot be written.
pub fn restore(host: &mut dyn Host, log: &mut dyn Log) -> Result<Vec<RestoredEntry>> {
    let mut restored = Vec::new();
    for entry in log.entries().into_iter().rev() {
        let found = entry.interface.as_ref().map(|interface| host.find(interface)).transpose();
        let result = match found {
            Err(refusal) => Err(refusal.to_string()),
            Ok(Some(None)) => Err(format!(
                "interface {:?} not found; make it available again, or discard its settings with --forget",
                entry.place.interface().unwrap_or_default()
            )),
            Ok(Some(Some(name))) => restore_value(host, &entry.place.renamed(&name), &entry.before),
            Ok(None) => restore_value(host, &entry.place, &entry.before),
        };
        let (outcome, reason) = match result {
            Ok(outcome) => (outcome, None),
            Err(why) => (RestoreOutcome::Failed, Some(why)),
        };
        restored.push(RestoredEntry { entry, outcome, reason });
    }
    let failed = |entry: &Entry| {
        restored
            .iter()
            .any(|restored| restored.entry == *entry && restored.outcome == RestoreOutcome::Failed)
    };
    remove_entries(log, |entry| !failed(entry))?;
    Ok(restored)
}

/// Writes a former value and verifies it; does nothing if it is present already.
fn restore_value(
    host: &mut dyn Host,
    place: &SettingLocation,
    before: &str,
) -> std::result::Result<RestoreOutcome, String> {
    let there = |host: &mut dyn Host| host.read(place).map(|now| (place.agrees(&now, before), now));
    let result = match there(host) {
        Ok((true, _)) => return Ok(RestoreOutcome::Restored),
        Ok((false, _)) => host.write(place, before).and_then(|()| there(host)),
        Err(refusal) => Err(refusal),
    };
    match result {
        Ok((true, _)) => Ok(RestoreOutcome::Restored),
        Ok((false, now)) => {
            Err(format!("{before} was written without an error, but the value is {now}"))
        }
        Err(Refusal::Gone) => Ok(RestoreOutcome::Gone),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// Removes entries from the journal; writes it only if it changed.
fn remove_entries(log: &mut dyn Log, removed: impl Fn(&Entry) -> bool) -> Result<()> {
    let entries = log.entries();
    let kept: Vec<Entry> = entries.iter().filter(|entry| !removed(entry)).cloned().collect();
    if kept.len() == entries.len() { Ok(()) } else { log.replace(kept) }
}
