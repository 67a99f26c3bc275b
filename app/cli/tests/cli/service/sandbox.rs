//! A process with the capabilities, limits and devices of a unit.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd};

use onbeat_testing::TemporaryDirectory;

use crate::common::program;

/// Longest wait for readiness.
const BOUND: Duration = Duration::from_secs(60);

/// The restrictions of a unit, except those of system calls and of /run.
pub(super) struct Sandbox {
    pub(super) capabilities: BTreeSet<String>,
    /// `LimitMEMLOCK`, `LimitRTPRIO`; `None`: the default of systemd.
    pub(super) memory_limit: Option<String>,
    pub(super) priority_limit: Option<String>,
    /// Devices beside those that `PrivateDevices` leaves.
    pub(super) devices: Vec<PathBuf>,
    /// `ReadOnlyPaths`, and `ReadWritePaths` with true.
    pub(super) paths: Vec<(PathBuf, bool)>,
}

/// Two interfaces, whose other ends are in another namespace.
pub(super) struct Network {
    node: Namespace,
    _neighbor: Namespace,
}

impl Network {
    pub(super) fn new() -> Network {
        let [node, neighbor] = [(); 2].map(|()| Namespace::new().expect("a network namespace"));
        let handle = Handle::in_namespace(&node).unwrap();
        let opposite = Handle::in_namespace(&neighbor).unwrap();
        for name in ["talker", "path1"] {
            let end = VethEnd::new(name);
            handle.create_veth(&end, &VethEnd::new(name).namespace(&neighbor)).unwrap();
            opposite.set_up(name).unwrap();
            handle.set_up(name).unwrap();
        }
        // Without GRO a veth has no NAPI thread for a guard to schedule.
        let gro = || Ethtool::open()?.set_features("path1", &[("rx-gro", true)]);
        node.run(gro).unwrap().unwrap();
        Network { node, _neighbor: neighbor }
    }
}

/// A service that was started.
pub(super) struct Service {
    process: Child,
    manager: UnixDatagram,
    log: PathBuf,
}

/// Exit of a service that was not ready.
#[derive(Debug)]
pub(super) struct ServiceExit {
    pub(super) code: Option<i32>,
    pub(super) err: String,
}

impl Service {
    /// Starts `onbeat run FILE` in a sandbox, with a service manager that waits for it.
    pub(super) fn start(
        network: &Network,
        sandbox: &Sandbox,
        file: &Path,
        directory: &TemporaryDirectory,
    ) -> Service {
        let socket = directory.file("notify");
        let manager = UnixDatagram::bind(&socket).expect("a socket for the service manager");
        manager.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let log = directory.file("log");
        let mut command = sandbox.command();
        command.arg(program()).arg("run").arg(file);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&log).unwrap());
        // /sys shows the namespace, as it does for a service of a host. The mounts are those of the thread.
        let spawn = || {
            let bind = |from: &Path, to: &Path| {
                mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
            };
            let none = None::<&str>;
            mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), none).unwrap();
            let devices = directory.file("dev");
            fs::create_dir_all(&devices).unwrap();
            let pseudo = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"].map(Path::new);
            for device in pseudo.into_iter().chain(sandbox.devices.iter().map(PathBuf::as_path)) {
                let target = devices.join(device.file_name().unwrap());
                fs::write(&target, "").unwrap();
                bind(device, &target);
            }
            // With those mounted in it.
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&devices), "/dev", none, flags, none).unwrap();
            let mut paths: Vec<_> =
                sandbox.paths.iter().filter(|(path, _)| path.exists()).collect();
            // A path precedes the paths below it, which keep their own flags.
            paths.sort();
            for (path, _) in &paths {
                mount(Some(path), path, none, flags, none).unwrap();
            }
            for (path, writable) in &paths {
                let access = if *writable { MsFlags::empty() } else { MsFlags::MS_RDONLY };
                let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | access;
                mount(none, path, none, flags, none).unwrap();
            }
            command.spawn().expect("setpriv starts")
        };
        let process = network.node.run_with_sysfs(spawn).unwrap();
        Service { process, manager, log }
    }

    /// Waits until it is ready, then stops it with its data plane.
    pub(super) fn ready_then_stop(mut self) -> Result<(), ServiceExit> {
        let deadline = Instant::now() + BOUND;
        let mut text = [0; 4096];
        loop {
            let received = self.manager.recv(&mut text).unwrap_or(0);
            if text[..received].starts_with(b"READY=1") {
                kill(Pid::from_raw(self.process.id() as i32), Signal::SIGINT).unwrap();
                let status = self.process.wait().expect("its exit status");
                assert!(status.success(), "{status}: {}", self.log());
                return Ok(());
            }
            if let Some(status) = self.process.try_wait().expect("its exit status") {
                return Err(ServiceExit { code: status.code(), err: self.log() });
            }
            assert!(Instant::now() < deadline, "not within {BOUND:?}: {}", self.log());
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sandbox {
    /// `prlimit LIMITS setpriv CAPABILITIES`, to be followed by the program and its arguments.
    fn command(&self) -> Command {
        // As systemd has them by default.
        let (memory, priority) = ("8388608", "0");
        let mut capabilities = self.capabilities.clone();
        let mut limit = |set: &Option<String>, default: &str, equivalent: &str| match set {
            None => default.to_owned(),
            Some(value) if has_capability(CAP_SYS_RESOURCE) => {
                value.replace("infinity", "unlimited")
            }
            // The root of some containers may raise no limit. The kernel requires the limit or the
            // capability.
            Some(_) => {
                eprintln!("limits cannot be raised (CAP_SYS_RESOURCE): {equivalent} instead");
                capabilities.insert(equivalent.to_owned());
                default.to_owned()
            }
        };
        let memory = limit(&self.memory_limit, memory, "CAP_IPC_LOCK");
        let priority = limit(&self.priority_limit, priority, "CAP_SYS_NICE");
        let bounding = capabilities.iter().map(|name| {
            format!(
                ",+{}",
                name.strip_prefix("CAP_").expect("the name of a capability").to_lowercase()
            )
        });
        let mut command = Command::new("prlimit");
        command.args([
            format!("--memlock={memory}:{memory}"),
            format!("--rtprio={priority}:{priority}"),
        ]);
        command.args(["--", "setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set"]);
        command.arg(format!("-all{}", bounding.collect::<String>())).arg("--");
        command
    }
}

/// Number of the capability to raise limits (capabilities(7)).
const CAP_SYS_RESOURCE: u32 = 24;

/// Whether this process has a capability.
fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & (1 << number) != 0)
}
