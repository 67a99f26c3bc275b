//! The guard against a host made of a table: events, their times, and the resulting policies of threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use onbeat_host::settings::{
    Host, Log, NapiThread, Refusal, RestoreOutcome, Setting, SettingKind, SettingLocation, Survey,
    Tuning, change_all,
};
use onbeat_irq_core::policy::{Rank, Settings};
use onbeat_irq_guard::{Candidates, Config, Event, Guard, HostObserver, Usage};
use onbeat_irq_guard::{Error, Result};
use onbeat_netdev::InterfaceIdentity;

use crate::fake::{FakeHost, FakeObserver, Interface, Memory};

const MS: u64 = 1_000_000;

fn fifo(priority: u8) -> Rank {
    Rank::Realtime { priority }
}

fn config(names: &[&str]) -> Config {
    Config::of(names.iter().map(|name| (*name).to_owned()).collect())
}

/// The host that a test changes while a guard uses it.
#[derive(Clone, Default)]
struct World {
    host: Rc<RefCell<FakeHost>>,
    observer: Rc<RefCell<FakeObserver>>,
}

impl Host for World {
    fn survey(&mut self, tuning: &Tuning) -> onbeat_host::settings::Result<Survey> {
        self.host.borrow_mut().survey(tuning)
    }

    fn napi_threads(&mut self, interface: &str) -> onbeat_host::settings::Result<Vec<NapiThread>> {
        self.host.borrow_mut().napi_threads(interface)
    }

    fn read(&mut self, place: &SettingLocation) -> std::result::Result<String, Refusal> {
        self.host.borrow_mut().read(place)
    }

    fn write(&mut self, place: &SettingLocation, value: &str) -> std::result::Result<(), Refusal> {
        self.host.borrow_mut().write(place, value)
    }

    fn identify(&self, interface: &str) -> std::result::Result<InterfaceIdentity, Refusal> {
        self.host.borrow().identify(interface)
    }

    fn find(&self, interface: &InterfaceIdentity) -> std::result::Result<Option<String>, Refusal> {
        self.host.borrow().find(interface)
    }
}

impl HostObserver for World {
    fn devices(&mut self, names: &[String]) -> Result<BTreeMap<String, u32>> {
        self.observer.borrow_mut().devices(names)
    }

    fn candidates(&mut self, devices: &[u32], now_ns: u64) -> Result<Candidates> {
        self.observer.borrow_mut().candidates(devices, now_ns)
    }

    /// The processes of the table have changed.
    fn changed_candidates(&mut self, now_ns: u64) -> Result<Option<Candidates>> {
        self.candidates(&[2, 3], now_ns).map(Some)
    }

    fn followed(&mut self, cpu_time: Duration, _now_ns: u64) {
        let writes = self.host.borrow().writes.len();
        self.observer.borrow_mut().followed.push((cpu_time, writes));
    }

    fn usage(&self) -> Vec<Usage> {
        Vec::new()
    }
}

impl World {
    /// eth0 (2) with threads 20 and 21, eth1 (3) with thread 30.
    fn new() -> Self {
        let world = Self::default();
        *world.host.borrow_mut() = FakeHost::with(&[("eth0", &[20, 21]), ("eth1", &[30])]);
        let indices = [("eth0".to_owned(), 2), ("eth1".to_owned(), 3)].into();
        world.observer.borrow_mut().indices = indices;
        world
    }

    fn wait(&self, device: u32, tid: u32, rank: Rank) {
        self.observer.borrow_mut().waiting.insert((device, tid), rank);
    }

    fn leave(&self, device: u32, tid: u32) {
        self.observer.borrow_mut().waiting.remove(&(device, tid));
    }

    fn policies(&self) -> Vec<(i32, String)> {
        self.host.borrow().policies().into_iter().collect()
    }

    fn threaded(&self) -> Vec<bool> {
        self.host.borrow().interfaces.values().map(|interface| interface.threaded).collect()
    }
}

fn are(policies: &[(i32, &str)]) -> Vec<(i32, String)> {
    policies.iter().map(|(pid, policy)| (*pid, (*policy).to_owned())).collect()
}

type Row<'a> = (u64, &'a dyn Fn(&World), &'a [(i32, &'a str)]);

/// Runs a table: an event at each time, and the resulting policies of threads.
fn run(config: &Config, table: &[Row<'_>]) {
    let world = World::new();
    let before = world.policies();
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let (mut guard, events) = Guard::start(config, &mut host, &mut log, &mut observer).unwrap();
    assert!(events.iter().all(|event| matches!(event, Event::Attached { .. })), "{events:?}");
    for (row, (ms, happens, expected)) in table.iter().enumerate() {
        happens(&world);
        guard.step(ms * MS).unwrap();
        assert_eq!(world.policies(), are(expected), "row {row}: {ms} ms");
    }
    let restored = guard.stop().unwrap();
    assert!(restored.iter().all(|one| one.outcome != RestoreOutcome::Failed), "{restored:?}");
    assert!(log.entries().is_empty(), "{log:?}");
    let lasting = |(pid, _): &&(i32, String)| before.iter().any(|(known, _)| known == pid);
    let now = world.policies();
    assert!(now.iter().filter(lasting).all(|(_, policy)| policy == "other"), "{now:?}");
    assert!(world.threaded().iter().all(|threaded| !threaded));
}

/// All of it counts: other users decide how often processes change.
#[test]
fn the_cpu_time_of_what_follows_from_changes_is_reported() {
    let world = World::new();
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let config = config(&["eth0", "eth1"]);
    let (mut guard, _) = Guard::start(&config, &mut host, &mut log, &mut observer).unwrap();
    guard.step(0).unwrap();
    let before = world.host.borrow().writes.len();
    world.wait(2, 7, fifo(50));
    guard.follow_processes(MS).unwrap();
    guard.stop().unwrap();
    let followed = world.observer.borrow().followed.clone();
    let [(cpu_time, writes)] = followed[..] else { panic!("{followed:?}") };
    // Those of both threads were before.
    assert_eq!(writes, before + 2);
    assert!(!cpu_time.is_zero());
}

#[test]
fn threads_have_the_priority_of_the_highest_waiter() {
    run(
        &config(&["eth0", "eth1"]),
        &[
            (0, &|_| (), &[(20, "other"), (21, "other"), (30, "other")]),
            (
                1,
                &|world| world.wait(2, 7, fifo(50)),
                &[(20, "fifo 50"), (21, "fifo 50"), (30, "other")],
            ),
            // Another process, higher, on both devices; the ceiling applies.
            (
                2,
                &|world| {
                    world.wait(2, 8, fifo(99));
                    world.wait(3, 8, fifo(99));
                },
                &[(20, "fifo 98"), (21, "fifo 98"), (30, "fifo 98")],
            ),
            // It exits: held for 100 ms, and then lowered to the remaining process.
            (
                3,
                &|world| {
                    world.leave(2, 8);
                    world.leave(3, 8);
                },
                &[(20, "fifo 98"), (21, "fifo 98"), (30, "fifo 98")],
            ),
            (102, &|_| (), &[(20, "fifo 98"), (21, "fifo 98"), (30, "fifo 98")]),
            (103, &|_| (), &[(20, "fifo 50"), (21, "fifo 50"), (30, "other")]),
            // It changes its own priority.
            (
                104,
                &|world| world.wait(2, 7, fifo(60)),
                &[(20, "fifo 60"), (21, "fifo 60"), (30, "other")],
            ),
            // Another process sets a thread; a queue is added.
            (
                105,
                &|world| {
                    let mut host = world.host.borrow_mut();
                    let threads = &mut host.interfaces.get_mut("eth0").unwrap().threads;
                    threads.get_mut(&21).unwrap().0 = "rr 5".into();
                    threads.insert(22, ("other".into(), "0-3".into()));
                },
                &[(20, "fifo 60"), (21, "fifo 60"), (22, "fifo 60"), (30, "other")],
            ),
            (
                106,
                &|world| world.wait(3, 9, Rank::Normal { nice: -5 }),
                &[(20, "fifo 60"), (21, "fifo 60"), (22, "fifo 60"), (30, "other nice -5")],
            ),
        ],
    );
}

#[test]
fn a_device_is_removed_and_returns() {
    run(
        &config(&["eth0", "eth1"]),
        &[
            (
                0,
                &|world| world.wait(3, 7, fifo(50)),
                &[(20, "other"), (21, "other"), (30, "fifo 50")],
            ),
            (
                1,
                &|world| {
                    world.host.borrow_mut().interfaces.remove("eth1");
                    world.observer.borrow_mut().indices.remove("eth1");
                },
                &[(20, "other"), (21, "other")],
            ),
            (
                2,
                &|world| {
                    world.host.borrow_mut().add("eth1", &[31]);
                    world.observer.borrow_mut().indices.insert("eth1".into(), 9);
                    world.wait(9, 7, fifo(50));
                },
                &[(20, "other"), (21, "other"), (31, "fifo 50")],
            ),
        ],
    );
}

#[test]
fn threads_have_at_least_the_floor() {
    let settings = Settings { floor: fifo(2), ..Settings::default() };
    let config = Config { settings, ..config(&["eth1"]) };
    run(&config, &[(0, &|_| (), &[(20, "other"), (21, "other"), (30, "fifo 2")])]);
}

#[test]
fn threads_run_on_the_configured_cpus() {
    let world = World::new();
    let config = Config { cpus: Some("1-2".parse().unwrap()), ..config(&["eth0"]) };
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let (mut guard, _) = Guard::start(&config, &mut host, &mut log, &mut observer).unwrap();
    let cpus = || -> Vec<String> {
        let host = world.host.borrow();
        host.interfaces["eth0"].threads.values().map(|(_, cpus)| cpus.clone()).collect()
    };
    assert_eq!(cpus(), ["1-2", "1-2"]);
    let new = ("other".to_owned(), "0-3".to_owned());
    world.host.borrow_mut().interfaces.get_mut("eth0").unwrap().threads.insert(22, new);
    guard.step(0).unwrap();
    assert_eq!(cpus(), ["1-2", "1-2", "1-2"]);
    guard.stop().unwrap();
    assert_eq!(cpus(), ["0-3", "0-3", "0-3"]);
}

/// RPS would move packets to softirq of other CPUs, and so would NAPI without threads.
#[test]
fn what_others_set_is_set_again_with_an_event() {
    let world = World::new();
    let config = Config { cpus: Some("1-2".parse().unwrap()), ..config(&["eth0"]) };
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let (mut guard, _) = Guard::start(&config, &mut host, &mut log, &mut observer).unwrap();
    world.wait(2, 7, fifo(50));
    let mut changes = |change: &dyn Fn(&mut Interface)| -> Vec<String> {
        change(world.host.borrow_mut().interfaces.get_mut("eth0").unwrap());
        let events = guard.step(0).unwrap();
        let changed = |event: &Event| matches!(event, Event::SettingChanged { .. });
        events.iter().filter(|event| changed(event)).map(Event::to_string).collect()
    };
    let again = |setting: &str, found: &str, to: &str| {
        vec![format!("eth0: another process has set {setting} to {found}; set to {to} again")]
    };
    // The guard's own decision is no change of another.
    assert_eq!(changes(&|_| ()), Vec::<String>::new());
    let rps = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    assert_eq!(changes(&|eth0| eth0.steering = "00000002".into()), again(rps, "00000002", "0"));
    let threaded = "/sys/class/net/eth0/threaded";
    assert_eq!(changes(&|eth0| eth0.threaded = false), again(threaded, "0", "1"));
    let thread = |eth0: &mut Interface| eth0.threads.get_mut(&20).unwrap().0 = "other".into();
    assert_eq!(changes(&thread), again("chrt -p 20 (napi/eth0-20)", "other", "fifo 50"));
    let thread = |eth0: &mut Interface| eth0.threads.get_mut(&21).unwrap().1 = "0".into();
    assert_eq!(changes(&thread), again("taskset -pc 21 (napi/eth0-21)", "0", "1-2"));
    // A thread that is new, as after a change of the number of queues.
    let new = ("other".to_owned(), "0-3".to_owned());
    assert_eq!(changes(&|eth0| drop(eth0.threads.insert(22, new.clone()))), Vec::<String>::new());
    assert_eq!(world.policies()[2], (22, "fifo 50".to_owned()));
    guard.stop().unwrap();
    let host = world.host.borrow();
    assert_eq!((host.interfaces["eth0"].steering.as_str(), world.threaded()[0]), ("3", false));
}

#[test]
fn a_setting_that_the_kernel_refuses_is_tried_once() {
    let world = World::new();
    let config = config(&["eth0"]);
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let steering = SettingLocation::SteeringCpus { interface: "eth0".into(), queue: 0 };
    world.host.borrow_mut().unwritable.push(steering);
    let refused = Guard::start(&config, &mut host, &mut log, &mut observer).map(drop).unwrap_err();
    // Other CPUs would process its packets.
    assert_eq!(refused.to_string(), "interface \"eth0\" cannot be guarded: not supported");
    assert_eq!((world.threaded()[0], log.entries().len()), (false, 0));
}

/// A killed guard leaves its journal; the next one restores the settings before it starts.
#[test]
fn the_next_guard_restores_the_settings_of_a_killed_one() {
    let world = World::new();
    let both = config(&["eth0", "eth1"]);
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    world.wait(3, 7, fifo(50));
    let (mut guard, _) = Guard::start(&both, &mut host, &mut log, &mut observer).unwrap();
    guard.step(0).unwrap();
    // Killed: no code runs that would restore.
    drop(guard);
    assert_eq!(world.threaded(), [true, true]);
    assert_eq!(world.policies()[2].1, "fifo 50");

    let one = config(&["eth0"]);
    let (guard, _) = Guard::start(&one, &mut host, &mut log, &mut observer).unwrap();
    assert_eq!(world.threaded(), [true, false]);
    assert_eq!(world.policies(), are(&[(20, "other"), (21, "other"), (30, "other")]));
    guard.stop().unwrap();
    assert_eq!(world.threaded(), [false, false]);
    assert!(log.entries().is_empty());
}

#[test]
fn an_interface_that_is_missing_at_the_start_is_guarded_as_soon_as_it_appears() {
    let world = World::new();
    let both = config(&["eth0", "eth1"]);
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    world.host.borrow_mut().interfaces.remove("eth1");
    world.observer.borrow_mut().indices.remove("eth1");
    let (mut guard, events) = Guard::start(&both, &mut host, &mut log, &mut observer).unwrap();
    assert_eq!(events[1], Event::InterfaceMissing { interface: "eth1".into() });
    assert_eq!(world.threaded(), [true]);
    let is_missing = |event: &Event| matches!(event, Event::InterfaceMissing { .. });
    assert!(!guard.step(0).unwrap().iter().any(is_missing), "reported once");
    world.host.borrow_mut().add("eth1", &[31]);
    world.observer.borrow_mut().indices.insert("eth1".into(), 9);
    let events = guard.step(0).unwrap();
    let is_attached =
        |event: &Event| matches!(event, Event::Attached { interface, .. } if interface == "eth1");
    assert!(events.iter().any(is_attached), "{events:?}");
    assert_eq!(world.threaded(), [true, true]);
    guard.stop().unwrap();
}

#[test]
fn a_guard_of_a_node_starts_without_any_interface() {
    let world = World::new();
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    for name in ["eth0", "eth1"] {
        world.host.borrow_mut().interfaces.remove(name);
        world.observer.borrow_mut().indices.remove(name);
    }
    let alone = config(&["eth0"]);
    let refused = Guard::start(&alone, &mut host, &mut log, &mut observer).map(drop).unwrap_err();
    assert!(refused.to_string().contains("\"eth0\" not found"), "{refused}");
    let of_node = Config { starts_without_interfaces: true, ..alone };
    let (mut guard, events) = Guard::start(&of_node, &mut host, &mut log, &mut observer).unwrap();
    assert_eq!(events, [Event::InterfaceMissing { interface: "eth0".into() }]);
    world.host.borrow_mut().add("eth0", &[20]);
    world.observer.borrow_mut().indices.insert("eth0".into(), 9);
    guard.step(0).unwrap();
    assert_eq!(world.threaded(), [true]);
    guard.stop().unwrap();
}

#[test]
fn an_error_names_the_interface_and_restores_all_settings() {
    let world = World::new();
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let mut begin = |names: &[&str]| {
        let config = config(names);
        let begun = Guard::start(&config, &mut host, &mut log, &mut observer);
        begun.map(drop).unwrap_err().to_string()
    };
    let error = begin(&["eth7", "eth8"]);
    assert_eq!(error, "interface \"eth7\" not found; list interfaces: ip link");
    assert_eq!(world.threaded(), [false, false]);

    let threaded = SettingLocation::Threaded { interface: "eth1".into() };
    world.host.borrow_mut().unwritable.push(threaded);
    let error = begin(&["eth0", "eth1"]);
    assert_eq!(error, "interface \"eth1\" cannot be guarded: not supported");
    assert_eq!(world.threaded(), [false, false]);
    assert!(log.entries().is_empty());
}

#[test]
fn a_thread_that_cannot_be_set_is_reported_once() {
    let world = World::new();
    let config = config(&["eth1"]);
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let place = SettingLocation::ThreadPolicy {
        interface: "eth1".into(),
        pid: 30,
        name: "napi/eth1-30".into(),
    };
    world.host.borrow_mut().unwritable.push(place);
    let (mut guard, _) = Guard::start(&config, &mut host, &mut log, &mut observer).unwrap();
    world.wait(3, 7, fifo(50));
    let reported = |events: &[Event]| {
        events.iter().filter(|event| matches!(event, Event::SettingFailed { .. })).count()
    };
    assert_eq!(reported(&guard.step(0).unwrap()), 1);
    assert_eq!(reported(&guard.step(1).unwrap()), 0);
    guard.stop().unwrap();
}

#[test]
fn a_setting_that_cannot_be_restored_is_an_error() {
    let world = World::new();
    let (mut host, mut observer, mut log) = (world.clone(), world.clone(), Memory::default());
    let place = SettingLocation::Threaded { interface: "eth9".into() };
    world.host.borrow_mut().add("eth9", &[]);
    let (now, wanted) = ("0".to_owned(), "1".to_owned());
    let setting = Setting { kind: SettingKind::ThreadedNapi, interface: None, place, now, wanted };
    change_all(&mut host, &mut log, vec![setting]).unwrap();
    world.host.borrow_mut().interfaces.remove("eth9");
    let config = config(&["eth0"]);
    let error = Guard::start(&config, &mut host, &mut log, &mut observer).map(drop).unwrap_err();
    assert!(matches!(&error, Error::NotRestored { .. }), "{error}");
    assert!(error.to_string().contains("/sys/class/net/eth9/threaded"), "{error}");
}
