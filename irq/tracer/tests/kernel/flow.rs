//! One flow, compared with the cost that the kernel reports.

use onbeat_irq::Tracer;
use onbeat_irq_core::charge::Runner;

use crate::harness::{World, assert_balanced, caused, this_process, total};

const PACKETS: u32 = 20_000;

/// The NAPI thread only receives this flow, so that its run time is the flow's cost. CPU steal is in the
/// ledger, and not in the thread's time: short rounds, until one is free of it.
#[test]
fn a_flow_costs_the_run_time_of_the_napi_thread() {
    const PACKETS: u32 = 1_000;
    const ROUNDS: usize = 200;
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    // Now the hosts have resolved their addresses, and the ledger knows the reader.
    let mut tracer = Tracer::start().unwrap();
    flow.pass(10, 512);

    let charged = || caused(&total(&tracer), this_process(), world.device());
    let share = || {
        let (ran_before_ns, before_ns) = (world.thread_ns(), charged().ns);
        flow.pass(PACKETS, 512);
        let ran_ns = world.thread_ns() - ran_before_ns;
        (charged().ns - before_ns) as f64 / ran_ns as f64
    };
    let mut shares = Vec::new();
    while !shares.last().is_some_and(|share| (0.9..1.1).contains(share)) {
        assert!(shares.len() < ROUNDS, "charged, of what the thread ran: {shares:.3?}");
        shares.push(share());
    }

    tracer.stop();
    let accounts = total(&tracer);
    let charged = caused(&accounts, this_process(), world.device());
    let passed = 10 + PACKETS * shares.len() as u32;
    assert_eq!(charged.packets, u64::from(passed), "{:?}", accounts.caused);
    assert!(accounts.suffered[&Runner::NapiThread] >= charged.ns);
    assert_eq!(tracer.losses().unwrap(), Default::default());
}

/// The sender's own system calls receive: it suffers the time that the reader causes.
#[test]
fn a_flow_in_softirq_is_charged_alike() {
    let Some(world) = World::if_possible(false) else { return };
    let flow = world.flow();
    flow.pass(10, 512);

    let mut tracer = Tracer::start().unwrap();
    flow.pass(PACKETS, 512);
    tracer.stop();

    let accounts = total(&tracer);
    let charged = caused(&accounts, this_process(), world.device());
    assert_eq!(charged.packets, u64::from(PACKETS));
    assert!(accounts.suffered_by_processes_ns() > 0);
    assert_balanced(&accounts);
}
