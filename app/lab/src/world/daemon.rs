//! A node's daemon: `onbeat run FILE`, as a child in the node's namespace.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use onbeat_host::{file, trust};
use onbeat_netdev::Namespace;
use onbeat_node::config::{Backend, Config, LONGEST};
use onbeat_node::control::{Client, NodeStatus, NodesStatus, Request, Response};
use onbeat_realtime::interrupt::{check, wait_until};

use super::mounts::DIRECTORY;
use crate::topology::Node;
use crate::{Error, Result};

/// Maximum time of a node to become ready or to exit.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum size of a message of sd_notify in octets.
const MESSAGE: usize = 4096;

/// A node's daemon. Killed on drop; its data plane lives as long as the world.
#[derive(Debug)]
pub struct Daemon {
    node: String,
    file: PathBuf,
    log: PathBuf,
    control: PathBuf,
    notify: UnixDatagram,
    child: Child,
}

impl Daemon {
    /// Starts the daemon, and waits until it is ready.
    pub(super) fn start(
        node: &Node,
        namespace: &Namespace,
        program: &Path,
        backend: Option<Backend>,
    ) -> Result<Self> {
        if !program.is_file() {
            return Err(Error::NoProgram { path: program.into() });
        }
        let text = match (&node.config_text, &node.config) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => trust::load(path, |path| {
                file::read_text(path, LONGEST)
                    .map_err(|error| Error::io(format!("read {}", path.display()), error))
            })?,
            (None, None) => String::new(),
        };
        let at = |suffix: &str| PathBuf::from(format!("{DIRECTORY}/{}.{suffix}", node.name));
        let (file, log, notify_path) = (at("toml"), at("log"), at("notify"));
        let config = parse(&node.name, &text, &file)?;
        write(&file, &text)?;
        // That of an earlier daemon, which was killed.
        let _ = fs::remove_file(&notify_path);
        let notify = UnixDatagram::bind(&notify_path)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|error| Error::io(format!("listen on {}", notify_path.display()), error))?;

        let output = File::create(&log)
            .map_err(|error| Error::io(format!("make {}", log.display()), error))?;
        let mut command = Command::new(program);
        command.arg("run").arg(&file);
        if let Some(backend) = backend {
            command.arg("--backend").arg(backend.to_string());
        }
        command.env("NOTIFY_SOCKET", &notify_path);
        // Ctrl-C on the terminal is for the lab, which stops its nodes itself.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).process_group(0);
        die_with_parent(&mut command);
        let child = namespace
            .start_in(&mut command)
            .spawn()
            .map_err(|error| Error::io(format!("start {}", program.display()), error))?;
        let name = node.name.clone();
        let mut daemon =
            Self { node: name, file, log, control: config.node.control, notify, child };
        daemon.wait_ready()?;
        Ok(daemon)
    }

    /// Writes another configuration to its file. It applies from the next reload.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn configure(&self, text: &str) -> Result<()> {
        parse(&self.node, text, &self.file)?;
        write(&self.file, text)
    }

    /// Changes its configuration, and waits until it applies.
    ///
    /// # Errors
    /// The configuration is invalid, or the node rejects it.
    pub fn reload(&mut self, text: &str) -> Result<()> {
        self.configure(text)?;
        while self.message().is_some() {}
        self.signal(Signal::SIGHUP)?;
        self.wait_ready()
    }

    /// Kills it (SIGKILL), without cleanup.
    ///
    /// # Errors
    /// It had already exited.
    pub fn kill(&mut self) -> Result<()> {
        self.end(Signal::SIGKILL).map(drop)
    }

    /// Stops it (SIGTERM): the data plane continues.
    ///
    /// # Errors
    /// It had already exited, does not exit, or exits with an error.
    pub fn terminate(&mut self) -> Result<()> {
        self.expect_success(Signal::SIGTERM)
    }

    /// Removes the node (SIGINT), including its data plane.
    ///
    /// # Errors
    /// Those of [`Daemon::terminate`].
    pub fn interrupt(&mut self) -> Result<()> {
        self.expect_success(Signal::SIGINT)
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The status of the node with its counters.
    ///
    /// # Errors
    /// It does not respond.
    pub fn status(&self) -> Result<NodeStatus> {
        match self.request(&Request::Show)? {
            Response::Status { status } => Ok(*status),
            other => Err(self.error(format!("unexpected response to a status request: {other:?}"))),
        }
    }

    /// The tables of a PRP node.
    ///
    /// # Errors
    /// It does not respond, or has another protocol.
    pub fn nodes(&self) -> Result<NodesStatus> {
        match self.request(&Request::Nodes)? {
            Response::Nodes { nodes } => Ok(*nodes),
            other => {
                Err(self.error(format!("unexpected response to a request for nodes: {other:?}")))
            }
        }
    }

    /// Sends a request to its control socket.
    ///
    /// # Errors
    /// It does not respond, or rejects the request.
    pub fn request(&self, request: &Request) -> Result<Response> {
        let failed = |source| Error::Control { node: self.node.clone(), source };
        let mut client = Client::connect(&self.control).map_err(failed)?;
        client.request(request).map_err(failed)
    }

    fn expect_success(&mut self, signal: Signal) -> Result<()> {
        let status = self.end(signal)?;
        if status.success() {
            return Ok(());
        }
        Err(self.error(format!("it exited with {} on {signal}", describe(status))))
    }

    fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(status) = self.exited() {
            return Err(self.error(format!("it had already exited, with {}", describe(status))));
        }
        self.signal(signal)?;
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.exited();
            status.is_some()
        })?;
        status.ok_or_else(|| {
            self.error(format!("it did not exit within {} s of {signal}", PATIENCE.as_secs()))
        })
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), signal)
            .map_err(|errno| self.error(format!("it cannot be sent {signal}: {errno}")))
    }

    fn wait_ready(&mut self) -> Result<()> {
        let mut ended = None;
        let ready = wait_until(PATIENCE, || {
            while let Some(message) = self.message() {
                if message.lines().any(|line| line == "READY=1") {
                    return true;
                }
            }
            ended = self.exited();
            ended.is_some()
        })?;
        match ended {
            Some(status) => Err(self.error(format!("it exited with {}", describe(status)))),
            None if ready => Ok(()),
            None => Err(self.error(format!("it was not ready within {} s", PATIENCE.as_secs()))),
        }
    }

    /// The next pending message of sd_notify.
    fn message(&self) -> Option<String> {
        let mut buffer = [0; MESSAGE];
        match self.notify.recv(&mut buffer) {
            Ok(len) => Some(String::from_utf8_lossy(&buffer[..len]).into_owned()),
            Err(error) if error.kind() == ErrorKind::Interrupted => self.message(),
            Err(_) => None,
        }
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn error(&self, reason: String) -> Error {
        if let Err(interrupted) = check() {
            return interrupted.into();
        }
        const LINES: usize = 20;
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(LINES)..].join("\n");
        Error::Node { node: self.node.clone(), reason, log }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Fails only if the daemon has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(node: &str, text: &str, file: &Path) -> Result<Config> {
    Config::parse(text, &file.display().to_string())
        .map_err(|source| Error::Config { node: node.into(), source })
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| Error::io(format!("write {}", file.display()), error))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

/// Makes the kernel kill the child when the thread that started it exits.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes two system calls only.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent had exited before the call above: exit as well.
            if getppid() == parent { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
        });
    }
}
