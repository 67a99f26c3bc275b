//! Interrupts of others on the CPUs of the guarded interfaces: bpf/foreign.h. Names and remedies.

use std::fs;

use libbpf_rs::Link;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use onbeat_bpf::{Object, UnloadedObject};
use onbeat_irq::names::{Devices, line};
use onbeat_irq_core::charge::Device;
use onbeat_irq_core::names::Octets;
use onbeat_realtime::CpuSet;

use crate::abi::{guard_interrupt, guard_interrupts, guard_size};
use crate::error::{Error, Result};
use crate::event::{Event, InterruptSource};

/// Programs, and the tracepoint that not all kernels have: interrupts from other CPUs since Linux 6.4 and 6.6.
const PROGRAMS: [(&str, Option<&str>); 5] = [
    ("on_line", None),
    ("on_poll", None),
    ("on_waking", Some("btf_trace_ipi_send_cpu")),
    ("on_ipi", Some("btf_trace_ipi_send_cpu")),
    ("on_call", Some("btf_trace_csd_queue_cpu")),
];

/// The kernel's function for packets that another CPU receives for this one, and the name of its thread for them where
/// it has one (PREEMPT_RT, Linux 6.10).
const RPS: &str = "rps_trigger_softirq";
const RPS_THREAD: &str = "backlog_napi/";

/// Words of a set of CPUs, as programs have it.
pub(super) fn words(cpus: &CpuSet) -> [u64; guard_size::GUARD_CPU_WORDS.0 as usize] {
    let mut words = [0; guard_size::GUARD_CPU_WORDS.0 as usize];
    cpus.iter().for_each(|cpu| words[usize::from(cpu / 64)] |= 1 << (cpu % 64));
    words
}

/// The programs that this kernel can run; none without CPUs.
pub(super) fn prepare(
    object: &mut UnloadedObject,
    cpus: Option<&CpuSet>,
    types: &Btf<'_>,
) -> Vec<&'static str> {
    let has = |name| types.type_by_name::<Typedef<'_>>(name).is_some();
    let (used, unused): (Vec<_>, Vec<_>) =
        PROGRAMS.iter().partition(|(_, tracepoint)| cpus.is_some() && tracepoint.is_none_or(has));
    unused.iter().for_each(|(name, _)| object.skip(name));
    used.iter().map(|(name, _)| *name).collect()
}

/// Starts to count.
pub(super) fn attach(object: &Object, programs: &[&str]) -> Result<Vec<Link>> {
    let attach = |name: &&str| {
        let attached = object.program(name).attach();
        attached.map_err(|source| Error::kernel(format!("attach the guard's {name}"), source))
    };
    programs.iter().map(attach).collect()
}

/// Describes many interrupts of one source. `netns`: the network namespace of the guarded interfaces, `own` whether a
/// line or a device of it is theirs. `None`: it is.
pub(super) fn describe(
    report: &guard_interrupts,
    cpus: &CpuSet,
    netns: u32,
    own: impl Fn(InterruptSource, u32) -> bool,
) -> Option<Event> {
    let source = report.source;
    // The line or device, and the network namespace.
    let [number, namespace] = [source.id, source.id >> 32].map(|half| half as u32);
    let others = housekeeping(cpus);
    let (kind, name, remedy) = match guard_interrupt(source.kind) {
        guard_interrupt::GUARD_LINE => {
            if own(InterruptSource::Device, number) {
                return None;
            }
            let remedy = match &others {
                Some(others) => format!("echo {others} > /proc/irq/{}/smp_affinity_list", number),
                None => ALL_CPUS.to_owned(),
            };
            (InterruptSource::Device, format!("{} (irq {})", line(number), number), remedy)
        }
        guard_interrupt::GUARD_POLL => {
            if namespace == netns && own(InterruptSource::Packets, number) {
                return None;
            }
            let name = Devices::default().name(Device { netns: namespace, index: number });
            let device = name.split('@').next().unwrap_or_default();
            let remedy = format!(
                "run its senders on other CPUs, or its packets in threads: echo 1 > /sys/class/net/{device}/threaded"
            );
            (InterruptSource::Packets, name, remedy)
        }
        guard_interrupt::GUARD_WAKE_UP if thread(number).starts_with(RPS_THREAD) => {
            (InterruptSource::Rps, steering(source.cpu), RPS_REMEDY.to_owned())
        }
        guard_interrupt::GUARD_WAKE_UP => {
            let remedy = of_thread(number, others.as_ref(), "taskset -pc");
            (InterruptSource::WakeUp, thread(number), remedy)
        }
        _ => {
            let name = report.function.split(|octet| *octet == 0).next().unwrap_or_default();
            let function = Octets::from(name).to_string();
            if function == RPS {
                (InterruptSource::Rps, steering(source.cpu), RPS_REMEDY.to_owned())
            } else {
                let name = format!("{function} by {}", thread(report.from));
                let remedy = of_thread(report.from, others.as_ref(), "taskset -apc");
                (InterruptSource::FunctionCall, name, remedy)
            }
        }
    };
    let interrupts = u64::from(guard_size::GUARD_INTERRUPTS.0);
    Some(Event::ForeignInterrupts {
        cpu: source.cpu,
        source: kind,
        name,
        per_s: (interrupts * 1_000_000_000).checked_div(report.interval_ns).unwrap_or(interrupts),
        remedy,
    })
}

/// The remedy where all CPUs are those of the guard.
const ALL_CPUS: &str = "leave a CPU to others: cpus of [guard] has all";

const RPS_REMEDY: &str = "exclude the CPU from rps_cpus in /sys/class/net/*/queues/*";

/// Online CPUs that are not of the guard.
fn housekeeping(cpus: &CpuSet) -> Option<CpuSet> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let online: CpuSet = online.trim().parse().ok()?;
    let others: CpuSet = online.iter().filter(|cpu| cpus.iter().all(|one| one != *cpu)).collect();
    (!others.is_empty()).then_some(others)
}

/// Some threads of the kernel stay on their CPU: only parameters of the kernel move their work.
fn of_thread(tid: u32, others: Option<&CpuSet>, command: &str) -> String {
    match others {
        None => ALL_CPUS.to_owned(),
        Some(others) if is_movable(tid) => format!("{command} {others} {tid}"),
        Some(others) => format!(
            "boot with isolcpus=domain,managed_irq,LIST and nohz_full=LIST of the guard's CPUs, which leaves {others} to the kernel"
        ),
    }
}

/// Whether the CPUs of a thread can be set.
fn is_movable(tid: u32) -> bool {
    const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    // The first field after the name has number 3, the flags 9.
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(9 - 3));
    tid != 0 && flags.and_then(|flags| flags.parse().ok()).unwrap_or(0) & PF_NO_SETAFFINITY == 0
}

/// The name and number of a thread.
fn thread(tid: u32) -> String {
    match fs::read(format!("/proc/{tid}/comm")) {
        Ok(name) => format!("{} ({tid})", Octets::from(name.trim_ascii_end())),
        Err(_) if tid == 0 => "the kernel".to_owned(),
        Err(_) => format!("thread {tid}"),
    }
}

/// The interfaces of this network namespace that steer packets to a CPU.
fn steering(cpu: u32) -> String {
    let queues = |name: &String| fs::read_dir(format!("/sys/class/net/{name}/queues"));
    let steers = |name: &String| {
        queues(name).into_iter().flatten().flatten().any(|queue| {
            let mask = fs::read_to_string(queue.path().join("rps_cpus")).unwrap_or_default();
            mask_has(mask.trim(), cpu)
        })
    };
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = interfaces
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(steers)
        .collect();
    names.sort();
    if names.is_empty() { "of another network namespace".to_owned() } else { names.join(", ") }
}

/// Whether a mask of sysfs has a CPU: words of 32 bits in hexadecimal, the highest first.
fn mask_has(mask: &str, cpu: u32) -> bool {
    let word = mask.rsplit(',').nth(cpu as usize / 32);
    let word = word.and_then(|word| u32::from_str_radix(word, 16).ok()).unwrap_or(0);
    word >> (cpu % 32) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_sysfs() {
        for (mask, cpu, expected) in [
            ("0", 0, false),
            ("3", 1, true),
            ("2", 0, false),
            ("00000001,00000000", 32, true),
            ("00000001,00000000", 0, false),
            ("1", 32, false),
            ("", 0, false),
        ] {
            assert_eq!(mask_has(mask, cpu), expected, "{mask} {cpu}");
        }
    }

    #[test]
    fn a_set_of_cpus_is_words_of_bits() {
        let words = words(&"1,63-64".parse().unwrap());
        assert_eq!(words[..3], [1 << 63 | 2, 1, 0]);
    }

    #[test]
    fn threads_of_a_cpu_stay_there() {
        let others = "0,2".parse().unwrap();
        let of = |tid| of_thread(tid, Some(&others), "taskset -pc");
        let this = std::process::id();
        assert_eq!(of(this), format!("taskset -pc 0,2 {this}"));
        // The kernel itself, and ksoftirqd/0.
        assert!(of(0).starts_with("boot with isolcpus="));
        let is_ksoftirqd = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name == "ksoftirqd/0\n")
        };
        // A container may hide it.
        if let Some(thread) = (1..100).find(is_ksoftirqd) {
            assert!(of(thread).ends_with(" leaves 0,2 to the kernel"), "{}", of(thread));
        }
        assert_eq!(of_thread(this, None, "taskset -pc"), ALL_CPUS);
    }
}
