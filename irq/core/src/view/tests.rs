//! Tests of the table: contents, orders and devices.

use super::*;
use crate::charge::sample::{Estimate, Sample};
use crate::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Interrupt, InterruptAmount, IpiReason,
    IpiSender, Owner, Process, Runner, Softirq,
};
use crate::names::{Description, Names, ProcessInfo};

const HERE: u32 = 1;
const ELSEWHERE: u32 = 2;
const SERVER: Process = Process { pid: 10, start_ticks: 1 };
const GONE: Process = Process { pid: 20, start_ticks: 2 };
const VICTIM: Process = Process { pid: 30, start_ticks: 3 };

struct FixedNames;

impl Names for FixedNames {
    fn process(&mut self, process: Process) -> ProcessInfo {
        let description = |command: &str| Description {
            command: command.into(),
            cgroup: Some("/system.slice".into()),
            container: None,
            user: Some("www".into()),
        };
        match process {
            SERVER => ProcessInfo { description: Some(description("server")), ended: false },
            VICTIM => ProcessInfo { description: Some(description("victim")), ended: true },
            _ => ProcessInfo { description: None, ended: true },
        }
    }

    fn device(&mut self, device: Device) -> String {
        match device {
            Device { index: 0, .. } => "-".into(),
            Device { netns: HERE, index } => format!("eth{index}"),
            Device { netns, index } => format!("eth{index}@{netns}"),
        }
    }

    fn reason(&mut self, reason: u32) -> String {
        format!("reason {reason}")
    }

    fn line(&mut self, number: u32) -> String {
        format!("line {number}")
    }
}

fn device(netns: u32, index: u32) -> Device {
    Device { netns, index }
}

fn rps_of(sender: IpiSender) -> Interrupt {
    Interrupt::Ipi { reason: IpiReason::Rps, sender }
}

fn accounts() -> Accounts {
    let process = |process, device| Cause::Process { process, device, by: Attribution::Reader };
    let socket = |cookie| Cause::Socket { cookie, device: device(HERE, 1) };
    let unowned = Cause::Unowned;
    let caused = [
        (process(SERVER, device(HERE, 1)), 300, 3),
        (process(SERVER, device(ELSEWHERE, 1)), 500, 1),
        (process(GONE, device(HERE, 2)), 900, 1),
        (socket(7), 10, 1),
        (socket(8), 30, 1),
        (unowned(Class::Forwarded { from: device(HERE, 1), to: 2 }), 200, 2),
        (unowned(Class::Dropped { device: device(HERE, 2), reason: 4 }), 50, 1),
        (unowned(Class::Softirq(Softirq::NetTx)), 60, 0),
        (unowned(Class::EmptyPoll(Device::default())), 5, 0),
    ];
    let measured_ns = caused.iter().map(|(_, ns, _)| ns).sum();
    Accounts {
        caused: caused.map(|(cause, ns, packets)| (cause, Amount { ns, packets })).into(),
        suffered: [
            (Runner::Process(SERVER), 55),
            (Runner::Process(VICTIM), 1500),
            (Runner::Idle, measured_ns - 1555),
        ]
        .into(),
        measured_ns,
        interrupts: [
            (Interrupt::Line(9), InterruptAmount { ns: 30, count: 3 }),
            (rps_of(IpiSender::Process(SERVER)), InterruptAmount { ns: 47, count: 2 }),
        ]
        .into(),
        interrupted: [(Runner::Process(VICTIM), 70), (Runner::Idle, 7)].into(),
        hardirq_ns: 77,
        ..Accounts::default()
    }
}

fn table() -> Table {
    Table::of(&accounts(), 10_000, &mut FixedNames)
}

fn pids(table: &Table) -> Vec<u32> {
    table.processes.iter().map(|row| row.pid).collect()
}

#[test]
fn caused_and_suffered_time_are_one_row() {
    let table = table();
    let server = table.processes.iter().find(|row| row.pid == 10).unwrap();
    assert_eq!((server.caused_ns, server.suffered_ns, server.packets), (800, 55, 4));
    assert_eq!(server.ns_per_packet, Some(200.0));
    assert_eq!((server.command.as_deref(), server.ended), (Some("server"), false));
    let parts: Vec<_> = server.parts.iter().map(|p| (p.device.as_str(), p.ns)).collect();
    assert_eq!(parts, [("eth1@2", 500), ("eth1", 300)]);
    let victim = table.processes.iter().find(|row| row.pid == 30).unwrap();
    assert_eq!((victim.caused_ns, victim.suffered_ns, victim.ns_per_packet), (0, 1570, None));
    assert_eq!(victim.interrupted_ns, 70);
    let gone = table.processes.iter().find(|row| row.pid == 20).unwrap();
    assert_eq!((gone.command.as_deref(), gone.ended), (None, true));
    assert_eq!((table.imbalance_ns, table.hardirq_ns), (0, 77));
    assert_eq!((table.ran_on.processes_ns, table.ran_on.idle_ns), (1555, 500));
}

#[test]
fn hard_interrupts_have_rows() {
    let rows = table().interrupts;
    let [rps, line] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((rps.class, rps.sender.as_deref()), ("rps", Some("server[10]")));
    assert_eq!((rps.ns, rps.count), (47, 2));
    assert_eq!((line.class, line.line.as_deref()), ("device", Some("line 9")));
    let accounts = accounts();
    assert_eq!(accounts.interrupt_imbalance_ns(), 0);
    assert_eq!(accounts.since(&Accounts::default()), accounts);
    assert_eq!(accounts.since(&accounts), Accounts::default());
}

#[test]
fn inferred_time_is_a_separate_row() {
    let mut accounts = accounts();
    let (device, by) = (device(HERE, 1), Attribution::Estimate);
    accounts.resolve(|cookie| (cookie == 7).then_some(Owner { process: SERVER, by }));
    let table = Table::of(&accounts, 10_000, &mut FixedNames);
    let rows: Vec<_> = table.processes.iter().filter(|row| row.pid == SERVER.pid).collect();
    let [certain, estimate] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((certain.estimate, certain.caused_ns, certain.suffered_ns), (false, 800, 55));
    assert_eq!((estimate.estimate, estimate.caused_ns, estimate.suffered_ns), (true, 10, 0));
    assert_eq!(serde_json::to_value(estimate).unwrap()["estimate"], true);
    assert_eq!(accounts.compensation_ns(SERVER), 800 - 55);
    assert!(accounts.caused.contains_key(&Cause::Process { process: SERVER, device, by }));
    let all: u64 = table.processes.iter().map(|row| row.caused_ns).sum();
    assert_eq!(all + table.unowned.iter().map(|row| row.ns).sum::<u64>(), table.measured_ns);
}

#[test]
fn the_rows_contain_all_time() {
    let table = table();
    let owned: u64 = table.processes.iter().map(|row| row.caused_ns).sum();
    let unowned: u64 = table.unowned.iter().map(|row| row.ns).sum();
    assert_eq!(owned + unowned, table.measured_ns);
}

#[test]
fn rows_without_an_owner_have_devices() {
    let rows = table().unowned;
    let row = |class: &str| rows.iter().find(|row| row.class == class).unwrap();
    let forwarded = row("forwarded");
    assert_eq!(
        (forwarded.device.as_deref(), forwarded.to.as_deref()),
        (Some("eth1"), Some("eth2"))
    );
    assert_eq!(forwarded.direction, Some(Direction::Through));
    assert_eq!(row("dropped").reason.as_deref(), Some("reason 4"));
    assert_eq!(row("tx completion").direction, Some(Direction::Tx));
    let sockets = row("socket without owner");
    assert_eq!((sockets.ns, sockets.packets, sockets.ns_per_packet), (40, 2, Some(20.0)));
}

#[test]
fn orders() {
    for (name, pids_in_order) in [
        ("caused", [20, 10, 30]),
        ("suffered", [30, 10, 20]),
        ("packets", [10, 20, 30]),
        ("per-packet", [20, 10, 30]),
        ("pid", [10, 20, 30]),
        ("command", [20, 10, 30]),
    ] {
        let order = Order::from_name(name).unwrap();
        assert_eq!(order.name(), name);
        let mut table = table();
        table.sort(order);
        assert_eq!(pids(&table), pids_in_order, "{name}");
    }
    assert_eq!(Order::from_name("time"), None);
    let round = (0..Order::ALL.len()).fold(Order::Caused, |order, _| order.next());
    assert_eq!(round, Order::Caused);
}

#[test]
fn a_device_by_its_name_in_any_namespace_or_in_one() {
    let of = |device| {
        let mut table = table();
        table.keep_device(device);
        let unowned: Vec<&str> = table.unowned.iter().map(|row| row.class).collect();
        let caused: Vec<(u32, u64)> =
            table.processes.iter().map(|row| (row.pid, row.caused_ns)).collect();
        (caused, unowned)
    };
    assert_eq!(of("eth1"), (vec![(10, 800)], vec!["forwarded", "socket without owner"]));
    assert_eq!(of("eth1@2"), (vec![(10, 500)], vec![]));
    assert_eq!(of("eth2"), (vec![(20, 900)], vec!["forwarded", "dropped"]));
    assert_eq!(of("eth"), (vec![], vec![]));
    assert_eq!(table().devices(), ["eth1", "eth1@2", "eth2"]);
}

#[test]
fn estimates_have_errors_and_coverage() {
    let of_server = |index, ns| {
        (
            Cause::Process {
                process: SERVER,
                device: device(HERE, index),
                by: Attribution::Reader,
            },
            Amount { ns, packets: 1 },
        )
    };
    let window = |one, two| Accounts {
        caused: [of_server(1, one), of_server(2, two)].into(),
        ..Accounts::default()
    };
    let (mut sample, mut all) = (Sample::default(), Accounts::default());
    for window in [window(10, 30), window(30, 10)] {
        sample.add_window(&window);
        all.add(&window);
    }
    let skipped = Cause::Unowned(Class::Unsampled(device(HERE, 1)));
    all.caused.insert(skipped, Amount { ns: 80, packets: 0 });
    let estimate = Estimate::of(&all, &sample);
    let table = Table::of_estimate(&estimate, 1000, &mut FixedNames);
    let sampled = SampledPart { windows: 2, looked_at_ns: 80, skipped_ns: 80 };
    assert_eq!(table.sample, Some(sampled));
    let row = &table.processes[0];
    assert_eq!((row.caused_ns, row.packets), (160, 8));
    let parts: Vec<f64> = row.parts.iter().map(|part| part.standard_error.unwrap().ns).collect();
    assert!(parts.iter().all(|ns| *ns > 0.0));
    assert_eq!(row.standard_error.unwrap().ns, parts.iter().sum::<f64>());

    let exact = Table::of(&window(10, 30), 1000, &mut FixedNames);
    assert_eq!((exact.sample, exact.processes[0].standard_error), (None, None));
}

#[test]
fn folded_stacks_contain_all_caused_time() {
    let mut table = table();
    table.processes[1].command = Some("a;b 7".into());
    let text = table.folded(GroupKey::Process);
    let sum: u64 =
        text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, table.measured_ns);
    for line in text.lines() {
        let (stack, _) = line.rsplit_once(' ').unwrap();
        assert_eq!(stack.split(';').count(), 3, "{line}");
    }
    assert!(text.contains("/system.slice;a\\x3bb 7;reader 800\n"), "{text}");
    assert!(text.contains("no process;dropped: reason 4;eth2 50\n"), "{text}");
    assert!(table.folded(GroupKey::Device).contains("eth1@2;"), "{text}");
    assert!(table.folded(GroupKey::User).contains("www;"), "{text}");
}
