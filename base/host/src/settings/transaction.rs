//! Changing by a plan, and putting back: knows neither files nor devices.

use onbeat_netdev::InterfaceIdentity;
use serde::{Deserialize, Serialize};

use super::{Error, Result};
use super::{Host, Kind, Log, Place, Plan, Refusal, Setting, Tuning, plan};

/// What a journal keeps of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredEntry")]
pub struct Entry {
    /// Which setting it is.
    pub kind: Kind,
    /// Where it is.
    pub place: Place,
    /// The value before.
    pub before: String,
    /// The interface, where the place is within a network namespace.
    pub interface: Option<InterfaceIdentity>,
}

/// An entry of this version or of the former one, which held the inode of the namespace alone.
#[derive(Deserialize)]
struct StoredEntry {
    kind: Kind,
    place: Place,
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
    /// Whether it is of the place of this interface.
    fn is_of(&self, place: &Place, interface: Option<&InterfaceIdentity>) -> bool {
        let is_same = match (&self.interface, interface) {
            (Some(own), Some(other)) => own.is_same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.place == *place && is_same
    }
}

/// What came of a planned change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It would be made.
    Planned,
    /// Made, and read back.
    Changed,
    /// This kernel, driver or device does not have it.
    Skipped,
    /// It could not be made. The value is as before.
    Failed,
    /// Made, and undone.
    RolledBack,
    /// The value is neither as wanted nor as before; the journal keeps it.
    Stuck,
}

/// A planned change, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The change.
    pub setting: Setting,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, where it was not made.
    pub reason: Option<String>,
}

/// What came of putting back a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PutBack {
    /// It is as before.
    Restored,
    /// Its place is gone.
    Gone,
    /// It is not as before; the journal keeps it.
    Failed,
}

/// An entry of the journal, and what came of putting it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The entry.
    pub entry: Entry,
    /// What came of it.
    pub outcome: PutBack,
    /// Why it failed.
    pub reason: Option<String>,
}

/// What [`apply`] made of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Every change that was tried, in order.
    pub changes: Vec<Change>,
    /// What follows when these are made, in words; nothing once they are.
    pub later: Vec<String>,
    /// What was wanted and cannot be, in words.
    pub cannot: Vec<String>,
}

impl Report {
    /// Whether everything is as wanted, or would be: what this host does not have is no fault.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = [Outcome::Planned, Outcome::Changed, Outcome::Skipped];
        self.cannot.is_empty() && self.changes.iter().all(|change| good.contains(&change.outcome))
    }
}

/// What would be changed first.
impl From<Plan> for Report {
    fn from(plan: Plan) -> Report {
        let planned = |setting| Change { setting, outcome: Outcome::Planned, reason: None };
        let changes = plan.settings.into_iter().map(planned).collect();
        Report { changes, later: plan.later, cannot: plan.cannot }
    }
}

/// Changes what differs from what is wanted: plans, writes the journal, changes one by one, reads
/// each back, and plans again until nothing new is left. Where one cannot be changed, all are put
/// back as they were before this call; with `keep_going` only that one.
///
/// A value that an earlier call changed keeps the entry it has: [`restore`] goes back to the very
/// first.
///
/// # Errors
/// Where the host cannot be surveyed or the journal not be written; what was changed is rolled back.
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
            // Of what was not changed there is nothing to put back.
            let unchanged = |entry: &Entry| {
                !earlier.contains(entry)
                    && report.changes.iter().any(|change| {
                        change.setting.place == entry.place
                            && matches!(change.outcome, Outcome::Skipped | Outcome::Failed)
                    })
            };
            if let Err(error) = forget(log, unchanged) {
                tracing::warn!(
                    "{error}; it names values that were not changed, which does no harm"
                );
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

/// Whether all went well, as far as `keep_going` asks.
fn phases(
    host: &mut dyn Host,
    log: &mut dyn Log,
    tuning: &Tuning,
    keep_going: bool,
    report: &mut Report,
) -> Result<bool> {
    loop {
        let Plan { mut settings, cannot, .. } = plan(tuning, &host.survey(&tuning.interfaces)?);
        report.cannot = cannot;
        let changes = &mut report.changes;
        settings.retain(|setting| {
            changes.iter().all(|change: &Change| change.setting.place != setting.place)
        });
        if settings.is_empty() {
            return Ok(true);
        }
        remember(host, log, &settings)?;
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

/// Makes changes that are not of a plan: writes the journal, changes one by one, reads each back. One
/// that fails is put back, and the others are made.
///
/// As with [`apply`], a value that was changed before keeps the entry it has.
///
/// # Errors
/// Where the journal cannot be written; nothing was changed.
pub fn change_all(
    host: &mut dyn Host,
    log: &mut dyn Log,
    settings: Vec<Setting>,
) -> Result<Vec<Change>> {
    remember(host, log, &settings)?;
    Ok(settings.into_iter().map(|setting| change(host, setting)).collect())
}

/// Writes the journal of changes to come, where they are news to it.
fn remember(host: &dyn Host, log: &mut dyn Log, settings: &[Setting]) -> Result<()> {
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

/// Makes one change; what comes of it by halves is put back.
fn change(host: &mut dyn Host, setting: Setting) -> Change {
    let made = host.write(&setting.place, &setting.wanted).and_then(|()| {
        let now = host.read(&setting.place)?;
        if setting.place.agrees(&now, &setting.wanted) {
            return Ok(());
        }
        let wanted = &setting.wanted;
        Err(Refusal::Failed(format!("{wanted} was written without an error, and it is {now}")))
    });
    let (outcome, reason) = match made {
        Ok(()) => (Outcome::Changed, None),
        Err(refusal) => match (put_back(host, &setting.place, &setting.now), &refusal) {
            (Err(why), _) => (Outcome::Stuck, Some(format!("{refusal}; not as before: {why}"))),
            (Ok(_), Refusal::Failed(_)) => (Outcome::Failed, Some(refusal.to_string())),
            (Ok(_), _) => (Outcome::Skipped, Some(refusal.to_string())),
        },
    };
    Change { setting, outcome, reason }
}

/// Puts back what [`apply`] changed, in the reverse order; of earlier calls, nothing.
///
/// # Errors
/// Where the journal cannot be written. Values that could not be put back are
/// [`Outcome::Stuck`] in `changes`.
pub fn roll_back(host: &mut dyn Host, log: &mut dyn Log, changes: &mut [Change]) -> Result<()> {
    // Where an earlier call had changed the same place, its entry is older than what this one found.
    let settled = |entry: &Entry| {
        changes
            .iter()
            .any(|change| change.setting.place == entry.place && change.setting.now == entry.before)
    };
    let mut entries = log.entries();
    entries.retain(|entry| !settled(entry));
    undo(host, log, changes, &entries)
}

/// Puts back the changes, and takes out of the journal all but `earlier` entries and those that are
/// stuck: what was planned and never tried is in it, too.
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
        match put_back(host, &change.setting.place, &change.setting.now) {
            Ok(_) => change.outcome = if made { Outcome::RolledBack } else { Outcome::Failed },
            Err(why) => {
                change.outcome = Outcome::Stuck;
                change.reason.get_or_insert(why);
            }
        }
    }
    let stuck = |place: &Place| {
        changes
            .iter()
            .any(|change| change.setting.place == *place && change.outcome == Outcome::Stuck)
    };
    forget(log, |entry| !earlier.contains(entry) && !stuck(&entry.place))
}

/// Puts back everything that the journal knows, in the reverse order, and takes it out.
///
/// # Errors
/// Where the journal cannot be written.
pub fn restore(host: &mut dyn Host, log: &mut dyn Log) -> Result<Vec<Restored>> {
    let mut restored = Vec::new();
    for entry in log.entries().into_iter().rev() {
        let found = entry.interface.as_ref().map(|interface| host.find(interface)).transpose();
        let result = match found {
            Err(refusal) => Err(refusal.to_string()),
            Ok(Some(None)) => Err(format!(
                "interface {:?} is not here; bring it back, or discard its settings with --forget",
                entry.place.interface().unwrap_or_default()
            )),
            Ok(Some(Some(name))) => put_back(host, &entry.place.renamed(&name), &entry.before),
            Ok(None) => put_back(host, &entry.place, &entry.before),
        };
        let (outcome, reason) = match result {
            Ok(outcome) => (outcome, None),
            Err(why) => (PutBack::Failed, Some(why)),
        };
        restored.push(Restored { entry, outcome, reason });
    }
    let failed = |entry: &Entry| {
        restored
            .iter()
            .any(|restored| restored.entry == *entry && restored.outcome == PutBack::Failed)
    };
    forget(log, |entry| !failed(entry))?;
    Ok(restored)
}

/// Writes a value of before, and reads it back; nothing where it is there already.
fn put_back(
    host: &mut dyn Host,
    place: &Place,
    before: &str,
) -> std::result::Result<PutBack, String> {
    let there = |host: &mut dyn Host| host.read(place).map(|now| (place.agrees(&now, before), now));
    let result = match there(host) {
        Ok((true, _)) => return Ok(PutBack::Restored),
        Ok((false, _)) => host.write(place, before).and_then(|()| there(host)),
        Err(refusal) => Err(refusal),
    };
    match result {
        Ok((true, _)) => Ok(PutBack::Restored),
        Ok((false, now)) => Err(format!("{before} was written without an error, and it is {now}")),
        Err(Refusal::Gone) => Ok(PutBack::Gone),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// Takes entries out of the journal; writes it only where that changes it.
fn forget(log: &mut dyn Log, forgotten: impl Fn(&Entry) -> bool) -> Result<()> {
    let entries = log.entries();
    let kept: Vec<Entry> = entries.iter().filter(|entry| !forgotten(entry)).cloned().collect();
    if kept.len() == entries.len() { Ok(()) } else { log.replace(kept) }
}
