//! What this kernel can be asked.

use std::fs;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};

use crate::error::{Error, Result};

/// The tracepoints that differ from kernel to kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points {
    /// A packet of an established TCP connection begins to be looked at.
    pub(super) tcp_probe: bool,
    /// The tracepoint of dropped packets says for which socket they were (Linux 6.11).
    pub(super) drops_name_socket: bool,
    /// There is a device with hardware behind it, whose driver gives back buffers in its polls. Others are
    /// done with a packet when they have sent it.
    pub(super) sends: bool,
    /// Packets are routed, or there is a bridge.
    pub(super) forwards: bool,
}

/// Without these there is no ledger.
const REQUIRED: [(&str, &str); 11] = [
    ("softirq_entry", "a kernel with CONFIG_TRACEPOINTS"),
    ("irq_handler_entry", "a kernel with CONFIG_TRACEPOINTS"),
    ("sched_switch", "a kernel with CONFIG_TRACEPOINTS"),
    ("sched_waking", "a kernel with CONFIG_TRACEPOINTS"),
    ("napi_poll", "a kernel with CONFIG_NET"),
    ("netif_receive_skb", "a kernel with CONFIG_NET"),
    ("net_dev_start_xmit", "a kernel with CONFIG_NET"),
    ("consume_skb", "a kernel with CONFIG_NET"),
    ("kfree_skb", "a kernel with CONFIG_NET"),
    ("sk_data_ready", "Linux 6.3 or later"),
    ("sock_recv_length", "Linux 6.3 or later"),
];

impl Points {
    pub(super) fn find() -> Result<Self> {
        let realtime = fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
        if realtime.trim() == "1" {
            return Err(Error::PreemptRt);
        }
        if !may_trace() {
            // What libbpf would say of it on standard error helps nobody.
            let refused = std::io::Error::from_raw_os_error(nix::libc::EPERM);
            return Err(Error::kernel("load the ledger's programs", refused.into()));
        }
        let types = Btf::from_vmlinux().map_err(Error::NoTypes)?;
        for (name, remedy) in REQUIRED {
            if arguments(&types, name).is_none() {
                return Err(Error::NoTracepoint { name, remedy });
            }
        }
        Ok(Self {
            tcp_probe: arguments(&types, "tcp_probe").is_some(),
            sends: a_device_has("device"),
            forwards: a_device_has("bridge") || routes(),
            drops_name_socket: arguments(&types, "kfree_skb").is_some_and(|count| count >= 4),
        })
    }
}

/// Whether a device of this namespace has such an entry: "device" of those that have a driver for hardware,
/// or for what a virtual machine takes for it; "bridge" of bridges.
fn a_device_has(entry: &str) -> bool {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    devices.map(|device| device.path().join(entry)).any(|entry| entry.exists())
}

/// Whether packets are routed in this namespace.
fn routes() -> bool {
    let on = |path| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    on("/proc/sys/net/ipv4/ip_forward") || on("/proc/sys/net/ipv6/conf/all/forwarding")
}

/// Whether this process has the capabilities that it takes: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
/// Where /proc does not say, it is tried.
fn may_trace() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(Ok(set)) = effective.map(|set| u64::from_str_radix(set.trim(), 16)) else {
        return true;
    };
    let has = |capability: u32| set & (1 << capability) != 0;
    has(SYS_ADMIN) || (has(BPF) && has(PERFMON))
}

/// How many arguments a tracepoint has; `None` where there is no such tracepoint.
fn arguments(types: &Btf<'_>, tracepoint: &str) -> Option<usize> {
    let definition: Typedef<'_> = types.type_by_name(&format!("btf_trace_{tracepoint}"))?;
    let pointer = Ptr::try_from(definition.next_type()?).ok()?;
    let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
    // The first one is the kernel's own.
    prototype.len().checked_sub(1)
}
