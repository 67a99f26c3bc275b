//! CPU load of the kinds of stress-ng(1) with `--cpu-method loop`, `--stream` and `--matrix-3d`:
//! arithmetic, memory bandwidth, and caches.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use onbeat_realtime::CpuSet;

use super::start_on;
use crate::Result;

/// Work of a thread, without pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stressor {
    /// Counts: occupies the CPU only.
    Loop,
    /// Copies, scales, adds, and scales and adds over arrays larger than the caches of a core, after
    /// McCalpin's STREAM.
    Stream,
    /// Adds cubes of numbers, alternately along and across the memory.
    Matrix,
}

impl Stressor {
    /// All stressors.
    pub const ALL: [Stressor; 3] = [Stressor::Loop, Stressor::Stream, Stressor::Matrix];

    /// Its thread name.
    fn name(self) -> &'static str {
        match self {
            Stressor::Loop => "lab-loop",
            Stressor::Stream => "lab-stream",
            Stressor::Matrix => "lab-matrix",
        }
    }
}

/// Threads that use all available CPU time, at normal priority, until this is dropped.
#[derive(Debug)]
pub struct Stress {
    shared: Arc<StressState>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct StressState {
    stop: AtomicBool,
    /// Work units done, by thread.
    done: Vec<AtomicU64>,
}

impl Stress {
    /// Starts a thread of each kind on each of the CPUs.
    ///
    /// # Errors
    /// A CPU may not be used, or a thread cannot be started.
    pub fn start(cpus: &CpuSet, kinds: &[Stressor]) -> Result<Self> {
        let threads = cpus.iter().count() * kinds.len();
        let done = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(StressState { stop: AtomicBool::new(false), done });
        let mut all = Self { shared, threads: Vec::with_capacity(threads) };
        for cpu in cpus.iter() {
            for kind in kinds {
                all.add(cpu, *kind)?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, cpu: u16, kind: Stressor) -> Result<()> {
        let (shared, place) = (Arc::clone(&self.shared), self.threads.len());
        let thread = start_on(&[cpu].into_iter().collect(), kind.name(), move || {
            let turn = || {
                shared.done[place].fetch_add(1, Ordering::Relaxed);
                !shared.stop.load(Ordering::Relaxed)
            };
            match kind {
                Stressor::Loop => count(turn),
                Stressor::Stream => stream(turn),
                Stressor::Matrix => matrix(turn),
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Work units that each thread has completed, of some microseconds each.
    #[must_use]
    pub fn done(&self) -> Vec<u64> {
        self.shared.done.iter().map(|done| done.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A stressor cannot fail.
            let _ = thread.join();
        }
    }
}

/// `turn` counts a work unit and returns whether to continue; the same for all stressors.
fn count(turn: impl Fn() -> bool) {
    const STEPS: u32 = 1 << 14;
    while turn() {
        for step in 0..STEPS {
            black_box(step);
        }
    }
}

fn stream(turn: impl Fn() -> bool) {
    /// 8 MiB per array.
    const LEN: usize = 1 << 20;
    const PIECE: usize = 1 << 12;
    let [mut a, mut b, mut c] = [1.0, 2.0, 0.0].map(|value: f64| vec![value; LEN]);
    let factor = black_box(3.0);
    for kernel in (0..4).cycle() {
        for at in (0..LEN).step_by(PIECE) {
            if !turn() {
                return;
            }
            let piece = at..at + PIECE;
            let (a, b, c) = (&mut a[piece.clone()], &mut b[piece.clone()], &mut c[piece]);
            let all = a.iter_mut().zip(b).zip(c);
            match kernel {
                0 => all.for_each(|((a, _), c)| *c = *a),
                1 => all.for_each(|((_, b), c)| *b = factor * *c),
                2 => all.for_each(|((a, b), c)| *c = *a + *b),
                _ => all.for_each(|((a, b), c)| *a = *b + factor * *c),
            }
        }
        black_box((&a, &b, &c));
    }
}

fn matrix(turn: impl Fn() -> bool) {
    /// Edge length of the cube: 8 MiB.
    const SIDE: usize = 128;
    let [a, b] = [1.5, 2.5].map(|value: f32| vec![value; SIDE * SIDE * SIDE]);
    let mut sum = vec![0.0; SIDE * SIDE * SIDE];
    for across in [false, true].into_iter().cycle() {
        for outer in 0..SIDE {
            if !turn() {
                return;
            }
            for middle in 0..SIDE {
                for inner in 0..SIDE {
                    let (x, z) = if across { (outer, inner) } else { (inner, outer) };
                    let at = (z * SIDE + middle) * SIDE + x;
                    sum[at] = a[at] + b[at];
                }
            }
        }
        black_box(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_realtime::interrupt::wait_until;
    use std::time::Duration;

    /// Maximum wait for an event that is expected at once.
    const BOUND: Duration = Duration::from_secs(30);

    #[test]
    fn every_kind_works_until_it_is_dropped() {
        let cpus: CpuSet = crate::cpus::usable().unwrap().into_iter().take(1).collect();
        let stress = Stress::start(&cpus, &Stressor::ALL).unwrap();
        assert!(wait_until(BOUND, || stress.done().iter().all(|done| *done > 10)).unwrap());
        assert_eq!(stress.done().len(), 3);
        let shared = Arc::downgrade(&stress.shared);
        drop(stress);
        assert!(shared.upgrade().is_none(), "a thread is still running");
    }

    #[test]
    fn a_missing_cpu_is_named() {
        let nowhere: CpuSet = "1023".parse().unwrap();
        let error = Stress::start(&nowhere, &[Stressor::Loop]).unwrap_err().to_string();
        assert!(error.contains("1023"), "{error}");
    }
}
