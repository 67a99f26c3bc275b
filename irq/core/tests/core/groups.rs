//! Grouped and folded tables contain all time of the accounts.

use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Process, ReceiveQueue, Runner, Softirq,
};
use onbeat_irq_core::names::cgroup::container;
use onbeat_irq_core::names::{Description, Names, ProcessInfo};
use onbeat_irq_core::view::{Fold, GroupKey, GroupRow, Groups, Order, Table};
use proptest::collection::vec;
use proptest::prelude::*;

/// Some processes have no name, some no group.
struct NumberedNames;

impl Names for NumberedNames {
    fn process(&mut self, Process { pid, .. }: Process) -> ProcessInfo {
        let pod = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f";
        let path = match pid % 4 {
            0 => None,
            1 => Some("/".to_owned()),
            2 => Some(format!("/system.slice/unit{}.service", pid % 8)),
            _ => Some(format!("/kubepods/pod{pod}{}/{}", pid % 8, "ab".repeat(32))),
        };
        let description = Description {
            command: format!("c{}", pid % 3).as_str().into(),
            cgroup: path.as_deref().map(Into::into),
            container: None,
            user: Some(if pid % 2 == 0 { "root" } else { "www" }.into()),
        };
        ProcessInfo { description: (pid % 5 != 0).then_some(description), ended: pid % 5 == 0 }
    }

    fn device(&mut self, device: Device) -> String {
        if device.index == 0 { "-".into() } else { format!("eth{}", device.index) }
    }

    fn reason(&mut self, reason: u32) -> String {
        format!("reason {reason}")
    }

    fn line(&mut self, line: u32) -> String {
        format!("line {line}")
    }
}

fn device() -> impl Strategy<Value = Device> {
    (0..3u32).prop_map(|index| Device { netns: 1, index })
}

fn process() -> impl Strategy<Value = Process> {
    (0..40u32).prop_map(|pid| Process { pid, start_ticks: 1 })
}

fn cause() -> impl Strategy<Value = Cause> {
    let by = prop_oneof![Just(Attribution::Reader), Just(Attribution::Estimate)];
    prop_oneof![
        4 => (process(), device(), by)
            .prop_map(|(process, device, by)| Cause::Process { process, device, by }),
        1 => (device(), 0..9u64).prop_map(|(device, cookie)| Cause::Socket { cookie, device }),
        1 => (device(), 0..9u32)
            .prop_map(|(device, reason)| Cause::Unowned(Class::Dropped { device, reason })),
        1 => Just(Cause::Unowned(Class::Softirq(Softirq::Timer))),
    ]
}

/// Accounts whose two sides balance.
fn accounts() -> impl Strategy<Value = Accounts> {
    let caused = vec((cause(), 0..1_000_000u64, 0..50u64), 0..60);
    (caused, vec(process(), 1..20)).prop_map(|(caused, victims)| {
        let mut accounts = Accounts::default();
        for (index, (cause, ns, packets)) in caused.into_iter().enumerate() {
            accounts.caused.entry(cause).or_default().add(Amount { ns, packets });
            let runner = match index % 3 {
                0 => Runner::Idle,
                _ => Runner::Process(victims[index % victims.len()]),
            };
            *accounts.suffered.entry(runner).or_default() += ns;
            accounts.measured_ns += ns;
            // Two queues of a device, with a part of its time.
            if let Cause::Process { device, .. } | Cause::Socket { device, .. } = cause {
                if device.index == 1 {
                    let queue = ReceiveQueue { device, napi: index as u32 % 2 };
                    accounts.queues.entry(queue).or_default().add(Amount { ns, packets });
                }
            }
        }
        accounts
    })
}

/// Caused time with that of no process, suffered time, and packets of processes.
fn sums(groups: &Groups) -> (u64, u64, u64) {
    let rows = || groups.rows.iter().chain(&groups.others);
    let sum = |of: fn(&GroupRow) -> u64| rows().map(of).sum::<u64>();
    let caused = sum(|row| row.caused_ns) + groups.without_process_ns;
    (caused, sum(|row| row.suffered_ns), sum(|row| row.packets))
}

fn assert_whole(table: &Table, accounts: &Accounts) {
    let others = table.others.iter();
    let others_ns: (u64, u64) =
        others.fold((0, 0), |sum, row| (sum.0 + row.caused_ns, sum.1 + row.suffered_ns));
    let caused: u64 = table.processes.iter().map(|row| row.caused_ns).sum();
    let unowned: u64 = table.unowned.iter().map(|row| row.ns).sum();
    assert_eq!(caused + others_ns.0 + unowned, accounts.measured_ns);
    let suffered: u64 = table.processes.iter().map(|row| row.suffered_ns).sum();
    assert_eq!(suffered + others_ns.1, accounts.suffered_by_processes_ns());
}

proptest! {
    #[test]
    fn all_time_is_in_the_rows(
        cpus in vec(accounts(), 1..4),
        least_share in prop_oneof![Just(0.0), 0.0..0.2, Just(2.0)],
        most_rows in 0..12usize,
    ) {
        let mut all = Accounts::default();
        cpus.iter().for_each(|cpu| all.add(cpu));
        let fold = Fold { least_share, most_rows };
        let plain = Table::of(&all, 1_000, &mut NumberedNames);
        let tables: Vec<Table> =
            cpus.iter().map(|cpu| Table::of(cpu, 1_000, &mut NumberedNames)).collect();
        let packets = |table: &Table| table.processes.iter().map(|row| row.packets).sum::<u64>();
        for (name, by) in GroupKey::ALL {
            let groups = if matches!(by, GroupKey::Cpu | GroupKey::Node) {
                let named = (0..).map(|cpu: u32| Some((cpu / 2).to_string()));
                Groups::of_cpus(by, named.zip(&tables))
            } else {
                Groups::of(by, &plain)
            };
            let whole = sums(&groups);
            prop_assert_eq!(whole.0, all.measured_ns, "{}", name);
            prop_assert_eq!(whole.1, all.suffered_by_processes_ns(), "{}", name);
            if by.is_of_process() {
                prop_assert_eq!(whole.2, packets(&plain), "{}", name);
            }
            let mut table = Table { groups: Some(groups), ..plain.clone() };
            table.sort(Order::Suffered);
            table.fold(fold);
            assert_whole(&table, &all);
            // Rows by another key of a folded table are whole too.
            assert_eq!(sums(&Groups::of(GroupKey::Command, &table)).0, all.measured_ns);
            let groups = table.groups.as_ref().unwrap();
            prop_assert_eq!(sums(groups), whole, "{}", name);
            prop_assert!(groups.rows.len() <= most_rows && table.processes.len() <= most_rows);
            prop_assert!(table.unowned.len() <= most_rows + 1);
        }
    }
}

#[test]
fn folding_keeps_the_largest_rows_and_counts_the_others() {
    let accounts = Accounts {
        caused: (1..=20u32)
            .map(|pid| {
                let process = Process { pid, start_ticks: 1 };
                let by = Attribution::Reader;
                let cause = Cause::Process { process, device: Device::default(), by };
                (cause, Amount { ns: u64::from(pid), packets: 1 })
            })
            .collect(),
        measured_ns: 210,
        ..Accounts::default()
    };
    let mut table = Table::of(&accounts, 1_000, &mut NumberedNames);
    table.fold(Fold { least_share: 0.05, most_rows: 5 });
    let pids: Vec<u32> = table.processes.iter().map(|row| row.pid).collect();
    assert_eq!(pids, [20, 19, 18, 17, 16]);
    let others = table.others.unwrap();
    assert_eq!((others.processes, others.caused_ns, others.packets), (15, 120, 15));
    assert_eq!(others.ns_per_packet, Some(8.0));
}

/// A web server in a unit, and a process in a pod.
struct DescribedNames;

const CONTAINER: &str = "3f8a1c2e5b7d9f013f8a1c2e5b7d9f013f8a1c2e5b7d9f013f8a1c2e5b7d9f01";
const POD: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

fn pod_group() -> String {
    format!("/kubepods/pod{POD}/{CONTAINER}")
}

impl Names for DescribedNames {
    fn process(&mut self, Process { pid, .. }: Process) -> ProcessInfo {
        let (command, cgroup, user) = match pid {
            1 => ("nginx", "/system.slice/web.service".to_owned(), "www"),
            _ => ("job", pod_group(), "1000"),
        };
        let container = container(cgroup.as_bytes()).map(Into::into);
        let (cgroup, user) = (Some(cgroup.as_str().into()), Some(user.into()));
        let description = Description { command: command.into(), cgroup, container, user };
        ProcessInfo { description: Some(description), ended: false }
    }

    fn device(&mut self, device: Device) -> String {
        format!("eth{}", device.index)
    }

    fn reason(&mut self, reason: u32) -> String {
        reason.to_string()
    }

    fn line(&mut self, number: u32) -> String {
        number.to_string()
    }
}

#[test]
fn each_key_has_its_groups() {
    let device = Device { netns: 1, index: 1 };
    let read = |pid, ns| {
        let process = Process { pid, start_ticks: 1 };
        (Cause::Process { process, device, by: Attribution::Reader }, Amount { ns, packets: 1 })
    };
    let accounts = Accounts {
        caused: [read(1, 20), read(2, 10)].into(),
        queues: [(ReceiveQueue { device, napi: 9 }, Amount { ns: 30, packets: 2 })].into(),
        measured_ns: 30,
        ..Accounts::default()
    };
    let table = Table::of(&accounts, 1_000, &mut DescribedNames);
    let pod_group = pod_group();
    for (name, by) in GroupKey::ALL {
        let groups = match by {
            GroupKey::Cpu => Groups::of_cpus(by, [(Some("3".into()), &table)].into_iter()),
            GroupKey::Node => Groups::of_cpus(by, [(Some("1".into()), &table)].into_iter()),
            by => Groups::of(by, &table),
        };
        let names: Vec<&str> =
            groups.rows.iter().map(|row| row.name.as_deref().unwrap_or("none")).collect();
        let expected: &[&str] = match by {
            GroupKey::Process => &["1 nginx", "2 job"],
            GroupKey::Command => &["nginx", "job"],
            GroupKey::Cgroup => &["/system.slice/web.service", &pod_group],
            GroupKey::Unit => &["web.service", "none"],
            GroupKey::Container => &["none", CONTAINER],
            GroupKey::Pod => &["none", POD],
            GroupKey::User => &["www", "1000"],
            GroupKey::Device => &["eth1"],
            GroupKey::Queue => &["eth1/napi-9"],
            GroupKey::Cpu => &["3"],
            GroupKey::Node => &["1"],
        };
        assert_eq!(names, expected, "{name}");
    }
}

#[test]
fn queues_are_parts_of_their_device() {
    let device = Device { netns: 1, index: 1 };
    let process = Process { pid: 1, start_ticks: 1 };
    let cause = Cause::Process { process, device, by: Attribution::Reader };
    let amount = |ns, packets| Amount { ns, packets };
    let queue = |napi| ReceiveQueue { device, napi };
    let accounts = Accounts {
        caused: [(cause, amount(100, 10))].into(),
        queues: [(queue(7), amount(60, 6)), (queue(8), amount(30, 4))].into(),
        measured_ns: 100,
        ..Accounts::default()
    };
    let rows = |accounts: &Accounts| -> Vec<(Option<String>, u64, u64)> {
        let table = Table::of(accounts, 1_000, &mut NumberedNames);
        let rows = Groups::of(GroupKey::Queue, &table).rows;
        rows.into_iter().map(|row| (row.name, row.caused_ns, row.packets)).collect()
    };
    let name = |name: &str| Some(name.to_owned());
    let rest = (name("eth1"), 10, 0);
    assert_eq!(rows(&accounts), [(name("eth1/napi-7"), 60, 6), (name("eth1/napi-8"), 30, 4), rest]);
    let all = [(queue(7), amount(60, 6)), (queue(8), amount(40, 4))].into();
    assert_eq!(rows(&Accounts { queues: all, ..accounts.clone() }).len(), 2, "nothing is left");
    // A device with one queue is its own row.
    let single = Accounts { queues: [].into(), ..accounts };
    assert_eq!(rows(&single), [(name("eth1"), 100, 10)]);
}

#[test]
fn keys_have_names() {
    for (name, key) in GroupKey::ALL {
        assert_eq!((GroupKey::from_name(name), key.name()), (Some(key), name));
        assert!(!key.title().is_empty());
    }
    assert_eq!(GroupKey::from_name("qdisc"), None);
    let round = (0..GroupKey::ALL.len()).fold(GroupKey::Process, |key, _| key.next());
    assert_eq!(round, GroupKey::Process);
}
