//! Tracepoints and features of this kernel.

use std::fs;
use std::os::fd::OwnedFd;

use crate::error::Result;
use onbeat_bpf::tracepoints::Tracepoints;

/// The tracepoints that differ between kernels, and features of this host.
#[derive(Debug)]
pub(super) struct KernelFeatures {
    /// A packet of an established TCP connection enters processing.
    pub(super) tcp_probe: bool,
    /// The tracepoint of dropped packets reports the socket (Linux 6.11).
    pub(super) drops_name_socket: bool,
    /// There is a hardware device whose driver frees buffers in its polls. Other devices complete a packet when
    /// they transmit it.
    pub(super) sends: bool,
    /// Packets are routed, or there is a bridge.
    pub(super) forwards: bool,
    /// The root of the control groups of version 2.
    pub(super) group: Option<OwnedFd>,
    /// Tracepoints of [`INTERRUPTS`] that this kernel does not have.
    pub(super) absent: Vec<&'static str>,
    /// Address of the kernel's function for packets that another CPU takes; 0: unknown.
    pub(super) rps_trigger_softirq: u64,
    /// Addresses of the list of packet sockets of all network namespaces, and of the structure with it (Linux 6.9 to
    /// 6.15); 0: unknown.
    pub(super) ptype_all: u64,
    pub(super) net_hotdata: u64,
}

/// Tracepoints of hard interrupts and their senders that not all kernels have. Vectors are those of x86; senders
/// require Linux 6.4 to 6.6.
const INTERRUPTS: [&str; 15] = [
    "local_timer_entry",
    "local_timer_exit",
    "irq_work_entry",
    "irq_work_exit",
    "thermal_apic_entry",
    "thermal_apic_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "call_function_entry",
    "call_function_exit",
    "ipi_send_cpu",
    "ipi_send_cpumask",
    "csd_queue_cpu",
];

/// The ledger requires these.
const REQUIRED: [(&str, &str); 16] = [
    ("softirq_entry", "a kernel with CONFIG_TRACEPOINTS"),
    ("irq_handler_entry", "a kernel with CONFIG_TRACEPOINTS"),
    ("sched_switch", "a kernel with CONFIG_TRACEPOINTS"),
    ("sched_process_exit", "a kernel with CONFIG_TRACEPOINTS"),
    ("inet_sock_set_state", "a kernel with CONFIG_INET"),
    ("napi_poll", "a kernel with CONFIG_NET"),
    ("netif_receive_skb", "a kernel with CONFIG_NET"),
    ("net_dev_start_xmit", "a kernel with CONFIG_NET"),
    ("consume_skb", "a kernel with CONFIG_NET"),
    ("kfree_skb", "a kernel with CONFIG_NET"),
    ("sk_data_ready", "Linux 6.3 or later"),
    ("xdp_redirect", "a kernel with CONFIG_BPF_SYSCALL"),
    ("xdp_redirect_err", "a kernel with CONFIG_BPF_SYSCALL"),
    ("xdp_bulk_tx", "a kernel with CONFIG_BPF_SYSCALL"),
    ("xdp_exception", "a kernel with CONFIG_BPF_SYSCALL"),
    ("sock_recv_length", "Linux 6.3 or later"),
];

impl KernelFeatures {
    pub(super) fn find() -> Result<Self> {
        let found = Tracepoints::require(&REQUIRED)?;
        let [rps_trigger_softirq, ptype_all, net_hotdata] =
            addresses(["rps_trigger_softirq", "ptype_all", "net_hotdata"]);
        Ok(Self {
            absent: INTERRUPTS.into_iter().filter(|name| found.arguments(name).is_none()).collect(),
            rps_trigger_softirq,
            ptype_all,
            net_hotdata,
            tcp_probe: found.arguments("tcp_probe").is_some(),
            sends: a_device_has("device"),
            group: onbeat_bpf::root_group(),
            forwards: a_device_has("bridge") || routes(),
            drops_name_socket: found.arguments("kfree_skb").is_some_and(|count| count >= 4),
        })
    }
}

/// Addresses of symbols of the kernel; 0 where it reports none.
fn addresses<const N: usize>(names: [&str; N]) -> [u64; N] {
    let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut found = [0; N];
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(address), Some(name)) = (fields.next(), fields.nth(1)) else { continue };
        if let Some(at) = names.iter().position(|wanted| *wanted == name) {
            found[at] = u64::from_str_radix(address, 16).unwrap_or(0);
        }
    }
    found
}

/// Whether a device of this namespace has such an entry: "device" for those with a driver of physical or
/// virtual hardware; "bridge" for bridges.
fn a_device_has(entry: &str) -> bool {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    devices.map(|device| device.path().join(entry)).any(|entry| entry.exists())
}

/// Whether packets are routed in this namespace.
fn routes() -> bool {
    let on = |path| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    on("/proc/sys/net/ipv4/ip_forward") || on("/proc/sys/net/ipv6/conf/all/forwarding")
}
