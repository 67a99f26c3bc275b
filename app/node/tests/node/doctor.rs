//! The doctor looks at hosts that are made up, and at this one.

use std::collections::BTreeMap;
use std::fs;

use onbeat_link::{Backend, BackendReport, Backends, Purpose, Remark};
use onbeat_netdev::VethPeer;
use onbeat_node::control::{
    ClientError, GuardStatus, LinkState, NodeSummary, PortMode, PortStatus, StreamTrouble,
};
use onbeat_node::doctor::{
    Device, DeviceReader, Finding, HostRoot, KernelDevices, Level, examine, examine_nodes, table,
    worst,
};
use onbeat_testing::TemporaryDirectory;

/// A host in a directory.
struct Host {
    directory: TemporaryDirectory,
    devices: BTreeMap<String, Device>,
}

impl DeviceReader for Host {
    fn device(&self, interface: &str) -> Result<Device, String> {
        self.devices
            .get(interface)
            .cloned()
            .ok_or_else(|| format!("interface {interface:?} not found"))
    }
}

impl Host {
    fn new(name: &str) -> Host {
        let directory = TemporaryDirectory::new(&format!("doctor-{name}"));
        Host { directory, devices: BTreeMap::new() }
    }

    /// A host as it should be.
    fn good(name: &str) -> Host {
        let host = Host::new(name);
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.12.5-rt"),
            ("sys/kernel/btf/vmlinux", "x"),
            ("proc/sys/net/core/bpf_jit_enable", "1"),
            ("proc/net/protocols", "protocol size\nTCP 1\nXDP  1024 0"),
            ("proc/self/mounts", "sysfs /sys sysfs rw 0 0\nnone /sys/fs/bpf bpf rw 0 0"),
            ("proc/self/status", "Name: x\nCapEff:\t000001ffffffffff"),
            ("proc/version", "Linux version 6.12.5-rt #1 SMP PREEMPT_RT"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("sys/devices/system/cpu/smt/active", "0"),
            ("sys/devices/system/cpu/isolated", "1"),
            ("proc/1/comm", "systemd"),
        ] {
            host.file(path, text);
        }
        host
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.directory.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn without(&self, path: &str) {
        fs::remove_file(self.directory.file(path)).unwrap();
    }

    /// An interface as it should be.
    fn nic(&mut self, name: &str) -> &mut Device {
        self.file(&format!("sys/class/net/{name}/threaded"), "1");
        self.file(&format!("sys/class/net/{name}/ifindex"), "3");
        self.file("proc/901/comm", "NetworkManager\n");
        self.file("proc/902/comm", "systemd-network\n");
        for (irq, cpu) in [("40", "0"), ("41", "1")] {
            self.file(&format!("sys/class/net/{name}/device/msi_irqs/{irq}"), "msix");
            self.file(&format!("proc/irq/{irq}/effective_affinity_list"), cpu);
        }
        let device = Device {
            driver: "igc".into(),
            mtu: 1506,
            max_mtu: Some(9216),
            running: true,
            native_xdp: Some(true),
            redirect_target: Some(true),
            ..Device::default()
        };
        self.devices.entry(name.into()).or_insert(device)
    }

    fn examine(&self, interfaces: &[&str]) -> Vec<Finding> {
        let interfaces: Vec<String> = interfaces.iter().map(|name| (*name).to_owned()).collect();
        examine(&HostRoot::below(self.directory.path(), self), &interfaces)
    }

    /// The finding of a name; every finding that is not as it should be must have a remedy.
    fn finding(&self, id: &str, interfaces: &[&str]) -> Finding {
        let findings = self.examine(interfaces);
        for finding in findings.iter().filter(|finding| finding.level >= Level::Warn) {
            assert!(finding.remedy.is_some(), "{finding:?}");
        }
        let found = findings.iter().find(|finding| finding.id == id);
        found.unwrap_or_else(|| panic!("no {id} in {findings:#?}")).clone()
    }
}

#[test]
fn a_host_as_it_should_be_has_nothing_to_remedy() {
    let mut host = Host::good("good");
    host.nic("eth1");
    let findings = host.examine(&["eth1"]);
    assert_eq!(worst(&findings), Level::Ok, "{}", table(&findings));
    assert!(findings.iter().all(|finding| finding.remedy.is_none()));
    assert!(findings.len() >= 23, "{}", table(&findings));
}

/// File, its text, and the doctor's finding: name, level, a piece of value and remedy.
type Case = (&'static str, &'static str, &'static str, Level, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "proc/sys/kernel/osrelease",
        "5.15.0-91",
        "kernel-version",
        Level::Bad,
        "5.15",
        "6.1 or later",
    ),
    ("proc/sys/kernel/osrelease", "6.0.19", "kernel-version", Level::Bad, "6.0", "6.1 or later"),
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64", "kernel-version", Level::Ok, "6.1.0", ""),
    ("proc/sys/kernel/osrelease", "10.0", "kernel-version", Level::Ok, "10.0", ""),
    ("proc/sys/kernel/osrelease", "strange", "kernel-version", Level::Bad, "strange", "6.1"),
    ("proc/sys/net/core/bpf_jit_enable", "0", "bpf-jit", Level::Bad, "off", "sysctl -w"),
    ("proc/net/protocols", "XDPX 1", "af-xdp", Level::Info, "missing", "CONFIG_XDP_SOCKETS"),
    (
        "proc/self/mounts",
        "none /sys/fs/bpf tmpfs rw 0 0",
        "bpffs",
        Level::Bad,
        "not on",
        "mount -t bpf",
    ),
    (
        "proc/self/status",
        "CapEff: 0000000000000000",
        "capabilities",
        Level::Bad,
        "CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON, CAP_BPF",
        "root",
    ),
    ("proc/self/status", "CapEff: 0000000000203000", "capabilities", Level::Ok, "sufficient", ""),
    (
        "proc/version",
        "Linux version 6.1 SMP PREEMPT_DYNAMIC",
        "preemption",
        Level::Info,
        "not shown",
        "debugfs",
    ),
    (
        "proc/version",
        "Linux version 6.1 SMP",
        "preemption",
        Level::Info,
        "none or voluntary",
        "PREEMPT_RT",
    ),
    (
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
        "powersave",
        "governor",
        Level::Warn,
        "powersave on cpu1",
        "cpupower",
    ),
    (
        "sys/devices/system/cpu/cpu0/cpuidle/state2/disable",
        "0",
        "idle-states",
        Level::Warn,
        "133 us (C6)",
        "/dev/cpu_dma_latency",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet",
        "clock-source",
        Level::Warn,
        "hpet",
        "echo tsc",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "kvm-clock",
        "clock-source",
        Level::Info,
        "virtual",
        "",
    ),
    (
        "proc/sys/kernel/sched_rt_runtime_us",
        "950000",
        "rt-throttling",
        Level::Warn,
        "950000 us of every 1000000",
        "sysctl -w",
    ),
    ("proc/sys/kernel/sched_rt_runtime_us", "1000000", "rt-throttling", Level::Ok, "off", ""),
    ("sys/devices/system/cpu/smt/active", "1", "smt", Level::Warn, "on", "echo off"),
    ("sys/devices/system/cpu/isolated", "", "isolated-cpus", Level::Info, "none", "isolcpus"),
    ("proc/812/comm", "irqbalance", "irqbalance", Level::Warn, "running", "systemctl disable"),
    (
        "proc/irq/41/effective_affinity_list",
        "0",
        "irq-affinity",
        Level::Warn,
        "all 2 on CPU 0",
        "smp_affinity_list",
    ),
    (
        "sys/class/net/eth1/queues/rx-0/rps_cpus",
        "00000000,00000003",
        "packet-steering",
        Level::Info,
        "softirq",
        "echo 0 >",
    ),
    ("sys/class/net/eth1/threaded", "0", "threaded-napi", Level::Info, "softirq", "echo 1 >"),
    (
        "run/NetworkManager/devices/3",
        "[device]\nmanaged=true\nconnection-uuid=6f1e\n",
        "network-manager",
        Level::Warn,
        "NetworkManager configures it by 6f1e",
        "/etc/NetworkManager/conf.d/99-onbeat-eth1.conf",
    ),
    (
        "run/NetworkManager/devices/3",
        "[device]\nmanaged=false\n",
        "network-manager",
        Level::Ok,
        "does not manage it",
        "",
    ),
    (
        "run/systemd/netif/links/3",
        "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/all.network\n",
        "network-manager",
        Level::Warn,
        "systemd-networkd configures it by /etc/systemd/network/all.network",
        "Unmanaged=yes",
    ),
    (
        "etc/netplan/01.yaml",
        "network:\n  ethernets:\n    eth1:\n      dhcp4: true\n",
        "network-manager",
        Level::Warn,
        "netplan configures it by /etc/netplan/01.yaml",
        "dhcp4: false",
    ),
    (
        "etc/network/interfaces",
        "auto eth1\niface eth1 inet dhcp\n",
        "network-manager",
        Level::Warn,
        "ifupdown configures it by /etc/network/interfaces",
        "iface eth1 inet manual",
    ),
];

#[test]
fn each_thing_set_badly_is_found() {
    for (n, (path, text, id, level, value, remedy)) in CASES.iter().enumerate() {
        let mut host = Host::good(&format!("case-{n}"));
        host.nic("eth1");
        host.file(path, text);
        let finding = host.finding(id, &["eth1"]);
        assert_eq!(finding.level, *level, "case {n}: {finding:?}");
        assert!(finding.value.contains(value), "case {n}: {finding:?}");
        assert!(finding.remedy.unwrap_or_default().contains(remedy), "case {n}: {path}");
        // Whatever else is looked at is as it was.
        let others = host.examine(&["eth1"]).into_iter().filter(|finding| finding.id != *id);
        assert!(others.into_iter().all(|finding| finding.level == Level::Ok), "case {n}: {path}");
    }
}

#[test]
fn files_that_leave_an_interface_alone_are_no_finding() {
    let mut host = Host::good("unmanaged");
    host.nic("eth1");
    host.file("etc/network/interfaces", "iface eth1 inet manual\niface eth10 inet dhcp\n");
    host.file("etc/netplan/01.yaml", "network:\n  ethernets:\n    eth10:\n      dhcp4: true\n");
    host.file("etc/netplan/note.txt", "eth1:\n");
    host.file("etc/network/interfaces.d/ports", "iface eth1 inet static\n");
    // Of another interface, and of a manager that has exited.
    host.file("run/NetworkManager/devices/33", "managed=true");
    host.file("run/systemd/netif/links/3", "ADMIN_STATE=configured");
    host.without("proc/902/comm");
    let findings = host.examine(&["eth1"]);
    assert!(findings.iter().all(|finding| finding.id != "network-manager"), "{findings:#?}");
    host.file("etc/network/interfaces", "source /etc/network/interfaces.d/*\n");
    let finding = host.finding("network-manager", &["eth1"]);
    assert!(finding.value.ends_with("by /etc/network/interfaces.d/ports"), "{finding:?}");
}

/// The file is in the initial network namespace only; root cannot read it elsewhere either.
#[test]
fn a_jit_that_is_not_shown_is_no_matter_of_privileges() {
    let host = Host::good("jit");
    host.without("proc/sys/net/core/bpf_jit_enable");
    let finding = host.finding("bpf-jit", &[]);
    assert!(finding.value.contains("initial network namespace only"), "{finding:?}");
    assert!(
        finding.remedy.is_some_and(|remedy| remedy.starts_with("nsenter --net=/proc/1/ns/net"))
    );
    host.file("proc/sys/net/core/netdev_max_backlog", "1000");
    let finding = host.finding("bpf-jit", &[]);
    assert_eq!(finding.level, Level::Bad, "{finding:?}");
    assert!(finding.remedy.is_some_and(|remedy| remedy.contains("CONFIG_BPF_JIT=y")));
}

#[test]
fn root_without_capabilities_is_not_sent_to_root() {
    let host = Host::good("bounded");
    host.file("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000003000");
    let remedy = host.finding("capabilities", &[]).remedy.expect("a remedy");
    assert!(remedy.contains("CAP_PERFMON, CAP_BPF to the bounding set"), "{remedy}");
    host.file("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0");
    assert_eq!(
        host.finding("capabilities", &[]).remedy.as_deref(),
        Some("run the command as root")
    );
}

/// There all bits are set, and the kernel loads no BPF program.
#[test]
fn capabilities_of_a_user_namespace_are_not_enough() {
    let host = Host::good("user-namespace");
    host.file("proc/self/uid_map", "         0       1000          1");
    assert_eq!(host.finding("capabilities", &[]).level, Level::Bad);
    host.file("proc/self/uid_map", "         0          0 4294967295");
    assert_eq!(host.finding("capabilities", &[]).level, Level::Ok);
}

#[test]
fn a_missing_btf_is_bad() {
    let host = Host::good("btf");
    host.without("sys/kernel/btf/vmlinux");
    assert_eq!(host.finding("btf", &[]).level, Level::Bad);
}

#[test]
fn a_model_of_dynamic_preemption_is_read_from_its_parentheses() {
    let host = Host::good("preempt");
    host.file("proc/version", "Linux version 6.12 SMP PREEMPT_DYNAMIC");
    host.file("sys/kernel/debug/sched/preempt", "none voluntary (full) lazy");
    assert_eq!(host.finding("preemption", &[]).value, "PREEMPT_DYNAMIC, full");
    host.file("sys/kernel/debug/sched/preempt", "none (voluntary) full");
    let finding = host.finding("preemption", &[]);
    assert_eq!(
        (finding.level, finding.value.as_str()),
        (Level::Warn, "PREEMPT_DYNAMIC, voluntary")
    );
}

#[test]
fn a_latency_request_keeps_the_cpus_awake() {
    let host = Host::good("latency");
    host.without("sys/devices/system/cpu/cpu0/cpuidle/state2/disable");
    assert_eq!(host.finding("idle-states", &[]).level, Level::Warn);
    host.file("dev/cpu_dma_latency", 2_000_000_000i32.to_ne_bytes());
    assert_eq!(host.finding("idle-states", &[]).level, Level::Warn);
    host.file("dev/cpu_dma_latency", 5i32.to_ne_bytes());
    let finding = host.finding("idle-states", &[]);
    assert_eq!((finding.level, finding.value.as_str()), (Level::Ok, "2 us at most (C1)"));
}

#[test]
fn a_host_that_shows_nothing_is_examined_all_the_same() {
    let host = Host::new("empty");
    let findings = host.examine(&["eth1"]);
    assert_eq!(worst(&findings), Level::Bad);
    let interface = findings.last().unwrap();
    assert_eq!((interface.id.as_str(), interface.level), ("interface", Level::Bad));
    assert!(interface.value.contains("\"eth1\" not found"), "{interface:?}");
}

/// Makes it a veth whose other end has these offloads on; its own offloads do not matter.
fn behind_peer(device: &mut Device, offloads: &[&str]) {
    device.veth = true;
    device.offloads = vec!["tx-generic-segmentation".into(), "rx-vlan-hw-parse".into()];
    device.peer = Some(VethPeer {
        index: 7,
        name: Some("eth0".into()),
        namespace: Some("/run/netns/h1".into()),
        offloads: Some(offloads.iter().map(|name| (*name).to_owned()).collect()),
    });
}

/// A change to a good NIC, and the doctor's finding.
type NicCase = (fn(&mut Device), &'static str, Level, &'static str, &'static str);

const NIC_CASES: &[NicCase] = &[
    (|d| d.running = false, "interface", Level::Warn, "down", "ip link set eth1 up"),
    (|d| d.native_xdp = Some(false), "xdp-native", Level::Warn, "\"igc\"", "igb"),
    (|d| d.native_xdp = None, "xdp-native", Level::Info, "probably", ""),
    (
        |d| (d.native_xdp, d.driver) = (None, "r8169".into()),
        "xdp-native",
        Level::Info,
        "unknown for driver \"r8169\"",
        "6.3",
    ),
    (
        |d| d.redirect_target = Some(false),
        "xdp-redirect",
        Level::Warn,
        "not now",
        "while the node runs",
    ),
    (|d| d.redirect_target = None, "xdp-redirect", Level::Info, "does not report it", ""),
    (
        |d| d.programs = vec!["native program 12".into()],
        "xdp-program",
        Level::Info,
        "12",
        "--replace",
    ),
    (|d| d.mtu = 1505, "interface-mtu", Level::Warn, "MTU 1505", "ip link set eth1 mtu 1506"),
    (
        |d| (d.mtu, d.max_mtu) = (1500, Some(1500)),
        "interface-mtu",
        Level::Warn,
        "1500",
        "reduce the talker's MTU to 1494",
    ),
    (
        |d| d.offloads = vec!["rx-vlan-hw-parse".into()],
        "vlan-offload",
        Level::Warn,
        "the NIC removes them",
        "ethtool -K eth1 rxvlan off",
    ),
    (|d| d.offloads = vec!["rx-lro".into()], "lro", Level::Warn, "yes", "ethtool -K eth1 lro off"),
    (|d| d.offloads = vec!["rx-gro".into()], "gro", Level::Info, "yes", "ethtool -K eth1 gro off"),
    (
        |d| {
            let mut coalescing = onbeat_netdev::ethtool::Coalescing::default();
            (coalescing.rx_usecs, coalescing.adaptive_rx) = (50, true);
            d.coalescing = Some(coalescing);
        },
        "coalescing",
        Level::Warn,
        "received 50 us or 0 frames, sent 0 us or 0 frames, adaptive",
        "ethtool -C eth1 adaptive-rx off rx-usecs 0",
    ),
    (
        |d| d.energy_efficient = Some(true),
        "energy-efficient",
        Level::Warn,
        "yes",
        "ethtool --set-eee eth1 eee off",
    ),
    (
        |d| behind_peer(d, &["tx-tcp-segmentation"]),
        "segmentation",
        Level::Warn,
        "tx-tcp-segmentation",
        "ip netns exec h1 ethtool -K eth0 tso off gso off tx-udp-segmentation off",
    ),
    (
        |d| behind_peer(d, &["tx-vlan-hw-insert"]),
        "vlan-offload",
        Level::Warn,
        "the other end passes them outside",
        "ip netns exec h1 ethtool -K eth0 txvlan off",
    ),
    (
        |d| {
            behind_peer(d, &[]);
            d.redirect_target = Some(false);
        },
        "xdp-redirect",
        Level::Warn,
        "other end",
        "ip netns exec h1 ethtool -K eth0 gro on",
    ),
];

#[test]
fn each_thing_wrong_with_an_interface_is_found() {
    for (n, (change, id, level, value, remedy)) in NIC_CASES.iter().enumerate() {
        let mut host = Host::good(&format!("nic-{n}"));
        change(host.nic("eth1"));
        let finding = host.finding(id, &["eth1"]);
        assert_eq!(finding.level, *level, "case {n}: {finding:?}");
        assert_eq!(finding.interface.as_deref(), Some("eth1"));
        assert!(finding.value.contains(value), "case {n}: {finding:?}");
        assert!(finding.remedy.unwrap_or_default().contains(remedy), "case {n}");
        let others = host.examine(&["eth1"]).into_iter().filter(|finding| finding.id != *id);
        assert!(others.into_iter().all(|finding| finding.level == Level::Ok), "case {n}");
    }
}

#[test]
fn the_back_ends_of_a_port_are_listed_with_the_best() {
    let remark = |what: &str, remedy: Option<&str>| Remark {
        what: what.into(),
        remedy: remedy.map(str::to_owned),
    };
    let report = |backend, mode: Option<&str>, remarks| BackendReport {
        backend,
        mode: mode.map(str::to_owned),
        remarks,
    };
    let all = vec![
        report(Backend::Packet, Some("ring"), vec![]),
        report(Backend::Xsk, Some("copy"), vec![remark("no zero copy", Some("another driver"))]),
        report(Backend::Xdp, None, vec![remark("no native mode", None)]),
    ];
    let mut host = Host::good("backends");
    host.nic("eth1").backends = Some(Backends { interface: "eth1".into(), all });
    for (id, level, value, remedy) in [
        ("port-packet", Level::Ok, "ring", None),
        ("port-xsk", Level::Info, "copy: no zero copy", Some("another driver")),
        ("port-xdp", Level::Info, "unavailable: no native mode", None),
    ] {
        let finding = host.finding(id, &["eth1"]);
        let found = (finding.level, finding.value.as_str(), finding.remedy.as_deref());
        assert_eq!(found, (level, value, remedy), "{id}");
    }
    let best = host.finding("port-best", &["eth1"]).value;
    for purpose in Purpose::ALL {
        assert!(best.contains(&format!("for {purpose} xsk (")), "{best}");
    }
}

#[test]
fn what_fix_changes_says_so() {
    let mut host = Host::good("fixable");
    host.file("proc/sys/kernel/sched_rt_runtime_us", "950000");
    host.nic("eth1").energy_efficient = Some(true);
    let (throttling, eee) =
        (host.finding("rt-throttling", &[]), host.finding("energy-efficient", &["eth1"]));
    assert_eq!(throttling.fixed_by().unwrap(), "onbeat doctor --fix --only rt-throttling");
    let command = "onbeat doctor --fix eth1 --only energy-efficient";
    assert_eq!(eee.fixed_by().unwrap(), command);
    assert!(table(&[eee]).ends_with(&format!("\n      or {command}\n")));
}

/// The kernel accepts such names.
#[test]
fn the_name_of_an_interface_is_one_word_of_a_command() {
    let mut host = Host::good("hostile");
    let name = "$(id);\u{9b}2J";
    host.nic(name).offloads = vec!["rx-lro".into()];
    host.file(&format!("sys/class/net/{name}/threaded"), "0");
    let lro = host.finding("lro", &[name]);
    assert_eq!(lro.remedy.as_ref().unwrap(), &format!("ethtool -K '{name}' lro off"));
    assert_eq!(lro.fixed_by().unwrap(), format!("onbeat doctor --fix '{name}' --only offloads"));
    let threads = host.finding("threaded-napi", &[name]).remedy.unwrap();
    assert!(
        threads.starts_with(&format!("echo 1 > '/sys/class/net/{name}/threaded'; ")),
        "{threads}"
    );
    assert!(threads.contains(&format!("$(pgrep 'napi/{name}')")), "{threads}");
    let text = table(&[lro]);
    assert!(!text.contains('\u{9b}') && text.contains("'$(id);·2J'"), "{text}");
}

#[test]
fn a_device_behind_virtio_has_its_interrupts_one_level_up() {
    let mut host = Host::good("virtio");
    host.nic("eth1");
    fs::remove_dir_all(host.directory.file("sys/class/net/eth1/device")).unwrap();
    // As in sysfs, `device` is a symbolic link, and `..` leads to what the link's target is in.
    host.file("sys/devices/pci0/virtio0/modalias", "virtio");
    host.file("sys/devices/pci0/msi_irqs/40", "msix");
    let target = host.directory.file("sys/devices/pci0/virtio0");
    std::os::unix::fs::symlink(target, host.directory.file("sys/class/net/eth1/device")).unwrap();
    assert_eq!(host.finding("irq-affinity", &["eth1"]).value, "1 on CPU 0");
}

#[test]
fn the_table_puts_the_remedy_below_the_finding() {
    let mut host = Host::good("table");
    host.nic("eth1").mtu = 1500;
    let text = table(&host.examine(&["eth1"]));
    let expected = "\
WARN  eth1: room for the R-TAG on a path: MTU 1500: too small for frames of 1500 octets with an R-TAG
      -> ip link set eth1 mtu 1506, or mtu = 1506 in its [[port]]
";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("\nok    kernel version: ") || text.starts_with("ok    kernel version: "),
        "{text}"
    );
}

#[test]
fn nodes_report_their_ports_streams_and_guard() {
    let mut host = Host::good("nodes");
    host.nic("eth1");
    host.file("run/systemd/netif/links/3", "ADMIN_STATE=configured\nNETWORK_FILE=/etc/x.network\n");
    let port = |name: &str, interface: &str, ifindex, link, mode| PortStatus {
        name: name.into(),
        interface: interface.into(),
        ifindex,
        link,
        mode,
        ..PortStatus::default()
    };
    let up =
        |name, interface, ifindex| port(name, interface, ifindex, LinkState::Up, PortMode::Native);
    let good = NodeSummary {
        node: "good".into(),
        ports: vec![up("a", "eth1", 3), up("of-another-namespace", "eth1", 77)],
        streams: 2,
        in_trouble: [(StreamTrouble::PathLost, 0)].into(),
        guard: Some(GuardStatus { armed: true, ..GuardStatus::default() }),
        ..NodeSummary::default()
    };
    let bad = NodeSummary {
        node: "bad".into(),
        ports: vec![
            port("gone", "eth7", 0, LinkState::Missing, PortMode::Detached),
            PortStatus { not_attached: Some("busy".into()), ..up("busy", "eth8", 8) },
            port("removed", "eth9", 9, LinkState::Up, PortMode::Detached),
            port("down", "$(id)", 10, LinkState::Down, PortMode::Native),
            PortStatus { frames_lost: Some("full queue".into()), ..up("full", "eth11", 11) },
        ],
        in_trouble: [(StreamTrouble::PathLost, 3), (StreamTrouble::LatentError, 0)].into(),
        guard: Some(GuardStatus::default()),
        ..NodeSummary::default()
    };
    let dead = ClientError::Closed { path: "/run/onbeat/dead.sock".into() };
    let root = HostRoot::below(host.directory.path(), &host);
    let of_good = examine_nodes(&root, &[("good".into(), Ok(good))]);
    let shown = |findings: &[Finding]| -> Vec<(Level, String)> {
        let text = |f: &Finding| match &f.interface {
            Some(interface) => format!("{interface}: {}: {}", f.what, f.value),
            None => format!("{}: {}", f.what, f.value),
        };
        findings.iter().map(|f| (f.level, text(f))).collect()
    };
    assert_eq!(of_good.len(), 2, "one manager, of the port that is here: {of_good:#?}");
    assert_eq!(shown(&of_good)[0], (Level::Ok, "node good: 2 ports, 2 streams".into()));
    assert_eq!((of_good[1].id.as_str(), of_good[1].level), ("network-manager", Level::Warn));
    let forbidden = ClientError::Forbidden { path: "/run/onbeat-readers/other.sock".into() };
    let nodes = [("bad", Ok(bad)), ("dead", Err(dead)), ("other", Err(forbidden))];
    let of_bad = examine_nodes(&root, &nodes.map(|(name, reading)| (name.into(), reading)));
    let expected = [
        (Level::Warn, "node bad: 5 ports, 0 streams; path_lost: 3 streams"),
        (Level::Warn, "guard of node bad: has stopped, or an interface of it is missing"),
        (Level::Bad, "eth7: port gone of node bad: the interface does not exist"),
        (Level::Bad, "eth8: port busy of node bad: busy"),
        (Level::Bad, "eth9: port removed of node bad: not attached"),
        (Level::Warn, "$(id): port down of node bad: down, or without carrier"),
        (Level::Warn, "eth11: port full of node bad: full queue"),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(level, text)| (level, text.to_owned())).collect();
    assert_eq!(shown(&of_bad[..7]), expected);
    assert_eq!((of_bad[7].level, of_bad[7].what.as_str()), (Level::Bad, "node dead"));
    assert_eq!((of_bad[8].level, of_bad[8].what.as_str()), (Level::Info, "node other"));
    assert!(of_bad.iter().all(|finding| finding.remedy.is_some()), "{of_bad:#?}");
    assert!(of_bad[5].remedy.as_ref().unwrap().starts_with("ip link set '$(id)' up"));
}

#[test]
fn this_very_host_can_be_examined() {
    let findings = examine(&HostRoot::host(), &["lo".into()]);
    let version = findings.iter().find(|finding| finding.id == "kernel-version").unwrap();
    assert!(version.value.chars().any(|c| c.is_ascii_digit()), "{version:?}");
    let json = serde_json::to_string(&findings).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Finding>>(&json).unwrap(), findings);
    let error = KernelDevices.device("no-such-if0").unwrap_err();
    assert!(error.contains("no-such-if0"), "{error}");
}
