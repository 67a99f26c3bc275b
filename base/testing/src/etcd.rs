//! Servers of etcd for tests.

use std::path::Path;
use std::process::{Command, Stdio};

/// A server of etcd that keeps its data in a directory, with its URLs for clients and for other servers. `cluster`: names and
/// URLs of all servers, as `--initial-cluster` expects them.
#[must_use]
pub fn etcd(name: &str, data: &Path, [client, peer]: [&str; 2], cluster: &str) -> Command {
    let mut command = Command::new("etcd");
    command.args(["--name", name]).arg("--data-dir").arg(data);
    for (option, value) in [
        ("--listen-client-urls", client),
        ("--advertise-client-urls", client),
        ("--listen-peer-urls", peer),
        ("--initial-advertise-peer-urls", peer),
        ("--initial-cluster", cluster),
    ] {
        command.args([option, value]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Gives the server a certificate, and requires one of each client: `ca.pem`, `server.pem` and `server.key` of a directory.
pub fn with_certificates(command: &mut Command, directory: &Path) {
    for (option, file) in [
        ("--trusted-ca-file", "ca.pem"),
        ("--cert-file", "server.pem"),
        ("--key-file", "server.key"),
    ] {
        command.arg(option).arg(directory.join(file));
    }
    command.arg("--client-cert-auth");
}

/// Whether etcd is installed, as [`crate::require_that`].
///
/// # Panics
/// As [`crate::require`].
#[must_use]
pub fn require_etcd() -> bool {
    let found = Command::new("etcd").arg("--version").output().is_ok();
    crate::require_that(found, "etcd (apt-get install etcd-server)")
}
