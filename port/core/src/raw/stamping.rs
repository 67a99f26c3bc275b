//! NIC time stamps of every received frame, while a capture runs.
//!
//! The former setting is written to a journal before it is changed: after `kill -9` the next capture on the
//! interface restores it first.

use std::path::{Path, PathBuf};

use onbeat_host::PrivateDirectory;
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Ethtool, Handle, InterfaceIdentity, Namespace};
use serde::{Deserialize, Serialize};

use crate::claim::check_rx_filter;
use crate::journal::{Journal, JournalEntry, Settings, not_identified};
use crate::{Error, Result};

/// NIC time stamps of every received frame, until this is dropped: then the former setting is restored.
///
/// Only one capture at a time can use NIC time stamps; a [`CaptureSocket`](super::CaptureSocket) can be that one. After
/// `kill -9` the next one on the interface restores the former setting first.
#[derive(Debug)]
pub struct NicStamps {
    _stamping: Stamping<LiveNic>,
    clock: Option<u32>,
}

impl NicStamps {
    /// Enables the NIC time stamps of an interface of `namespace`; `directory` holds the journals
    /// ([`CaptureSocket::DIRECTORY`](super::CaptureSocket::DIRECTORY)).
    ///
    /// # Errors
    /// [`onbeat_netdev::Error::Unsupported`] if the NIC cannot stamp every frame, or another process uses its
    /// stamps; CAP_NET_ADMIN is missing, or the permission to write the journal.
    pub fn enable(namespace: &Namespace, interface: &str, directory: &Path) -> Result<Self> {
        let refuse = |what: String, remedy: &str| {
            let remedy = remedy.to_owned();
            Error::Netdev(onbeat_netdev::Error::Unsupported { what, remedy })
        };
        let cannot = || {
            refuse(
                format!("hardware time stamps of every frame received by interface {interface:?}"),
                "use a NIC for which ethtool -T shows hardware-receive and the receive filter \"all\"",
            )
        };
        let nic = LiveNic::open(namespace, interface)?;
        let can = nic.ethtool.timestamping(interface)?;
        if !(can.rx_hardware && can.rx_all) {
            return Err(cannot());
        }
        match Stamping::enable(nic, &JournalPath::of(directory, namespace, interface)) {
            Ok(Some(stamping)) => Ok(Self { _stamping: stamping, clock: can.phc }),
            Ok(None) => Err(cannot()),
            Err(Error::Claimed { by, .. }) => Err(refuse(
                format!(
                    "a second user of the NIC time stamps of interface {interface:?}, which {by} uses"
                ),
                "wait until it exits, or let the kernel stamp",
            )),
            Err(error) => Err(error),
        }
    }

    /// Restores the setting that a killed process left changed; returns false if there was none. The setting of a
    /// live process stays.
    ///
    /// # Errors
    /// The journal cannot be read, or the driver refuses.
    pub fn restore(namespace: &Namespace, interface: &str, directory: &Path) -> Result<bool> {
        restore_journaled(
            &LiveNic::open(namespace, interface)?,
            &JournalPath::of(directory, namespace, interface),
        )
    }

    /// Discards damaged journals in a directory of [`NicStamps::enable`]: moves them aside, and returns their new
    /// paths. Nothing is restored.
    ///
    /// # Errors
    /// Other users can write to the directory; a refusal of the kernel.
    pub fn discard_damaged(directory: &Path) -> Result<Vec<PathBuf>> {
        let mut aside = Vec::new();
        let Some(opened) = PrivateDirectory::open(directory)? else { return Ok(aside) };
        let names = opened.names()?.into_iter();
        for inode in names.filter(|name| name.bytes().all(|octet| octet.is_ascii_digit())) {
            aside.extend(Journal::<FormerStamps>::discard_damaged(&directory.join(inode))?);
        }
        Ok(aside)
    }

    /// The NIC's clock of the time stamps: the number N of /dev/ptpN, if the kernel knows it.
    #[must_use]
    pub fn clock(&self) -> Option<u32> {
        self.clock
    }
}

/// Configures which frames a NIC stamps.
trait Nic {
    fn stamps(&self) -> Result<HardwareStamps>;
    /// Returns the setting in effect, which may stamp more frames.
    fn set_stamps(&self, stamps: HardwareStamps) -> Result<HardwareStamps>;
    /// The identity of its interface, for the journal.
    fn identify(&self) -> Result<InterfaceIdentity>;
    /// The NIC of the interface that a journal names; `None` where it no longer exists.
    fn find(&self, interface: &InterfaceIdentity) -> Result<Option<Self>>
    where
        Self: Sized;
}

/// The NIC of an interface.
#[derive(Debug)]
struct LiveNic {
    ethtool: Ethtool,
    handle: Handle,
    interface: String,
}

impl LiveNic {
    fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        let ethtool = Ethtool::in_namespace(namespace)?;
        let handle = Handle::in_namespace(namespace)?;
        Ok(Self { ethtool, handle, interface: interface.to_owned() })
    }
}

impl Nic for LiveNic {
    fn stamps(&self) -> Result<HardwareStamps> {
        Ok(self.ethtool.hardware_stamps(&self.interface)?)
    }

    fn set_stamps(&self, stamps: HardwareStamps) -> Result<HardwareStamps> {
        Ok(self.ethtool.set_hardware_stamps(&self.interface, stamps)?)
    }

    fn identify(&self) -> Result<InterfaceIdentity> {
        Ok(InterfaceIdentity::of(&self.handle, &self.handle.link(&self.interface)?)?)
    }

    fn find(&self, interface: &InterfaceIdentity) -> Result<Option<Self>> {
        let link = interface.find(&self.handle)?;
        link.map(|link| Self::open(self.handle.namespace(), &link.name)).transpose()
    }
}

/// Path of an interface's journal.
#[derive(Debug, Clone)]
struct JournalPath {
    directory: PathBuf,
    interface: String,
}

impl JournalPath {
    /// Each namespace has a directory of its own, as names are unique only within one.
    fn of(directory: &Path, namespace: &Namespace, interface: &str) -> Self {
        let directory = directory.join(namespace.inode().to_string());
        Self { directory, interface: interface.to_owned() }
    }

    fn lock(&self) -> Result<Journal<FormerStamps>> {
        Journal::lock(&self.directory, &self.interface)
    }

    /// Returns true if a process changed the NIC and has not restored it. Requires no write permission, which a
    /// capture without NIC time stamps may lack.
    fn is_there(&self) -> bool {
        Journal::<FormerStamps>::path(&self.directory, &self.interface).exists()
    }
}

/// [`HardwareStamps`] in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FormerStamps {
    tx: bool,
    rx_filter: i32,
}

impl Settings for FormerStamps {
    fn check(&self, _interface: &str) -> std::result::Result<(), String> {
        check_rx_filter(self.rx_filter)
    }
}

/// As [`NicStamps::restore`].
fn restore_journaled(nic: &impl Nic, place: &JournalPath) -> Result<bool> {
    if !place.is_there() {
        return Ok(false);
    }
    let journal = match place.lock() {
        Err(Error::Claimed { .. }) => return Ok(false),
        journal => journal?,
    };
    let left = journal.left()?;
    if let Some(entry) = &left {
        let journal = Journal::<FormerStamps>::path(&place.directory, &place.interface);
        let found = nic.find(&entry.interface).map_err(|error| not_identified(error, &journal))?;
        found.map_or(Ok(()), |nic| restore(&nic, entry.before))?;
    }
    journal.remove()?;
    Ok(left.is_some())
}

fn restore(nic: &impl Nic, before: FormerStamps) -> Result<()> {
    let before = HardwareStamps { tx: before.tx, rx_filter: before.rx_filter };
    if nic.stamps()? != before {
        nic.set_stamps(before)?;
    }
    Ok(())
}

/// NIC time stamps of every received frame, until this is dropped.
#[derive(Debug)]
struct Stamping<N: Nic> {
    nic: N,
    interface: String,
    /// `None` if they were enabled before, and once the former setting is restored.
    former: Option<(FormerStamps, Journal<FormerStamps>)>,
}

impl<N: Nic> Stamping<N> {
    /// Returns `None` if the NIC stamps other frames than it was configured to; its former setting is restored.
    fn enable(nic: N, place: &JournalPath) -> Result<Option<Self>> {
        let interface = place.interface.clone();
        restore_journaled(&nic, place)?;
        let now = nic.stamps()?;
        if now.rx_filter == HardwareStamps::ALL && !place.is_there() {
            return Ok(Some(Self { nic, interface, former: None }));
        }
        let journal = place.lock()?;
        let before = FormerStamps { tx: now.tx, rx_filter: now.rx_filter };
        journal.write(&JournalEntry { interface: nic.identify()?, before })?;
        let stamping = Self { nic, interface, former: Some((before, journal)) };
        let all = HardwareStamps { rx_filter: HardwareStamps::ALL, ..now };
        // From here on, dropping restores.
        let got = stamping.nic.set_stamps(all)?;
        Ok((got.rx_filter == HardwareStamps::ALL).then_some(stamping))
    }
}

impl<N: Nic> Drop for Stamping<N> {
    fn drop(&mut self) {
        let Some((before, journal)) = self.former.take() else { return };
        if let Err(error) = restore(&self.nic, before).and_then(|()| journal.remove()) {
            tracing::warn!(
                "interface {:?}: cannot restore the time stamps of its NIC: {error}; the next \
                 capture on it tries again",
                self.interface
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;

    const OFF: HardwareStamps = HardwareStamps { tx: false, rx_filter: 0 };
    /// As ptp4l configures it: only frames of PTP.
    const PTP: HardwareStamps = HardwareStamps { tx: true, rx_filter: 12 };
    const ALL: HardwareStamps = HardwareStamps { tx: true, rx_filter: 1 };

    /// A simulated NIC.
    #[derive(Debug)]
    struct FakeNic {
        now: Cell<HardwareStamps>,
        sets: Cell<usize>,
        /// The setting that it applies instead of all received frames.
        instead: Option<HardwareStamps>,
        refuses: Cell<bool>,
    }

    impl FakeNic {
        fn new(now: HardwareStamps) -> Self {
            let (sets, refuses) = (Cell::new(0), Cell::new(false));
            Self { now: Cell::new(now), sets, instead: None, refuses }
        }
    }

    impl Nic for &FakeNic {
        fn stamps(&self) -> Result<HardwareStamps> {
            Ok(self.now.get())
        }

        fn set_stamps(&self, stamps: HardwareStamps) -> Result<HardwareStamps> {
            self.sets.set(self.sets.get() + 1);
            if self.refuses.get() {
                return Err(Error::Period);
            }
            let all = stamps.rx_filter == HardwareStamps::ALL;
            self.now.set(self.instead.filter(|_| all).unwrap_or(stamps));
            Ok(self.now.get())
        }

        fn identify(&self) -> Result<InterfaceIdentity> {
            Ok(InterfaceIdentity::former(7, "eth0"))
        }

        fn find(&self, interface: &InterfaceIdentity) -> Result<Option<Self>> {
            Ok(interface.is_same(&self.identify()?).then_some(*self))
        }
    }

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("onbeat-stamping-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn place(&self) -> JournalPath {
            JournalPath { directory: self.0.join("7"), interface: "eth0".into() }
        }

        fn is_empty(&self) -> bool {
            fs::read_dir(self.0.join("7")).map_or(true, |mut files| files.next().is_none())
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// As when the kernel kills a process: locks are released, files and the NIC's settings stay.
    fn kill(mut stamping: Stamping<&FakeNic>) {
        stamping.former = None;
    }

    #[test]
    fn dropping_restores_the_former_setting() {
        let (directory, nic) = (Directory::new("ends"), FakeNic::new(PTP));
        let stamping = Stamping::enable(&nic, &directory.place()).unwrap().unwrap();
        assert_eq!(nic.now.get(), ALL, "transmit stamps stay unchanged");
        assert!(!directory.is_empty());
        drop(stamping);
        assert_eq!(nic.now.get(), PTP);
        assert!(directory.is_empty());
    }

    #[test]
    fn the_next_capture_restores_after_a_kill() {
        let (directory, nic) = (Directory::new("killed"), FakeNic::new(PTP));
        for _ in 0..3 {
            // Each restores, and enables again.
            kill(Stamping::enable(&nic, &directory.place()).unwrap().unwrap());
            assert_eq!(nic.now.get(), ALL);
        }
        assert!(
            restore_journaled(&&nic, &directory.place()).unwrap(),
            "also with stamps of the kernel"
        );
        assert_eq!(nic.now.get(), PTP);
        assert!(directory.is_empty() && !restore_journaled(&&nic, &directory.place()).unwrap());
    }

    /// Between the journal and the NIC.
    #[test]
    fn a_kill_before_the_change_restores_nothing() {
        let (directory, nic) = (Directory::new("before"), FakeNic::new(PTP));
        kill(Stamping::enable(&nic, &directory.place()).unwrap().unwrap());
        nic.now.set(PTP);
        let sets = nic.sets.get();
        assert!(restore_journaled(&&nic, &directory.place()).unwrap());
        assert_eq!((nic.now.get(), nic.sets.get()), (PTP, sets), "no change required");
        assert!(directory.is_empty());
    }

    /// The journal is written atomically: a truncated one contains nothing about the NIC.
    #[test]
    fn a_damaged_journal_changes_nothing_until_it_is_removed() {
        let (directory, nic) = (Directory::new("damaged"), FakeNic::new(PTP));
        kill(Stamping::enable(&nic, &directory.place()).unwrap().unwrap());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let planted = format!(
            r#"{{"version":1,"boot":{:?},"content":{{"home":7,"before":{{"tx":true,"rx_filter":-1}}}}}}"#,
            boot.trim()
        );
        for text in ["", "{\"pid\": 1, \"ho", &planted] {
            fs::write(directory.0.join("7/eth0.json"), text).unwrap();
            for error in [
                restore_journaled(&&nic, &directory.place()).unwrap_err(),
                Stamping::enable(&nic, &directory.place()).unwrap_err(),
            ] {
                let error = error.to_string();
                assert!(
                    error.contains("eth0.json") && error.contains("remove the file"),
                    "{error}"
                );
            }
        }
        assert_eq!(nic.now.get(), ALL);
        let aside = NicStamps::discard_damaged(&directory.0).unwrap();
        assert_eq!(aside, [directory.0.join("7/eth0.json.damaged")]);
        fs::remove_file(&aside[0]).unwrap();
        assert!(!restore_journaled(&&nic, &directory.place()).unwrap());
        assert!(directory.is_empty());
    }

    #[test]
    fn a_nic_that_stamps_all_frames_stays_enabled() {
        let (directory, nic) = (Directory::new("all"), FakeNic::new(ALL));
        drop(Stamping::enable(&nic, &directory.place()).unwrap().unwrap());
        assert_eq!((nic.now.get(), nic.sets.get()), (ALL, 0));
        assert!(directory.is_empty());
    }

    #[test]
    fn a_second_user_is_refused() {
        let (directory, nic) = (Directory::new("two"), FakeNic::new(OFF));
        let first = Stamping::enable(&nic, &directory.place()).unwrap().unwrap();
        let second = Stamping::enable(&nic, &directory.place()).unwrap_err().to_string();
        assert!(second.contains(&format!("process {}", std::process::id())), "{second}");
        assert!(!restore_journaled(&&nic, &directory.place()).unwrap(), "it is in use");
        assert_eq!(nic.now.get().rx_filter, HardwareStamps::ALL);
        drop(first);
        assert_eq!(nic.now.get(), OFF);
    }

    #[test]
    fn a_refused_or_different_setting_is_restored() {
        let directory = Directory::new("else");
        let nic = FakeNic { instead: Some(PTP), ..FakeNic::new(OFF) };
        assert!(Stamping::enable(&nic, &directory.place()).unwrap().is_none());
        assert_eq!(nic.now.get(), OFF);
        assert!(directory.is_empty());
        let nic = FakeNic::new(OFF);
        nic.refuses.set(true);
        assert!(Stamping::enable(&nic, &directory.place()).is_err());
        assert_eq!(nic.now.get(), OFF);
        assert!(directory.is_empty());
        // The former setting stays in the journal until the NIC accepts it.
        nic.refuses.set(false);
        kill(Stamping::enable(&nic, &directory.place()).unwrap().unwrap());
        nic.refuses.set(true);
        assert!(restore_journaled(&&nic, &directory.place()).is_err());
        nic.refuses.set(false);
        assert!(restore_journaled(&&nic, &directory.place()).unwrap());
        assert_eq!(nic.now.get(), OFF);
    }
}
