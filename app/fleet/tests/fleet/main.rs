//! The program, without etcd: keys, names, and what it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use onbeat_testing::{TemporaryDirectory, command};

/// Runs a command; returns its exit status and output.
fn fleet(arguments: &[&str]) -> (i32, String) {
    let mut program: Command = command(env!("CARGO_BIN_EXE_onbeat-fleet").as_ref());
    let output = program.arg("fleet").args(arguments).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text.into_owned())
}

/// A port of loopback on which nothing listens.
fn unused_address() -> String {
    let bound = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("https://127.0.0.1:{}", bound.local_addr().expect("an address").port())
}

#[test]
fn keys_are_created_once_and_for_their_owner_only() {
    let directory = TemporaryDirectory::new("fleet-keys");
    let keys = directory.file("keys").display().to_string();
    let init = ["init", "--etcd", &unused_address(), "--fleet", &keys];
    let (code, text) = fleet(&init);
    assert!(code == 1 && text.contains("start etcd with them"), "{text}");
    let names = ["ca.key", "ca.pem", "sign.key", "sign.pub", "user.key", "user.pem", "fleet.json"];
    let servers =
        ["ca.pem", "server.key", "server.pem"].map(|name| format!("servers/127.0.0.1/{name}"));
    let read = |name: &str| fs::read(directory.file("keys").join(name)).expect(name);
    let all: Vec<&str> = names.into_iter().chain(servers.iter().map(String::as_str)).collect();
    for name in &all {
        let mode =
            fs::metadata(directory.file("keys").join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
    let before: Vec<Vec<u8>> = all.iter().map(|name| read(name)).collect();
    assert_eq!(fleet(&init).0, 1, "again");
    let after: Vec<Vec<u8>> = all.iter().map(|name| read(name)).collect();
    assert!(before == after, "keys are never replaced");
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let directory = TemporaryDirectory::new("fleet-refusals");
    let keys = directory.file("keys").display().to_string();
    let node = directory.file("node").display().to_string();
    for (arguments, cause) in [
        (vec!["status", "--fleet", &keys], "fleet.json"),
        (vec!["init", "--etcd", "127.0.0.1:1", "--fleet", &keys], "https://HOST:PORT"),
        (vec!["invite", "a/b", "-o", &node, "--fleet", &keys], "is not a name of a node"),
        (vec!["invite", "root", "-o", &node, "--fleet", &keys], "user of the controller"),
        (vec!["apply"], "PLAN"),
        (vec!["apply", "plan", "--deadline", "4"], "5..=86400"),
        (vec!["agent", &keys, "--state", &node], "fleet.json"),
    ] {
        let (code, text) = fleet(&arguments);
        assert!(code == 2 && text.contains(cause), "{arguments:?}: {code} {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
    // The credentials of the fleet are no node's.
    let init = [
        "init",
        "--etcd",
        &unused_address(),
        "--fleet",
        &directory.file("fleet").display().to_string(),
    ];
    assert_eq!(fleet(&init).0, 1);
    let of_fleet = directory.file("fleet").display().to_string();
    let (code, text) = fleet(&["agent", &of_fleet, "--state", &node]);
    assert!(code == 2 && text.contains("onbeat fleet invite"), "{text}");
}
