//! Processes of the plant, which faults kill and stop.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_terminal::companion;

use crate::world::die_with_parent;
use crate::{Error, Result};

/// A process. Killed on drop, and with the laboratory.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    name: String,
}

impl Process {
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self> {
        let child = command.spawn().map_err(|error| Error::io(format!("start {name}"), error))?;
        Ok(Self { child, name: name.into() })
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), signal)
            .map_err(|errno| Error::io(format!("send {signal} to {}", self.name), errno))
    }

    pub(super) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(super) fn take_output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Resident memory in octets.
    pub(super) fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = read(&path)?;
        let kilobytes = text.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        Ok(kilobytes.unwrap_or(0) * 1024)
    }

    /// CPU time in ns.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        // utime and stime, after the name, which may contain blanks.
        const PLACES: [usize; 2] = [11, 12];
        let text = read(&format!("/proc/{}/stat", self.child.id()))?;
        let fields = text.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks =
            PLACES.map(|place| fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(0));
        // USER_HZ is 100 on all architectures that onbeat supports.
        Ok(ticks.into_iter().sum::<u64>() * (SECOND / 100))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::io(format!("read {path}"), error))
}

/// Starts programs in the management network, whose loopback no other process uses.
#[derive(Debug)]
pub(super) struct Launcher {
    onbeat: PathBuf,
    namespace: Namespace,
    pub(super) directory: PathBuf,
}

impl Launcher {
    /// `directory` is below the private /run of the world, and disappears with it.
    pub(super) fn new(onbeat: &Path, directory: &Path) -> Result<Self> {
        fs::create_dir(directory)
            .map_err(|error| Error::io(format!("make {}", directory.display()), error))?;
        let namespace = Namespace::with_loopback()?;
        Ok(Self { onbeat: onbeat.into(), namespace, directory: directory.into() })
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A program whose errors go to a log.
    pub(super) fn program(&self, program: &Path, log: &str) -> Result<Command> {
        let path = self.at(log);
        let output = File::options().create(true).append(true).open(&path);
        let output =
            output.map_err(|error| Error::io(format!("make {}", path.display()), error))?;
        let mut command = Command::new(program);
        // Ctrl-C on the terminal is for the laboratory, which stops them itself.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).process_group(0);
        // The laboratory itself may have been executed by onbeat.
        command.env_remove(companion::VERSION);
        die_with_parent(&mut command);
        self.namespace.start_in(&mut command);
        Ok(command)
    }

    /// A command of `onbeat fleet`.
    pub(super) fn fleet(&self, arguments: &[&str], log: &str) -> Result<Command> {
        let mut command = self.program(&self.onbeat, log)?;
        command.arg("fleet").args(arguments);
        Ok(command)
    }

    /// Runs a command of `onbeat fleet` to its end; returns its exit status and output.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<(i32, String)> {
        let name = format!("onbeat fleet {}", arguments.first().unwrap_or(&""));
        let mut command = self.fleet(arguments, "commands.log")?;
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| Error::io(format!("start {name}"), error))?;
        interrupt::check()?;
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(code @ (0 | 1)) => Ok((code, text.into_owned())),
            _ => Err(failed(&name, output.status, &text)),
        }
    }
}

pub(super) fn failed(name: &str, status: ExitStatus, log: &str) -> Error {
    let reason = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    Error::Command { command: name.into(), reason, log: log.trim_end().into() }
}
