//! Locks on interfaces hold between processes that do not share /run, and no other user can hold them.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::thread;

use crate::common::{copy, wait_for_line};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, bind, connect, listen,
    shutdown, socket,
};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use onbeat_host::{Error, InterfaceLock, NamespaceLock, Result};
use onbeat_netdev::{Namespace, PrivateMounts};
use onbeat_testing::{Feature, TemporaryDirectory, require};

/// Environment variable with the task of a copy of this program.
const TASK: &str = "ONBEAT_TEST_TASK";

/// The socket of the lock on interface 7.
const NAME: &[u8] = b"onbeat/interface/7";

/// A copy of this program in a network namespace. Killed on drop.
struct Copy(Child);

impl Copy {
    /// Starts it, and waits until it has done its task.
    fn start(namespace: &Namespace, task: &str) -> Self {
        let mut command = copy("namespace::does_its_task", TASK, Path::new(task));
        let mut child = namespace.start_in(&mut command).spawn().unwrap();
        wait_for_line(&mut child, "done");
        Self(child)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Not a test by itself: the program of [`Copy`].
#[test]
fn does_its_task() {
    let Ok(task) = env::var(TASK) else { return };
    let flags = SockFlag::SOCK_NONBLOCK;
    let stream = || socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    let address = UnixAddr::new_abstract(NAME).unwrap();
    let mut held = (None, None);
    if task == "lock" {
        held.0 =
            Some(InterfaceLock::take(&Namespace::current().unwrap(), 7, "eth0", "test").unwrap());
    } else if task == "refused" {
        // The holder is in another PID namespace.
        let refused = refusal(&Namespace::current().unwrap());
        assert!(refused.contains("a process of another PID namespace uses it"), "{refused}");
    } else {
        setgroups(&[]).unwrap();
        setgid(Gid::from_raw(65534)).unwrap();
        setuid(Uid::from_raw(65534)).unwrap();
        let own = stream();
        if task != "fill" {
            bind(own.as_raw_fd(), &address).unwrap();
        }
        match &*task {
            "listen" => listen(&own, Backlog::MAXCONN).unwrap(),
            "full" => listen(&own, Backlog::new(1).unwrap()).unwrap(),
            "shut down" => shutdown(own.as_raw_fd(), Shutdown::Both).unwrap(),
            _ => {}
        }
        if ["fill", "full"].contains(&&*task) {
            let fill = || connect(stream().as_raw_fd(), &address);
            let refusal = (0..100_000).find_map(|_| fill().err());
            assert!(matches!(refusal, Some(Errno::EAGAIN | Errno::ECONNREFUSED)), "{refusal:?}");
        }
        held.1 = Some(own);
    }
    println!("\ndone");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
    drop(held);
}

/// Acquires the lock on interface 7 like a program with a separate /run.
fn take_elsewhere(namespace: &Namespace) -> Result<InterfaceLock> {
    thread::scope(|scope| {
        let take = || {
            let _mounts = PrivateMounts::enter().unwrap();
            let (none, tmpfs) = (None::<&str>, Some("tmpfs"));
            mount(tmpfs, "/run", tmpfs, MsFlags::empty(), none).unwrap();
            mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).unwrap();
            InterfaceLock::take(namespace, 7, "eth0", "test")
        };
        scope.spawn(take).join().unwrap()
    })
}

fn refusal(namespace: &Namespace) -> String {
    let error = take_elsewhere(namespace).unwrap_err();
    assert!(matches!(error, Error::InterfaceInUse { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_program_with_another_run_directory_is_refused_until_the_holder_is_killed() {
    if !require(Feature::Root) {
        return;
    }
    let (namespace, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let holder = Copy::start(&namespace, "lock");
    let expected = format!("process {} (", holder.0.id());
    let refused = refusal(&namespace);
    assert!(refused.contains(&expected), "{refused}");
    take_elsewhere(&other).unwrap();
    // Connections of another user, up to the backlog, have no effect.
    let _filler = Copy::start(&namespace, "fill");
    let refused = refusal(&namespace);
    assert!(refused.contains(&expected), "{refused}");
    thread::scope(|scope| {
        let elsewhere = || {
            unshare(CloneFlags::CLONE_NEWPID).unwrap();
            Copy::start(&namespace, "refused");
        };
        scope.spawn(elsewhere).join().unwrap();
    });
    drop(holder);
    take_elsewhere(&namespace).unwrap();
}

#[test]
fn another_user_cannot_hold_the_lock_and_is_named() {
    if !require(Feature::Root) {
        return;
    }
    let temporary = TemporaryDirectory::new("squatter");
    for task in ["listen", "full", "bind", "shut down"] {
        let namespace = Namespace::new().unwrap();
        let squatter = Copy::start(&namespace, task);
        let log = temporary.file(task);
        let writer = Arc::new(File::create(&log).unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let take = || InterfaceLock::take(&namespace, 7, "eth0", "test").unwrap();
        let _lock = tracing::subscriber::with_default(subscriber, take);
        let text = fs::read_to_string(log).unwrap();
        let owner =
            format!("\"@onbeat/interface/7\" belongs to user 65534 (process {} (", squatter.0.id());
        assert!(text.contains("WARN") && text.contains(&owner), "{task}: {text}");
        // The lock file still excludes others.
        InterfaceLock::take(&namespace, 7, "eth0", "test").unwrap_err();
    }
}

/// Each type of socket has a separate name space, and the name of another socket may contain this one.
#[test]
fn sockets_with_similar_names_are_not_the_owner() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let _squatter = Copy::start(&namespace, "bind");
    let _similar = namespace.run(|| {
        let name = "onbeat/interface/7";
        let address = |name| SocketAddr::from_abstract_name(name).unwrap();
        let longer = format!("x\n\0{name}");
        (
            UnixDatagram::bind_addr(&address(name)).unwrap(),
            UnixListener::bind_addr(&address(&longer)),
        )
    });
    let lock = NamespaceLock::take(&namespace, "interface/7").unwrap();
    assert!(!lock.is_exclusive());
}
