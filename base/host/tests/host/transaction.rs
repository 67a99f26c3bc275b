//! Plans and transactions on simulated hosts that fail at defined steps, and are killed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use onbeat_host::settings::Result;
use onbeat_host::settings::{
    Change, Entry, Governor, Host, InterfaceSurvey, Log, Manager, NapiThread, Outcome,
    PacketSteering, Refusal, Report, RestoreOutcome, Setting, SettingKind, SettingLocation, Survey,
    Tuning, apply, plan, restore, roll_back,
};
use onbeat_netdev::InterfaceIdentity;
use proptest::prelude::*;

/// A host with one interface, whose NAPI threads are created and removed.
#[derive(Debug, Clone, Default)]
struct FakeHost {
    values: BTreeMap<String, (SettingLocation, String)>,
    /// Threads remain after NAPI is no longer threaded, as before Linux 6.17.
    threads_stay: bool,
    veth: bool,
    namespace: u64,
    /// Number of writes, and the failure at one of them.
    writes: usize,
    at_write: Option<(usize, Failure)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Refused once.
    Fails,
    /// Reports success without effect.
    FalseSuccess,
    /// Partly applied, then refused.
    Halfway,
    /// Not supported by the device.
    Unsupported,
    /// The process is killed before the write.
    DiesBefore,
    /// The process is killed after the write.
    DiesAfter,
}

const ALL: [Failure; 6] = [
    Failure::Fails,
    Failure::FalseSuccess,
    Failure::Halfway,
    Failure::Unsupported,
    Failure::DiesBefore,
    Failure::DiesAfter,
];

const INTERFACE: &str = "eth0";

fn governor(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")
}

fn throttling() -> SettingLocation {
    SettingLocation::File { path: "/proc/sys/kernel/sched_rt_runtime_us".into() }
}

fn interface() -> String {
    INTERFACE.to_owned()
}

fn name(pid: i32) -> String {
    format!("napi/{INTERFACE}-{pid}")
}

fn managed() -> SettingLocation {
    SettingLocation::Manager { manager: Manager::Networkd, interface: interface() }
}

const THREADS: [i32; 2] = [71, 72];

impl FakeHost {
    /// Creates a host on which every setting needs a change.
    fn untuned() -> Self {
        let mut fake = Self { namespace: 1, ..Self::default() };
        for cpu in 0..2 {
            fake.put(SettingLocation::File { path: governor(cpu) }, "powersave");
        }
        fake.put(throttling(), "950000");
        fake.put(
            SettingLocation::Offloads { interface: interface() },
            "rx-gro tx-tcp-segmentation",
        );
        let coalescing =
            "adaptive-rx=1 adaptive-tx=0 rx-usecs=50 rx-frames=8 tx-usecs=0 tx-frames=0";
        fake.put(SettingLocation::Coalescing { interface: interface() }, coalescing);
        let eee = "enabled=1 advertised=40 tx-lpi=1 tx-lpi-timer-us=17";
        fake.put(SettingLocation::EnergyEfficient { interface: interface() }, eee);
        fake.put(SettingLocation::SteeringCpus { interface: interface(), queue: 0 }, "00000003");
        fake.put(SettingLocation::SteeringFlows { interface: interface(), queue: 0 }, "256");
        fake.put(SettingLocation::Threaded { interface: interface() }, "0");
        for irq in [40, 41] {
            fake.put(SettingLocation::Irq { irq }, "0-3");
        }
        fake.put(managed(), "managed");
        fake
    }

    fn put(&mut self, place: SettingLocation, value: &str) {
        self.values.insert(place.to_string(), (place, value.to_owned()));
    }

    fn get(&self, place: &SettingLocation) -> Option<&String> {
        self.values.get(&place.to_string()).map(|(_, value)| value)
    }

    /// Applies a write to the device.
    fn take(&mut self, place: &SettingLocation, value: &str) {
        let mut value = value.to_owned();
        match place {
            // Omitted keys are unchanged.
            SettingLocation::Coalescing { .. } | SettingLocation::EnergyEfficient { .. } => {
                let now = self.get(place).unwrap().clone();
                let words = now.split(' ').map(|word| {
                    let key = word.split_once('=').unwrap().0;
                    let named = |new: &&str| new.split_once('=').unwrap().0 == key;
                    value.split(' ').find(named).unwrap_or(word)
                });
                value = words.collect::<Vec<_>>().join(" ");
            }
            SettingLocation::NapiModes { .. } => {
                let now = self.get(place).unwrap();
                value = modes(|id| mode(&value, id).or(mode(now, id)).unwrap());
            }
            SettingLocation::Threaded { .. } => {
                let instances = SettingLocation::NapiModes { interface: interface() };
                if self.get(&instances).is_some() {
                    self.put(instances, &modes(|_| value.parse().unwrap()));
                }
                for pid in THREADS {
                    for (thread, begins) in threads(pid) {
                        if value == "1" && self.get(&thread).is_none() {
                            self.put(thread, begins);
                        } else if value == "0" && !self.threads_stay {
                            self.values.remove(&thread.to_string());
                        }
                    }
                }
            }
            _ => {}
        }
        self.put(place.clone(), &value);
    }

    /// Returns the values, except those of threads without a NAPI instance.
    fn state(&self) -> Vec<(String, String)> {
        let threaded = self.get(&SettingLocation::Threaded { interface: interface() });
        let runs = threaded.is_some_and(|threaded| threaded != "0");
        let counts =
            |place: &SettingLocation| runs || !THREADS.iter().any(|pid| is_of(place, *pid));
        let values = self.values.iter().filter(|(_, (place, _))| counts(place));
        values.map(|(name, (_, value))| (name.clone(), value.clone())).collect()
    }
}

/// The modes of the NAPI instances of [`THREADS`].
fn modes(mode: impl Fn(i32) -> u32) -> String {
    THREADS.map(|id| format!("{id}={}", mode(id))).join(" ")
}

fn mode(text: &str, id: i32) -> Option<u32> {
    text.split(' ').find_map(|word| word.strip_prefix(&format!("{id}="))?.parse().ok())
}

fn threads(pid: i32) -> [(SettingLocation, &'static str); 2] {
    [
        (SettingLocation::ThreadPolicy { interface: interface(), pid, name: name(pid) }, "other"),
        (SettingLocation::ThreadCpus { interface: interface(), pid, name: name(pid) }, "0-3"),
    ]
}

fn is_of(place: &SettingLocation, thread: i32) -> bool {
    threads(thread).iter().any(|(of_thread, _)| of_thread == place)
}

impl Host for FakeHost {
    fn survey(&mut self, tuning: &Tuning) -> Result<Survey> {
        let path = |cpu| SettingLocation::File { path: governor(cpu) };
        let governors = (0..2).filter_map(|cpu| {
            let now = self.get(&path(cpu))?.clone();
            Some(Governor { path: governor(cpu), now, available: Vec::new() })
        });
        let thread = |pid: i32| {
            let [(policy, _), (cpus, _)] = threads(pid);
            let policy = Some(self.get(&policy)?.clone());
            Some(NapiThread { pid, name: name(pid), policy, cpus: self.get(&cpus)?.clone() })
        };
        let value = |place: SettingLocation| self.get(&place).cloned();
        let threaded = value(SettingLocation::Threaded { interface: interface() });
        let found = InterfaceSurvey {
            name: interface(),
            veth: self.veth,
            offloads: value(SettingLocation::Offloads { interface: interface() }),
            coalescing: value(SettingLocation::Coalescing { interface: interface() }),
            energy_efficient: value(SettingLocation::EnergyEfficient { interface: interface() }),
            steering: vec![PacketSteering {
                queue: 0,
                cpus: value(SettingLocation::SteeringCpus { interface: interface(), queue: 0 }),
                flows: value(SettingLocation::SteeringFlows { interface: interface(), queue: 0 }),
            }],
            irqs: [40, 41]
                .into_iter()
                .filter_map(|irq| Some((irq, value(SettingLocation::Irq { irq })?)))
                .collect(),
            threads: match threaded.as_deref() {
                Some("1") => THREADS.into_iter().filter_map(thread).collect(),
                _ => Vec::new(),
            },
            threaded,
            napi_modes: value(SettingLocation::NapiModes { interface: interface() }),
            managers: value(managed()).map(|now| (Manager::Networkd, now)).into_iter().collect(),
        };
        Ok(Survey {
            cpus: "0-3".parse().unwrap(),
            governors: governors.collect(),
            rt_runtime: value(throttling()),
            interfaces: if tuning.interfaces.is_empty() { vec![] } else { vec![found] },
        })
    }

    fn read(&mut self, place: &SettingLocation) -> std::result::Result<String, Refusal> {
        self.get(place).cloned().ok_or(Refusal::Gone)
    }

    fn write(&mut self, place: &SettingLocation, value: &str) -> std::result::Result<(), Refusal> {
        if self.get(place).is_none() {
            return Err(Refusal::Gone);
        }
        let trouble = self.at_write.filter(|(at, _)| *at == self.writes).map(|(_, what)| what);
        self.writes += 1;
        match trouble {
            None => self.take(place, value),
            Some(Failure::Fails) => return Err(Refusal::Failed("refused".into())),
            Some(Failure::Unsupported) => return Err(Refusal::Unsupported("not here".into())),
            Some(Failure::FalseSuccess) => {}
            Some(Failure::Halfway) => {
                let mut now = self.get(place).unwrap().replace(|c: char| c.is_ascii_digit(), "9");
                if matches!(place, SettingLocation::NapiModes { .. }) {
                    now = modes(|_| 9);
                }
                self.put(place.clone(), if now.contains('=') { &now } else { "neither" });
                return Err(Refusal::Failed("refused".into()));
            }
            Some(Failure::DiesBefore) => resume_unwind(Box::new("killed")),
            Some(Failure::DiesAfter) => {
                self.take(place, value);
                resume_unwind(Box::new("killed"));
            }
        }
        Ok(())
    }

    fn identify(&self, interface: &str) -> std::result::Result<InterfaceIdentity, Refusal> {
        Ok(InterfaceIdentity::former(self.namespace, interface))
    }

    fn find(&self, interface: &InterfaceIdentity) -> std::result::Result<Option<String>, Refusal> {
        let name = interface.name();
        let is_here = interface.is_same(&InterfaceIdentity::former(self.namespace, name));
        is_here
            .then(|| Some(name.to_owned()))
            .ok_or_else(|| Refusal::Failed("it is in another network namespace (net:[1])".into()))
    }
}

/// A journal that survives a simulated kill.
#[derive(Debug, Default)]
struct Memory {
    entries: RefCell<Vec<Entry>>,
    /// Number of further writes that succeed.
    room: Cell<Option<usize>>,
}

impl Log for Memory {
    fn entries(&self) -> Vec<Entry> {
        self.entries.borrow().clone()
    }

    fn replace(&mut self, entries: Vec<Entry>) -> Result<()> {
        if let Some(room) = self.room.get() {
            let left = room.checked_sub(1).ok_or_else(|| onbeat_host::Error::Io {
                path: "journal".into(),
                operation: "write it",
                source: std::io::Error::from_raw_os_error(28),
            })?;
            self.room.set(Some(left));
        }
        *self.entries.borrow_mut() = entries;
        Ok(())
    }
}

fn tuning() -> Tuning {
    Tuning { interfaces: vec![interface()], cpus: Some("1".parse().unwrap()), ..Tuning::default() }
}

fn try_apply(fake: &mut FakeHost, log: &mut Memory, keep_going: bool) -> Option<Report> {
    catch_unwind(AssertUnwindSafe(|| apply(fake, log, &tuning(), keep_going).unwrap())).ok()
}

fn outcomes(changes: &[Change], outcome: Outcome) -> usize {
    changes.iter().filter(|change| change.outcome == outcome).count()
}

/// Number of writes without failures.
const WRITES: usize = 15;

#[test]
fn all_settings_are_changed_and_restored() {
    let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
    let before = fake.state();
    let report = try_apply(&mut fake, &mut log, false).unwrap();
    assert!(report.is_good());
    assert_eq!((outcomes(&report.changes, Outcome::Changed), fake.writes), (WRITES, WRITES));
    assert_eq!(plan(&tuning(), &fake.survey(&tuning()).unwrap()), Default::default());
    let [(policy, _), (cpus, _)] = threads(THREADS[1]);
    assert_eq!((fake.read(&policy), fake.read(&cpus)), (Ok("fifo 50".into()), Ok("1".into())));

    let again = try_apply(&mut fake, &mut log, false).unwrap();
    assert_eq!((again.changes.len(), fake.writes), (0, WRITES), "no further change");
    let restored = restore(&mut fake, &mut log).unwrap();
    assert!(
        restored.iter().all(|restored| restored.outcome == RestoreOutcome::Restored),
        "{restored:?}"
    );
    assert_eq!((fake.state(), log.entries()), (before, vec![]));
}

#[test]
fn threads_are_announced_before_they_exist() {
    let mut fake = FakeHost::untuned();
    let found = plan(&tuning(), &fake.survey(&tuning()).unwrap());
    let expected = "eth0: set fifo 50, CPUs 1 on its NAPI threads when they exist";
    assert_eq!((found.settings.len(), found.later), (WRITES - 4, vec![expected.to_owned()]));
}

#[test]
fn only_permitted_settings_are_changed() {
    let mut fake = FakeHost::untuned();
    let survey = fake.survey(&tuning()).unwrap();
    for kind in SettingKind::ALL {
        let only = Tuning { only: vec![kind], ..tuning() };
        let settings = plan(&only, &survey).settings;
        assert!(settings.iter().all(|setting| setting.kind == kind), "{kind}: {settings:?}");
        let of_threads = matches!(kind, SettingKind::NapiPriority | SettingKind::NapiAffinity);
        assert_eq!(settings.is_empty(), of_threads, "{kind}");
    }
}

/// A manager is kept away only if its setting is named, and gets the interface back.
#[test]
fn a_network_manager_is_kept_away_only_by_name() {
    let mut fake = FakeHost::untuned();
    let before = fake.state();
    let all = Tuning { only: Tuning::default().only, ..tuning() };
    let is_manager = |setting: &Setting| setting.kind == SettingKind::Manager;
    let survey = fake.survey(&all).unwrap();
    assert!(!plan(&all, &survey).settings.iter().any(is_manager));
    let only = Tuning { only: vec![SettingKind::Manager], ..tuning() };
    let mut log = Memory::default();
    let report = apply(&mut fake, &mut log, &only, false).unwrap();
    assert!(report.is_good() && report.changes.len() == 1, "{report:?}");
    assert_eq!(fake.get(&managed()).unwrap(), "unmanaged");
    restore(&mut fake, &mut log).unwrap();
    assert_eq!(fake.state(), before);

    // Its name would match others in the files.
    let mut survey = survey;
    survey.interfaces[0].name = "e*".into();
    let found = plan(&only, &survey);
    assert!(
        found.settings.is_empty() && found.cannot[0].contains("rename the interface"),
        "{found:?}"
    );
}

#[test]
fn without_cpus_nothing_is_moved_and_offline_cpus_are_reported() {
    let mut fake = FakeHost::untuned();
    let survey = fake.survey(&tuning()).unwrap();
    let moves = |tuning: &Tuning| {
        let found = plan(tuning, &survey);
        (
            found.settings.iter().any(|setting| setting.kind == SettingKind::IrqAffinity),
            found.cannot,
        )
    };
    assert_eq!(moves(&Tuning { cpus: None, ..tuning() }), (false, vec![]));
    let cannot = "CPUs 3-4 are not all online; online CPUs: 0-3".to_owned();
    let cpus = Some("3-4".parse().unwrap());
    assert_eq!(moves(&Tuning { cpus, ..tuning() }), (false, vec![cannot]));
}

#[test]
fn a_veth_keeps_its_napi() {
    let mut fake = FakeHost { veth: true, ..FakeHost::untuned() };
    let settings = plan(&tuning(), &fake.survey(&tuning()).unwrap()).settings;
    let offloads = settings.iter().find(|setting| setting.kind == SettingKind::Offloads).unwrap();
    assert_eq!(offloads.wanted, "rx-gro");
}

#[test]
fn an_unavailable_governor_is_reported() {
    let available = vec!["powersave".to_owned(), "userspace".to_owned()];
    let governor = Governor { path: "/g".into(), now: "powersave".into(), available };
    let survey = Survey { governors: vec![governor], ..Survey::default() };
    let found = plan(&Tuning::default(), &survey);
    assert!(found.settings.is_empty());
    assert!(found.cannot[0].contains("only powersave, userspace"), "{:?}", found.cannot);
}

/// After a failure at any step, the host has its former state, immediately or after a restore by the next
/// process.
#[test]
fn after_a_failure_at_any_step_the_host_is_unchanged() {
    for threads_stay in [false, true] {
        for at in 0..WRITES {
            for trouble in ALL {
                let case = format!("write {at} {trouble:?}, threads stay: {threads_stay}");
                let mut fake = FakeHost { threads_stay, ..FakeHost::untuned() };
                let before = fake.state();
                fake.at_write = Some((at, trouble));
                let mut log = Memory::default();
                let report = try_apply(&mut fake, &mut log, false);
                match (&report, trouble) {
                    (None, Failure::DiesBefore | Failure::DiesAfter) => {
                        assert!(!log.entries().is_empty(), "{case}");
                    }
                    (Some(report), Failure::Unsupported) => {
                        assert!(report.is_good(), "{case}");
                        assert_eq!(outcomes(&report.changes, Outcome::Skipped), 1, "{case}");
                    }
                    (Some(report), _) => {
                        assert!(!report.is_good(), "{case}");
                        assert_eq!(outcomes(&report.changes, Outcome::RolledBack), at, "{case}");
                        assert_eq!(fake.state(), before, "{case}: rolled back");
                        assert_eq!(log.entries(), [], "{case}");
                    }
                    (None, _) => panic!("{case}"),
                }
                let restored = restore(&mut fake, &mut log).unwrap();
                let failed = restored.iter().find(|one| one.outcome == RestoreOutcome::Failed);
                assert_eq!(failed, None, "{case}");
                assert_eq!((fake.state(), log.entries()), (before, vec![]), "{case}");
                // A thread without a NAPI instance has no relevant priority.
                for (place, begins) in THREADS.into_iter().flat_map(threads) {
                    assert!(fake.get(&place).is_none_or(|now| now == begins), "{case}");
                }
            }
        }
    }
}

#[test]
fn with_keep_going_only_the_failed_change_is_undone() {
    for at in 0..WRITES {
        for trouble in [Failure::Fails, Failure::FalseSuccess, Failure::Halfway] {
            let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
            let before = fake.state();
            fake.at_write = Some((at, trouble));
            let report = try_apply(&mut fake, &mut log, true).unwrap();
            let failed: Vec<&Change> =
                report.changes.iter().filter(|change| change.outcome != Outcome::Changed).collect();
            let [failed] = failed[..] else { panic!("{at} {trouble:?}: {failed:?}") };
            assert_eq!(failed.outcome, Outcome::Failed, "{at} {trouble:?}");
            assert_eq!(fake.get(&failed.setting.place), Some(&failed.setting.now));
            assert!(log.entries().iter().all(|entry| entry.place != failed.setting.place));
            restore(&mut fake, &mut log).unwrap();
            assert_eq!(fake.state(), before, "{at} {trouble:?}");
        }
    }
}

#[test]
fn without_a_journal_nothing_is_changed() {
    // The first phase's journal, then that of the threads.
    for (room, writes) in [(0, 0), (1, 2 * (WRITES - 4))] {
        let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
        let before = fake.state();
        log.room.set(Some(room));
        let error = apply(&mut fake, &mut log, &tuning(), true).unwrap_err().to_string();
        assert!(error.starts_with("\"journal\": cannot write it: No space left"), "{error}");
        assert_eq!((fake.state(), fake.writes), (before, writes));
    }
}

#[test]
fn the_original_value_is_restored_and_a_session_undoes_its_own_changes() {
    let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
    let before = fake.state();
    let host_only = Tuning { interfaces: Vec::new(), ..tuning() };
    apply(&mut fake, &mut log, &host_only, false).unwrap();
    // Meanwhile another process changes one of the values.
    fake.put(throttling(), "400000");
    let between = fake.state();

    let mut session = apply(&mut fake, &mut log, &tuning(), false).unwrap().changes;
    assert_eq!(session.len(), WRITES - 2);
    roll_back(&mut fake, &mut log, &mut session).unwrap();
    assert_eq!(outcomes(&session, Outcome::RolledBack), session.len());
    assert_eq!((fake.state(), log.entries().len()), (between, 3));
    restore(&mut fake, &mut log).unwrap();
    assert_eq!(fake.state(), before);
}

#[test]
fn moved_interfaces_are_kept_and_removed_ones_expire() {
    let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
    try_apply(&mut fake, &mut log, false).unwrap();
    fake.namespace = 2;
    fake.values.remove(&SettingLocation::Irq { irq: 41 }.to_string());
    let restored = restore(&mut fake, &mut log).unwrap();
    let count = |outcome| restored.iter().filter(|one| one.outcome == outcome).count();
    // Offloads, coalescing, energy-efficient Ethernet, packet steering (2), threaded.
    assert_eq!(
        (count(RestoreOutcome::Failed), count(RestoreOutcome::Gone), log.entries().len()),
        (6, 1, 6)
    );
    let reason = restored.iter().find_map(|one| one.reason.clone()).unwrap();
    assert!(reason.contains("another network namespace (net:[1])"), "{reason}");
    fake.namespace = 1;
    restore(&mut fake, &mut log).unwrap();
    assert_eq!(log.entries(), []);
    assert_eq!(fake.get(&SettingLocation::Threaded { interface: interface() }).unwrap(), "0");
}

/// The setting of the interface replaces the modes of its instances, also when it is restored.
#[test]
fn modes_of_napi_instances_are_restored() {
    let place = SettingLocation::NapiModes { interface: interface() };
    for (threaded, before) in
        [("0", "71=0 72=0"), ("0", "71=1 72=0"), ("0", "71=0 72=2"), ("1", "71=0 72=1")]
    {
        let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
        fake.take(&SettingLocation::Threaded { interface: interface() }, threaded);
        fake.put(place.clone(), before);
        let only = vec![SettingKind::ThreadedNapi];
        apply(&mut fake, &mut log, &Tuning { only, ..tuning() }, false).unwrap();
        let is_threaded = |id| mode(fake.get(&place).unwrap(), id) != Some(0);
        assert!(THREADS.into_iter().all(is_threaded), "{before}: {:?}", fake.get(&place));
        restore(&mut fake, &mut log).unwrap();
        assert_eq!(fake.get(&place).unwrap(), before);
        assert_eq!(log.entries(), []);
    }
}

/// A mode of an instance that cannot be set is replaced by the setting of the interface all the same.
#[test]
fn modes_of_napi_instances_that_cannot_be_set_are_restored() {
    let place = SettingLocation::NapiModes { interface: interface() };
    for at in 0..2 {
        let (mut fake, mut log) = (FakeHost::untuned(), Memory::default());
        fake.take(&SettingLocation::Threaded { interface: interface() }, "0");
        fake.put(place.clone(), "71=0 72=1");
        fake.at_write = Some((at, Failure::Fails));
        let only = vec![SettingKind::ThreadedNapi];
        apply(&mut fake, &mut log, &Tuning { only, ..tuning() }, true).unwrap();
        fake.at_write = None;
        restore(&mut fake, &mut log).unwrap();
        assert_eq!(
            (fake.get(&place).unwrap().as_str(), log.entries()),
            ("71=0 72=1", vec![]),
            "{at}"
        );
    }
}

proptest! {
    /// For any values and two failures, in the first and in the second process.
    #[test]
    fn any_host_is_restored(
        governors in proptest::collection::vec("performance|powersave|schedutil", 2),
        runtime in "-1|950000|1000",
        offloads in "none|rx-gro|rx-gro rx-lro tx-tcp-segmentation",
        usecs in 0_u32..3,
        frames in 0_u32..3,
        threaded in "0|1",
        napi_modes in proptest::option::of("71=[012] 72=[012]"),
        trouble in proptest::option::of((0..WRITES, proptest::sample::select(ALL.to_vec()))),
        second in proptest::option::of(0..WRITES),
        keep_going: bool,
    ) {
        // A kernel that has modes of instances can set them.
        let is_refused = matches!(trouble, Some((_, Failure::Unsupported)));
        prop_assume!(!is_refused || napi_modes.is_none());
        let mut fake = FakeHost::untuned();
        for (cpu, governor_now) in (0..).zip(&governors) {
            fake.put(SettingLocation::File { path: governor(cpu) }, governor_now);
        }
        fake.put(throttling(), &runtime);
        fake.put(SettingLocation::Offloads { interface: interface() }, &offloads);
        let place = SettingLocation::Coalescing { interface: interface() };
        fake.put(place, &format!("rx-usecs={usecs} rx-frames={frames}"));
        fake.take(&SettingLocation::Threaded { interface: interface() }, &threaded);
        if let Some(napi_modes) = napi_modes {
            fake.put(SettingLocation::NapiModes { interface: interface() }, &napi_modes);
        }
        let before = fake.state();

        let mut log = Memory::default();
        fake.at_write = trouble;
        try_apply(&mut fake, &mut log, keep_going);
        // The restoring process is killed, too.
        fake.writes = 0;
        fake.at_write = second.map(|at| (at, Failure::DiesAfter));
        let _ = catch_unwind(AssertUnwindSafe(|| restore(&mut fake, &mut log)));
        fake.at_write = None;
        let restored = restore(&mut fake, &mut log).unwrap();
        prop_assert!(restored.iter().all(|one| one.outcome != RestoreOutcome::Failed), "{:?}", restored);
        prop_assert_eq!((fake.state(), log.entries()), (before, vec![]));
    }
}
