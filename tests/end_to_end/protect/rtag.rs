//! R-TAGs: cuts of paths, traffic of the paths themselves, a loop, and the frames as tshark reads them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use onbeat_lab::traffic::{self as lab, socket};
use onbeat_netdev::{Handle, VethEnd};
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::require_that;

use super::{
    H1, H2, LANS, Network, PATH1, PATH2, PATH3, PORT, ProtectedHosts, Receiver,
    exchange_while_paths_are_cut, length, neighbor, network, network_that_polls, udp, wildcard,
};
use crate::common::{BOUND, TemporaryFile, can_run, run, wait_for};

const BROADCAST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 255);

#[test]
fn frames_with_r_tags_are_lost_by_no_cut_and_paths_keep_their_own_traffic() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::with(network(), ["proth", "proti"], "rtag");
    frames_are_lost_by_no_cut(&protected);
    protected.undo();
}

#[test]
fn programs_in_the_kernel_lose_no_frame_with_an_r_tag() {
    if !can_run() {
        return;
    }
    let (network, names) = (network_that_polls(), ["proto", "protp"]);
    let protected = ProtectedHosts::with_options(network, names, "rtag", &["--backend", "xdp"]);
    protected.run_natively();
    frames_are_lost_by_no_cut(&protected);
    protected.continue_without_daemons();
    protected.undo();
}

fn frames_are_lost_by_no_cut(protected: &ProtectedHosts) {
    let [first, second] = protected.names;
    let Network { h1, h2, san, .. } = &protected.network;
    // The paths have addresses of their own, and a host on one of them has no R-TAGs.
    for (handle, address) in [(h1, PATH1), (h2, PATH2), (san, PATH3)] {
        let name = if std::ptr::eq(handle, san) { "eth0" } else { "lana" };
        handle.add_address(name, IpAddr::V4(address), 24).unwrap();
    }
    assert_eq!(h1.link(first).unwrap().mtu, 1494);
    exchange_while_paths_are_cut(protected);
    let (here, there) = (udp(h1, PATH1, PORT), udp(san, PATH3, PORT));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(BOUND)).unwrap();
    }
    let mut octets = [0; 16];
    let receivers = [there, udp(h2, PATH2, PORT)];
    for (receiver, to) in receivers.iter().zip([PATH3, PATH2]) {
        receiver.set_read_timeout(Some(BOUND)).unwrap();
        for number in 0..20 {
            here.send_to(&[number], (to, PORT)).unwrap();
            let (len, from) = receiver.recv_from(&mut octets).unwrap();
            assert_eq!((len, octets[0], from.ip()), (1, number, IpAddr::V4(PATH1)));
            receiver.send_to(&[number + 100], from).unwrap();
            let (len, _) = here.recv_from(&mut octets).unwrap();
            assert_eq!((len, octets[0]), (1, number + 100));
        }
    }
    // The path's address is that of its own interface, and the redundant one is not heard there.
    let of_path = h2.link("lana").unwrap().mac.unwrap().to_string();
    assert_eq!(neighbor(h1, PATH2), of_path);
    let status = wildcard(second);
    assert_eq!(neighbor(h1, H2), status.mac);
    assert_eq!(status.senders.len(), 1, "{status:?}");
    assert_eq!(status.senders[0].mac, wildcard(first).mac);
    for path in &status.paths {
        let causes = path.passed + path.own + path.accepted + path.duplicates;
        assert_eq!((path.received, path.own), (causes, 0), "{status:?}");
        assert!(path.accepted > 0, "{status:?}");
    }
    assert!(status.paths.iter().any(|path| path.duplicates > 0), "{status:?}");
    let shown = run(&["show", second]);
    assert!(shown.out.contains("WILDCARD"), "{}", shown.out);
    let shown = run(&["show", second, "--nodes"]);
    assert!(shown.out.contains(&status.senders[0].mac), "{}", shown.out);
    let appeared = format!("node {} appeared", status.senders[0].mac);
    wait_for(&appeared, || run(&["show", second, "--events"]).out.contains(&appeared));
}

/// All interfaces are ports of one bridge.
#[test]
fn both_paths_on_one_bridge_make_no_storm() {
    if !can_run() {
        return;
    }
    let network = network();
    network.h1.delete("lanb").unwrap();
    for (port, handle) in [("q1", &network.h1), ("q2", &network.h2)] {
        let far = VethEnd::new("lanb").namespace(handle.namespace());
        network.hub.create_veth(&VethEnd::new(port), &far).unwrap();
        network.hub.set_master(port, Some("br0")).unwrap();
        network.hub.set_up(port).unwrap();
        handle.set_up("lanb").unwrap();
        handle.wait_carrier("lanb", BOUND).unwrap();
    }
    let protected = ProtectedHosts::with(network, ["protj", "prota"], "rtag");
    let Network { h1, h2, .. } = &protected.network;
    let (here, there) = (udp(h1, H1, PORT), udp(h2, H2, PORT));
    here.set_broadcast(true).unwrap();
    let group = udp(h2, BROADCAST, PORT + 1);
    let mut receivers = [Receiver::new(there), Receiver::new(group)];
    const DATAGRAMS: u32 = 500;
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0x5a; length(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        here.send_to(&datagram, (H2, PORT)).unwrap();
        here.send_to(&datagram, (BROADCAST, PORT + 1)).unwrap();
        thread::sleep(Duration::from_micros(500));
    }
    let _ = wait_until(BOUND, || {
        receivers.iter_mut().for_each(Receiver::drain);
        receivers.iter().all(|receiver| receiver.received() >= DATAGRAMS)
    });
    wait_for("frames of the node return", || {
        wildcard("protj").paths.iter().all(|path| path.own >= u64::from(DATAGRAMS))
    });
    for receiver in &receivers {
        let counts = &receiver.counts;
        let all_once = counts.len() == DATAGRAMS as usize && counts.iter().all(|count| *count == 1);
        assert!(all_once, "{counts:?}");
    }
    // A storm would continue: the counters of both nodes stand still but for neighbor discovery.
    let received = || {
        [wildcard("protj"), wildcard("prota")]
            .map(|status| status.paths.iter().map(|path| path.received).sum::<u64>())
    };
    let before = received();
    thread::sleep(Duration::from_secs(2));
    for (before, after) in before.into_iter().zip(received()) {
        assert!(after - before < 200, "{before} frames, {after} two seconds later");
    }
    let all: u64 = received().iter().sum();
    assert!(all < u64::from(DATAGRAMS) * 2 * 8, "{all} frames");
    wait_for("an event", || {
        run(&["show", "protj", "--events"]).out.contains("the paths are connected")
    });
}

/// Frames that arrive at an interface, captured by another program.
struct LanCapture {
    tcpdump: Child,
    file: TemporaryFile,
}

impl LanCapture {
    fn start(handle: &Handle, interface: &str) -> Self {
        let file = TemporaryFile::new(&format!("r-tag-{interface}.pcap"));
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args(["-i", interface, "-n", "-U", "-Q", "in", "-w", file.name()]);
        tcpdump.stdin(Stdio::null()).stderr(Stdio::null());
        let tcpdump = handle.namespace().start_in(&mut tcpdump).spawn().unwrap();
        Self { tcpdump, file }
    }

    /// Returns whether it has a frame.
    fn runs(&self) -> bool {
        fs::metadata(self.file.path()).is_ok_and(|file| file.len() > 24)
    }

    /// Returns the fields of all frames with this source, as tshark reads them.
    fn read(&self, source: &str) -> Vec<Vec<String>> {
        let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", self.file.name(), "-Y", &format!("eth.src == {source}")]);
        tshark.args(["-T", "fields"]).args(fields);
        // The last frame may be incomplete: tshark reports that, and reads those before.
        let text = String::from_utf8(tshark.output().unwrap().stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }
}

impl Drop for LanCapture {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

const FIELDS: [&str; 8] = [
    "eth.type",
    "vlan.id",
    "vlan.etype",
    "ieee8021cb.etype",
    "ieee8021cb.seq",
    "udp.length",
    "frame.len",
    "_ws.malformed",
];

/// Fields of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DecodedFrame {
    number: u16,
    vlan: String,
    ethertype: String,
    udp_length: String,
    len: usize,
}

/// Requires an R-TAG behind the addresses, or behind the tag of VLAN 5.
fn decoded(cells: &[String]) -> DecodedFrame {
    let [ethertype, vlan, in_vlan, of_payload, number, udp_length, len, malformed] = cells else {
        panic!("{cells:?}")
    };
    assert_eq!(malformed, "", "{cells:?}");
    match vlan.as_str() {
        "" => assert_eq!((ethertype.as_str(), in_vlan.as_str()), ("0xf1c1", ""), "{cells:?}"),
        _ => assert_eq!(
            (ethertype.as_str(), vlan.as_str(), in_vlan.as_str()),
            ("0x8100", "5", "0xf1c1")
        ),
    }
    // In decimal in some releases.
    let number = match number.strip_prefix("0x") {
        Some(hexadecimal) => u16::from_str_radix(hexadecimal, 16),
        None => number.parse(),
    };
    DecodedFrame {
        number: number.unwrap_or_else(|_| panic!("{cells:?}")),
        vlan: vlan.clone(),
        ethertype: of_payload.clone(),
        udp_length: udp_length.clone(),
        len: len.parse().unwrap(),
    }
}

/// Without cuts: both paths carry the same frames, with consecutive numbers.
#[test]
fn tshark_decodes_every_frame_of_both_paths() {
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !can_run() || !require_that(is_there("tshark") && is_there("tcpdump"), "tshark and tcpdump")
    {
        return;
    }
    let protected = ProtectedHosts::with(network(), ["protf", "protg"], "rtag");
    let Network { h1, h2, .. } = &protected.network;
    let captures = LANS.map(|lan| LanCapture::start(h2, lan));
    let (here, there) = (udp(h1, H1, 0), udp(h2, H2, PORT));
    let mut receiver = Receiver::new(there);
    // The first ones show that both captures run.
    wait_for("captured frames", || {
        here.send_to(&[0; 4], (H2, PORT + 1)).unwrap();
        captures.iter().all(LanCapture::runs)
    });
    const DATAGRAMS: u32 = 350;
    let tagged = socket::sender(h1.namespace(), "protf").unwrap();
    let mut host = lab::Receiver::new(socket::receiver(h2.namespace(), "protg").unwrap());
    let mac = |handle: &Handle, name| handle.link(name).unwrap().mac.unwrap().0;
    let header = [mac(h2, "protg"), mac(h1, "protf")].concat();
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0x5a; length(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        here.send_to(&datagram, (H2, PORT)).unwrap();
        tagged.send(&[&header[..], &[0x81, 0, 0, 5, 0x88, 0xb5], &datagram].concat()).unwrap();
        // The queues of the captures are short.
        thread::sleep(Duration::from_micros(500));
    }
    let mut in_vlan = Vec::new();
    let _ = wait_until(BOUND, || {
        receiver.drain();
        let received = host.receive(|frame| {
            if frame.octets[12..18] == [0x81, 0, 0, 5, 0x88, 0xb5] {
                in_vlan.push(u32::from_be_bytes(frame.octets[18..22].try_into().unwrap()));
            }
        });
        received.unwrap();
        receiver.received() >= DATAGRAMS && in_vlan.len() >= DATAGRAMS as usize
    });
    let all_once = receiver.counts.iter().all(|count| *count == 1);
    assert!(all_once && receiver.counts.len() == DATAGRAMS as usize, "{:?}", receiver.counts);
    assert!(in_vlan.iter().copied().eq(0..DATAGRAMS), "{in_vlan:?}");
    let source = wildcard("protf").mac;
    let is_last = |cells: &Vec<String>| cells[1] == "5";
    let read = |capture: &LanCapture| {
        wait_for("all datagrams in the capture", || {
            capture.read(&source).iter().filter(|cells| is_last(cells)).count()
                >= DATAGRAMS as usize
        });
        capture.read(&source).iter().map(|cells| decoded(cells)).collect::<Vec<_>>()
    };
    let [a, b] = [read(&captures[0]), read(&captures[1])];
    for frames in [&a, &b] {
        assert!(frames.len() > 2 * DATAGRAMS as usize, "{}", frames.len());
        for pair in frames.windows(2) {
            assert_eq!(pair[1].number, pair[0].number.wrapping_add(1), "{pair:?}");
        }
        let known = ["0x0800", "0x0806", "0x86dd", "0x88b5"];
        assert!(frames.iter().all(|frame| known.contains(&frame.ethertype.as_str())), "{frames:?}");
        // All datagrams and all frames of the VLAN, in their order.
        let lengths = |of: &dyn Fn(&DecodedFrame) -> Option<usize>| -> Vec<usize> {
            frames.iter().filter_map(of).collect()
        };
        let sent = |more: usize| (0..DATAGRAMS).map(|n| length(n) + more).collect::<Vec<_>>();
        let datagrams = lengths(&|frame| frame.udp_length.parse().ok());
        assert!(datagrams.ends_with(&sent(8)), "{datagrams:?}");
        let in_vlan = lengths(&|frame| (frame.vlan == "5").then_some(frame.len));
        assert_eq!(in_vlan, sent(18 + 6));
    }
    // One capture may have started earlier, and the other one may have read a later frame.
    let first = a[0].number.max(b[0].number);
    let [a, b] = [&a, &b]
        .map(|frames| frames.iter().filter(|frame| frame.number.wrapping_sub(first) < 0x8000));
    assert!(a.zip(b).all(|(a, b)| a == b), "both paths carry the same frames");
}
