//! At most one process has a lock, and no other user can.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{copy, mode, set_mode, wait_for_line};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, SFlag, mknod};
use onbeat_host::{Error, InterfaceLock, Lock, PrivateDirectory};
use onbeat_netdev::Namespace;
use onbeat_testing::{Feature, TemporaryDirectory, UnprivilegedProcess, require};

/// Environment variable with the directory to lock.
const LOCK_IN: &str = "ONBEAT_TEST_LOCK_IN";
/// Environment variable with the directory of a race.
const RACE_IN: &str = "ONBEAT_TEST_RACE_IN";
/// Environment variable to lock an interface as another user.
const UNPRIVILEGED: &str = "ONBEAT_TEST_UNPRIVILEGED";

fn holder(directory: &Path) -> Child {
    let mut child = copy("lock::locks_the_given_directory", LOCK_IN, directory).spawn().unwrap();
    wait_for_line(&mut child, "locked");
    child
}

/// Not a test by itself: the program of [`holder`].
#[test]
fn locks_the_given_directory() {
    let Some(directory) = env::var_os(LOCK_IN) else { return };
    let directory = PrivateDirectory::create(Path::new(&directory)).unwrap();
    let _lock = Lock::take(&directory, "a.lock", "node \"a\"").unwrap();
    println!("\nlocked");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

#[test]
fn one_process_has_it_and_is_reported_and_kill_9_releases_it() {
    let temporary = TemporaryDirectory::new("one");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    let mut child = holder(&temporary.file("a"));
    let refusal = Lock::take(&directory, "a.lock", "second").unwrap_err();
    assert!(refusal.is_busy());
    let expected = format!("process {} (node \"a\") holds it", child.id());
    assert!(refusal.to_string().contains(&expected), "{refusal}");
    assert_eq!(mode(&temporary.file("a/a.lock")), 0o600);

    child.kill().unwrap();
    child.wait().unwrap();
    let left = fs::read(temporary.file("a/a.lock")).unwrap();
    assert_eq!(Lock::holder(&directory, "a.lock").unwrap(), None);
    assert_eq!(fs::read(temporary.file("a/a.lock")).unwrap(), left);
    assert!(Lock::is_left(&directory, "a.lock").unwrap());
    assert_eq!(fs::read(temporary.file("a/a.lock")).unwrap(), left, "a query does not change it");
    let lock = Lock::take(&directory, "a.lock", "third").unwrap();
    assert!(lock.is_inherited());
    assert!(!Lock::is_left(&directory, "a.lock").unwrap());
    let holder = Lock::holder(&directory, "a.lock").unwrap().expect("this process has it");
    assert_eq!(holder.pid, Some(std::process::id()));
    // The refusal does not name the process that was killed.
    let refusal = Lock::take(&directory, "a.lock", "fourth").unwrap_err().to_string();
    let expected = format!("process {} (third)", std::process::id());
    assert!(refusal.contains(&expected), "{refusal}");
    drop(lock);
    assert!(!temporary.file("a/a.lock").exists());
    assert_eq!(Lock::holder(&directory, "a.lock").unwrap(), None);
    assert!(!Lock::is_left(&directory, "a.lock").unwrap());
    assert!(!temporary.file("a/a.lock").exists(), "a query makes no file");
    assert!(!Lock::take(&directory, "a.lock", "fifth").unwrap().is_inherited());
}

/// Other processes treat an empty file as that of another program.
#[test]
fn its_file_is_at_no_time_without_content() {
    let temporary = TemporaryDirectory::new("content");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    let path = temporary.file("a/a.lock");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let Ok(content) = fs::read_to_string(&path) else { continue };
                assert!(content.starts_with('{'), "{content:?}");
            }
        });
        for number in 0..300 {
            // Of a process that was killed: longer and shorter than the next.
            if number % 3 > 0 {
                let dead = r#"{"pid":1,"start":1,"boot":"","what":"WHAT"}"#;
                let dead = dead.replace("WHAT", &"x".repeat(number % 3 * 150));
                let new = temporary.file("new");
                fs::write(&new, dead).unwrap();
                fs::rename(&new, &path).unwrap();
            }
            Lock::take(&directory, "a.lock", "test").unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// A process with only CAP_NET_RAW takes no lock, and warns.
#[test]
fn a_process_that_is_not_root_is_warned_that_it_has_no_lock() {
    if !require(Feature::Root) {
        return;
    }
    let program = copy("lock::locks_an_interface_unprivileged", UNPRIVILEGED, Path::new("1"))
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let (out, err) = (&program.stdout, &program.stderr);
    let text = [out, err].map(|octets| String::from_utf8_lossy(octets)).concat();
    assert!(program.status.success(), "{text}");
    for words in ["WARN", "interface \"hx0\" is not locked", "not root", "exclusive: false"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Not a test by itself: the program of the test above.
#[test]
fn locks_an_interface_unprivileged() {
    if env::var_os(UNPRIVILEGED).is_none() {
        return;
    }
    tracing_subscriber::fmt().with_ansi(false).init();
    let lock = InterfaceLock::take(&Namespace::current().unwrap(), 7, "hx0", "test").unwrap();
    println!("\nexclusive: {}", lock.is_exclusive());
}

/// The content is of a dead process; the process that has the lock wrote none.
#[test]
fn the_kernel_has_precedence_over_the_file_for_the_holder() {
    let temporary = TemporaryDirectory::new("real");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    fs::write(temporary.file("a/a.lock"), r#"{"pid":1,"start":1,"boot":"","what":"nothing"}"#)
        .unwrap();
    let file = File::open(temporary.file("a/a.lock")).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
    let refusal = Lock::take(&directory, "a.lock", "second").unwrap_err().to_string();
    assert!(refusal.contains(&format!("process {} (", std::process::id())), "{refusal}");
    assert!(!refusal.contains("nothing"), "{refusal}");
    drop(held);
}

#[test]
fn no_other_user_holds_it_before_or_after_its_process_is_killed() {
    if !require(Feature::Root) {
        return;
    }
    let temporary = TemporaryDirectory::new("other");
    set_mode(temporary.path(), 0o755);
    // A directory that others can read and search.
    fs::create_dir(temporary.file("a")).unwrap();
    set_mode(&temporary.file("a"), 0o755);
    let path = temporary.file("a/a.lock");
    let mut child = holder(&temporary.file("a"));
    assert!(UnprivilegedProcess::hold(&path).is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(UnprivilegedProcess::hold(&path).is_none());
    // The directory they can hold, which holds nothing up.
    let _held = UnprivilegedProcess::hold(&temporary.file("a")).unwrap();
    assert!(!UnprivilegedProcess::run("rm -f \"$0\" && ln -s /etc/passwd \"$0\"", &path));
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    Lock::take(&directory, "a.lock", "next").unwrap();
}

/// The former version's files were readable: other users' locks on them do not count.
#[test]
fn a_former_lock_counts_only_while_a_process_of_this_user_has_it() {
    if !require(Feature::Root) {
        return;
    }
    let temporary = TemporaryDirectory::new("former");
    set_mode(temporary.path(), 0o755);
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    set_mode(&temporary.file("a"), 0o755);
    let path = temporary.file("a/former");
    fs::write(&path, "1").unwrap();
    set_mode(&path, 0o644);
    let held = UnprivilegedProcess::hold(&path).unwrap();
    Lock::refuse_former(&directory, Some("former")).unwrap();
    drop(held);
    let held_directory = UnprivilegedProcess::hold(&temporary.file("a")).unwrap();
    Lock::refuse_former(&directory, None).unwrap();
    drop(held_directory);

    let _held = Flock::lock(File::open(&path).unwrap(), FlockArg::LockExclusive).unwrap();
    let refusal = Lock::refuse_former(&directory, Some("former")).unwrap_err();
    assert!(refusal.is_busy(), "{refusal}");
    let expected = format!("process {} (", std::process::id());
    assert!(refusal.to_string().contains(&expected), "{refusal}");
}

#[test]
fn a_planted_file_is_refused_and_not_changed() {
    let temporary = TemporaryDirectory::new("planted");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    let (path, canary) = (temporary.file("a/a.lock"), temporary.file("canary"));
    fs::write(&canary, "precious").unwrap();
    let refused = |why: &str| {
        let error = Lock::take(&directory, "a.lock", "test").unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "precious");
        let _ = fs::remove_file(&path);
    };
    symlink(&canary, &path).unwrap();
    refused("it is a symbolic link; remove it");
    symlink("nowhere", &path).unwrap();
    refused("it is a symbolic link");
    fs::hard_link(&canary, &path).unwrap();
    refused("it has 2 names");
    mknod(&path, SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
    refused("it is not a regular file");
    fs::create_dir(&path).unwrap();
    refused("it is not a regular file");
    fs::remove_dir(&path).unwrap();
    if require(Feature::Root) {
        fs::write(&path, "").unwrap();
        chown(&path, Some(65534), None).unwrap();
        refused("it belongs to user 65534");
    }
    // Left open to others by mistake: tightened.
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o666);
    let _lock = Lock::take(&directory, "a.lock", "test").unwrap();
    assert_eq!(mode(&path), 0o600);
}

/// Not a test by itself: takes and releases a lock, and creates a mark while it has it.
#[test]
fn races_in_the_given_directory() {
    let Some(path) = env::var_os(RACE_IN) else { return };
    race(Path::new(&path));
}

/// Each release removes the file, which others have opened meanwhile.
fn race(path: &Path) {
    let directory = PrivateDirectory::create(path).unwrap();
    let mark = path.join("mark");
    let mut taken = 0;
    while taken < 300 {
        match Lock::take(&directory, "a.lock", "race") {
            Ok(_lock) => {
                taken += 1;
                let new = File::options().write(true).create_new(true).open(&mark);
                new.expect("two processes have the lock");
                fs::remove_file(&mark).unwrap();
            }
            Err(error) => assert!(error.is_busy(), "{error}"),
        }
    }
}

#[test]
fn racing_processes_have_it_one_at_a_time() {
    let temporary = TemporaryDirectory::new("race");
    let path = temporary.file("a");
    let mut others: Vec<Child> = (0..2)
        .map(|_| copy("lock::races_in_the_given_directory", RACE_IN, &path).spawn().unwrap())
        .collect();
    thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(|| race(&path)));
    });
    for other in &mut others {
        assert!(other.wait().unwrap().success());
    }
}

#[test]
fn an_interface_has_one_owner_at_a_time() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let lock = InterfaceLock::take(&namespace, 7, "eth0", "node \"a\"").unwrap();
    assert!(lock.is_of(namespace.inode(), 7) && !lock.is_of(namespace.inode(), 8));
    let refusal = InterfaceLock::take(&namespace, 7, "eth0", "node \"b\"").unwrap_err();
    let id = std::process::id();
    assert_eq!(
        refusal.to_string(),
        format!(
            "interface \"eth0\" cannot be opened: process {id} (node \"a\") uses it; stop it, or \
             use another interface"
        )
    );
    let _other = InterfaceLock::take(&namespace, 8, "eth0", "node \"b\"").unwrap();
    drop(lock);
    InterfaceLock::take(&namespace, 7, "eth0", "node \"b\"").unwrap();
}

#[test]
fn files_of_dead_processes_are_removed_and_never_refuse_the_lock() {
    let temporary = TemporaryDirectory::new("stale");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    let dead = r#"{"pid":1,"start":1,"boot":"","what":"nothing"}"#;
    let _live = Lock::take(&directory, "live.lock", "test").unwrap();
    for (name, content) in
        [("dead.lock", dead), ("other", dead), ("foreign.lock", "text"), ("empty.lock", "")]
    {
        fs::write(temporary.file("a").join(name), content).unwrap();
    }
    Lock::remove_stale(&directory).unwrap();
    let mut names = directory.names().unwrap();
    names.sort();
    assert_eq!(names, ["empty.lock", "foreign.lock", "live.lock", "other"]);
    for _ in 0..200 {
        fs::write(temporary.file("a/dead.lock"), dead).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| Lock::remove_stale(&directory).unwrap());
            Lock::take(&directory, "dead.lock", "test").unwrap();
        });
    }
}

/// A process that removes the file of a dead one holds its lock meanwhile.
#[test]
fn a_remover_of_a_stale_file_that_is_preempted_does_not_refuse_the_lock() {
    let temporary = TemporaryDirectory::new("preempted");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    let path = temporary.file("a/dead.lock");
    fs::write(&path, r#"{"pid":1,"start":1,"boot":"","what":"nothing"}"#).unwrap();
    let file = File::open(&path).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            fs::remove_file(&path).unwrap();
            drop(held);
        });
        Lock::take(&directory, "dead.lock", "test").unwrap();
    });
}
