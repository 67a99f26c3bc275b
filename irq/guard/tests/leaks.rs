//! Nothing of the guard outlives it: no program, table, NAPI thread or priority.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Instant;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use onbeat_irq_core::policy::{Budget, Settings};
use onbeat_irq_guard::Rule;
use onbeat_netdev::napi;
use onbeat_testing::{Feature, require_all};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tracer/tests/kernel/harness.rs"]
mod harness;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "guard/running.rs"]
mod running;

use harness::{BOUND, World};
use running::RunningGuard;

/// The programs and tables that this process holds, by their ids.
fn held() -> BTreeSet<(&'static str, u32)> {
    let mut held = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let kind = match key {
                "prog_id" => "program",
                "map_id" => "table",
                _ => continue,
            };
            held.extend(value.trim().parse().map(|id| (kind, id)));
        }
    }
    held
}

/// All programs and tables in the kernel.
fn all() -> BTreeSet<(&'static str, u32)> {
    let programs = ProgInfoIter::default().map(|program| ("program", program.id));
    programs.chain(MapInfoIter::default().map(|table| ("table", table.id))).collect()
}

/// The ids of r0's NAPI threads, in any namespace.
fn napi_threads(world: &World) -> Vec<u32> {
    let instances = napi::instances(&world.receiver, "r0").unwrap().expect("Linux 6.8");
    instances.iter().filter_map(|instance| instance.pid).collect()
}

#[test]
fn a_guard_leaves_nothing() {
    let features = [Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 8)];
    if !require_all(&features) {
        return;
    }
    let world = World::with_napi();
    assert_eq!((held(), napi_threads(&world)), Default::default());
    let guard = RunningGuard::start(&world, |config| {
        let floor = "fifo 3".parse().unwrap();
        config.settings = Settings { floor, ..Settings::default() };
        let budget = Budget { ns_per_s: 1_000_000_000 };
        config.budgets = vec![Rule::any(budget)];
    });
    // Its own four, and those of the ledger.
    guard.wait_for("programs and tables", || held().len() > 16 && !napi_threads(&world).is_empty());
    let ours = held();
    assert!(ours.is_subset(&all()), "{ours:?}");
    guard.stop();
    assert_eq!((held(), napi_threads(&world)), Default::default());
    // The kernel frees them once they have no reader.
    let deadline = Instant::now() + BOUND;
    while let Some(left) = all().intersection(&ours).next() {
        assert!(Instant::now() < deadline, "still there: {left:?}");
        thread::yield_now();
    }
}
