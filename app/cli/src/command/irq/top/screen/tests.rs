//! The screen as text, and the effects of keys.

use onbeat_irq_core::charge::sample::{Estimate, Sample};
use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Interrupt, InterruptAmount, IpiReason,
    IpiSender, Process, Runner, Softirq,
};
use onbeat_irq_core::names::{self, Description, ProcessInfo};
use onbeat_irq_core::view::{Fold, GroupKey, Groups, Order};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

fn press(screen: &mut Screen, code: KeyCode) -> KeyAction {
    let devices = ["eth0".to_owned(), "eth1".to_owned()];
    screen.key(KeyEvent::new(code, KeyModifiers::NONE), &devices)
}

fn type_text(screen: &mut Screen, text: &str) {
    for c in text.chars() {
        assert_eq!(press(screen, KeyCode::Char(c)), KeyAction::Draw, "{c}");
    }
}

/// Names of processes 1 to 4; the third is hostile.
struct FixedNames;

impl names::Names for FixedNames {
    fn process(&mut self, Process { pid, .. }: Process) -> ProcessInfo {
        let (command, path) = match pid {
            1 => ("nginx", "/system.slice/nginx.service"),
            2 => ("nginx", "/system.slice/nginx.service"),
            3 => ("\u{1b}[2Jevil\n", "/user.slice/user-1000.slice/session-3.scope"),
            4 => ("cyclictest", "/"),
            _ => return ProcessInfo { description: None, ended: true },
        };
        let description = Description {
            command: command.into(),
            cgroup: Some(path.into()),
            user: Some("root".into()),
            ..Description::default()
        };
        ProcessInfo { description: Some(description), ended: pid == 2 }
    }

    fn device(&mut self, device: Device) -> String {
        if device.index == 0 { "-".into() } else { format!("eth{}", device.index) }
    }

    fn reason(&mut self, _: u32) -> String {
        "no socket".into()
    }

    fn line(&mut self, _: u32) -> String {
        "eth0".into()
    }
}

fn accounts() -> Accounts {
    let eth0 = Device { netns: 1, index: 7 };
    let reads = |pid, ns, packets| {
        let process = Process { pid, start_ticks: 1 };
        let cause = Cause::Process { process, device: eth0, by: Attribution::Reader };
        (cause, Amount { ns, packets })
    };
    let class = |class, ns, packets| (Cause::Unowned(class), Amount { ns, packets });
    Accounts {
        caused: [
            reads(1, 200_000_000, 100_000),
            reads(2, 100_000_000, 40_000),
            reads(3, 50_000_000, 10_000),
            reads(9, 10_000_000, 5_000),
            class(Class::Dropped { device: eth0, reason: 1 }, 30_000_000, 9_000),
            class(Class::Softirq(Softirq::Timer), 10_000_000, 0),
        ]
        .into(),
        suffered: [
            (Runner::Process(Process { pid: 4, start_ticks: 1 }), 300_000_000),
            (Runner::Idle, 100_000_000),
        ]
        .into(),
        measured_ns: 400_000_000,
        hardirq_ns: 5_000_000,
        interrupts: [(
            Interrupt::Ipi { reason: IpiReason::Rps, sender: IpiSender::Softirq(Softirq::NetRx) },
            InterruptAmount { ns: 5_000_000, count: 1_000 },
        )]
        .into(),
        ..Accounts::default()
    }
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    for share in [1, 2, 4, 3, 4] {
        let measured_ns = share * 100_000_000;
        let accounts = Accounts { measured_ns, ..accounts() };
        let cpus = vec![Estimate::of(&accounts, &Sample::default())];
        screen.show(Snapshot { length_ns: 1_000_000_000, cpus, ..Snapshot::default() });
    }
    screen
}

/// The content of a screen of this size.
fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut all = Table::of(&accounts(), 1_000_000_000, &mut FixedNames);
    let by = screen.options.by;
    if by != GroupKey::Process {
        all.groups = Some(Groups::of(by, &all));
    }
    all.sort(screen.options.order);
    all.fold(screen.table_options().fold);
    crate::screen::drawn(width, height, |frame| screen.render(frame, &all, &[(None, &all)]))
}

fn assert_screen(screen: &mut Screen, expected: &str) {
    let text = drawn(screen, 80, 24);
    assert_eq!(text.trim_end(), expected.trim_end(), "\n{text}");
}

#[test]
fn processes_at_80_columns() {
    assert_screen(&mut screen(), PROCESSES);
}

#[test]
fn a_tree_of_groups() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('t'));
    assert_eq!((screen.options.by, screen.tree), (GroupKey::Cgroup, true));
    assert_screen(&mut screen, TREE);
    // The next key keeps the tree; a CPU has none.
    press(&mut screen, KeyCode::Char('b'));
    assert_eq!((screen.options.by, screen.tree), (GroupKey::Unit, true));
    screen.options.by = GroupKey::User;
    press(&mut screen, KeyCode::Char('b'));
    assert_eq!((screen.options.by, screen.tree), (GroupKey::Device, false));
}

#[test]
fn rows_with_a_text() {
    let mut screen = screen();
    screen.options.fold = Fold { least_share: 0.3, ..Fold::default() };
    let text = drawn(&mut screen, 80, 24);
    assert!(text.contains("3 others") && !text.contains("evil"), "{text}");
    press(&mut screen, KeyCode::Char('/'));
    type_text(&mut screen, "EviQ");
    press(&mut screen, KeyCode::Backspace);
    // Folded rows are found too. Keys are text meanwhile.
    let text = drawn(&mut screen, 80, 24);
    assert!(text.contains("evil") && !text.contains("nginx"), "{text}");
    assert!(text.contains("/Evi_"), "{text}");
    press(&mut screen, KeyCode::Enter);
    assert!(drawn(&mut screen, 80, 24).contains("/Evi"));
    // In a tree, with its group.
    press(&mut screen, KeyCode::Char('t'));
    let text = drawn(&mut screen, 80, 24);
    assert!(text.contains("session-3.scope") && !text.contains("nginx"), "{text}");
    assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Draw);
    assert!(drawn(&mut screen, 80, 24).contains("nginx"));
    assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Quit);
}

#[test]
fn hard_interrupts() {
    let mut screen = screen();
    assert!(!drawn(&mut screen, 80, 24).contains("rps"));
    press(&mut screen, KeyCode::Char('i'));
    let text = drawn(&mut screen, 80, 24);
    let line = text.lines().find(|line| line.contains("rps")).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    let expected = ["hard", "interrupt:", "rps", "0.5", "%", "1000", "5.00", "\u{b5}s"];
    assert!(fields.starts_with(&expected) && line.contains("NET_RX"), "{line}");
    assert!(text.contains("INTERRUPTS") && !text.contains("timer"), "{text}");
}

#[test]
fn help_fits_on_the_screen() {
    assert!(help::TEXT.lines().count() <= 24);
    assert!(help::TEXT.lines().all(|line| line.chars().count() <= 80));
    for key in [KeyCode::Char('h'), KeyCode::Char('?'), KeyCode::F(1)] {
        let mut screen = screen();
        press(&mut screen, key);
        let text = drawn(&mut screen, 80, 24);
        assert!(text.contains("SUFFERED") && text.contains("Any key closes this help"), "{text}");
        assert_eq!(press(&mut screen, KeyCode::Char('x')), KeyAction::Draw);
        assert!(!screen.help);
    }
}

#[test]
fn keys_change_the_view() {
    let mut screen = screen();
    type_text(&mut screen, "s");
    assert_eq!(screen.options.order, Order::Suffered);
    type_text(&mut screen, "<<");
    assert_eq!(screen.options.order, Order::Command);
    type_text(&mut screen, "5");
    assert_eq!(screen.options.order, Order::Pid);
    for device in [Some("eth0"), Some("eth1"), None] {
        type_text(&mut screen, "d");
        assert_eq!(screen.options.device.as_deref(), device);
    }
    type_text(&mut screen, "ce ");
    assert!(screen.options.per_cpu && screen.held && screen.expanded);
    assert_eq!(press(&mut screen, KeyCode::Down), KeyAction::Draw);
    assert_eq!(screen.scrolled, 1);
    press(&mut screen, KeyCode::Home);
    assert_eq!((press(&mut screen, KeyCode::Up), screen.scrolled), (KeyAction::Draw, 0));
    press(&mut screen, KeyCode::End);
    drawn(&mut screen, 80, 24);
    assert_eq!(screen.scrolled, 0, "all rows fit");
    assert_eq!(press(&mut screen, KeyCode::Char('x')), KeyAction::Ignore);
    for end in [KeyCode::Char('q'), KeyCode::Esc, KeyCode::F(10)] {
        assert_eq!(press(&mut screen, end), KeyAction::Quit);
    }
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    screen.search.typing = true;
    assert_eq!(screen.key(control_c, &[]), KeyAction::Quit);
    screen.search.typing = false;
    screen.options.device = Some("gone".into());
    type_text(&mut screen, "d");
    assert_eq!(screen.options.device, None);
}

/// Every view on every size, with names that contain control characters.
#[test]
fn any_size_is_drawn() {
    for (width, height) in [(1, 1), (20, 3), (40, 8), (80, 24), (109, 30), (110, 30), (300, 100)] {
        for (_, by) in GroupKey::ALL {
            let mut screen = screen();
            screen.options.by = by;
            screen.tree = by == GroupKey::Unit;
            let text = drawn(&mut screen, width, height);
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        }
    }
    let text = drawn(&mut screen(), 300, 30);
    assert!(text.contains("\\x1b[2Jevil\\x0a") && text.contains("session-3.scope"), "{text}");
}

#[test]
fn more_classes_than_fit_are_summed() {
    let mut screen = screen();
    let text = drawn(&mut screen, 80, 9);
    assert!(text.contains("2 more") && text.contains("4.0 %"), "{text}");
}

const PROCESSES: &str = "\
softirqs 40.0 % of one CPU  ▃▅█▆█  without a name 1.0 %
on  processes 30.0  idle 10.0  ksoftirqd 0.0  NAPI 0.0  hard irqs 0.5 %
by  reader 36.0  owner 0.0  listener 0.0  kernel 3.0  unknown 0.0  other 1.0 %
    PID COMMAND          CAUSED▼  SUFFERED   PACKETS  PER PKT DEVICE   GROUP
      1 nginx             20.0 %     0.0 %   100,000  2.00 µs eth7     nginx
      2 nginx (exited)    10.0 %     0.0 %    40,000  2.50 µs eth7     nginx
      3 \\x1b[2Jevil\\x0a    5.0 %     0.0 %    10,000  5.00 µs eth7     session-3
      9 (exited)           1.0 %     0.0 %     5,000  2.00 µs eth7
      4 cyclictest         0.0 %    30.0 %         0                   /










FOR NO PROCESS                       TIME    PACKETS  PER PKT DEVICE
dropped: no socket                  3.0 %      9,000  3.33 µs eth7 rx
timer                               1.0 %          0
onbeat, in the above         not measured
h help  s caused  b process  / search  d all devices  q quit";

const TREE: &str = "\
softirqs 40.0 % of one CPU  ▃▅█▆█  without a name 1.0 %
on  processes 30.0  idle 10.0  ksoftirqd 0.0  NAPI 0.0  hard irqs 0.5 %
by  reader 36.0  owner 0.0  listener 0.0  kernel 3.0  unknown 0.0  other 1.0 %
CONTROL GROUP                        PROCS  CAUSED▼  SUFFERED   PACKETS  PER PKT
/system.slice/nginx.service              2   30.0 %     0.0 %   140,000  2.14 µs
  ├ 1 nginx                                  20.0 %     0.0 %   100,000  2.00 µs
  └ 2 nginx (exited)                         10.0 %     0.0 %    40,000  2.50 µs
…ce/user-1000.slice/session-3.scope      1    5.0 %     0.0 %    10,000  5.00 µs
  └ 3 \\x1b[2Jevil\\x0a                         5.0 %     0.0 %    10,000  5.00 µs
(none)                                   1    1.0 %     0.0 %     5,000  2.00 µs
  └ 9 (exited)                                1.0 %     0.0 %     5,000  2.00 µs
/                                        1    0.0 %    30.0 %         0
  └ 4 cyclictest                              0.0 %    30.0 %         0






FOR NO PROCESS                       TIME    PACKETS  PER PKT DEVICE
dropped: no socket                  3.0 %      9,000  3.33 µs eth7 rx
timer                               1.0 %          0
onbeat, in the above         not measured
h help  s caused  b cgroup  t tree on  / search  d all devices  q quit";
