//! Packets sampled in windows only.

use std::num::NonZeroU32;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use onbeat_bpf::statistics::Statistics;
use onbeat_irq::{Error, Meter, Sampler, Tracer};
use onbeat_irq_core::charge::sample::Estimate;
use onbeat_irq_core::charge::{Attribution, Cause, Class};

use crate::harness::{BOUND, World, assert_balanced, caused, this_process, total};
use crate::reader::{Reader, without_forks};

/// The time of all polls is charged, and packets are charged in the windows only.
#[test]
fn packets_are_charged_in_windows_only_and_time_always() {
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let mut tracer = Tracer::start_sampled().unwrap();
    flow.pass(200, 100);
    world.wait_idle();
    tracer.sample_packets().unwrap();
    flow.pass(1000, 100);
    world.wait_idle();
    tracer.skip_packets().unwrap();
    flow.pass(500, 100);
    world.wait_idle();
    tracer.stop();

    let accounts = total(&tracer);
    assert_balanced(&accounts);
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, 1000);
    let skipped = accounts.caused[&Cause::Unowned(Class::Unsampled(world.device()))];
    // The hosts may have resolved each other's addresses as well.
    assert!(skipped.packets >= 700, "{:?}", accounts.caused);
    assert!(skipped.ns > 0);
}

/// Skipped packets cost nothing because the programs are not attached.
#[test]
fn programs_at_packets_do_not_run_outside_of_windows() {
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let mut tracer = Tracer::start_sampled().unwrap();
    let _statistics = Statistics::enable().unwrap();
    let runs = |tracer: &Tracer, program: &str| {
        let runs = tracer.runs().unwrap();
        runs.into_iter().find(|(name, _)| name == program).unwrap().1.count
    };
    let _guard = without_forks();
    const AT_PACKETS: [&str; 3] =
        ["on_netif_receive_skb", "on_sk_data_ready", "on_sock_recv_length"];
    for _ in 0..2 {
        let before = AT_PACKETS.map(|program| runs(&tracer, program));
        let polls = runs(&tracer, "on_napi_poll");
        flow.pass(100, 100);
        assert_eq!(AT_PACKETS.map(|program| runs(&tracer, program)), before);
        assert!(runs(&tracer, "on_napi_poll") > polls);
        tracer.sample_packets().unwrap();
        flow.pass(100, 100);
        let in_window = AT_PACKETS.map(|program| runs(&tracer, program));
        assert!(in_window.iter().zip(before).all(|(now, then)| *now >= then + 100));
        tracer.skip_packets().unwrap();
    }
}

/// Windows occur by themselves; the rest is estimated, with its error.
#[test]
fn a_sampler_has_windows_and_errors() {
    let Some(world) = World::if_possible(true) else { return };
    let flows = [world.flow(), world.flow()];
    let mut other = Reader::of(&flows[1].reader);
    let mut meter = Meter::new(Tracer::start_sampled().unwrap());
    let estimate = std::thread::scope(|scope| {
        let (passed, has_passed) = mpsc::sync_channel(0);
        let (flows, other) = (&flows, &mut other);
        scope.spawn(move || {
            // Shares must differ between windows for a nonzero error.
            for packets in (1..=20).cycle().take_while(|_| passed.send(()).is_ok()) {
                other.begin(packets);
                flows[1].send(packets, 100);
                flows[0].pass(100, 100);
                other.finish();
            }
        });
        let mut sampler = Sampler::new(NonZeroU32::new(3).unwrap()).unwrap();
        let mut windows = 0;
        let wait = |_: Instant| {
            // Not until the instant, but until packets have passed: the second time, some that were sent since
            // the first.
            for _ in 0..2 {
                has_passed.recv_timeout(BOUND).expect("packets pass");
            }
            windows += 1;
            // Each has a pause before it.
            Ok::<_, Error>(windows < 20)
        };
        let waited = sampler.wait(&mut meter, Instant::now() + Duration::from_secs(60), wait);
        drop(has_passed);
        assert!(!waited.unwrap());
        meter.stop();
        let mut interval = meter.read().unwrap();
        interval.resolve(|cookie| meter.tracer().owner(cookie));
        let mut total = Estimate::default();
        interval.estimates().iter().for_each(|cpu| total.add(cpu));
        assert_balanced(&total.accounts);
        assert_eq!(total.accounts.measured_ns, interval.total().measured_ns);
        total
    });
    assert_eq!(estimate.windows, 10);
    assert!(estimate.sampled_ns > 0 && estimate.skipped_ns > 0, "{estimate:?}");
    let cause =
        Cause::Process { process: this_process(), device: world.device(), by: Attribution::Reader };
    let error = estimate.error(&cause).expect("there were windows enough");
    assert!(estimate.accounts.caused[&cause].packets > 0);
    assert!(error.ns > 0.0 && error.ns.is_finite() && error.packets > 0.0, "{error:?}");
}

/// A process that was forked while programs were attached keeps them attached: they must not be attached a
/// second time.
#[test]
fn a_forked_holder_of_programs_causes_no_double_counts() {
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let of_child = world.flow();
    let mut tracer = Tracer::start().unwrap();
    let _guard = without_forks();
    let child = Reader::of_all(&of_child.reader);
    tracer.stop();
    tracer.resume().unwrap();
    flow.pass(300, 100);
    world.wait_idle();
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, 300);
    assert_balanced(&accounts);
    drop(child);
}
