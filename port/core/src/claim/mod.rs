//! Claims: interfaces that are removed from the host's network stack, and restored.

mod former_settings;
mod proc;
mod sysctl;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{FsType, statfs};
use onbeat_host::PrivateDirectory;
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Ethtool, Handle, InterfaceIdentity, Namespace, check_name};

use self::former_settings::FormerSettings;
pub(crate) use self::former_settings::check_rx_filter;
use crate::journal::{Journal, JournalEntry, not_identified};
use crate::{Error, Result};

/// An interface reserved for this process.
///
/// It is in a network namespace of its own, up, without addresses, ARP or IPv6: the host neither routes over it nor
/// sends on it. A port is opened in [`Claim::namespace`].
///
/// [`Claim::release`], and dropping the claim, restores the interface and everything that the move changes: state,
/// ARP, addresses, its settings under /proc/sys/net, and its NIC time stamps. The claim is refused if the interface
/// has state that cannot be restored (a configured route, membership in a bridge, a queueing discipline) or an XDP
/// program. An address with a lifetime is restored without it; an advertised address returns with the router's next
/// advertisement.
///
/// **After `kill -9`** the interface stays in its namespace, which a mount keeps, with a journal that was written
/// before any change. The next claim of the interface restores everything first; [`Claim::recover`] does only that.
/// Other programs access the namespace by the same mount: `nsenter --net=/run/onbeat/claims/eth0.net tcpdump -i
/// eth0`.
#[derive(Debug)]
pub struct Claim {
    interface: String,
    namespace: Namespace,
    /// `None` once restored.
    restoration: Option<Restoration>,
}

/// The data required to restore an interface.
#[derive(Debug)]
struct Restoration {
    home: Handle,
    entry: JournalEntry<FormerSettings>,
    journal: Journal<FormerSettings>,
}

/// File system type of a namespace's file (linux/magic.h).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

impl Claim {
    /// Default directory of the journals and mounts of claims.
    pub const DIRECTORY: &str = onbeat_host::run_directory!("claims");

    /// Moves an interface out of the namespace `home`. If a killed process left an earlier claim, it is restored
    /// first.
    ///
    /// # Errors
    /// [`Error::Claimed`] by a living process; [`Error::InUse`]; a refusal of the kernel, which leaves the
    /// interface unchanged.
    pub fn take(home: &Namespace, interface: &str, directory: &Path) -> Result<Self> {
        check_name(interface)?;
        let journal = Journal::lock(directory, interface)?;
        let home = Handle::in_namespace(home)?;
        if let Some(entry) = journal.left()? {
            restore_interface(&home, interface, &entry, journal.directory())?;
        }
        let claim = FormerSettings::read(&home, interface)
            .and_then(|before| Ok((before, Namespace::new()?)))
            .and_then(|(before, namespace)| {
                let interface = InterfaceIdentity::of(&home, &home.link(interface)?)?;
                let entry = JournalEntry { interface, before };
                journal.write(&entry)?;
                Ok((entry, namespace))
            });
        let (entry, namespace) = match claim {
            Ok(found) => found,
            Err(error) => {
                journal.remove()?;
                return Err(error);
            }
        };
        // From here on, dropping restores.
        let restoration = Restoration { home, entry, journal };
        let claim =
            Self { interface: interface.to_owned(), namespace, restoration: Some(restoration) };
        claim.isolate()?;
        Ok(claim)
    }

    /// Restores the settings that a killed process changed; returns false if there was nothing.
    ///
    /// # Errors
    /// [`Error::Claimed`] by a living process; a refusal of the kernel.
    pub fn recover(home: &Namespace, interface: &str, directory: &Path) -> Result<bool> {
        check_name(interface)?;
        let journal = Journal::lock(directory, interface)?;
        let left = journal.left()?;
        if let Some(entry) = &left {
            let home = Handle::in_namespace(home)?;
            restore_interface(&home, interface, entry, journal.directory())?;
        }
        journal.remove()?;
        Ok(left.is_some())
    }

    /// Discards damaged journals of claims in a directory: moves them aside, and returns their new paths. Nothing
    /// is restored: to move back an interface that is still in the namespace of its claim, use `nsenter
    /// --net=DIRECTORY/IFACE.net ip link set IFACE netns 1`.
    ///
    /// # Errors
    /// Other users can write to the directory; a refusal of the kernel.
    pub fn discard_damaged(directory: &Path) -> Result<Vec<PathBuf>> {
        Journal::<FormerSettings>::discard_damaged(directory)
    }

    /// The interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The namespace of the interface.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Enables NIC time stamps for all frames that the NIC can stamp, until the interface is released; applies to
    /// ports opened afterwards. Returns the frames that it stamps.
    ///
    /// Not enabled by default: a frame that the NIC fails to stamp stays unconfirmed.
    ///
    /// # Errors
    /// [`onbeat_netdev::Error::Unsupported`] if the NIC can stamp none; the driver's refusal.
    pub fn stamp_by_hardware(&self) -> Result<HardwareStamps> {
        let ethtool = Ethtool::in_namespace(&self.namespace)?;
        let can = ethtool.timestamping(&self.interface)?;
        let rx_filter = if can.rx_all { HardwareStamps::ALL } else { HardwareStamps::NONE };
        let stamps = HardwareStamps { tx: can.tx_hardware, rx_filter };
        if stamps == HardwareStamps::default() {
            return Err(Error::Netdev(onbeat_netdev::Error::Unsupported {
                what: format!(
                    "hardware time stamps of every frame of interface {:?}",
                    self.interface
                ),
                remedy: "use a NIC for which ethtool -T shows hardware-transmit".into(),
            }));
        }
        Ok(ethtool.set_hardware_stamps(&self.interface, stamps)?)
    }

    /// Releases and restores the interface. Open ports on it receive nothing any more.
    ///
    /// # Errors
    /// A refusal of the kernel; the next claim tries again.
    pub fn release(mut self) -> Result<()> {
        self.end()
    }

    fn isolate(&self) -> Result<()> {
        let Some(Restoration { home, journal, .. }) = &self.restoration else { return Ok(()) };
        let name = &self.interface;
        hold(&self.namespace, journal.directory(), name)?;
        // First, as the interface adopts these settings when it arrives.
        self.namespace.run(|| {
            for scope in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
                match fs::write(&path, "1") {
                    // A kernel without IPv6.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result.map_err(failed(Path::new(&path), "turn IPv6 off"))?,
                }
            }
            Ok::<_, Error>(())
        })??;
        home.set_down(name)?;
        home.set_arp(name, false)?;
        home.move_to(name, &self.namespace)?;
        Handle::in_namespace(&self.namespace)?.set_up(name)?;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(Restoration { home, entry, journal }) = self.restoration.take() else {
            return Ok(());
        };
        restore_interface(&home, &self.interface, &entry, journal.directory())?;
        journal.remove()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(
                "interface {:?} is not restored: {error}; the next claim tries again",
                self.interface
            );
        }
    }
}

/// Returns the name of the file to which the namespace of a claim is mounted.
fn mount_name(interface: &str) -> String {
    format!("{interface}.net")
}

/// Keeps a namespace alive by a mount, as `ip netns` does.
fn hold(namespace: &Namespace, directory: &PrivateDirectory, interface: &str) -> Result<()> {
    let name = mount_name(interface);
    directory.make_file(&name)?;
    let (none, source) = (None::<&str>, namespace.path());
    mount(Some(&source), &directory.through_descriptor(&name), none, MsFlags::MS_BIND, none)
        .map_err(|errno| failed(&directory.file(&name), "mount the namespace")(errno.into()))
}

/// Restores an interface from any stage of a claim.
fn restore_interface(
    home: &Handle,
    interface: &str,
    entry: &JournalEntry<FormerSettings>,
    directory: &PrivateDirectory,
) -> Result<()> {
    let refused = |error: onbeat_netdev::Error| {
        not_identified(error.into(), &Journal::<FormerSettings>::path(directory.path(), interface))
    };
    entry.interface.check_namespace(home).map_err(refused)?;
    let name = mount_name(interface);
    let mount = directory.through_descriptor(&name);
    // A path that is not a namespace: the claim was interrupted before the mount, or was unmounted.
    let is_namespace = statfs(&mount).is_ok_and(|fs| fs.filesystem_type() == NSFS_MAGIC);
    let mut link = None;
    if is_namespace {
        let inside = Handle::in_namespace(&Namespace::from_path(&mount)?)?;
        let links = inside.links()?;
        // The namespace belongs to this claim: the name identifies the interface.
        let of_name = links.iter().find(|link| link.name == interface).cloned();
        if let Some(found) = of_name.or_else(|| entry.interface.find_device(links)) {
            inside.set_down(&found.name)?;
            inside.move_to(&found.name, home.namespace())?;
            link = Some(home.link(&found.name)?);
        }
    }
    if link.is_none() {
        // A move may have changed its index.
        link = entry.interface.find_device(home.links()?);
    }
    if link.is_none() {
        link = entry.interface.find(home).map_err(refused)?;
    }
    match link.map_or(Ok(()), |link| entry.before.restore(home, interface, &link.name)) {
        // Removed for good: a USB adapter that was unplugged, a veth pair that was deleted.
        Err(Error::Netdev(error)) if error.is_not_found() => {}
        result => result?,
    }
    match umount2(&mount, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(errno) => {
            let path = directory.file(&name);
            return Err(failed(&path, "unmount the namespace")(errno.into()));
        }
    }
    Ok(directory.remove(&name)?)
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Claim { path: path.clone(), operation, source }
}
