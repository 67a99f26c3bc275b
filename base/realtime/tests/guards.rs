//! Guards of this thread: settings are applied and restored.

use std::fs;
use std::thread;

use onbeat_realtime::{
    Affinity, CpuSet, DmaLatency, Error, LockedMemory, Profile, Scheduling, SchedulingGuard,
    TimerSlack, prefault_stack,
};
use onbeat_testing::{Feature, require_all, require_that};

/// Returns policy and priority, CPUs and timer slack in nanoseconds of the calling thread, from /proc.
fn thread_now() -> (String, String, String) {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The fields after the name: the first is number 3, the state.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let (rt_priority, policy) = (fields[40 - 3], fields[41 - 3]);
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim();
    let tid = nix::unistd::gettid();
    let slack = fs::read_to_string(format!("/proc/{tid}/timerslack_ns")).unwrap();
    let policy = format!("policy {policy} priority {rt_priority}");
    (policy, line("Cpus_allowed_list:").to_owned(), slack.trim().to_owned())
}

/// Returns the wake-up latency requested by all processes of the host, in microseconds.
fn wake_up_us() -> i32 {
    let octets = fs::read(DmaLatency::DEVICE).unwrap();
    i32::from_ne_bytes(octets[..4].try_into().unwrap())
}

/// Runs a test on a separate thread, so that its settings do not affect other tests.
fn alone(test: impl FnOnce() + Send + 'static) {
    if require_all(&[Feature::Root]) {
        thread::spawn(test).join().unwrap();
    }
}

#[test]
fn a_policy_is_applied_and_restored() {
    alone(|| {
        let _slack = TimerSlack::take(7000).unwrap();
        let before = thread_now();
        let outer = SchedulingGuard::take(Scheduling::RoundRobin(3)).unwrap();
        assert_eq!(thread_now().0, "policy 2 priority 3");
        let inner = SchedulingGuard::take(Scheduling::Fifo(5)).unwrap();
        assert_eq!(thread_now().0, "policy 1 priority 5");
        drop(inner);
        assert_eq!(thread_now().0, "policy 2 priority 3");
        let none = SchedulingGuard::take(Scheduling::Other).unwrap();
        assert_eq!(thread_now().0, "policy 0 priority 0");
        drop(none);
        assert_eq!(thread_now().0, "policy 2 priority 3");
        drop(outer);
        assert_eq!(thread_now(), before);
    });
}

#[test]
fn cpus_are_applied_and_restored() {
    alone(|| {
        let before = thread_now();
        let last = before.1.parse::<CpuSet>().unwrap().iter().last().unwrap();
        let guard = Affinity::take(&CpuSet::from_iter([last])).unwrap();
        assert_eq!(thread_now().1, last.to_string());
        drop(guard);
        assert_eq!(thread_now(), before);
        let error = Affinity::take(&"1023".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("on CPUs 1023") && error.contains("online"), "{error}");
    });
}

#[test]
fn a_timer_slack_is_applied_and_restored() {
    alone(|| {
        let before = thread_now();
        for (wanted, shown) in [(7000, "7000"), (0, "1")] {
            let guard = TimerSlack::take(wanted).unwrap();
            assert_eq!(thread_now().2, shown);
            drop(guard);
            assert_eq!(thread_now(), before);
        }
    });
}

#[test]
fn memory_is_locked_until_the_last_guard_is_dropped() {
    alone(|| {
        let (one, two) = (LockedMemory::lock().unwrap(), LockedMemory::lock().unwrap());
        assert!(one.octets() > 0);
        drop(one);
        assert!(two.octets() > 0);
        // Another test may lock memory as well: the amount after the last guard is not checked here.
        drop(two);
    });
}

#[test]
fn a_stack_is_prefaulted_within_its_size() {
    const STACK: usize = 4 << 20;
    let small = thread::Builder::new().stack_size(STACK);
    let test = || {
        prefault_stack(STACK / 2).unwrap();
        let error = prefault_stack(STACK).unwrap_err();
        let Error::Stack { wanted: STACK, room } = error else { panic!("{error}") };
        assert!((STACK / 2..STACK).contains(&room), "{room}");
        prefault_stack(room - room / 8).unwrap();
    };
    small.spawn(test).unwrap().join().unwrap();
}

#[test]
fn a_profile_is_applied_and_restored() {
    alone(|| {
        let device = fs::metadata(DmaLatency::DEVICE).is_ok();
        if !require_that(device, "/dev/cpu_dma_latency (CONFIG_CPU_IDLE)") {
            return;
        }
        let before = thread_now();
        let cpu: CpuSet = before.1.parse::<CpuSet>().unwrap().iter().take(1).collect();
        let realtime = Profile::control_loop().on_cpus(cpu.clone()).within_us(3).enter().unwrap();
        let (policy, cpus, slack_ns) = thread_now();
        assert_eq!((policy.as_str(), cpus), ("policy 1 priority 49", cpu.to_string()));
        // Since Linux 6.13 the kernel shows none.
        assert!(["0", "1"].contains(&slack_ns.as_str()), "{slack_ns}");
        assert!((0..=3).contains(&wake_up_us()));
        assert!(realtime.locked_octets() > 0);
        let text = realtime.to_string();
        assert!(text.starts_with(&format!("real time: fifo 49, CPUs {cpu}, ")), "{text}");
        assert!(
            text.ends_with("MiB locked in RAM, timer slack 1 ns, wake-up within 3 us"),
            "{text}"
        );
        drop(realtime);
        assert_eq!(thread_now(), before);

        // If the last setting is refused, those applied before are undone.
        let refused = Profile::control_loop().scheduled(Scheduling::Fifo(0)).on_cpus(cpu).enter();
        assert!(matches!(refused, Err(Error::Priority(0))), "{refused:?}");
        assert_eq!(thread_now(), before);
    });
}

#[test]
fn a_refused_latency_reports_the_device() {
    let error = DmaLatency::hold_device("/no/such/device".as_ref(), 5).unwrap_err().to_string();
    assert!(error.starts_with("cannot hold /no/such/device at 5 us: No such file"), "{error}");
}

#[test]
fn a_profile_is_written_in_a_configuration_file() {
    let text = r#"{"scheduling": "rr 7", "cpus": "0-1,4", "dma-latency-us": 20}"#;
    let profile: Profile = serde_json::from_str(text).unwrap();
    let cpus = "0-1,4".parse().unwrap();
    let mut expected = Profile::default().scheduled(Scheduling::RoundRobin(7)).on_cpus(cpus);
    expected = expected.within_us(20);
    assert_eq!(profile, expected);
    let again = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&again).unwrap(), profile);
    for (text, expected) in [
        (r#"{"scheduling": "fifo 100"}"#, "invalid real-time priority 100"),
        (r#"{"cpus": "4-2"}"#, "a range ends before it starts"),
        (r#"{"cpu": "1"}"#, "unknown field `cpu`"),
    ] {
        let error = serde_json::from_str::<Profile>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
