//! Latent error detection (802.1CB 7.4.4): a path that fails costs no frame, and is told.
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
use onbeat_lab::world::Ends;

const RATE: u64 = 2000;
const WHILE: u64 = 600;

/// Replicas that may be missing or on their way.
const DIFFERENCE: u64 = 100;

fn latent_errors() -> u64 {
    stream(&show("b"), "axis").recovery.as_ref().expect("it recovers").latent_errors
}

#[test]
fn a_path_that_fails_is_told() {
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

    // As many periods pass as later suffice to tell.
    flow.advance(WHILE);
    assert_eq!(latent_errors(), 0, "{}", log("b"));

    world.cut("path2", Ends::Second).unwrap();
    wait_for("the missing path is told", || latent_errors() > 0);
    let told = log("b");
    assert!(told.contains("stream \"axis\": latent error: "), "{told}");
    let missing = told.split("latent error: ").nth(1).and_then(|rest| rest.split(' ').next());
    let missing: u64 =
        missing.and_then(|number| number.parse().ok()).expect("a number of replicas");
    assert!(missing > DIFFERENCE, "{told}");

    // What is told is the path, not a loss.
    flow.advance(WHILE);
    flow.finish_whole();
}
