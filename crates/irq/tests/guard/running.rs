//! A guard at work.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_irq::guard::{Background, Config, Event, Usage};
use onbeat_realtime::host::PutBack;

use crate::harness::{BOUND, World};

/// What a guard has told: all that happened, and the last of the rest.
type Told = Arc<Mutex<(Vec<Event>, Vec<Usage>)>>;

pub(crate) struct Running {
    guard: Option<Background>,
    told: Told,
    directory: PathBuf,
}

impl Running {
    /// Of r0, looking every 10 ms.
    pub(crate) fn start(world: &World, change: impl FnOnce(&mut Config)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("onbeat-guard-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut config = Config::of(vec!["r0".to_owned()]);
        config.interval = Duration::from_millis(10);
        change(&mut config);
        let told = Told::default();
        let hears = Arc::clone(&told);
        let tell = move |events: &[Event], usage: &[Usage]| {
            let mut told = hears.lock().unwrap();
            told.0.extend_from_slice(events);
            told.1 = usage.to_vec();
        };
        let start = || Background::start(config, directory.clone(), tell).unwrap();
        let guard = world.receiver.namespace().run(start).unwrap();
        Self { guard: Some(guard), told, directory }
    }

    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + BOUND;
        while !condition() {
            let ended = self.guard.as_ref().is_none_or(Background::has_ended);
            assert!(!ended, "the guard has ended, waiting for {what}");
            assert!(Instant::now() < deadline, "no {what}: {:?}", self.told.lock().unwrap());
            thread::yield_now();
        }
    }

    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.told.lock().unwrap().1.clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.told.lock().unwrap().0.clone()
    }

    /// Everything is put back.
    pub(crate) fn end(mut self) {
        let restored = self.guard.take().expect("it runs").end().unwrap();
        assert!(restored.iter().all(|one| one.outcome != PutBack::Failed), "{restored:?}");
        assert!(!self.directory.join("journal.json").exists());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.guard.take());
        let _ = fs::remove_dir_all(&self.directory);
    }
}
