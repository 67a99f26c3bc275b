//! `onbeat lab run single-hop --compare`: mirror, hooks and probe on the same packets.

use std::fs;

use crate::common::delay::{Directory, result};
use crate::common::{can, machine};
use onbeat_testing::Feature;
use serde_json::Value;

/// How often it may be disturbed.
const TURNS: u32 = 5;

/// The rows of a table that have these cells at their beginning.
fn rows<'a>(found: &'a Value, figure: &str, begin: &[&str]) -> Vec<&'a Vec<Value>> {
    let table = &found["figures"][figure];
    let rows = table["rows"].as_array().unwrap_or_else(|| panic!("{figure}: {found:#}"));
    let rows = rows.iter().map(|row| row.as_array().unwrap());
    rows.filter(|row| begin.iter().zip(*row).all(|(cell, found)| found == cell)).collect()
}

/// Hops by all methods. Beside other work of the machine it is that which decides what a method sees: then
/// once more.
fn compared(hops: &str, options: &[&str]) -> (i32, Value) {
    machine::exclusive();
    let compare =
        || result(&[&["lab", "run", "single-hop", "--compare", hops][..], options].concat());
    let mut told = compare();
    for _ in 0..TURNS {
        if told.0 == 0 {
            break;
        }
        told = compare();
    }
    told
}

/// Whether methods agree is the machine's; that each measures every packet is not, nor what a table says
/// of intervals that it shows.
#[test]
fn every_method_measures_the_same_packets() {
    if !can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        return;
    }
    let directory = Directory::new("compare");
    let html = directory.path("compare.html");
    let options = ["--load", "idle,2000", "--cpus", "1", "--for", "200ms", "--html", &html];
    let (code, found) = compared("router,reflector", &options);
    assert_eq!((code, &found["name"]), (0, &"delay-compare".into()), "{found:#}");
    let null = rows(&found, "the path without a hop: what is taken off", &[]);
    let methods: Vec<&Value> = null.iter().map(|row| &row[0]).collect();
    assert_eq!(methods, ["mirror", "probe, one way", "probe, round trip"]);
    for hop in ["router", "reflector"] {
        for load in ["idle", "network load, 2000/s"] {
            let agreement = rows(&found, &format!("{hop}: agreement"), &["1", load]);
            let methods: Vec<&Value> = agreement.iter().map(|row| &row[2]).collect();
            assert_eq!(methods, ["mirror", "hooks", "probe, one way"], "{hop}, {load}");
            let number = |row: &Vec<Value>, at: usize| row[at].as_f64().unwrap();
            let mirror = agreement[0];
            for row in &agreement {
                let [from, to] = [5, 6].map(|at| number(row, at));
                assert!(from < to, "{row:?}");
                if let Some(told) = row[4].as_f64() {
                    assert!((from..=to).contains(&told), "{row:?}");
                }
            }
            for other in &agreement[1..] {
                let overlap =
                    number(other, 5) <= number(mirror, 6) && number(mirror, 5) <= number(other, 6);
                assert_eq!(other[8], if overlap { "yes" } else { "no" }, "{other:?}");
            }
            // What is around the hop is never less than nothing.
            assert!(number(mirror, 3) > agreement[0][4].as_f64().unwrap_or(0.0), "{mirror:?}");
        }
        let measured = rows(&found, &format!("{hop}: as measured"), &["1"]);
        assert_eq!(measured.len(), 2 * 4, "{hop}");
        let depth = format!("{hop}: depth of the queue over time and load (figure 10)");
        let phases = &found["figures"][&depth]["phases"];
        assert_eq!(phases.as_array().map(Vec::len), Some(2), "{depth}");
    }
    let page = fs::read_to_string(&html).unwrap();
    for figure in ["figure 5", "figure 7", "figure 8", "figure 9", "figure 10"] {
        assert!(page.contains(figure), "{figure}");
    }
}

/// XDP takes packets where the hooks see nothing: the others measure them, and it is said why not the hooks.
#[test]
fn a_relay_is_measured_without_hooks() {
    if !can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        return;
    }
    let (code, found) = compared("frer", &["--load", "idle", "--cpus", "1", "--for", "200ms"]);
    assert_eq!(code, 0, "{found:#}");
    let agreement = rows(&found, "FRER relay: agreement", &["1", "idle"]);
    let methods: Vec<&Value> = agreement.iter().map(|row| &row[2]).collect();
    assert_eq!(methods, ["mirror", "probe, one way"]);
    let measured = rows(&found, "FRER relay: as measured", &["1", "idle"]);
    let packets: Vec<f64> = measured.iter().map(|row| row[3].as_f64().unwrap()).collect();
    assert_eq!(packets, [200.0; 3], "each method has each packet");
    assert!(found["notes"].to_string().contains("they tell nothing of it"), "{found:#}");
}
