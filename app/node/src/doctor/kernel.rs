//! Features of the kernel, and permissions of this process.

use super::root::HostRoot;
use super::{Finding, Level};

/// The oldest supported kernel.
const OLDEST: (u32, u32) = (6, 1);

pub(super) fn examine(root: &HostRoot<'_>) -> Vec<Finding> {
    vec![
        version(root),
        btf(root),
        jit(root),
        af_xdp(root),
        bpffs(root),
        capabilities(root),
        preemption(root),
    ]
}

/// Returns major and minor version of a release.
pub(crate) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn version(root: &HostRoot<'_>) -> Finding {
    let what = "kernel version";
    let Some(release) = root.read("/proc/sys/kernel/osrelease") else {
        return Finding::new("kernel-version", Level::Warn, what, "unknown")
            .remedy("mount -t proc proc /proc");
    };
    match version_of(&release) {
        Some(found) if found >= OLDEST => Finding::ok("kernel-version", what, release),
        _ => Finding::new("kernel-version", Level::Bad, what, release)
            .remedy("boot Linux 6.1 or later (Debian 12 has it)"),
    }
}

fn btf(root: &HostRoot<'_>) -> Finding {
    let what = "type information of the kernel (BTF)";
    if root.exists("/sys/kernel/btf/vmlinux") {
        return Finding::ok("btf", what, "present");
    }
    Finding::new("btf", Level::Bad, what, "no /sys/kernel/btf/vmlinux").remedy(
        "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (such as those of Debian, Ubuntu and Fedora)",
    )
}

fn jit(root: &HostRoot<'_>) -> Finding {
    let what = "BPF JIT compiler";
    let path = "/proc/sys/net/core/bpf_jit_enable";
    match root.number(path) {
        Some(0) => Finding::new("bpf-jit", Level::Bad, what, "off: BPF programs are interpreted")
            .remedy("sysctl -w net.core.bpf_jit_enable=1"),
        Some(_) => Finding::ok("bpf-jit", what, "on"),
        None if root.exists(path) => {
            Finding::new("bpf-jit", Level::Info, what, "unknown: not readable for this user")
                .remedy("run the command as root")
        }
        // Of the files there, this one is always built in, and shown in the initial namespace only.
        None if root.exists("/proc/sys/net/core/netdev_max_backlog") => {
            Finding::new("bpf-jit", Level::Bad, what, "no: the kernel has no JIT compiler")
                .remedy("boot a kernel built with CONFIG_BPF_JIT=y")
        }
        None => Finding::new(
            "bpf-jit",
            Level::Info,
            what,
            format!("unknown: {path} exists in the initial network namespace only"),
        )
        .remedy("nsenter --net=/proc/1/ns/net sysctl net.core.bpf_jit_enable"),
    }
}

fn af_xdp(root: &HostRoot<'_>) -> Finding {
    let what = "AF_XDP sockets";
    let protocols = root.read("/proc/net/protocols").unwrap_or_default();
    if protocols.lines().any(|line| line.split_whitespace().next() == Some("XDP")) {
        return Finding::ok("af-xdp", what, "present");
    }
    Finding::new("af-xdp", Level::Info, what, "missing: only AF_PACKET is available in user space")
        .remedy("boot a kernel built with CONFIG_XDP_SOCKETS=y")
}

fn bpffs(root: &HostRoot<'_>) -> Finding {
    let what = "BPF file system (holds the data plane while no daemon runs)";
    let mounts = root.read("/proc/self/mounts").unwrap_or_default();
    let is_bpffs = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some("/sys/fs/bpf") && fields.next() == Some("bpf")
    };
    if mounts.lines().any(is_bpffs) {
        return Finding::ok("bpffs", what, "on /sys/fs/bpf");
    }
    Finding::new("bpffs", Level::Bad, what, "not on /sys/fs/bpf")
        .remedy("mount -t bpf bpf /sys/fs/bpf")
}

fn capabilities(root: &HostRoot<'_>) -> Finding {
    /// Number, name, and whether CAP_SYS_ADMIN includes it.
    const NEEDED: [(u32, &str, bool); 4] = [
        (12, "CAP_NET_ADMIN", false),
        (13, "CAP_NET_RAW", false),
        (38, "CAP_PERFMON", true),
        (39, "CAP_BPF", true),
    ];
    const SYS_ADMIN: u32 = 21;
    let what = "capabilities";
    let bad = |value: String| Finding::new("capabilities", Level::Bad, what, value);
    // The identity map of 2^32 - 1 users is that of the initial user namespace.
    let map = root.read("/proc/self/uid_map");
    if map.is_some_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"])) {
        return bad("of a user namespace: the kernel does not accept them for BPF".into())
            .remedy("run the command in the initial user namespace");
    }
    let status = root.read("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective >> capability & 1 == 1;
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(number, _, admin)| !(has(*number) || *admin && has(SYS_ADMIN)))
        .map(|(_, name, _)| *name)
        .collect();
    if missing.is_empty() {
        return Finding::ok("capabilities", what, "sufficient");
    }
    let is_root = status.lines().any(|line| {
        line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
    });
    let missing = missing.join(", ");
    let finding = bad(format!("missing: {missing}"));
    if is_root {
        finding.remedy(format!(
            "root lacks them here: add {missing} to the bounding set of the container or service"
        ))
    } else {
        finding.remedy("run the command as root")
    }
}

fn preemption(root: &HostRoot<'_>) -> Finding {
    let what = "kernel preemption model";
    let version = root.read("/proc/version").unwrap_or_default();
    if version.contains("PREEMPT_RT") || root.number("/sys/kernel/realtime") == Some(1) {
        return Finding::ok("preemption", what, "PREEMPT_RT");
    }
    let rt = "for bounded delay boot a PREEMPT_RT kernel: apt install linux-image-rt-$(dpkg --print-architecture)";
    if !version.contains("PREEMPT_DYNAMIC") {
        let model = if version.contains("PREEMPT") { "PREEMPT" } else { "none or voluntary" };
        return Finding::new("preemption", Level::Info, what, model).remedy(rt);
    }
    // The active model is in parentheses: "none voluntary (full) lazy".
    let models = root.read("/sys/kernel/debug/sched/preempt");
    let chosen =
        models.as_deref().and_then(|models| Some(models.split_once('(')?.1.split_once(')')?.0));
    match chosen {
        Some("full") => {
            Finding::new("preemption", Level::Info, what, "PREEMPT_DYNAMIC, full").remedy(rt)
        }
        Some(model) => Finding::new(
            "preemption",
            Level::Warn,
            what,
            format!("PREEMPT_DYNAMIC, {model}"),
        )
        .remedy(
            "echo full > /sys/kernel/debug/sched/preempt (permanently: boot with preempt=full)",
        ),
        None => Finding::new("preemption", Level::Info, what, "PREEMPT_DYNAMIC, model not shown")
            .remedy(
                "mount -t debugfs debugfs /sys/kernel/debug; cat /sys/kernel/debug/sched/preempt",
            ),
    }
}
