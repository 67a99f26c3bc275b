//! The screen as text, and the effects of keys.

use std::time::{Duration, Instant};

use onbeat_frer::counters::Counters;
use onbeat_node::control::{
    DetailedStream, EgressStatus, EventDetail, LinkState, MemberStatus, NodeSummary, PathStatus,
    PortMode, PortStatus, RecoveryStatus, Skew, StreamStatus, StreamTrouble,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::screen::drawn;

fn press(screen: &mut Screen, code: KeyCode) -> KeyAction {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_text(screen: &mut Screen, text: &str) {
    for c in text.chars() {
        assert_eq!(press(screen, KeyCode::Char(c)), KeyAction::Draw, "{c}");
    }
}

fn port(name: &str, packets: u64) -> PortStatus {
    PortStatus {
        name: name.into(),
        interface: format!("if-{name}"),
        mode: PortMode::Native,
        link: LinkState::Up,
        input_packets: packets,
        output_packets: packets / 2,
        ..PortStatus::default()
    }
}

/// A stream whose members received `packets` each, except for the second one of a stream in trouble.
fn stream(name: &str, packets: u64, troubles: &[StreamTrouble]) -> DetailedStream {
    let lost = !troubles.is_empty();
    let member = |port: &str, input_packets, lost| MemberStatus {
        port: port.into(),
        input_packets,
        lost,
        ..MemberStatus::default()
    };
    let second = if lost { 0 } else { packets };
    let counters =
        Counters { passed: packets, discarded: second, lost: packets / 100, ..Counters::default() };
    let recovery = RecoveryStatus { counters, ..RecoveryStatus::default() };
    DetailedStream {
        troubles: troubles.to_vec(),
        status: StreamStatus {
            name: name.into(),
            members: vec![member("path1", packets, false), member("path2", second, lost)],
            recovery: Some(recovery),
            egress: vec![EgressStatus {
                port: "host".into(),
                output_packets: packets,
                ..EgressStatus::default()
            }],
            ..StreamStatus::default()
        },
    }
}

/// After this number of intervals of a second.
fn reading(start: Instant, intervals: u64) -> Reading {
    let per = |packets: u64| packets * intervals;
    let paths = PathStatus {
        port: "path1".into(),
        input_packets: per(1000),
        first: 100,
        skew_ns: Some(Skew { p50: -1500, p99: 2000, max: 3000 }),
        ..PathStatus::default()
    };
    let mut down = port("path2", 0);
    down.link = LinkState::Down;
    Reading {
        at: start + Duration::from_secs(intervals),
        time: "2026-11-29T12:00:00Z".into(),
        summary: NodeSummary {
            node: "bridge".into(),
            data_plane: "xdp".into(),
            uptime_s: 3600 + intervals,
            ports: vec![port("host", 0), port("path1", per(2000)), down],
            streams: 65_536,
            in_trouble: [(StreamTrouble::PathLost, 1), (StreamTrouble::RogueFlood, 0)].into(),
            detailed: vec![
                stream("axis-1", per(1000), &[]),
                stream("axis-2", per(1000), &[StreamTrouble::PathLost]),
                stream("evil\u{1b}[2J", per(3), &[]),
            ],
            ..NodeSummary::default()
        },
        events: vec![Event {
            number: intervals,
            time: "2026-11-29T12:00:00.000000Z".into(),
            monotonic_ns: 0,
            stream: Some("axis-2".into()),
            port: Some("path2".into()),
            member: Some(1),
            detail: EventDetail::Started,
        }],
        paths: Some(StreamPaths {
            stream: "axis-2".into(),
            measured: 100,
            paths: vec![paths],
            ..StreamPaths::default()
        }),
        tables: None,
    }
}

fn screen() -> Screen {
    let (mut screen, start) = (Screen::default(), Instant::now());
    (0..4).for_each(|interval| screen.apply(Ok(reading(start, interval)), true));
    screen
}

fn text(screen: &mut Screen, width: u16, height: u16) -> String {
    drawn(width, height, |frame| screen.render(frame))
}

#[test]
fn a_node_at_80_columns() {
    let text = text(&mut screen(), 80, 24);
    assert_eq!(text.trim_end(), NODE.trim_end(), "\n{text}");
}

#[test]
fn rates_are_of_the_last_interval_and_not_of_new_counters() {
    let (mut screen, start) = (Screen::default(), Instant::now());
    screen.apply(Ok(reading(start, 0)), true);
    assert_eq!(screen.rates.streams[0].input_per_s, None, "a single reading has no rate");
    screen.apply(Ok(reading(start, 2)), true);
    let rates = &screen.rates;
    let one = rates.streams.iter().find(|stream| stream.name == "axis-1").unwrap();
    assert_eq!((one.input_per_s, one.lost_per_s), (Some(2000.0), Some(10.0)));
    assert_eq!(one.paths[1].input_per_s, Some(1000.0));
    // A reading between two intervals is no interval of the course.
    let intervals = screen.history.len();
    screen.apply(Ok(reading(start, 3)), false);
    assert_eq!(screen.history.len(), intervals);
    // A new daemon counts from 0.
    let mut restarted = reading(start, 4);
    restarted.summary.uptime_s = 1;
    screen.apply(Ok(restarted), true);
    assert!(screen.rates.streams.iter().all(|stream| stream.input_per_s.is_none()));
    assert_eq!(screen.rates.in_and_out(), [None; 2]);
    // Counters that were reset.
    let mut reset = reading(start, 5);
    reset.summary.uptime_s = 2;
    reset.summary.detailed[0] = stream("axis-1", 5, &[]);
    screen.apply(Ok(reset), true);
    let one = screen.rates.streams.iter().find(|stream| stream.name == "axis-1").unwrap();
    assert_eq!(one.input_per_s, None);
}

#[test]
fn orders_of_streams() {
    let mut screen = screen();
    let first = |screen: &Screen| screen.listed()[0].name.clone();
    for (order, name) in [
        (Order::Trouble, "axis-2"),
        (Order::Name, "axis-1"),
        (Order::Input, "axis-1"),
        (Order::Lost, "axis-1"),
        (Order::Discarded, "axis-1"),
        (Order::Trouble, "axis-2"),
    ] {
        assert_eq!((screen.order, first(&screen).as_str()), (order, name));
        press(&mut screen, KeyCode::Char('s'));
    }
}

#[test]
fn a_search_is_of_the_listed_and_of_the_node() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('/'));
    type_text(&mut screen, "axis-2x");
    press(&mut screen, KeyCode::Backspace);
    assert!(text(&mut screen, 80, 24).contains("/axis-2_"));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.listed().len(), 1);
    assert_eq!(screen.selection().search, "axis-2");
    assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Draw);
    assert_eq!(screen.listed().len(), 3);
    assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Quit);
}

#[test]
fn paths_of_the_selected_stream() {
    let mut screen = screen();
    assert_eq!(screen.selection().paths_of, None);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.selection().paths_of.as_deref(), Some("axis-2"));
    let shown = text(&mut screen, 80, 24);
    assert!(shown.contains("SKEW P50") && shown.contains("-1.50 µs"), "{shown}");
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.selection().paths_of.as_deref(), Some("axis-1"));
    // Those of another stream are not shown as its own.
    assert!(!text(&mut screen, 80, 24).contains("-1.50 µs"));
    press(&mut screen, KeyCode::End);
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.selected.as_deref(), Some("evil\u{1b}[2J"));
    press(&mut screen, KeyCode::Home);
    assert_eq!(screen.selected.as_deref(), Some("axis-2"));
}

#[test]
fn tables_of_nodes_or_the_reason_for_none() {
    let (mut screen, start) = (screen(), Instant::now());
    press(&mut screen, KeyCode::Char('n'));
    assert!(screen.selection().tables);
    let refused = Reading { tables: Some(Err("no PRP node".into())), ..reading(start, 9) };
    screen.apply(Ok(refused), true);
    assert!(text(&mut screen, 80, 24).contains("no PRP node"));
    assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Draw);
    assert!(text(&mut screen, 80, 24).contains("STREAM"));
}

#[test]
fn a_node_without_an_answer_keeps_its_last_rates() {
    let (mut screen, start) = (screen(), Instant::now());
    screen.apply(Err(ClientError::Unexpected), true);
    let shown = text(&mut screen, 80, 24);
    assert!(shown.contains("NO ANSWER") && shown.contains("axis-1"), "{shown}");
    screen.apply(Ok(reading(start, 9)), true);
    assert!(!text(&mut screen, 80, 24).contains("NO ANSWER"));
    // While paused, events are kept, and nothing moves.
    press(&mut screen, KeyCode::Char(' '));
    let rates = screen.rates.time.clone();
    screen.apply(Ok(Reading { time: "later".into(), ..reading(start, 10) }), true);
    assert_eq!(screen.rates.time, rates);
    assert!(text(&mut screen, 80, 24).contains("PAUSED"));
    assert_eq!(screen.events.back().unwrap().number, 10);
}

#[test]
fn help_fits_on_the_screen() {
    assert!(draw::HELP.lines().count() <= 24);
    assert!(draw::HELP.lines().all(|line| line.chars().count() <= 80));
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('h'));
    assert!(text(&mut screen, 80, 24).contains("Any key closes this help"));
    assert_eq!(press(&mut screen, KeyCode::Char('x')), KeyAction::Draw);
    assert!(!screen.help);
    for end in [KeyCode::Char('q'), KeyCode::Esc, KeyCode::F(10)] {
        assert_eq!(press(&mut screen, end), KeyAction::Quit);
    }
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.key(control_c), KeyAction::Quit);
}

#[test]
fn any_size_is_drawn() {
    for (width, height) in [(1, 1), (20, 3), (40, 8), (80, 24), (110, 30), (300, 100)] {
        for key in ['p', 'n', 'x'] {
            let mut screen = screen();
            press(&mut screen, KeyCode::Char(key));
            let text = text(&mut screen, width, height);
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        }
    }
    let wide = text(&mut screen(), 120, 30);
    assert!(wide.contains("path1 1,000  path2 lost"), "{wide}");
    assert!(text(&mut Screen::default(), 80, 24).contains("no stream in trouble"));
}

const NODE: &str = "\
bridge  xdp  up 01:00:03  65,536 streams  in 2,000/s  out 1,000/s  ███
path lost: 1 stream
PORT   INTERFACE  MODE     LINK         IN/s     OUT/s   DISC/s  OTHER/s  LOST/s
host   if-host    native   up              0         0        0        0       0
path1  if-path1   native   up          2,000     1,000        0        0       0
path2  if-path2   native   DOWN            0         0        0        0       0
STREAM           TROUBLE▼               IN/s     OUT/s   DISC/s  ORDER/s  LOST/s
axis-2           path lost             1,000     1,000        0        0      10
axis-1                                 2,000     1,000    1,000        0      10
evil·[2J                                 6.0       3.0      3.0        0       0
65,533 streams not listed







UTC      EVENT
12:00:00 stream \"axis-2\": member 1 (port \"path2\"): the daemon has started
12:00:00 stream \"axis-2\": member 1 (port \"path2\"): the daemon has started
12:00:00 stream \"axis-2\": member 1 (port \"path2\"): the daemon has started
12:00:00 stream \"axis-2\": member 1 (port \"path2\"): the daemon has started
h help  s trouble  / search  p paths  n nodes  q quit";
