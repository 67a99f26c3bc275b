//! The daemon of a redundant interface: as a service if it is saved, else as a process in the background.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onbeat_host::{Lock, PrivateDirectory, RUN, command_line};
use onbeat_netdev::Handle;
use onbeat_realtime::interrupt;

use super::{Lifetime, ProtectError};
use crate::config::{Config, LONGEST, PortConfig};
use crate::control::{Client, DIRECTORY, NodeTables, Server};
use crate::run;

/// Longest time until a started node answers.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// Begin of the line of a command that failed.
const ERROR: &str = "onbeat: ";

/// Present if systemd is the service manager of this host.
const SYSTEMD: &str = "/run/systemd/system";

/// A started node.
#[derive(Debug)]
pub struct StartedNode {
    /// Its state.
    pub status: NodeTables,
    /// Its configuration file.
    pub file: PathBuf,
    /// Whether its service starts it again after a restart of the host.
    pub is_enabled: bool,
}

pub(super) fn refuse_running(name: &str, handle: &Handle) -> Result<(), ProtectError> {
    match Client::to_node(Some(name), Path::new(DIRECTORY)) {
        Ok(_) => {
            Err(ProtectError::Running { name: name.to_owned(), is_here: is_here(name, handle) })
        }
        Err(_) => Ok(()),
    }
}

/// Prevents other commands from creating or removing a node of this name.
pub(super) fn lock(name: &str) -> Result<Lock, ProtectError> {
    let directory = PrivateDirectory::create(Path::new(RUN)).map_err(run::Error::from)?;
    // No name of a node begins with a dot.
    let lock = Lock::take(&directory, &format!(".{name}.protect"), &command_line());
    lock.map_err(|error| match error {
        onbeat_host::Error::Locked { holder, .. } => {
            ProtectError::Busy { name: name.to_owned(), holder: holder.to_string() }
        }
        other => run::Error::from(other).into(),
    })
}

/// Refuses a node whose daemon ended without restoring the host.
pub(super) fn refuse_stopped(name: &str, handle: &Handle) -> Result<(), ProtectError> {
    if run::changed_interfaces_of(handle, name) != Some(true) {
        return Ok(());
    }
    let file = [Lifetime::Boot, Lifetime::Permanent]
        .map(|lifetime| lifetime.directory().join(format!("{name}.toml")))
        .into_iter()
        .find(|file| file.exists());
    Err(ProtectError::Stopped { name: name.to_owned(), file: file.unwrap_or_default() })
}

/// Whether the interfaces of a node are in this network namespace: that of its process, else where interfaces were
/// changed, else by the names in its file.
pub(super) fn is_here(name: &str, handle: &Handle) -> bool {
    let control = Path::new(DIRECTORY).join(format!("{name}.sock"));
    let holder = Server::holder(&control).ok().flatten();
    if let Some(pid) = holder.and_then(|holder| holder.pid) {
        let namespace = std::fs::metadata(format!("/proc/{pid}/ns/net"));
        return namespace.is_ok_and(|namespace| namespace.ino() == handle.namespace().inode());
    }
    if let Some(is_here) = run::changed_interfaces_of(handle, name) {
        return is_here;
    }
    let text = [Lifetime::Boot, Lifetime::Permanent].into_iter().find_map(|lifetime| {
        let directory = PrivateDirectory::open(lifetime.directory()).ok()??;
        directory.read_text(&format!("{name}.toml"), LONGEST).ok()?
    });
    let config = text.and_then(|text| Config::parse(&text, name).ok());
    let exists = |port: &PortConfig| port.create.is_some() || handle.link(&port.interface).is_ok();
    config.is_some_and(|config| config.ports.iter().all(exists))
}

pub(super) fn start(
    name: &str,
    file: &Path,
    lifetime: Lifetime,
) -> Result<StartedNode, ProtectError> {
    let is_enabled = lifetime == Lifetime::Permanent && Path::new(SYSTEMD).exists();
    let status = if is_enabled {
        systemctl(&["enable", "--now", &unit(name)])?;
        wait(name, None)?
    } else {
        let log = Path::new(RUN).join(log_name(name));
        let mut child = spawn(name, file, &log)?;
        wait(name, Some((&mut child, &log)))?
    };
    Ok(StartedNode { status, file: file.to_owned(), is_enabled })
}

/// Disables and stops the service of a saved node.
pub(super) fn disable(name: &str) -> Result<(), ProtectError> {
    if Path::new(SYSTEMD).exists() { systemctl(&["disable", "--now", &unit(name)]) } else { Ok(()) }
}

/// Name of the log of a node in the run-time directory.
pub(super) fn log_name(name: &str) -> String {
    format!("{name}.log")
}

fn unit(name: &str) -> String {
    format!("onbeat@{name}.service")
}

fn systemctl(arguments: &[&str]) -> Result<(), ProtectError> {
    let command = format!("systemctl {}", arguments.join(" "));
    let output = Command::new("/usr/bin/systemctl").args(arguments).output();
    let why = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ProtectError::Service { command, why })
}

/// Starts the daemon in a process group of its own, which a terminal does not signal.
fn spawn(name: &str, file: &Path, log: &Path) -> Result<Child, ProtectError> {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/onbeat"));
    let failed = |source| ProtectError::Spawn { program: program.clone(), source };
    // The configuration can be in another one.
    PrivateDirectory::create(Path::new(RUN)).map_err(run::Error::from)?;
    // Whatever has its name, such as a symbolic link.
    super::remove_log(name)?;
    let output = onbeat_host::output::create(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let mut command = Command::new(&program);
    command.arg("run").arg(file).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().map_err(failed)
}

/// Waits until the node sends.
fn wait(name: &str, mut child: Option<(&mut Child, &Path)>) -> Result<NodeTables, ProtectError> {
    let end = Instant::now() + START;
    loop {
        let client = Client::to_node(Some(name), Path::new(DIRECTORY));
        match client.and_then(|mut client| client.tables()) {
            Ok(tables) if sends(&tables) => return Ok(tables),
            Ok(_) | Err(_) => {}
        }
        if let Some((child, log)) = &mut child {
            if child.try_wait().ok().flatten().is_some() {
                return Err(ProtectError::NotStarted { why: last_lines(log) });
            }
        }
        let is_interrupted = interrupt::check().is_err();
        if is_interrupted || Instant::now() >= end {
            if let Some((child, _)) = &mut child {
                // It would start later, unnoticed.
                let _ = child.kill();
                let _ = child.wait();
            }
            if is_interrupted {
                return Err(ProtectError::Interrupted);
            }
            let why =
                format!("it does not answer, or sends no frame, within {} s", START.as_secs());
            return Err(ProtectError::NotStarted { why });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns whether the silence after the start of a node has ended.
fn sends(tables: &NodeTables) -> bool {
    match tables {
        // The first supervision frame ends it.
        NodeTables::Prp(nodes) => nodes.supervision_sent > 0,
        NodeTables::Wildcards(tables) => {
            tables.wildcards.iter().all(|wildcard| wildcard.silence_ms.is_none())
        }
    }
}

/// Returns the error at the end of a log, or its last lines.
fn last_lines(log: &Path) -> String {
    let text = onbeat_host::file::read_text(log, 1 << 20).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let error = lines.iter().rposition(|line| line.starts_with(ERROR));
    let first = error.unwrap_or(lines.len().saturating_sub(4));
    let lines = lines[first..].join("\n");
    lines.strip_prefix(ERROR).unwrap_or(&lines).to_owned()
}
