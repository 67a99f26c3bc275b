//! An interactive network: it is built, a shell runs in it, and it is removed when the shell exits.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, id};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_netdev::NAMED_NAMESPACES;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_realtime::interrupt::{Guard, check};

use crate::world::die_with_parent;
use crate::{Error, Result, Topology, World};

/// Time that processes in the network have to exit after SIGTERM.
const GRACE_NS: u64 = 2 * SECOND;

/// A network with running nodes, for a shell. All processes in it are terminated on drop.
///
/// While it lives, SIGINT, SIGTERM and SIGHUP terminate the shell.
#[derive(Debug)]
pub struct Shell {
    world: World,
    at: Option<String>,
    _signals: Guard,
}

impl Shell {
    /// Builds the network, names its namespaces, and starts its nodes with `onbeat`. `at` is the host
    /// or node of commands; without it, commands use the files of the network, and the interfaces of
    /// the machine.
    ///
    /// # Errors
    /// The host or node does not exist, the network cannot be built, or a node does not start.
    pub fn open(topology: &Topology, at: Option<&str>, onbeat: &Path) -> Result<Self> {
        let stations = topology.hosts.iter().map(|host| &host.name);
        let stations: Vec<_> =
            stations.chain(topology.nodes.iter().map(|node| &node.name)).collect();
        if let Some(name) = at.filter(|at| !stations.iter().any(|station| station == at)) {
            return Err(Error::Unknown {
                what: "host or node",
                name: name.into(),
                known: stations.into_iter().cloned().collect(),
            });
        }
        let signals = Guard::install();
        let world = World::build(topology)?;
        let mut shell = Self { world, at: at.map(str::to_owned), _signals: signals };
        shell.name_namespaces()?;
        shell.world.start_all(onbeat)?;
        Ok(shell)
    }

    /// Bind-mounts each namespace in the mount namespace of the network, and is removed with it.
    fn name_namespaces(&self) -> Result<()> {
        fs::create_dir_all(NAMED_NAMESPACES)
            .map_err(|error| Error::io(format!("make {NAMED_NAMESPACES}"), error))?;
        for (name, namespace) in self.world.stations() {
            let path = format!("{NAMED_NAMESPACES}/{name}");
            fs::write(&path, "").map_err(|error| Error::io(format!("make {path}"), error))?;
            let (none, source) = (None::<&str>, namespace.path());
            mount(Some(&source), path.as_str(), none, MsFlags::MS_BIND, none)
                .map_err(|errno| Error::io(format!("mount a namespace on {path}"), errno))?;
        }
        Ok(())
    }

    /// Instructions to enter each host and node.
    #[must_use]
    pub fn ways_in(&self) -> String {
        let topology = self.world.topology();
        let hosts = topology.hosts.iter().map(|host| ("host", &host.name));
        let nodes = topology.nodes.iter().map(|node| ("node", &node.name));
        let stations: Vec<_> = hosts.chain(nodes).collect();
        let width = stations.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        // Writing to a String cannot fail.
        for (kind, name) in stations {
            let ends = topology.links.iter().flat_map(|link| &link.ends);
            let interfaces: Vec<_> =
                ends.filter(|end| end.station == *name).map(|end| end.interface.as_str()).collect();
            let (way, here) =
                (format!("nsenter --net={NAMED_NAMESPACES}/{name}"), self.at.as_ref());
            let mark = if here == Some(name) { " (the shell is here)" } else { "" };
            let wide = width + NAMED_NAMESPACES.len() + "nsenter --net=/".len();
            let interfaces = interfaces.join(" ");
            let _ = writeln!(text, "{kind} {name:<width$}  {way:<wide$}  {interfaces}{mark}");
        }
        let _ =
            writeln!(text, "from another terminal, first: nsenter --mount=/proc/{}/ns/mnt", id());
        text
    }

    /// Runs a command until its exit, with the files of the network, at the chosen host or node.
    ///
    /// # Errors
    /// The command cannot be started; [`Error::Interrupted`].
    pub fn run(&mut self, command: &mut Command) -> Result<ExitStatus> {
        die_with_parent(command);
        if let Some(at) = &self.at {
            self.world.namespace(at)?.start_in(command);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child =
            command.spawn().map_err(|error| Error::io(format!("start {program:?}"), error))?;
        let ended = wait_for_end(&child);
        if ended.is_err() {
            self.end_all();
        }
        let status =
            child.wait().map_err(|error| Error::io(format!("wait for {program:?}"), error))?;
        ended.map(|()| status)
    }

    /// Terminates all processes in the network, except its nodes.
    fn end_all(&self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            for pid in self.inside() {
                // Fails only if the process has exited already.
                let _ = kill(pid, signal);
            }
            let deadline = now_ns() + GRACE_NS;
            while !self.inside().is_empty() && now_ns() < deadline {
                sleep_until(now_ns() + SECOND / 100);
            }
        }
    }

    /// Processes in the mount namespace or in a network namespace of the network, other than this one
    /// and the nodes. They were started by a shell.
    fn inside(&self) -> Vec<Pid> {
        let namespace =
            |process: &str, kind| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        let Some(mounts) = namespace("thread-self", "mnt") else { return Vec::new() };
        let networks: BTreeSet<String> =
            self.world.stations().map(|(_, net)| format!("net:[{}]", net.inode())).collect();
        let known: BTreeSet<u32> = self.world.pids().chain([id()]).collect();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let inside = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let pid: u32 = name.parse().ok().filter(|pid| !known.contains(pid))?;
            let network = namespace(&name, "net")?.to_string_lossy().into_owned();
            let mount = namespace(&name, "mnt")?;
            let is_inside = mount == mounts || networks.contains(&network);
            is_inside.then_some(Pid::from_raw(pid as i32))
        };
        processes.filter_map(inside).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Waits until a child has exited; it is a zombie then.
fn wait_for_end(child: &Child) -> Result<()> {
    /// Maximum delay of a signal that arrives between the check of the flag and the wait.
    const LOOK_MS: u16 = 500;
    // SAFETY: the arguments are a number and a flag.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let fd = Errno::result(fd).map_err(|errno| Error::io("watch a process", errno))?;
    // SAFETY: the kernel has just returned this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    loop {
        check()?;
        match poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], LOOK_MS) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(Error::io("wait for a process", errno)),
        }
    }
}
