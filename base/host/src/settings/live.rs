//! The settings of this host: files below a root, ethtool, threads.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use onbeat_netdev::{Error as Netdev, Ethtool, Handle, InterfaceIdentity, Namespace, napi};

use super::file_writes::FileWrites;
use super::live_survey::modes_of;
use super::manager::{MANAGED, UNMANAGED};
use super::value::{Fields, is_merging, list, modes, words};
use super::{Host, Manager, NapiThread, Refusal, SettingLocation, Survey, Tuning};
use onbeat_realtime::CpuSet;
use onbeat_realtime::scheduling::{ThreadPolicy, affinity, set_affinity};

use super::Result;

/// Longest time in which a network manager follows its files.
const MANAGER_TIME: Duration = Duration::from_secs(10);

type SettingResult<T> = std::result::Result<T, Refusal>;

/// This host and the interfaces of a network namespace, or a host simulated by files.
#[derive(Debug)]
pub struct LiveHost {
    pub(super) root: PathBuf,
    /// `None` for a host simulated by files: its thread ids do not belong to this host.
    pub(super) devices: Option<Devices>,
    /// Files that stay open, by their paths.
    open: HashMap<String, File>,
    writes: Option<FileWrites>,
}

/// The interfaces of a network namespace.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) handle: Handle,
    pub(super) ethtool: Ethtool,
    /// `None`: the kernel does not report NAPI instances.
    napi: Option<napi::Instances>,
}

impl LiveHost {
    /// Runs `f` with this host and the interfaces of the calling thread's network namespace, on a thread with
    /// a /sys for that namespace: sysfs shows the namespace that it was mounted in.
    ///
    /// # Errors
    /// The caller is not root.
    pub fn run<T: Send>(f: impl FnOnce(&mut LiveHost) -> T + Send) -> Result<T> {
        let namespace = Namespace::current()?;
        namespace.run_with_sysfs(|| {
            let handle = Handle::open()?;
            let (ethtool, napi) = (Ethtool::open()?, napi::Instances::open(&handle)?);
            let devices = Some(Devices { handle, ethtool, napi });
            Ok(f(&mut LiveHost { devices, ..LiveHost::below("/") }))
        })?
    }

    /// Creates a host simulated by files below a directory, without ethtool and threads.
    pub fn below(root: impl Into<PathBuf>) -> LiveHost {
        let writes = FileWrites::new().ok();
        LiveHost { root: root.into(), devices: None, open: HashMap::new(), writes }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the trimmed text of a file; `None`: it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    fn devices(&self) -> SettingResult<&Devices> {
        self.devices.as_ref().ok_or_else(|| Refusal::Unsupported("the host has no devices".into()))
    }

    /// Checks that the thread with this id still has this name.
    fn check_thread(&self, pid: i32, name: &str) -> SettingResult<()> {
        self.devices()?;
        let there = self.text(&format!("/proc/{pid}/comm"));
        if there.as_deref() == Some(name) { Ok(()) } else { Err(Refusal::Gone) }
    }

    fn read_file(&self, path: &str) -> SettingResult<String> {
        let text =
            fs::read_to_string(self.path(path)).map_err(|error| file(path, "read", error))?;
        Ok(text.trim().to_owned())
    }

    fn write_file(&self, path: &str, value: &str) -> SettingResult<()> {
        let operation = format!("write {value} to");
        fs::write(self.path(path), value).map_err(|error| file(path, &operation, error))
    }

    /// A missing interface may be in another namespace and come back: it is not removed for good.
    fn check_interface(&self, interface: &str) -> SettingResult<()> {
        if self.path(&format!("/sys/class/net/{interface}")).exists() {
            return Ok(());
        }
        Err(Refusal::Failed(format!(
            "interface {interface:?} not found; make it available again, or discard its settings with --forget"
        )))
    }

    /// Writes the file that excludes an interface, and waits until the manager follows it.
    fn exclude(&self, manager: Manager, interface: &str) -> SettingResult<()> {
        let path = manager.file(interface);
        let failed = |error| file(&path, "write", error);
        let target = self.path(&path);
        create_readable(target.parent().unwrap_or(&self.root)).map_err(failed)?;
        let new = target.with_extension("new");
        let text = manager.lines(interface).join("\n") + "\n";
        fs::write(&new, text).map_err(failed)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).map_err(failed)?;
        fs::rename(&new, &target).map_err(failed)?;
        let followed =
            self.reload(manager).and_then(|()| self.wait_for(manager, interface, UNMANAGED));
        if followed.is_err() {
            let _ = fs::remove_file(&target);
            let _ = self.reload(manager);
        }
        followed
    }

    /// Removes the file, whatever became of the manager and the interface, and waits until the manager manages it again.
    fn include(&self, manager: Manager, interface: &str) -> SettingResult<()> {
        let path = manager.file(interface);
        match fs::remove_file(self.path(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file(&path, "remove", error));
            }
            _ => {}
        }
        if self.devices.is_some() && !manager.runs(&self.root) {
            return Err(Refusal::Gone);
        }
        self.reload(manager)?;
        let is_permanent = self.path(&manager.permanent_file(interface)).exists();
        if is_permanent || self.managed(manager, interface).is_none() {
            return Err(Refusal::Gone);
        }
        self.wait_for(manager, interface, MANAGED)
    }

    /// Makes a manager read its files.
    fn reload(&self, manager: Manager) -> SettingResult<()> {
        if self.devices.is_none() {
            return Ok(());
        }
        let [program, arguments @ ..] = manager.reload() else { return Ok(()) };
        let output = Command::new(program).args(arguments).env_clear().output();
        let output = output.map_err(|error| {
            Refusal::Failed(format!("cannot run {program}: {error}; restart {manager} yourself"))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        Err(Refusal::Failed(format!("{} failed: {}", manager.reload().join(" "), reason.trim())))
    }

    fn wait_for(&self, manager: Manager, interface: &str, wanted: &str) -> SettingResult<()> {
        let deadline = Instant::now() + MANAGER_TIME;
        let now = || self.managed(manager, interface).unwrap_or(UNMANAGED);
        while self.devices.is_some() && now() != wanted {
            if Instant::now() > deadline {
                return Err(Refusal::Failed(format!(
                    "{manager} does not report {interface} as {wanted} after {} s; another of its files may decide; see: {}",
                    MANAGER_TIME.as_secs(),
                    SettingLocation::Manager { manager, interface: interface.to_owned() }
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn write_offloads(&self, interface: &str, value: &str) -> SettingResult<()> {
        let ethtool = &self.devices()?.ethtool;
        let on = words(value);
        let features = ethtool.features(interface).map_err(netdev)?;
        let settings: Vec<(&str, bool)> = features
            .iter()
            .filter(|feature| feature.changeable && is_merging(&feature.name))
            .map(|feature| (feature, on.contains(feature.name.as_str())))
            .filter(|(feature, on)| feature.active != *on)
            .map(|(feature, on)| (feature.name.as_str(), on))
            .collect();
        ethtool.set_features(interface, &settings).map(drop).map_err(netdev)
    }
}

impl Host for LiveHost {
    fn survey(&mut self, tuning: &Tuning) -> Result<Survey> {
        self.survey_of(tuning)
    }

    fn napi_threads(&mut self, interface: &str) -> Result<Vec<NapiThread>> {
        match &self.devices {
            Some(devices) => Ok(self.threads(&devices.instances(interface)?, interface)),
            None => Ok(Vec::new()),
        }
    }

    fn read(&mut self, place: &SettingLocation) -> SettingResult<String> {
        match place {
            SettingLocation::File { path } => self.read_file(path),
            SettingLocation::Irq { irq } => self.read_file(&affinity_file(*irq)),
            SettingLocation::Threaded { interface }
            | SettingLocation::SteeringCpus { interface, .. }
            | SettingLocation::SteeringFlows { interface, .. } => {
                self.check_interface(interface)?;
                self.read_file(&place.to_string())
            }
            SettingLocation::NapiModes { interface } => {
                let instances = self.devices()?.instances(interface).map_err(netdev)?;
                Ok(instances.as_deref().and_then(modes_of).unwrap_or_default())
            }
            SettingLocation::Offloads { interface } => {
                self.devices()?.offloads(interface).map_err(netdev)
            }
            SettingLocation::Coalescing { interface } => {
                self.devices()?.ethtool.coalescing(interface).map(Fields::text).map_err(netdev)
            }
            SettingLocation::EnergyEfficient { interface } => self
                .devices()?
                .ethtool
                .energy_efficient(interface)
                .map(Fields::text)
                .map_err(netdev),
            SettingLocation::ThreadPolicy { pid, name, .. } => {
                self.check_thread(*pid, name)?;
                let policy = ThreadPolicy::of(*pid).map_err(thread)?;
                policy.text().ok_or_else(|| Refusal::Failed(format!("{name} has another policy")))
            }
            SettingLocation::ThreadCpus { pid, name, .. } => {
                self.check_thread(*pid, name)?;
                affinity(*pid).map(|cpus| cpus.to_string()).map_err(thread)
            }
            // A file that a killed process left counts, also before the manager has read it.
            SettingLocation::Manager { manager, interface } => {
                let is_excluded = self.path(&manager.file(interface)).exists();
                let managed = self.managed(*manager, interface).filter(|_| !is_excluded);
                Ok(managed.unwrap_or(UNMANAGED).to_owned())
            }
        }
    }

    fn reread(&mut self, place: &SettingLocation) -> SettingResult<String> {
        let path = match place {
            SettingLocation::Irq { .. }
            | SettingLocation::Threaded { .. }
            | SettingLocation::SteeringCpus { .. }
            | SettingLocation::SteeringFlows { .. } => place.to_string(),
            _ => return self.read(place),
        };
        let failed = |error| file(&path, "read", error);
        if !self.open.contains_key(&path) {
            let file = File::open(self.path(&path)).map_err(failed)?;
            self.writes.iter().for_each(|writes| writes.watch(&self.path(&path)));
            self.open.insert(path.clone(), file);
        }
        // Masks and lists of CPUs: a page holds those of every host.
        let mut octets = [0; 4096];
        match self.open[&path].read_at(&mut octets, 0) {
            Ok(length) => Ok(String::from_utf8_lossy(&octets[..length]).trim().to_owned()),
            // The interface was removed; another one may have its name.
            Err(error) => {
                self.open.remove(&path);
                Err(failed(error))
            }
        }
    }

    fn writes(&self) -> Option<BorrowedFd<'_>> {
        self.writes.as_ref().map(FileWrites::descriptor)
    }

    fn take_writes(&mut self) -> bool {
        self.writes.as_ref().is_some_and(FileWrites::take)
    }

    fn write(&mut self, place: &SettingLocation, value: &str) -> SettingResult<()> {
        let malformed = || Refusal::Failed(format!("{value:?} is not a valid value of {place}"));
        match place {
            SettingLocation::File { path } => self.write_file(path, value),
            SettingLocation::Irq { irq } => self.write_file(&affinity_file(*irq), value),
            SettingLocation::Threaded { interface }
            | SettingLocation::SteeringCpus { interface, .. }
            | SettingLocation::SteeringFlows { interface, .. } => {
                self.check_interface(interface)?;
                self.write_file(&place.to_string(), value)
            }
            SettingLocation::NapiModes { interface } => {
                self.devices()?.set_modes(interface, &modes(value)).map_err(netdev)
            }
            SettingLocation::Offloads { interface } => self.write_offloads(interface, value),
            SettingLocation::Coalescing { interface } => {
                let ethtool = &self.devices()?.ethtool;
                let mut coalescing = ethtool.coalescing(interface).map_err(netdev)?;
                coalescing.set(value).ok_or_else(malformed)?;
                ethtool.set_coalescing(interface, &coalescing).map_err(netdev_value)
            }
            SettingLocation::EnergyEfficient { interface } => {
                let ethtool = &self.devices()?.ethtool;
                let mut eee = ethtool.energy_efficient(interface).map_err(netdev)?;
                eee.set(value).ok_or_else(malformed)?;
                ethtool.set_energy_efficient(interface, &eee).map_err(netdev_value)
            }
            SettingLocation::ThreadPolicy { pid, name, .. } => {
                self.check_thread(*pid, name)?;
                ThreadPolicy::parse(value).ok_or_else(malformed)?.set(*pid).map_err(thread)
            }
            SettingLocation::ThreadCpus { pid, name, .. } => {
                self.check_thread(*pid, name)?;
                let cpus: CpuSet = value.parse().map_err(|_| malformed())?;
                set_affinity(*pid, &cpus).map_err(thread)
            }
            SettingLocation::Manager { manager, interface } => match value {
                UNMANAGED => self.exclude(*manager, interface),
                MANAGED => self.include(*manager, interface),
                _ => Err(malformed()),
            },
        }
    }

    fn identify(&self, interface: &str) -> SettingResult<InterfaceIdentity> {
        let Devices { handle, .. } = self.devices()?;
        let link = handle.link(interface).map_err(netdev)?;
        InterfaceIdentity::of(handle, &link).map_err(netdev)
    }

    fn find(&self, identity: &InterfaceIdentity) -> SettingResult<Option<String>> {
        let found = identity.find(&self.devices()?.handle).map_err(netdev)?;
        Ok(found.map(|link| link.name))
    }
}

impl Devices {
    /// Returns the NAPI instances of an interface; `None`: the kernel does not report them.
    pub(super) fn instances(
        &self,
        interface: &str,
    ) -> onbeat_netdev::Result<Option<Vec<napi::Instance>>> {
        let index = self.handle.index(interface)?;
        self.napi.as_ref().map_or(Ok(None), |napi| napi.of(index, interface))
    }

    /// Sets the modes of the NAPI instances that still exist and have another one.
    fn set_modes(&self, interface: &str, modes: &BTreeMap<u32, u32>) -> onbeat_netdev::Result<()> {
        let Some(napi) = &self.napi else { return Ok(()) };
        for instance in self.instances(interface)?.unwrap_or_default() {
            let mode = modes.get(&instance.id).filter(|mode| instance.threaded != Some(**mode));
            if let Some(mode) = mode {
                napi.set_threaded(instance.id, *mode, interface)?;
            }
        }
        Ok(())
    }

    /// Returns the merging offloads that are on and can be turned off.
    pub(super) fn offloads(&self, interface: &str) -> onbeat_netdev::Result<String> {
        let features = self.ethtool.features(interface)?;
        let on = features
            .iter()
            .filter(|feature| feature.active && feature.changeable && is_merging(&feature.name));
        Ok(list(on.map(|feature| feature.name.as_str())))
    }
}

/// Creates directories that every user can read: a manager runs as a user of its own.
fn create_readable(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    directory.parent().map_or(Ok(()), create_readable)?;
    fs::create_dir(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

pub(super) fn affinity_file(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

fn file(path: &str, operation: &str, error: io::Error) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => Refusal::Gone,
        Some(Errno::EOPNOTSUPP) => {
            Refusal::Unsupported(format!("{path}: not supported by the device"))
        }
        Some(Errno::EPERM | Errno::EACCES) => {
            Refusal::Failed(format!("cannot {operation} {path}: {error}; run it as root"))
        }
        Some(Errno::EROFS) => Refusal::Failed(format!(
            "cannot {operation} {path}: {error}; run it on the host, not in a container"
        )),
        // An interrupt whose CPUs the kernel manages returns this error.
        Some(Errno::EIO) => Refusal::Unsupported(format!(
            "cannot {operation} {path}: {error}; the kernel manages it (boot with irqaffinity= or \
             isolcpus=managed_irq)"
        )),
        _ => Refusal::Failed(format!("cannot {operation} {path}: {error}")),
    }
}

fn thread(errno: Errno) -> Refusal {
    match errno {
        Errno::ESRCH => Refusal::Gone,
        Errno::EPERM => {
            Refusal::Failed(format!("{errno}; CAP_SYS_NICE is required: run it as root"))
        }
        _ => Refusal::Failed(errno.to_string()),
    }
}

fn netdev(error: Netdev) -> Refusal {
    match error {
        Netdev::Unsupported { .. } => Refusal::Unsupported(error.to_string()),
        Netdev::NotFound { .. } => Refusal::Failed(format!(
            "{error}; make it available again, or discard its settings with --forget"
        )),
        Netdev::NotIdentified { .. } => {
            Refusal::Failed(format!("{error}, or discard them with --forget"))
        }
        _ => Refusal::Failed(error.to_string()),
    }
}

/// Converts an error like [`netdev`], for a value: the valid values depend on the driver and cannot be
/// queried.
fn netdev_value(error: Netdev) -> Refusal {
    match error.errno() {
        Some(Errno::EINVAL | Errno::ERANGE | Errno::EOPNOTSUPP) => {
            Refusal::Unsupported(error.to_string())
        }
        _ => netdev(error),
    }
}
