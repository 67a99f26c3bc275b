//! Interfaces of this kernel: a veth with its NAPI threads, a tap with its coalescing.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use onbeat_host::settings::Error;
use onbeat_host::settings::{
    Host, Journal, LiveHost, Log, Outcome, RestoreOutcome, SettingKind, SettingLocation, Tuning,
    apply, plan, restore,
};
use onbeat_netdev::{Ethtool, Handle, Namespace};
use onbeat_testing::{Feature, TemporaryDirectory, require_all, require_that, veth_with_napi};

const FORGET: &str = "onbeat doctor --restore --forget";

/// All settings of an interface; none of the host, which is shared.
fn tuning(interface: &str) -> Tuning {
    Tuning {
        interfaces: vec![interface.to_owned()],
        cpus: Some("0".parse().unwrap()),
        only: SettingKind::ALL.into_iter().filter(|kind| kind.is_of_interface()).collect(),
        ..Tuning::default()
    }
}

#[test]
fn a_veth_is_tuned_and_restored() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(6, 8)]) {
        return;
    }
    let (handle, directory) = (veth_with_napi(), TemporaryDirectory::new("veth"));
    let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
    let before = ethtool.features("rt0").unwrap();
    let in_namespace = || {
        LiveHost::run(|host| {
            let mut journal = Journal::open(directory.path(), FORGET).unwrap();
            let found = host.survey(&tuning("rt0")).unwrap();
            assert_eq!(found.interfaces[0].threaded.as_deref(), Some("0"), "{found:?}");

            let report = apply(host, &mut journal, &tuning("rt0"), false).unwrap();
            assert!(report.is_good(), "{report:?}");
            let changed = |kind: SettingKind| {
                let mut changes = report.changes.iter();
                changes
                    .any(|change| change.setting.kind == kind && change.outcome == Outcome::Changed)
            };
            let expected =
                [SettingKind::Offloads, SettingKind::ThreadedNapi, SettingKind::NapiPriority];
            assert!(expected.into_iter().all(changed), "{report:?}");
            let found = host.survey(&tuning("rt0")).unwrap();
            assert_eq!(found.interfaces[0].offloads.as_deref(), Some("rx-gro"));
            let threads = found.interfaces[0].threads.clone();
            assert!(!threads.is_empty());
            for thread in &threads {
                assert!(thread.name.starts_with("napi/rt0-"), "{thread:?}");
                assert_eq!(
                    (thread.policy.as_deref(), thread.cpus.as_str()),
                    (Some("fifo 50"), "0")
                );
            }
            assert!(plan(&tuning("rt0"), &found).settings.is_empty());

            // One process at a time.
            let busy = Journal::open(directory.path(), FORGET).unwrap_err();
            assert!(matches!(&busy, Error::Host(busy) if busy.is_busy()), "{busy}");
            assert!(busy.to_string().contains(&std::process::id().to_string()), "{busy}");
            // Another process, later.
            drop(journal);
            let mut journal = Journal::open(directory.path(), FORGET).unwrap();
            assert_eq!(journal.entries().len(), report.changes.len());
            let restored = restore(host, &mut journal).unwrap();
            assert!(
                restored.iter().all(|one| one.outcome == RestoreOutcome::Restored),
                "{restored:?}"
            );
            assert_eq!(journal.entries(), []);
            drop(journal);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
            let found = host.survey(&tuning("rt0")).unwrap();
            assert_eq!(found.interfaces[0].threaded.as_deref(), Some("0"));
        })
    };
    handle.namespace().run(in_namespace).unwrap().unwrap();
    assert_eq!(ethtool.features("rt0").unwrap(), before);
}

#[test]
fn settings_of_a_moved_interface_are_kept() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (handle, directory) = (veth_with_napi(), TemporaryDirectory::new("elsewhere"));
    let mut journal = Journal::open(directory.path(), FORGET).unwrap();
    let only = vec![SettingKind::Offloads];
    let tuning = Tuning { only, ..tuning("rt0") };
    let mut run = |namespace: &Namespace,
                   f: &mut (dyn FnMut(&mut LiveHost, &mut Journal) + Send)| {
        namespace.run(|| LiveHost::run(|host| f(host, &mut journal))).unwrap().unwrap();
    };
    run(handle.namespace(), &mut |host, journal| {
        apply(host, journal, &tuning, false).unwrap();
        assert_eq!(journal.entries().len(), 1);
    });
    run(&Namespace::new().unwrap(), &mut |host, journal| {
        let restored = restore(host, journal).unwrap();
        assert_eq!((restored[0].outcome, journal.entries().len()), (RestoreOutcome::Failed, 1));
    });
    let elsewhere = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    handle.move_to("rt0", elsewhere.namespace()).unwrap();
    run(handle.namespace(), &mut |host, journal| {
        let reason = restore(host, journal).unwrap().remove(0).reason.unwrap();
        assert!(reason.contains("move it back") && reason.contains("--forget"), "{reason}");
        assert_eq!(journal.entries().len(), 1);
    });
    elsewhere.move_to("rt0", handle.namespace()).unwrap();
    let address = handle.link("rt0").unwrap().mac.unwrap();
    handle.set_mac("rt0", [2, 0, 0, 0, 0, 7].into()).unwrap();
    run(handle.namespace(), &mut |host, journal| {
        let reason = restore(host, journal).unwrap().remove(0).reason.unwrap();
        assert!(reason.contains("instead of") && reason.contains("--forget"), "{reason}");
        assert_eq!(journal.entries().len(), 1);
    });
    handle.set_mac("rt0", address).unwrap();
    // The same interface under another name.
    handle.rename("rt0", "other").unwrap();
    run(handle.namespace(), &mut |host, journal| {
        assert_eq!(restore(host, journal).unwrap()[0].outcome, RestoreOutcome::Restored);
        assert_eq!(journal.entries(), []);
    });
}

/// A tap device in the calling thread's namespace; removed when the file is closed.
fn tap(name: &str) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: `request` is the ifreq that TUNSETIFF takes, and lives across the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(file) }
}

#[test]
fn coalescing_is_reduced_and_restored() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let (namespace, directory) = (Namespace::new().unwrap(), TemporaryDirectory::new("tap"));
    let tap = namespace.run(|| tap("rt0")).unwrap();
    if !require_that(tap.is_ok(), "tap devices (CONFIG_TUN)") {
        return;
    }
    let ethtool = Ethtool::in_namespace(&namespace).unwrap();
    let mut before = ethtool.coalescing("rt0").unwrap();
    before.rx_frames = 16;
    ethtool.set_coalescing("rt0", &before).unwrap();
    let in_namespace = || {
        LiveHost::run(|host| {
            let mut journal = Journal::open(directory.path(), FORGET).unwrap();
            let only = vec![
                SettingKind::Coalescing,
                SettingKind::EnergyEfficient,
                SettingKind::ThreadedNapi,
            ];
            let report =
                apply(host, &mut journal, &Tuning { only, ..tuning("rt0") }, false).unwrap();
            assert!(report.is_good(), "{report:?}");
            let change = &report.changes[0];
            assert_eq!(
                change.setting.place,
                SettingLocation::Coalescing { interface: "rt0".into() }
            );
            assert_eq!(
                (change.setting.shown().as_str(), change.outcome),
                ("rx-frames=16", Outcome::Changed)
            );
            let now = ethtool.coalescing("rt0").unwrap();
            assert!(now.rx_frames == 1 && !now.holds_back() && before.holds_back(), "{now:?}");
            restore(host, &mut journal).unwrap();
        })
    };
    namespace.run(in_namespace).unwrap().unwrap();
    assert_eq!(ethtool.coalescing("rt0").unwrap(), before);
}

#[test]
fn a_missing_interface_is_reported_before_any_change() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let directory = TemporaryDirectory::new("missing");
    let error = LiveHost::run(|host| {
        let mut journal = Journal::open(directory.path(), FORGET).unwrap();
        apply(host, &mut journal, &tuning("no-such-if0"), true).unwrap_err().to_string()
    });
    assert!(error.unwrap().starts_with("interface \"no-such-if0\" not found"));
}
