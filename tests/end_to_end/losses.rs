//! More frames than a data plane in user space can take while its process is stopped: each is counted, as input or as
//! lost.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_node::config::Backend;
use onbeat_node::control::{Event, EventDetail};

use crate::common::{
    FrameText, GROUP, Injector, PORTS, VLAN, build, can_run, one_node, port, program, replicate,
    run, show, wait_for,
};

const FRAMES: u64 = 20_000;

#[test]
fn frames_beyond_the_receive_queue_are_shown_and_reported() {
    if !can_run() {
        return;
    }
    for backend in [Backend::Packet, Backend::Xsk] {
        let mut world = build(&one_node(&format!("{PORTS}{}", replicate("axis", GROUP, VLAN))));
        world.set_backend(Some(backend));
        world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
        let talker = Injector::open(&world, "host", "eth0");
        let frame = FrameText::new(GROUP, &[VLAN], None).octets();
        let counted = || {
            let status = show("a");
            let port = port(&status, "host");
            (port.input_packets + port.unmatched, port.lost.queue_full)
        };
        let before = counted();
        assert_eq!(before.1, 0, "{backend}");
        let daemon = Pid::from_raw(show("a").pid as i32);
        kill(daemon, Signal::SIGSTOP).unwrap();
        (0..FRAMES).for_each(|_| talker.send(&frame));
        kill(daemon, Signal::SIGCONT).unwrap();
        wait_for(&format!("all frames counted with {backend}"), || {
            let (input, lost) = counted();
            assert!(input + lost <= before.0 + FRAMES, "{backend}: {input} and {lost}");
            input + lost == before.0 + FRAMES
        });
        let (_, lost) = counted();
        assert!(lost > 0, "{backend}");
        let mut reported = 0;
        wait_for("the event", || {
            let events = run(&["show", "a", "--events", "--json"]);
            let events =
                events.out.lines().map(|line| serde_json::from_str(line).expect("an event"));
            let of_losses = events.filter_map(|event: Event| match event.detail {
                EventDetail::FramesDropped { losses } => Some(losses.queue_full),
                _ => None,
            });
            reported = of_losses.sum();
            reported > 0
        });
        assert!(reported <= lost, "{backend}: {reported} of {lost}");
    }
}
