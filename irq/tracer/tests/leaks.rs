//! Nothing of the ledger outlives it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use onbeat_irq::Tracer;
use onbeat_testing::{Feature, require_all};

/// The ledger's programs and tables in the kernel, by kind and id; others may exist.
fn objects() -> BTreeSet<(&'static str, u32)> {
    const TABLES: [&str; 6] = ["cpus", "rows", "owners", "socket_owners", "events", "ticks"];
    let is_table = |name: &str| TABLES.contains(&name);
    let name = |octets: &OsStr| octets.to_string_lossy().into_owned();
    let programs = ProgInfoIter::default()
        .filter(|program| name(&program.name).starts_with("on_"))
        .map(|program| ("program", program.id));
    let tables = MapInfoIter::default()
        .filter(|table| is_table(&name(&table.name)))
        .map(|table| ("table", table.id));
    programs.chain(tables).collect()
}

#[test]
fn programs_and_tables_are_removed_with_the_tracer() {
    if !require_all(&[Feature::Root, Feature::Btf, Feature::Kernel(6, 3)]) {
        return;
    }
    let before = objects();
    let tracer = Tracer::start().unwrap();
    let ours: BTreeSet<_> = objects().difference(&before).copied().collect();
    let count = |kind| ours.iter().filter(|(k, _)| *k == kind).count();
    assert!(count("program") >= 12 && count("table") >= 6, "{ours:?}");
    drop(tracer);
    // The kernel frees them once they have no reader.
    let deadline = Instant::now() + Duration::from_secs(20);
    while objects().intersection(&ours).next().is_some() {
        assert!(Instant::now() < deadline, "still there: {:?}", &objects() & &ours);
    }
}
