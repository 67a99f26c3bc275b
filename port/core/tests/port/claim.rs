//! Claims: changed settings, and their restoration.
//!
//! ```text
//!   home: "p0" --------- far: "f0"        claimed:  home: -     claim: "p0" --------- far: "f0"
//! ```

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::conformance::{ETHER_TYPE, conformance, frame};
use crate::common::{BOUND, Cable, raw_socket};
use nix::ifaddrs::getifaddrs;
use onbeat_link::{
    Claim, Error, Feature as Has, Outcome, PacketPort, Port, PortOptions, Stamp, StampSource,
};
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Bridge, Ethtool, Handle, Link, Namespace};
use onbeat_testing::{Feature, require_all};

const ADDRESSES: [(&str, u8); 2] = [("192.0.2.1", 24), ("2001:db8::1", 64)];
const SETTING: &str = "/proc/sys/net/ipv4/conf/p0/arp_ignore";
/// Makes a child process of this program claim an interface.
const CLAIM_IN: &str = "ONBEAT_TEST_CLAIM_IN";

/// A directory for journals, gone with the value.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("onbeat-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A cable whose near end has settings that a move would remove.
fn furnished() -> Cable {
    let cable = Cable::new();
    cable.near.set_ipv6("p0", true).unwrap();
    for (address, prefix) in ADDRESSES {
        cable.near.add_address("p0", address.parse().unwrap(), prefix).unwrap();
    }
    cable.near.namespace().run(|| fs::write(SETTING, "2")).unwrap().unwrap();
    cable
}

fn addresses(handle: &Handle) -> Vec<IpAddr> {
    let all = handle.namespace().run(|| getifaddrs().unwrap().collect::<Vec<_>>()).unwrap();
    let ip = |entry: &nix::ifaddrs::InterfaceAddress| {
        let address = entry.address.as_ref()?;
        let ipv4 = address.as_sockaddr_in().map(|ipv4| ipv4.ip().into());
        ipv4.or(address.as_sockaddr_in6().map(|ipv6| ipv6.ip().into()))
    };
    all.iter().filter(|entry| entry.interface_name == "p0").filter_map(ip).collect()
}

fn check_home(cable: &Cable) {
    let link: Link = cable.near.wait_carrier("p0", BOUND).unwrap();
    assert!(link.arp);
    let found = addresses(&cable.near);
    for (address, _) in ADDRESSES {
        assert!(found.contains(&address.parse().unwrap()), "{address} is not in {found:?}");
    }
    let setting = cable.near.namespace().run(|| fs::read_to_string(SETTING)).unwrap().unwrap();
    assert_eq!(setting.trim(), "2");
}

fn check_isolated(cable: &Cable, claim: &Claim) {
    assert!(cable.near.link("p0").unwrap_err().is_not_found());
    let inside = Handle::in_namespace(claim.namespace()).unwrap();
    let link = inside.wait_carrier("p0", BOUND).unwrap();
    assert!(!link.arp);
    assert_eq!(addresses(&inside), <[IpAddr; 0]>::default());
    let ipv6 =
        inside.namespace().run(|| fs::read_to_string("/proc/sys/net/ipv6/conf/p0/disable_ipv6"));
    assert_eq!(ipv6.unwrap().unwrap().trim(), "1");
}

#[test]
fn a_claim_isolates_and_restores() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, directory) = (furnished(), Directory::new("claim"));
    let home = cable.near.namespace();
    for by_drop in [false, true] {
        let claim = Claim::take(home, "p0", &directory.0).unwrap();
        check_isolated(&cable, &claim);
        let again = Claim::take(home, "p0", &directory.0).unwrap_err().to_string();
        let expected = format!("is claimed by process {}", std::process::id());
        assert!(again.contains(&expected), "{again}");

        let options = PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() };
        let mut port = PacketPort::open(claim.namespace(), claim.interface(), options).unwrap();
        cable.far.wait_carrier("f0", BOUND).unwrap();
        conformance(&mut port, &mut raw_socket(&cable.far, "f0"));
        if by_drop {
            drop(claim)
        } else {
            claim.release().unwrap()
        }
        check_home(&cable);
        assert!(directory.is_empty());
    }
    assert!(!Claim::recover(home, "p0", &directory.0).unwrap(), "there is nothing left to do");
    assert!(directory.is_empty());
}

#[test]
fn releasing_a_claim_disables_nic_time_stamps() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, directory) = (Cable::new(), Directory::new("stamps"));
    let home = cable.near.namespace();
    let stamps =
        |namespace: &Namespace| Ethtool::in_namespace(namespace).unwrap().hardware_stamps("p0");
    let before = stamps(home).ok();
    let claim = Claim::take(home, "p0", &directory.0).unwrap();
    let options = PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() };
    let open = || {
        PacketPort::open(claim.namespace(), claim.interface(), options.clone())
            .map(|port| port.capabilities().clone())
            .unwrap()
    };
    assert!(open().require_native(Has::TransmitStamp).is_err(), "not unasked for");
    if before.is_none() {
        let refusal = claim.stamp_by_hardware().unwrap_err().to_string();
        assert!(refusal.contains("ethtool -T"), "{refusal}");
        return;
    }
    let during = claim.stamp_by_hardware().unwrap();
    // Of what comes, all or nothing: some stamp only PTP.
    let all_or_nothing = [HardwareStamps::ALL, HardwareStamps::NONE];
    assert!(during.tx && all_or_nothing.contains(&during.rx_filter), "{during:?}");
    assert_ne!(before, Some(during));
    for feature in [Has::TransmitStamp, Has::NicTime] {
        open().require_native(feature).unwrap();
    }
    let stamps_all = during.rx_filter == HardwareStamps::ALL;
    assert_eq!(open().require_native(Has::ReceiveStamp).is_ok(), stamps_all);
    claim.release().unwrap();
    assert_eq!(stamps(home).ok(), before, "as it was");
}

#[test]
fn a_nic_stamps_by_its_own_clock() {
    if !Cable::stamps() {
        return;
    }
    let (cable, directory) = (Cable::new(), Directory::new("clock"));
    let claim = Claim::take(cable.near.namespace(), "p0", &directory.0).unwrap();
    let stamps = claim.stamp_by_hardware().unwrap();
    // Some stamp all that leaves, and of what comes only PTP.
    let all_that_comes = stamps.rx_filter == HardwareStamps::ALL;
    let options = PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() };
    let mut port = PacketPort::open(claim.namespace(), claim.interface(), options).unwrap();
    let inside = Handle::in_namespace(claim.namespace()).unwrap();
    inside.wait_carrier("p0", BOUND).unwrap();
    cable.far.wait_carrier("f0", BOUND).unwrap();
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let slot = port.allocate(60).unwrap();
    port.update(slot, &frame(mac, mac, b"out")).unwrap();
    let bound = BOUND.as_nanos() as u64;
    let mut earlier = port.nic_time().unwrap();
    let mut check = |port: &PacketPort, stamp: Stamp| {
        let later = port.nic_time().unwrap();
        assert_eq!(stamp.source, StampSource::Hardware);
        assert!((earlier..=later).contains(&stamp.ns), "{earlier} {stamp:?} {later}");
        earlier = later;
    };
    for _ in 0..10 {
        port.send(slot).unwrap();
        assert!(port.wait(port.now().after(bound)).unwrap());
        let news = port.confirmation().unwrap().unwrap();
        let Outcome::Sent(stamp) = news.outcome else { panic!("{news:?}") };
        check(&port, stamp);

        peer.send(&frame(mac, mac, b"in"));
        assert!(port.wait(port.now().after(bound)).unwrap());
        let received = port.receive().unwrap().unwrap();
        if all_that_comes {
            check(&port, received.stamp);
        } else {
            assert_eq!(received.stamp.source, StampSource::Software);
        }
        port.release(received);
    }
}

#[test]
fn an_interface_that_cannot_be_restored_is_not_claimed() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Bridge]) {
        return;
    }
    let (cable, directory) = (furnished(), Directory::new("refuse"));
    let home = cable.near.namespace();
    cable.near.create_bridge(&Bridge::new("br0")).unwrap();
    cable.near.set_master("p0", Some("br0")).unwrap();
    let refusal = Claim::take(home, "p0", &directory.0).unwrap_err();
    assert!(matches!(refusal, Error::InUse { .. }), "{refusal}");
    cable.near.set_master("p0", None).unwrap();
    let refusal = Claim::take(home, "lo", &directory.0).unwrap_err();
    assert!(matches!(refusal, Error::InUse { .. }), "{refusal}");
    let refusal = Claim::take(home, "p7", &directory.0).unwrap_err();
    assert!(matches!(&refusal, Error::Netdev(error) if error.is_not_found()), "{refusal}");
    assert!(directory.is_empty(), "a refusal leaves nothing");
    check_home(&cable);
}

#[test]
fn the_next_claim_restores_after_kill_9() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, directory) = (furnished(), Directory::new("kill"));
    let home = cable.near.namespace();
    kill_a_claimer(home, &directory.0);
    assert!(cable.near.link("p0").unwrap_err().is_not_found(), "it stays where it was");
    assert!(Claim::recover(home, "p0", &directory.0).unwrap());
    check_home(&cable);
    assert!(directory.is_empty());

    kill_a_claimer(home, &directory.0);
    let elsewhere = Claim::recover(cable.far.namespace(), "p0", &directory.0).unwrap_err();
    assert!(matches!(elsewhere, Error::InUse { .. }), "{elsewhere}");
    let claim = Claim::take(home, "p0", &directory.0).unwrap();
    check_isolated(&cable, &claim);
    claim.release().unwrap();
    check_home(&cable);
    assert!(directory.is_empty());
}

#[test]
fn a_planted_journal_is_refused_until_it_is_discarded() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, directory) = (furnished(), Directory::new("planted"));
    let home = cable.near.namespace();
    kill_a_claimer(home, &directory.0);
    let journal = directory.0.join("p0.json");
    let valid = fs::read_to_string(&journal).unwrap();
    const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
    let forward = || home.run(|| fs::read_to_string(FORWARD)).unwrap().unwrap();
    let before = forward();
    let value = format!("{SETTING:?}: \"2\"");
    assert!(valid.contains(&value), "{valid}");
    let addresses = "[\"192.0.2.1\", 24],".repeat(5000);
    for (from, to, why) in [
        (value.as_str(), format!("{FORWARD:?}: \"1\""), FORWARD),
        ("/conf/p0/arp_ignore", "/conf/all/arp_ignore".into(), "/conf/all/arp_ignore"),
        ("/conf/p0/arp_ignore", "/conf/p0/../../x".into(), "/conf/p0/../../x"),
        (&value, format!("{SETTING:?}: \"2\\n\""), "is not a valid value of"),
        ("\"addresses\": [", format!("\"addresses\": [{addresses}"), "the limit of 4096"),
        ("\"addresses\": [", "\"addresses\": [[\"192.0.2.9\", 33],".into(), "192.0.2.9/33"),
        (&valid, String::new(), "it is empty"),
    ] {
        assert!(valid.contains(from), "{from}: {valid}");
        fs::write(&journal, valid.replace(from, &to)).unwrap();
        for refusal in [
            Claim::recover(home, "p0", &directory.0).unwrap_err().to_string(),
            Claim::take(home, "p0", &directory.0).unwrap_err().to_string(),
        ] {
            let named = refusal.contains("p0.json") && refusal.contains("remove the file");
            assert!(refusal.contains(why) && named, "{refusal}");
        }
        assert!(cable.near.link("p0").unwrap_err().is_not_found(), "{why}: it was restored");
    }
    assert_eq!(forward(), before);

    let aside = Claim::discard_damaged(&directory.0).unwrap();
    assert_eq!(aside, [directory.0.join("p0.json.damaged")]);
    assert!(Claim::discard_damaged(&directory.0).unwrap().is_empty());
    assert!(!Claim::recover(home, "p0", &directory.0).unwrap());
    // A valid one stays, and is restored.
    fs::write(&journal, &valid).unwrap();
    assert!(Claim::discard_damaged(&directory.0).unwrap().is_empty());
    assert!(Claim::recover(home, "p0", &directory.0).unwrap());
    check_home(&cable);
}

#[test]
fn a_journal_of_another_namespace_restores_nothing() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (cable, directory) = (furnished(), Directory::new("identity"));
    let home = cable.near.namespace();
    kill_a_claimer(home, &directory.0);
    let journal = directory.0.join("p0.json");
    let valid = fs::read_to_string(&journal).unwrap();
    let cookie = format!("\"cookie\": {}", cable.near.cookie().unwrap());
    assert!(valid.contains(&cookie), "{valid}");
    fs::write(&journal, valid.replace(&cookie, &format!("{cookie}7"))).unwrap();
    let refusal = Claim::recover(home, "p0", &directory.0).unwrap_err().to_string();
    assert!(refusal.contains("no longer exists"), "{refusal}");
    assert!(refusal.contains("p0.json") && refusal.contains("or remove the journal"), "{refusal}");
    assert!(cable.near.link("p0").unwrap_err().is_not_found(), "it was moved");

    fs::write(&journal, &valid).unwrap();
    assert!(Claim::recover(home, "p0", &directory.0).unwrap());
    check_home(&cable);
}

/// Has another process claim the interface, and kills it.
fn kill_a_claimer(home: &Namespace, directory: &Path) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "claim::child_claims", "--nocapture", "--test-threads=1"]);
    command.env(CLAIM_IN, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut claimer = home.start_in(&mut command).spawn().unwrap();
    let lines = BufReader::new(claimer.stdout.take().unwrap()).lines();
    let claimed = lines.map_while(Result::ok).any(|line| line.contains("claimed p0"));
    assert!(claimed, "the other process did not claim");
    let refusal = Claim::take(home, "p0", directory).unwrap_err();
    assert!(matches!(refusal, Error::Claimed { .. }), "it lives: {refusal}");
    claimer.kill().unwrap();
    claimer.wait().unwrap();
}

/// Not a test of its own: the process of [`kill_a_claimer`].
#[test]
fn child_claims() {
    let Some(directory) = env::var_os(CLAIM_IN) else { return };
    let home = Namespace::current().unwrap();
    let _claim = Claim::take(&home, "p0", Path::new(&directory)).unwrap();
    println!("\nclaimed p0");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or its parent is gone.
    let _ = std::io::stdin().lines().next();
}
