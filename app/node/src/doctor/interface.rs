//! Suitability of an interface as a port.

use onbeat_host::settings::SettingKind;
use onbeat_link::{BackendReport, Backends, Purpose};
use onbeat_netdev::{VethPeer, shell_word};
use onbeat_report::format::count;

use super::device::Device;
use super::host::shortened;
use super::root::HostRoot;
use super::{Finding, Level};

/// MTU of a path for full frames of a talker with an MTU of 1500: the R-TAG has 6 octets.
const PATH_MTU: u32 = 1506;

/// Drivers with native XDP and redirection in Linux 6.1, which does not report it.
const NATIVE_IN_6_1: [&str; 22] = [
    "atlantic",
    "bnxt_en",
    "dpaa2-eth",
    "ena",
    "enetc",
    "fsl_dpa",
    "hv_netvsc",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mlx4_en",
    "mlx5_core",
    "mvneta",
    "mvpp2",
    "sfc",
    "st_gmac",
    "tun",
    "veth",
    "virtio_net",
];

pub(super) fn examine(root: &HostRoot<'_>, interface: &str) -> Vec<Finding> {
    let mut findings = match root.devices().device(interface) {
        Ok(device) => {
            let mut findings = vec![
                link(&device, interface),
                native(&device),
                redirect(&device, interface),
                programs(&device),
                mtu(&device, interface),
                vlan_offload(&device, interface),
                merging(&device, interface),
            ];
            findings.extend(gro(&device, interface));
            findings.extend(coalescing(&device, interface));
            findings.extend(energy_efficient(&device, interface));
            findings.extend(device.backends.iter().flat_map(backends));
            findings.extend(device.peer.as_ref().map(checksums));
            if device.veth {
                findings.push(segmentation(&device, interface));
            }
            findings
        }
        Err(why) => vec![Finding::new("interface", Level::Bad, "interface", why).remedy("ip link")],
    };
    if findings[0].level != Level::Bad {
        findings.push(threaded_napi(root, interface));
        findings.extend(packet_steering(root, interface));
        findings.extend(interrupts(root, interface));
        findings.extend(super::manager::examine(root, interface));
    }
    for finding in &mut findings {
        finding.interface = Some(interface.to_owned());
    }
    findings
}

fn link(device: &Device, interface: &str) -> Finding {
    let driver = if device.driver.is_empty() { "no driver" } else { &device.driver };
    if device.running {
        return Finding::ok("interface", "link", format!("up ({driver})"));
    }
    Finding::new("interface", Level::Warn, "link", format!("down, or without carrier ({driver})"))
        .remedy(format!("ip link set {} up, and check the cable", shell_word(interface)))
}

fn native(device: &Device) -> Finding {
    let what = "XDP in the driver";
    let driver = &device.driver;
    match device.native_xdp {
        Some(true) => Finding::ok("xdp-native", what, "yes"),
        Some(false) => Finding::new(
            "xdp-native",
            Level::Warn,
            what,
            format!(
                "not supported by driver {driver:?}: generic mode is slower and does not free frames early"
            ),
        )
        .remedy("use a NIC whose driver supports it, such as igc, igb, i40e, ice or mlx5"),
        None if NATIVE_IN_6_1.contains(&driver.as_str()) => Finding::new(
            "xdp-native",
            Level::Info,
            what,
            format!("probably: {driver:?} supports it, but this kernel does not report it"),
        ),
        None => Finding::new(
            "xdp-native",
            Level::Info,
            what,
            format!("unknown for driver {driver:?}: this kernel does not report it"),
        )
        .remedy("boot Linux 6.3 or later, or try: onbeat run with mode = \"native\""),
    }
}

fn redirect(device: &Device, interface: &str) -> Finding {
    let what = "frames can be redirected to it";
    match device.redirect_target {
        Some(true) => Finding::ok("xdp-redirect", what, "yes"),
        Some(false) if device.veth => Finding::new(
            "xdp-redirect",
            Level::Warn,
            what,
            "not now: its other end does not run NAPI",
        )
        .remedy(at_peer(device, interface, "gro on")),
        Some(false) => Finding::new("xdp-redirect", Level::Warn, what, "not now").remedy(
            "some drivers support it only with an attached program: run the command again while the node runs",
        ),
        None => Finding::new("xdp-redirect", Level::Info, what, "unknown: this kernel does not report it"),
    }
}

fn programs(device: &Device) -> Finding {
    let what = "XDP programs on it";
    if device.programs.is_empty() {
        return Finding::ok("xdp-program", what, "none");
    }
    Finding::new("xdp-program", Level::Info, what, device.programs.join(", "))
        .remedy("if it is not a node's: onbeat run --replace FILE, or ip link set DEV xdp off")
}

fn mtu(device: &Device, interface: &str) -> Finding {
    let what = "room for the R-TAG on a path";
    let value = format!("MTU {}", device.mtu);
    if device.mtu >= PATH_MTU {
        return Finding::ok("interface-mtu", what, value);
    }
    let finding = Finding::new(
        "interface-mtu",
        Level::Warn,
        what,
        format!("{value}: too small for frames of 1500 octets with an R-TAG"),
    );
    match device.max_mtu.filter(|&max| max < PATH_MTU) {
        Some(max) => finding.remedy(format!(
            "its driver supports at most {max}: reduce the talker's MTU to {}",
            max.saturating_sub(6)
        )),
        None => finding.remedy(format!(
            "ip link set {} mtu {PATH_MTU}, or mtu = {PATH_MTU} in its [[port]]",
            shell_word(interface)
        )),
    }
}

fn vlan_offload(device: &Device, interface: &str) -> Finding {
    let what = "VLAN tags reach XDP";
    let is_beside = if device.veth {
        peer_offload(device, "tx-vlan-hw-insert")
    } else {
        Some(on(device, "rx-vlan-hw-parse"))
    };
    let (level, value, remedy) = match is_beside {
        Some(false) => return Finding::ok("vlan-offload", what, "yes"),
        Some(true) if device.veth => (
            Level::Warn,
            "no: the other end passes them outside the frame",
            at_peer(device, interface, "txvlan off"),
        ),
        Some(true) => {
            let remedy = format!("ethtool -K {} rxvlan off", shell_word(interface));
            (Level::Warn, "no: the NIC removes them", remedy)
        }
        None => (
            Level::Info,
            "unknown: the other end was not found",
            at_peer(device, interface, "txvlan off"),
        ),
    };
    Finding::new("vlan-offload", level, what, value).remedy(remedy)
}

fn merging(device: &Device, interface: &str) -> Finding {
    let what = "frames are merged before XDP (LRO)";
    if on(device, "rx-lro") {
        return Finding::new("lro", Level::Warn, what, "yes")
            .remedy(format!("ethtool -K {} lro off", shell_word(interface)))
            .fix(SettingKind::Offloads);
    }
    Finding::ok("lro", what, "no")
}

/// None for a veth, which requires GRO for NAPI and merges no frames that an XDP program receives.
fn gro(device: &Device, interface: &str) -> Option<Finding> {
    if device.veth || !on(device, "rx-gro") {
        return None;
    }
    let what = "frames are delayed for merging (GRO)";
    let remedy = format!("for a control loop: ethtool -K {} gro off", shell_word(interface));
    Some(Finding::new("gro", Level::Info, what, "yes").remedy(remedy).fix(SettingKind::Offloads))
}

/// None for a device without coalescing.
fn coalescing(device: &Device, interface: &str) -> Option<Finding> {
    let what = "interrupt coalescing";
    let coalescing = device.coalescing?;
    if !coalescing.holds_back() {
        return Some(Finding::ok("coalescing", what, "no"));
    }
    let adaptive = if coalescing.adaptive_rx || coalescing.adaptive_tx { ", adaptive" } else { "" };
    let value = format!(
        "received {} us or {}, sent {} us or {}{adaptive}",
        coalescing.rx_usecs,
        count(coalescing.rx_frames.into(), "frame"),
        coalescing.tx_usecs,
        count(coalescing.tx_frames.into(), "frame")
    );
    let interface = shell_word(interface);
    let remedy = format!("ethtool -C {interface} adaptive-rx off rx-usecs 0 tx-usecs 0");
    Some(
        Finding::new("coalescing", Level::Warn, what, value)
            .remedy(remedy)
            .fix(SettingKind::Coalescing),
    )
}

/// None for a device without this feature.
fn energy_efficient(device: &Device, interface: &str) -> Option<Finding> {
    let what = "the link sleeps between frames (energy-efficient Ethernet)";
    if !device.energy_efficient? {
        return Some(Finding::ok("energy-efficient", what, "no"));
    }
    Some(
        Finding::new("energy-efficient", Level::Warn, what, "yes")
            .remedy(format!("ethtool --set-eee {} eee off", shell_word(interface)))
            .fix(SettingKind::EnergyEfficient),
    )
}

/// XDP forwards frames unchanged: a checksum that is left to the device stays unfinished.
fn checksums(peer: &VethPeer) -> Finding {
    let what = "the other end completes TCP and UDP checksums";
    match (peer.checksum_offload(), peer.finish_checksums()) {
        (Some(false), _) => Finding::ok("peer-checksums", what, "yes"),
        (Some(true), Some(command)) => Finding::new(
            "peer-checksums",
            Level::Warn,
            what,
            "no: its connections fail through a port of a node",
        )
        .remedy(command),
        _ => Finding::new(
            "peer-checksums",
            Level::Info,
            what,
            format!("unknown: the namespace of its interface {} was not found", peer.index),
        )
        .remedy("in that namespace: ethtool -K PEER tx off"),
    }
}

fn segmentation(device: &Device, interface: &str) -> Finding {
    let what = "the other end may send packets larger than a frame";
    let remedy = at_peer(device, interface, "tso off gso off tx-udp-segmentation off");
    let Some(offloads) = device.peer.as_ref().and_then(|peer| peer.offloads.as_ref()) else {
        let value = "unknown: the other end was not found";
        return Finding::new("segmentation", Level::Info, what, value).remedy(remedy);
    };
    let is_large = |name: &&String| name.starts_with("tx-") && name.ends_with("-segmentation");
    let large: Vec<String> = offloads.iter().filter(is_large).cloned().collect();
    if large.is_empty() {
        return Finding::ok("segmentation", what, "no");
    }
    Finding::new("segmentation", Level::Warn, what, shortened(&large)).remedy(remedy)
}

/// Whether an offload of the other end of a veth is on; `None` if that end was not found.
fn peer_offload(device: &Device, name: &str) -> Option<bool> {
    device.peer.as_ref()?.offload(name)
}

/// The command that sets offloads of the other end of a veth.
fn at_peer(device: &Device, interface: &str, offloads: &str) -> String {
    let command = device.peer.as_ref().and_then(|peer| peer.set_offloads(offloads));
    command.unwrap_or_else(|| {
        format!("in the namespace of the other end of {interface}: ethtool -K PEER {offloads}")
    })
}

/// The usable back ends of a real-time port, and the best one for each purpose.
fn backends(found: &Backends) -> Vec<Finding> {
    let mut findings: Vec<Finding> = found.all.iter().map(backend).collect();
    let best = Purpose::ALL.into_iter().filter_map(|purpose| {
        let (report, why) = found.best(purpose)?;
        Some(format!("for {purpose} {} ({why})", report.backend))
    });
    let best: Vec<String> = best.collect();
    if !best.is_empty() {
        findings.push(Finding::ok("port-best", "best back end of a port", best.join("; ")));
    }
    findings
}

fn backend(report: &BackendReport) -> Finding {
    let what = format!("back end {} of a port", report.backend);
    let remarks: Vec<&str> = report.remarks.iter().map(|remark| remark.what.as_str()).collect();
    let mode = report.mode.as_deref().unwrap_or("unavailable");
    let value = match remarks.as_slice() {
        [] => mode.to_owned(),
        _ => format!("{mode}: {}", remarks.join("; ")),
    };
    let remedies: Vec<&str> =
        report.remarks.iter().filter_map(|remark| remark.remedy.as_deref()).collect();
    let level = if report.usable() && remedies.is_empty() { Level::Ok } else { Level::Info };
    let finding = Finding::new(&format!("port-{}", report.backend), level, &what, value);
    if remedies.is_empty() { finding } else { finding.remedy(remedies.join("; ")) }
}

fn on(device: &Device, offload: &str) -> bool {
    device.offloads.iter().any(|name| name == offload)
}

fn threaded_napi(root: &HostRoot<'_>, interface: &str) -> Finding {
    let what = "reception in a separate thread (threaded NAPI)";
    let path = format!("/sys/class/net/{interface}/threaded");
    match root.number(&path) {
        Some(0) => Finding::new(
            "threaded-napi",
            Level::Info,
            what,
            "no: in softirq, together with all other interfaces",
        )
        .remedy(format!(
            "echo 1 > {}; for p in $(pgrep {}); do chrt -f -p 50 $p; done",
            shell_word(&path),
            shell_word(&format!("napi/{interface}"))
        ))
        .fix(SettingKind::ThreadedNapi),
        Some(_) => Finding::ok("threaded-napi", what, "yes"),
        None => Finding::new(
            "threaded-napi",
            Level::Info,
            what,
            "unknown: no such file in this namespace's /sys",
        ),
    }
}

/// RPS of a receive queue, if one has it.
fn packet_steering(root: &HostRoot<'_>, interface: &str) -> Option<Finding> {
    let queues = root.list(&format!("/sys/class/net/{interface}/queues"));
    let file = |queue: &String| format!("/sys/class/net/{interface}/queues/{queue}/rps_cpus");
    let is_on = |queue: &&String| {
        root.read(&file(queue)).is_some_and(|mask| {
            mask.contains(|digit: char| digit.is_ascii_hexdigit() && digit != '0')
        })
    };
    let on: Vec<&String> = queues.iter().filter(is_on).collect();
    let first = on.first()?;
    let value =
        format!("on in {}: other CPUs process frames in softirq", count(on.len() as u64, "queue"));
    let what = "distribution of received packets to other CPUs (RPS)";
    Some(
        Finding::new("packet-steering", Level::Info, what, value)
            .remedy(format!("echo 0 > {}", shell_word(&file(first))))
            .fix(SettingKind::PacketSteering),
    )
}

/// The CPUs that handle the interrupts of a NIC; none for an interface without interrupts.
fn interrupts(root: &HostRoot<'_>, interface: &str) -> Option<Finding> {
    let what = "CPUs of its interrupts";
    let device = format!("/sys/class/net/{interface}/device");
    // The interrupts of a virtio device are those of its PCI device.
    let numbers = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .map(|path| root.list(path))
        .find(|numbers| !numbers.is_empty())?;
    let cpus = |number: &String| {
        let file = |name: &str| {
            root.read(&format!("/proc/irq/{number}/{name}")).filter(|list| !list.is_empty())
        };
        file("effective_affinity_list").or_else(|| file("smp_affinity_list"))
    };
    let mut found: Vec<String> = numbers.iter().filter_map(cpus).collect();
    let count = found.len();
    found.sort();
    found.dedup();
    match (count, found.as_slice()) {
        (0, _) => None,
        (2.., [one]) if root.cpus().len() > 1 => Some(
            Finding::new("irq-affinity", Level::Warn, what, format!("all {count} on CPU {one}"))
                .remedy(format!(
                    "spread them: echo CPU > /proc/irq/N/smp_affinity_list for N in {}",
                    shortened(&numbers)
                ))
                .fix(SettingKind::IrqAffinity),
        ),
        _ => {
            Some(Finding::ok("irq-affinity", what, format!("{count} on CPU {}", shortened(&found))))
        }
    }
}
