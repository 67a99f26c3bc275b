//! A running guard.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_host::settings::RestoreOutcome;
use onbeat_irq_guard::{Background, Config, Event, Usage};
use onbeat_testing::TemporaryDirectory;

use crate::harness::{BOUND, World};

/// All events of a guard, and its last usage of budgets.
type Reports = Arc<Mutex<(Vec<Event>, Vec<Usage>)>>;

/// Held by the guard after each step.
#[derive(Default)]
struct Gate {
    lock: Mutex<()>,
    is_waiting: AtomicBool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        self.is_waiting.store(true, Ordering::SeqCst);
        let _lock = self.lock();
        self.is_waiting.store(false, Ordering::SeqCst);
    }
}

pub(crate) struct RunningGuard {
    guard: Option<Background>,
    reports: Reports,
    gate: Arc<Gate>,
    directory: TemporaryDirectory,
}

impl RunningGuard {
    /// Guards r0 with an interval of 10 ms.
    pub(crate) fn start(world: &World, change: impl FnOnce(&mut Config)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = TemporaryDirectory::new(&format!("guard-{number}"));
        let mut config = Config::of(vec!["r0".to_owned()]);
        config.interval = Duration::from_millis(10);
        change(&mut config);
        let reports = Reports::default();
        let written = Arc::clone(&reports);
        let gate = Arc::<Gate>::default();
        let passed = Arc::clone(&gate);
        let report = move |events: &[Event], usage: &[Usage]| {
            let mut reports = written.lock().unwrap();
            reports.0.extend_from_slice(events);
            reports.1 = usage.to_vec();
            drop(reports);
            passed.pass();
        };
        let start = || Background::start(config, directory.path().into(), report).unwrap();
        let guard = world.receiver.namespace().run(start).unwrap();
        Self { guard: Some(guard), reports, gate, directory }
    }

    /// Stops the guard after its next step, and waits for its report, until the result is dropped.
    pub(crate) fn halt(&self) -> MutexGuard<'_, ()> {
        let halted = self.gate.lock();
        self.wait_for("step", || self.gate.is_waiting.load(Ordering::SeqCst));
        halted
    }

    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + BOUND;
        while !condition() {
            let ended = self.guard.as_ref().is_none_or(Background::has_stopped);
            assert!(!ended, "the guard has stopped while waiting for {what}");
            assert!(Instant::now() < deadline, "no {what}: {:?}", self.reports.lock().unwrap());
            thread::yield_now();
        }
    }

    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.reports.lock().unwrap().1.clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.reports.lock().unwrap().0.clone()
    }

    /// Stops the guard; all settings are restored.
    pub(crate) fn stop(mut self) {
        let restored = self.guard.take().expect("it runs").stop().unwrap();
        assert!(restored.iter().all(|one| one.outcome != RestoreOutcome::Failed), "{restored:?}");
        assert!(!self.directory.file("journal.json").exists());
    }
}
