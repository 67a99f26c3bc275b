//! Networks of PRP nodes.
//!
//! ```text
//!   red0 == n0 ----- LAN A (bridges) ----- n1 == stations
//!             \                           /
//!              `---- LAN B (bridges) ----'          two to four nodes, stations on one LAN
//! ```

use onbeat_lab::scenario::chaos::prp::{Defect, with_defect};

use super::{is_detected, run_sound};

fn no_rule_is_violated(options: &[&str]) {
    let Some(result) = run_sound("chaos-prp", "0.1", options) else { return };
    let rows = result["figures"]["checked"]["rows"].as_array().expect("a table");
    let checked = |item: &str| {
        let row = rows.iter().find(|row| row[0] == item).expect("the item");
        row[1].as_u64().expect("a number")
    };
    for (item, least) in [
        ("frames checked", 3000),
        ("delivered by the only copy that arrived", 100),
        ("copies discarded", 500),
        ("numbers compared", 1000),
    ] {
        assert!(checked(item) >= least, "{item}: {rows:?}");
    }
}

#[test]
fn nodes_of_both_data_planes() {
    no_rule_is_violated(&[]);
}

#[test]
fn xdp() {
    no_rule_is_violated(&["--backend", "xdp"]);
}

#[test]
fn packet() {
    no_rule_is_violated(&["--backend", "packet"]);
}

fn is_defect_detected(defect: Defect, rule: &str) {
    let name = format!("prp-{defect:?}");
    is_detected(&name, rule, |captures, common| with_defect(defect, captures, common));
}

#[test]
fn connected_lans_are_detected() {
    is_defect_detected(Defect::ConnectedLans, "frames on the wrong LAN");
}

#[test]
fn nodes_that_forget_numbers_are_detected() {
    is_defect_detected(Defect::ShortMemory, "frames delivered twice");
}

#[test]
fn a_lost_frame_is_detected() {
    is_defect_detected(Defect::LostDelivery, "frames lost although a copy arrived");
}
