//! Events of a node are reported at once: paths that are cut and restored, latent errors, floods of
//! rogue packets, resets, interfaces that are removed and restored.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener      onbeat show b --events --follow --json
//!                      \-------/
//!                        path2
//! ```

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::common::{
    Flow, FrameText, GROUP, Injector, PORTS, VLAN, build, can_run, eliminate_to, log, one_node,
    port, program, replicate, run, show, start, two_paths, wait_for,
};
use onbeat_frer::watch::{Cause, EventKind, Function};
use onbeat_lab::world::CutEnds;
use onbeat_netdev::VethEnd;
use onbeat_node::config::Backend;
use onbeat_node::control::{Event, EventDetail, LinkState, PortMode};

/// `onbeat show NODE --events --follow --json`, with its events so far.
struct Follower {
    child: Child,
    events: Arc<Mutex<Vec<Event>>>,
    reader: Option<JoinHandle<()>>,
}

impl Follower {
    fn start(node: &str) -> Follower {
        let mut command = Command::new(program());
        command.args(["show", node, "--events", "--follow", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let events = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&events);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("an event in each line");
                to.lock().expect("no panic").push(event);
            }
        });
        Follower { child, events, reader: Some(reader) }
    }

    fn all(&self) -> Vec<Event> {
        self.events.lock().expect("no panic").clone()
    }

    /// Waits for an event after the one with this number.
    #[track_caller]
    fn wait(&self, after: u64, what: &str, is_it: impl Fn(&Event) -> bool) -> Event {
        let find = || self.all().into_iter().find(|event| event.number > after && is_it(event));
        wait_for(&format!("{what} is reported"), || find().is_some());
        find().expect("it was there")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Whether the event concerns a member of the stream "axis", or this port.
fn at(event: &Event, port: &str, member: Option<usize>) -> bool {
    let stream = member.map(|_| "axis");
    (event.port.as_deref(), event.member, event.stream.as_deref()) == (Some(port), member, stream)
}

fn a_path_goes_and_comes_back(backend: Option<Backend>) {
    // A latent error period of 20 ms tests as many periods in a second as the default in two minutes.
    let recover = "{ history-length = 256, reset-timeout-ms = 0, latent-error = { difference = 100, \
                   paths = 2, period-ms = 20, reset-period-ms = 100 } }";
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let a = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let b = format!(
        "[node]\nevents = {{ interval-ms = 50 }}\n{PORTS}{}",
        eliminate_to("axis", GROUP, &host, recover)
    );
    let mut world = build(&two_paths(&a, &b));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let follower = Follower::start("b");
    let started = follower.wait(0, "the start", |event| event.detail == EventDetail::Started);
    assert_eq!(started.number, 1);
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), 2000, None);
    flow.advance(2000);
    assert_eq!(follower.all().len(), 1, "nothing has happened: {:?}", follower.all());

    // The carrier is lost with that of the other end.
    world.cut("path2", CutEnds::First).unwrap();
    let away =
        follower.wait(1, "the port", |event| matches!(event.detail, EventDetail::PortAway { .. }));
    let interface = "path2".to_owned();
    assert_eq!(
        away.detail,
        EventDetail::PortAway {
            link: LinkState::Down,
            interface: interface.clone(),
            renamed: None
        }
    );
    assert!(at(&away, "path2", None), "{away:?}");
    let lost = follower.wait(1, "path loss", |event| {
        matches!(event.detail, EventDetail::Watch(EventKind::PathLoss { .. }))
    });
    assert!(at(&lost, "path2", Some(1)), "{lost:?}");
    assert!(
        matches!(lost.detail, EventDetail::Watch(EventKind::PathLoss { packets: 5.. })),
        "{lost:?}"
    );
    let latent = follower
        .wait(1, "a latent error", |event| matches!(event.detail, EventDetail::LatentError { .. }));
    assert!(matches!(latent.detail, EventDetail::LatentError { difference: 101.., allowed: 100 }));
    assert_eq!((latent.stream.as_deref(), &latent.port), (Some("axis"), &None));
    flow.advance(1000);

    let last = follower.all().last().expect("some").number;
    world.restore("path2").unwrap();
    let back = follower.wait(last, "the port", |event| {
        event.detail == EventDetail::PortBack { interface: interface.clone(), why: None }
    });
    assert!(at(&back, "path2", None), "{back:?}");
    let back = follower.wait(last, "the path", |event| {
        matches!(event.detail, EventDetail::Watch(EventKind::PathBack { .. }))
    });
    assert!(at(&back, "path2", Some(1)), "{back:?}");
    assert!(
        matches!(back.detail, EventDetail::Watch(EventKind::PathBack { packets }) if packets > 1000),
        "{back:?}"
    );
    follower.wait(last, "the end of the latent error", |event| {
        event.detail == EventDetail::LatentErrorEnded
    });
    flow.finish_whole();

    // No event is missing or duplicated, and each is in the log as well.
    let events = follower.all();
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(events.is_sorted_by_key(|event| event.monotonic_ns));
    let log = log("b");
    events.iter().for_each(|event| assert!(log.contains(&event.to_string()), "{event}: {log}"));
    let since = format!("{}", lost.number);
    let later = run(&["show", "b", "--events", "--since", &since]).out;
    assert_eq!(later.lines().count(), events.len() - lost.number as usize, "{later}");
    assert!(later.contains("member 1 (port \"path2\"): path restored after "), "{later}");
}

#[test]
fn loss_and_restoration_of_a_path_are_reported() {
    if !can_run() {
        return;
    }
    a_path_goes_and_comes_back(None);
    a_path_goes_and_comes_back(Some(Backend::Packet));
}

/// A talker restarts at another number: none of its packets passes until the reset timeout.
#[test]
fn a_restarted_talker_is_reported_while_no_packet_passes() {
    if !can_run() {
        return;
    }
    let recover = "{ history-length = 16, reset-timeout-ms = 3000 }";
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let config = format!(
        "[node]\nevents = {{ interval-ms = 20 }}\n{PORTS}{}",
        eliminate_to("axis", GROUP, &host, recover)
    );
    let world = start(&one_node(&config));
    let path = Injector::open(&world, "path1", "eth0");
    let send = |number| path.send(&FrameText::new(GROUP, &[11], Some(number)).octets());
    (0..10).for_each(send);
    let mut number = 1000;
    let mut reported = |name: &str| {
        let mut events = String::new();
        wait_for(name, || {
            (number..number + 20).for_each(send);
            number += 20;
            events = run(&["show", "a", "--events", "--json"]).out;
            events.contains(&format!("\"event\":\"{name}\""))
        });
        events
    };
    let events = reported("all_rogue");
    assert!(events.contains("\"reset_timeout_ms\":3000"), "{events}");
    assert!(!events.contains("\"cause\":\"time_out\""), "before the timeout: {events}");
    reported("all_rogue_ended");
}

#[test]
fn rogue_packets_resets_and_interfaces_are_reported() {
    if !can_run() {
        return;
    }
    let recover = "{ history-length = 16, reset-timeout-ms = 0 }";
    let slow = "{ history-length = 16, reset-timeout-ms = 100 }";
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let other = "01:00:5e:00:00:02";
    let config = format!(
        "[node]\nevents = {{ interval-ms = 20, rogue-quiet-ms = 200 }}\n{PORTS}{}{}{}",
        eliminate_to("axis", GROUP, &host, recover),
        eliminate_to("pause", other, &host, slow),
        replicate("there", "01:00:5e:00:00:03", VLAN),
    );
    let world = start(&one_node(&config));
    let follower = Follower::start("a");
    let path = Injector::open(&world, "path1", "eth0");
    let send = |group, number| path.send(&FrameText::new(group, &[11], Some(number)).octets());

    (0..10).for_each(|number| send(GROUP, number));
    (1000..1010).for_each(|number| send(GROUP, number));
    let function = Function::Sequence;
    let flood = follower.wait(1, "the flood", |event| {
        matches!(event.detail, EventDetail::Watch(EventKind::RogueFlood { .. }))
    });
    assert_eq!(flood.detail, EventDetail::Watch(EventKind::RogueFlood { function, packets: 10 }));
    assert_eq!(flood.stream.as_deref(), Some("axis"));
    let ended = follower.wait(1, "its end", |e| {
        matches!(e.detail, EventDetail::Watch(EventKind::RogueFloodEnded { .. }))
    });
    assert_eq!(
        ended.detail,
        EventDetail::Watch(EventKind::RogueFloodEnded { function, packets: 10 })
    );

    // After a reset the stream accepts any number.
    let reset =
        |function, cause| EventDetail::Watch(EventKind::Reset { function, cause, count: 1 });
    for (stream, function) in [("axis", Function::Sequence), ("there", Function::Generation)] {
        assert_eq!(run(&["reset", stream, "--node", "a"]).code, 0);
        let reported = follower.wait(1, "the reset", |event| {
            matches!(event.detail, EventDetail::Watch(EventKind::Reset { .. }))
                && event.stream.as_deref() == Some(stream)
        });
        assert_eq!(reported.detail, reset(function, Cause::Request));
    }

    send(other, 0);
    let reported =
        follower.wait(1, "the timeout", |event| event.stream.as_deref() == Some("pause"));
    assert_eq!(reported.detail, reset(Function::Sequence, Cause::TimeOut));

    let handle = world.handle("a").unwrap();
    handle.delete("path2").unwrap();
    let interface = "path2".to_owned();
    let gone = EventDetail::PortAway {
        link: LinkState::Missing,
        interface: interface.clone(),
        renamed: None,
    };
    let gone = follower.wait(1, "the interface", |event| event.detail == gone);
    assert!(at(&gone, "path2", None), "{gone:?}");
    let peer = VethEnd::new("eth0").namespace(world.namespace("path2").unwrap());
    handle.create_veth(&VethEnd::new("path2"), &peer).unwrap();
    world.handle("path2").unwrap().set_up("eth0").unwrap();
    let back = EventDetail::PortBack { interface, why: None };
    let back = follower.wait(gone.number, "the interface", |event| event.detail == back);
    assert!(at(&back, "path2", None), "{back:?}");

    // The program stays attached to an interface that is renamed.
    handle.rename("path2", "path9").unwrap();
    let renamed = Some("path9".to_owned());
    let interface = "path2".to_owned();
    let away = EventDetail::PortAway { link: LinkState::Missing, interface, renamed };
    let away = follower.wait(back.number, "the new name", |event| event.detail == away);
    handle.rename("path9", "path2").unwrap();
    let is_back = |event: &Event| matches!(event.detail, EventDetail::PortBack { .. });
    follower.wait(away.number, "the former name", is_back);
    wait_for("the program", || port(&show("a"), "path2").mode == PortMode::Native);
}
