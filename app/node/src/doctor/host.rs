//! Causes of frame delay on this host: CPU frequency, CPU sleep states, scheduling.

use onbeat_host::settings::SettingKind;

use super::root::HostRoot;
use super::{Finding, Level};

/// Wake-up time of a CPU above which it affects the delay of a frame.
const WAKE_UP_US: i64 = 20;

pub(super) fn examine(root: &HostRoot<'_>) -> Vec<Finding> {
    vec![
        governor(root),
        idle_states(root),
        clock_source(root),
        rt_throttling(root),
        smt(root),
        isolation(root),
        irqbalance(root),
    ]
}

fn governor(root: &HostRoot<'_>) -> Finding {
    let what = "CPU frequency governor";
    let mut slow = Vec::new();
    let mut seen = 0;
    for cpu in root.cpus() {
        let path = format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
        let Some(governor) = root.read(&path) else { continue };
        seen += 1;
        if governor != "performance" {
            slow.push(format!("{governor} on {cpu}"));
        }
    }
    match (seen, slow.len()) {
        (0, _) => Finding::new(
            "governor",
            Level::Info,
            what,
            "none: the kernel does not scale frequencies here",
        ),
        (_, 0) => Finding::ok("governor", what, "performance"),
        _ => Finding::new("governor", Level::Warn, what, shortened(&slow))
            .remedy("cpupower frequency-set -g performance")
            .fix(SettingKind::Governor),
    }
}

fn idle_states(root: &HostRoot<'_>) -> Finding {
    let what = "CPU wake-up time from idle";
    // The aggregated request: a signed 32-bit number of microseconds. While a process holds the device
    // open with a small value, deep states are not entered.
    let request = root.octets("/dev/cpu_dma_latency").and_then(|octets| {
        let number: [u8; 4] = octets.get(..4)?.try_into().ok()?;
        Some(i64::from(i32::from_ne_bytes(number)))
    });
    let mut deepest: Option<(i64, String)> = None;
    for cpu in root.cpus() {
        let directory = format!("/sys/devices/system/cpu/{cpu}/cpuidle");
        for state in root.list(&directory) {
            let number = |file: &str| root.number(&format!("{directory}/{state}/{file}"));
            let Some(latency_us) = number("latency") else { continue };
            let usable =
                number("disable") != Some(1) && request.is_none_or(|request| latency_us <= request);
            if usable && deepest.as_ref().is_none_or(|(deepest, _)| latency_us > *deepest) {
                let name = root.read(&format!("{directory}/{state}/name")).unwrap_or(state);
                deepest = Some((latency_us, name));
            }
        }
    }
    match deepest {
        None => Finding::new("idle-states", Level::Info, what, "unknown: the kernel shows no idle states"),
        Some((latency_us, name)) if latency_us <= WAKE_UP_US => {
            Finding::ok("idle-states", what, format!("{latency_us} us at most ({name})"))
        }
        Some((latency_us, name)) => {
            Finding::new("idle-states", Level::Warn, what, format!("up to {latency_us} us ({name})")).remedy(
                "hold /dev/cpu_dma_latency open with value 0 while required: onbeat doctor --fix --hold, or exec 3>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3",
            )
        }
    }
}

fn clock_source(root: &HostRoot<'_>) -> Finding {
    let what = "clock source";
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(source) = root.read(path) else {
        return Finding::new("clock-source", Level::Info, what, "unknown");
    };
    match source.as_str() {
        "tsc" | "arch_sys_counter" | "riscv_clocksource" | "timebase" => {
            Finding::ok("clock-source", what, source)
        }
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" => {
            Finding::new("clock-source", Level::Info, what, format!("{source}: virtual machine"))
        }
        _ => Finding::new("clock-source", Level::Warn, what, format!("{source}: slow to read"))
            .remedy(format!("echo tsc > {path} (permanently: boot with clocksource=tsc)")),
    }
}

fn rt_throttling(root: &HostRoot<'_>) -> Finding {
    let what = "throttling of real-time tasks";
    let runtime_us = root.number("/proc/sys/kernel/sched_rt_runtime_us");
    let period_us = root.number("/proc/sys/kernel/sched_rt_period_us");
    match (runtime_us, period_us) {
        (Some(-1), _) => Finding::ok("rt-throttling", what, "off"),
        (Some(runtime), Some(period)) if runtime >= period => {
            Finding::ok("rt-throttling", what, "off")
        }
        (Some(runtime), period) => {
            let value =
                format!("on: limited to {runtime} us of every {} us", period.unwrap_or(1_000_000));
            Finding::new("rt-throttling", Level::Warn, what, value)
                .remedy("sysctl -w kernel.sched_rt_runtime_us=-1")
                .fix(SettingKind::RtThrottling)
        }
        (None, _) => Finding::new("rt-throttling", Level::Info, what, "unknown"),
    }
}

fn smt(root: &HostRoot<'_>) -> Finding {
    let what = "hardware threads sharing a core (SMT)";
    match root.number("/sys/devices/system/cpu/smt/active") {
        Some(1) => {
            Finding::new("smt", Level::Warn, what, "on: load of the sibling thread causes delay")
                .remedy(
                    "echo off > /sys/devices/system/cpu/smt/control (permanently: boot with nosmt)",
                )
        }
        Some(_) => Finding::ok("smt", what, "off"),
        None => Finding::new("smt", Level::Info, what, "unknown"),
    }
}

fn isolation(root: &HostRoot<'_>) -> Finding {
    let what = "isolated CPUs";
    let list = |file: &str| {
        root.read(&format!("/sys/devices/system/cpu/{file}")).filter(|list| !list.is_empty())
    };
    match (list("isolated"), list("nohz_full").filter(|list| list != "(null)")) {
        (Some(isolated), Some(tickless)) => {
            Finding::ok("isolated-cpus", what, format!("{isolated}, without a tick {tickless}"))
        }
        (Some(isolated), None) => Finding::ok("isolated-cpus", what, isolated),
        (None, _) if root.cpus().len() < 2 => {
            Finding::new("isolated-cpus", Level::Info, what, "none: the host has only one CPU")
        }
        (None, _) => Finding::new("isolated-cpus", Level::Info, what, "none")
            .remedy("for a control loop: boot with isolcpus=1 nohz_full=1 rcu_nocbs=1, and move interrupts to CPU 0"),
    }
}

fn irqbalance(root: &HostRoot<'_>) -> Finding {
    let what = "irqbalance";
    let runs = root
        .list("/proc")
        .iter()
        .filter(|name| name.bytes().all(|octet| octet.is_ascii_digit()))
        .any(|pid| root.read(&format!("/proc/{pid}/comm")).as_deref() == Some("irqbalance"));
    if runs {
        return Finding::new(
            "irqbalance",
            Level::Warn,
            what,
            "running: moves interrupts between CPUs",
        )
        .remedy("systemctl disable --now irqbalance");
    }
    Finding::ok("irqbalance", what, "not running")
}

/// The first items of a list, with the number of further ones.
pub(super) fn shortened(items: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = items[..items.len().min(SHOWN)].join(", ");
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
