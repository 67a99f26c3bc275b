//! Grouped and folded tables contain all time of the accounts.

use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Process, Runner, Softirq,
};
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
