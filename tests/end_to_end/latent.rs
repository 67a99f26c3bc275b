//! Latent error detection (802.1CB 7.4.4): a failed path loses no frame, and is reported.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener
//!                      \-------/
//!                        path2, cut
//! ```

use crate::common::{
    Flow, GROUP, PORTS, VLAN, can_run, eliminate_to, log, machine, replicate, show, start, stream,
    two_paths, wait_for,
};
use onbeat_lab::world::CutEnds;

const RATE: u64 = 2000;
const WHILE: u64 = 1500;

/// Replicas that may be missing or in flight: those of half a second without a CPU.
const DIFFERENCE: u64 = 1000;

fn latent_errors() -> u64 {
    stream(&show("b"), "axis").recovery.as_ref().expect("it recovers").latent_errors
}

#[test]
fn a_failed_path_is_reported() {
    if !can_run() {
        return;
    }
    machine::exclusive();
    let recover = format!(
        "{{ history-length = 256, reset-timeout-ms = 0, latent-error = {{ difference = {DIFFERENCE}, \
         paths = 2, period-ms = 20, reset-period-ms = 600000 }} }}"
    );
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let a = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let b = format!("{PORTS}{}", eliminate_to("axis", GROUP, &host, &recover));
    let world = start(&two_paths(&a, &b));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);

    // Without an error, the number of periods that later suffice to detect one.
    flow.advance(WHILE);
    assert_eq!(latent_errors(), 0, "{}", log("b"));

    world.cut("path2", CutEnds::Second).unwrap();
    wait_for("the missing path is reported", || latent_errors() > 0);
    let reported = log("b");
    assert!(reported.contains("stream \"axis\": latent error: "), "{reported}");
    let missing = reported.split("latent error: ").nth(1).and_then(|rest| rest.split(' ').next());
    let missing: u64 =
        missing.and_then(|number| number.parse().ok()).expect("a number of replicas");
    assert!(missing > DIFFERENCE, "{reported}");

    // The path is reported, and not a loss.
    flow.advance(WHILE);
    flow.finish_whole();
}
