//! The node as a systemd service: requirements of features beyond the unit `onbeat@.service`.
//!
//! Each drop-in of `packaging/systemd` grants the minimum that one feature requires. [`DROP_INS`] is their only
//! description in the programs; a test compares it with the files.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use onbeat_host::trust;
use onbeat_netdev::shell_word;
use onbeat_realtime::Profile;

use crate::config::{Backend, Config, NodeConfig};

/// Exit status of a service error that a restart does not remedy: the file is refused, or the unit lacks a drop-in. systemd
/// shows it as 78/CONFIG, and `onbeat@.service` does not restart after it.
pub const EXIT_CONFIG: u8 = 78;

/// Directories of units, in the order in which systemd reads them.
const UNITS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// A drop-in of `onbeat@.service`.
#[derive(Debug)]
pub struct DropIn {
    /// Name of the file.
    pub file: &'static str,
    /// The feature, as named in the configuration.
    pub feature: &'static str,
    /// Keys and values of its section `[Service]`.
    pub settings: &'static [(&'static str, &'static str)],
}

/// The drop-ins, one for each feature that requires more than the unit has.
pub const DROP_INS: [&DropIn; 3] = [&XSK, &REALTIME, &GUARD];

/// The UMEM of AF_XDP sockets is locked memory.
const XSK: DropIn = DropIn {
    file: "xsk.conf",
    feature: "backend = \"xsk\"",
    settings: &[("LimitMEMLOCK", "infinity")],
};

/// Priority and memory of the forwarding thread, wake-up time of CPUs.
const REALTIME: DropIn = DropIn {
    file: "realtime.conf",
    feature: "node.realtime",
    settings: &[
        ("RestrictRealtime", "no"),
        ("LimitRTPRIO", "99"),
        ("LimitMEMLOCK", "infinity"),
        ("BindPaths", "-/dev/cpu_dma_latency"),
        ("DeviceAllow", "/dev/cpu_dma_latency rw"),
    ],
};

/// Priority and CPUs of kernel threads, which have all capabilities: the kernel requires CAP_SYS_NICE for
/// both. `threaded` of an interface is a file below /sys/devices.
const GUARD: DropIn = DropIn {
    file: "guard.conf",
    feature: "[guard]",
    settings: &[
        ("CapabilityBoundingSet", "CAP_SYS_NICE"),
        ("RestrictRealtime", "no"),
        ("ReadWritePaths", "/sys/devices"),
        ("ReadOnlyPaths", "/sys/devices/system"),
    ],
};

/// The drop-ins that a configuration requires.
#[must_use]
pub fn required(config: &Config) -> Vec<&'static DropIn> {
    // A new key does not compile until its requirements are added here.
    let NodeConfig {
        name: _,
        readers: _,
        ptp_socket: _,
        tag: _,
        managed_by: _,
        managers: _,
        managed_file: _,
        protocol: _,
        backend,
        poll: _,
        realtime,
        max_streams: _,
        control: _,
        stored_streams: _,
        pin: _,
        events: _,
        guard,
    } = &config.node;
    let has_xsk =
        *backend == Backend::Xsk || config.ports.iter().any(|port| port.backend == Backend::Xsk);
    // CPUs of an own thread and the normal policy require nothing. Without a thread of its own, the node uses no
    // profile.
    let mut free = Profile::default();
    free.cpus.clone_from(&realtime.cpus);
    free.scheduling = realtime.scheduling.filter(|scheduling| !scheduling.is_real_time());
    let has_realtime = backend.is_user_space() && *realtime != free;
    let drop_ins = [(&XSK, has_xsk), (&REALTIME, has_realtime), (&GUARD, guard.is_some())];
    drop_ins.into_iter().filter(|(_, required)| *required).map(|(drop_in, _)| drop_in).collect()
}

impl DropIn {
    /// Whether this process has the permissions of the drop-in, as far as a process can read them.
    fn is_effective(&self) -> bool {
        self.settings.iter().all(|(key, value)| match *key {
            "CapabilityBoundingSet" => value.split(' ').all(has_capability),
            "LimitMEMLOCK" => {
                has_limit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY) || has_capability("CAP_IPC_LOCK")
            }
            "LimitRTPRIO" => {
                has_limit(Resource::RLIMIT_RTPRIO, value.parse().unwrap_or(RLIM_INFINITY))
                    || has_capability("CAP_SYS_NICE")
            }
            "BindPaths" => Path::new(value.trim_start_matches('-')).exists(),
            // These come with one of the others.
            _ => true,
        })
    }

    /// Whether it is installed for this instance, or for all.
    fn is_installed(&self, instance: &str) -> bool {
        UNITS.iter().any(|units| {
            let has = |unit: &str| Path::new(units).join(unit).join(self.file).exists();
            has(&format!("onbeat@{instance}.service.d")) || has("onbeat@.service.d")
        })
    }
}

fn has_limit(resource: Resource, least: u64) -> bool {
    getrlimit(resource).is_ok_and(|(soft, _)| soft >= least)
}

/// The capabilities that features may require, with their numbers (capabilities(7)).
const CAPABILITIES: [(&str, u32); 2] = [("CAP_IPC_LOCK", 14), ("CAP_SYS_NICE", 23)];

/// Whether the calling thread has a capability of [`CAPABILITIES`] in effect.
pub(crate) fn has_capability(name: &str) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let number = CAPABILITIES.iter().find(|(known, _)| *known == name);
    matches!((effective, number), (Some(set), Some((_, bit))) if set & (1 << bit) != 0)
}

/// Whether a service manager that waits for readiness has started this process.
#[must_use]
pub fn is_service() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty())
}

/// Drop-ins that the unit of a file lacks, with the commands that install them.
#[derive(Debug)]
pub struct MissingDropIns {
    drop_ins: Vec<&'static DropIn>,
    instance: String,
    /// Directory of the drop-ins that are installed with this program.
    shared: PathBuf,
}

impl MissingDropIns {
    /// The drop-ins that this running service lacks; `None` if it has all, or this is no service.
    pub(crate) fn of_service(config: &Config, file: &Path) -> Option<Self> {
        let lacks = |drop_in: &DropIn| !drop_in.is_effective();
        Self::of(config, file, lacks).filter(|_| is_service())
    }

    /// The drop-ins that are not installed for the unit of the file; `None` if all are.
    #[must_use]
    pub fn to_install(config: &Config, file: &Path) -> Option<Self> {
        Self::of(config, file, |_| true)
    }

    fn of(config: &Config, file: &Path, lacks: impl Fn(&DropIn) -> bool) -> Option<Self> {
        let instance = instance(file);
        let mut drop_ins = required(config);
        drop_ins.retain(|drop_in| lacks(drop_in) && !drop_in.is_installed(&instance));
        (!drop_ins.is_empty()).then(|| Self { drop_ins, instance, shared: shared() })
    }
}

/// `onbeat@bridge.service requires guard.conf ([guard]); install it: mkdir ...`
impl fmt::Display for MissingDropIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drop_ins, instance, shared } = self;
        let names: Vec<_> =
            drop_ins.iter().map(|one| format!("{} ({})", one.file, one.feature)).collect();
        let (noun, them) =
            if drop_ins.len() == 1 { ("drop-in", "it") } else { ("drop-ins", "them") };
        let directory = format!("{}/onbeat@{instance}.service.d", UNITS[0]);
        let names = names.join(", ");
        write!(f, "onbeat@{instance}.service requires the {noun} {names}; ")?;
        let files: Option<Vec<_>> =
            drop_ins.iter().map(|one| file_for_shell(&shared.join(one.file))).collect();
        match files {
            Some(files) => write!(
                f,
                "install {them}: mkdir -p {directory} && ln -s {} {directory}/ && systemctl daemon-reload",
                files.join(" ")
            ),
            None => write!(
                f,
                "{shared:?} has no such files that only root can write: install onbeat as root, or copy {them} from \
                 packaging/systemd of its sources to {directory}"
            ),
        }
    }
}

/// The path of a file as a word of a command line that root executes; `None`: there is no such file, another user
/// can replace it, or a terminal cannot show its path.
fn file_for_shell(file: &Path) -> Option<String> {
    let path = file.to_str().filter(|path| !path.contains(char::is_control))?;
    (file.is_file() && trust::check_file(file).is_ok()).then(|| shell_word(path))
}

/// Directory of the drop-ins, as installed with this program by `make install` or a package.
fn shared() -> PathBuf {
    let program = std::env::current_exe().ok();
    let bin = program.as_deref().and_then(Path::parent).filter(|bin| bin.ends_with("bin"));
    let prefix = bin.and_then(Path::parent).unwrap_or(Path::new("/usr"));
    prefix.join("share/onbeat/systemd")
}

/// The instance of `onbeat@.service` that runs `/etc/onbeat/INSTANCE.toml`; `NAME` if the name of the
/// file is not a valid instance name.
fn instance(file: &Path) -> String {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"_.:-".contains(&octet);
    let plain = !stem.is_empty() && stem.bytes().all(is_plain);
    if plain { stem.to_owned() } else { "NAME".to_owned() }
}

/// Lines for `onbeat run --check`: the drop-ins that a configuration requires.
#[must_use]
pub fn summary(config: &Config) -> String {
    let mut text = String::new();
    for DropIn { file, feature, .. } in required(config) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  systemd drop-in {file}, for {feature}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use onbeat_testing::TemporaryDirectory;

    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let text = format!("{text}\n[[port]]\nname = \"a\"\ninterface = \"eth0\"\n");
        let config = Config::parse(&text, "a.toml").unwrap();
        required(&config).into_iter().map(|drop_in| drop_in.file).collect()
    }

    #[test]
    fn features_require_their_drop_ins() {
        let none: [&str; 0] = [];
        assert_eq!(names(""), none);
        assert_eq!(names("[node]\nbackend = \"packet\""), none);
        assert_eq!(names("[node]\nbackend = \"xsk\""), ["xsk.conf"]);
        let on_cpu = "[node]\nbackend = \"packet\"\nrealtime = { cpus = \"1\" }";
        assert_eq!(names(on_cpu), none, "a thread may choose its CPUs");
        let normal = "[node]\nbackend = \"packet\"\nrealtime = { scheduling = \"other\" }";
        assert_eq!(names(normal), none, "and the normal policy");
        for key in ["scheduling = \"fifo 9\"", "lock-memory = true", "dma-latency-us = 0"] {
            let of = |backend| format!("[node]\nbackend = \"{backend}\"\nrealtime = {{ {key} }}");
            assert_eq!(names(&of("packet")), ["realtime.conf"], "{key}");
            assert_eq!(names(&of("xdp")), none, "there is no thread: {key}");
        }
        assert_eq!(names("[guard]\ninterfaces = [\"eth0\"]"), ["guard.conf"]);
        let all = "[node]\nbackend = \"xsk\"\nrealtime = { lock-memory = true }\n\
                   [guard]\ninterfaces = [\"eth0\"]";
        assert_eq!(names(all), ["xsk.conf", "realtime.conf", "guard.conf"]);
    }

    #[test]
    fn one_port_with_xsk_requires_the_drop_in() {
        let port = "[[port]]\nname = \"b\"\ninterface = \"eth1\"\nbackend = \"xsk\"";
        assert_eq!(names(&format!("[node]\nbackend = \"packet\"\n{port}")), ["xsk.conf"]);
    }

    /// The remedy for a configuration with `[guard]` and xsk, with drop-ins in a directory.
    fn remedy(file: &str, shared: &Path) -> String {
        let config = "node.backend = \"xsk\"\n[guard]\ninterfaces = [\"eth0\"]\n\
                      [[port]]\nname = \"a\"\ninterface = \"eth0\"\n";
        let config = Config::parse(config, "a.toml").unwrap();
        let missing = MissingDropIns::to_install(&config, Path::new(file)).expect("not installed");
        MissingDropIns { shared: shared.to_owned(), ..missing }.to_string()
    }

    #[test]
    fn the_remedy_is_a_command_line_with_files_that_exist() {
        let directory = TemporaryDirectory::new("drop-ins");
        let shared = directory.file("it's $(reboot); b");
        fs::create_dir(&shared).unwrap();
        let lacking = "requires the drop-ins xsk.conf (backend = \"xsk\"), guard.conf ([guard]); ";
        let file = "/etc/onbeat/test-of-service.toml";
        for name in ["xsk.conf", "guard.conf"] {
            let text = remedy(file, &shared);
            assert!(text.contains(&format!("{lacking}{shared:?} has no such files")), "{text}");
            assert!(!text.contains(" && "), "{text}");
            fs::write(shared.join(name), "").unwrap();
        }
        let quoted = format!("'{}/it'\\''s $(reboot); b/", directory.path().display());
        assert_eq!(
            remedy(file, &shared),
            format!(
                "onbeat@test-of-service.service {lacking}install them: mkdir -p \
                 /etc/systemd/system/onbeat@test-of-service.service.d && ln -s {quoted}xsk.conf' \
                 {quoted}guard.conf' /etc/systemd/system/onbeat@test-of-service.service.d/ && systemctl \
                 daemon-reload"
            )
        );
        // A shell would execute it.
        assert!(remedy("/etc/onbeat/$(reboot).toml", &shared).starts_with("onbeat@NAME.service "));
        // Another user could replace the file.
        fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(!remedy(file, &shared).contains(" && "));
    }

    /// That each capability of the table can be read.
    #[test]
    fn every_capability_has_its_number() {
        for drop_in in DROP_INS {
            for (_, value) in
                drop_in.settings.iter().filter(|(key, _)| *key == "CapabilityBoundingSet")
            {
                for name in value.split(' ') {
                    assert!(CAPABILITIES.iter().any(|(known, _)| *known == name), "{name}");
                }
            }
        }
    }
}
