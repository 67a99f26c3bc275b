//! Namespaces: code that runs in them, and their removal.

use std::{
    fs,
    os::fd::AsFd,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    time::Instant,
};

use crate::common::BOUND;
use onbeat_netdev::{Handle, LinkEvent, Monitor, Namespace, VethEnd};
use onbeat_testing::{Feature, require, require_all};

/// Creates a veth pair from `namespace` to a monitored namespace: its end is removed together with the
/// other's.
fn watched(namespace: &Namespace) -> (Handle, Monitor) {
    let watch = Namespace::new().unwrap();
    let handle = Handle::in_namespace(&watch).unwrap();
    let far = VethEnd::new("far").namespace(namespace);
    handle.create_veth(&VethEnd::new("near"), &far).unwrap();
    let monitor = Monitor::in_namespace(&watch).unwrap();
    (handle, monitor)
}

fn removal(monitor: &mut Monitor) -> bool {
    let deadline = Instant::now() + BOUND;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match monitor.next_within(left).unwrap() {
            Some(LinkEvent::Removed { name, .. }) if name == "near" => return true,
            Some(_) => {}
            None => return false,
        }
    }
}

/// Also if /sys already shows the namespace: the kernel refuses to mount a file system on itself.
#[test]
fn a_sysfs_of_the_present_namespace_is_available() {
    if !require(Feature::Root) {
        return;
    }
    let here = Namespace::current().unwrap();
    let names = || std::fs::read_dir("/sys/class/net").unwrap().count();
    let links = Handle::in_namespace(&here).unwrap().links().unwrap().len();
    // Twice: if tests run in a namespace, /sys is that of another one.
    let seen = here.run_with_sysfs(|| (names(), here.run_with_sysfs(names).unwrap())).unwrap();
    assert_eq!(seen, (links, links));
}

#[test]
fn a_new_namespace_is_another_and_empty() {
    if !require(Feature::Root) {
        return;
    }
    let here = Namespace::current().unwrap();
    let namespace = Namespace::new().unwrap();
    assert_ne!(namespace, here);
    assert_ne!(namespace.inode(), 0);
    assert_eq!(Namespace::current().unwrap(), here, "the caller stays in its namespace");
    let links = Handle::in_namespace(&namespace).unwrap().links().unwrap();
    let names: Vec<_> = links.iter().map(|link| (link.name.as_str(), link.up)).collect();
    assert_eq!(names, [("lo", false)]);
}

#[test]
fn loopback_comes_up_on_request() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::with_loopback().unwrap();
    assert!(Handle::in_namespace(&namespace).unwrap().link("lo").unwrap().up);
}

#[test]
fn a_closure_runs_in_the_namespace_and_returns_its_result() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let inside = namespace.run(|| Namespace::current().unwrap().inode()).unwrap();
    assert_eq!(inside, namespace.inode());
}

#[test]
fn a_panic_continues_in_the_caller() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| namespace.run(|| panic!("as the test wants"))));
    let payload = result.expect_err("the panic was lost");
    assert_eq!(payload.downcast_ref(), Some(&"as the test wants"));
}

#[test]
fn a_thread_enters_permanently() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            namespace.enter_thread().unwrap();
            assert_eq!(Namespace::current().unwrap(), namespace);
            namespace.enter_thread().unwrap();
        });
    });
}

#[test]
fn path_and_child_are_of_the_namespace() {
    if !require(Feature::Root) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    assert_eq!(Namespace::from_path(namespace.path()).unwrap(), namespace);
    let mut command = Command::new("readlink");
    let output = namespace.start_in(command.arg("/proc/self/ns/net")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim(), format!("net:[{}]", namespace.inode()));
}

#[test]
fn a_path_that_is_no_namespace_is_an_error() {
    let error = Namespace::from_path("/nonexistent/ns").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/ns"), "{error}");
    if !require(Feature::Root) {
        return;
    }
    let file = Namespace::from_path("/proc/self/status").unwrap();
    let error = file.run(|| ()).unwrap_err();
    assert_eq!(error.errno(), Some(nix::errno::Errno::EINVAL), "{error}");
}

#[test]
fn devices_vanish_with_the_last_descriptor() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let clone = namespace.clone();
    let (handle, mut monitor) = watched(&namespace);
    drop(namespace);
    assert!(handle.link("near").is_ok(), "a clone holds the namespace");
    drop(clone);
    assert!(removal(&mut monitor), "the device outlived its namespace");
}

#[test]
fn devices_vanish_with_a_killed_process() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let (handle, mut monitor) = watched(&namespace);
    // The child's standard input is the only reference to the namespace; the child cannot clean up.
    let descriptor = namespace.as_fd().try_clone_to_owned().unwrap();
    let mut child =
        Command::new("sleep").arg("1000").stdin(Stdio::from(descriptor)).spawn().unwrap();
    drop(namespace);
    assert!(handle.link("near").is_ok(), "the child holds the namespace");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(removal(&mut monitor), "the device outlived the process");
}

#[test]
fn sysfs_of_a_namespace_shows_its_devices_and_stays_inside() {
    if !require(Feature::Root) {
        return;
    }
    let mounts = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().filter(|line| line.contains(" - sysfs ")).count()
    };
    let before = mounts();
    let namespace = Namespace::new().unwrap();
    let names = namespace
        .run_with_sysfs(|| {
            let entries = fs::read_dir("/sys/class/net").unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        })
        .unwrap();
    assert_eq!(names, ["lo"]);
    assert_eq!(mounts(), before, "the mount leaked");
}
