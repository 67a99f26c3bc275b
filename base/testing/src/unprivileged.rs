//! A hostile local user.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// User and group of the unprivileged processes.
const OTHER_USER: u32 = 65534;

/// A process of an unprivileged user that holds a lock. Killed on drop.
#[derive(Debug)]
pub struct UnprivilegedProcess(Child);

impl UnprivilegedProcess {
    /// Opens a file or directory for reading and takes an exclusive flock, as any user with read permission
    /// can. `None`: refused.
    ///
    /// # Panics
    /// The caller is not root, or sh or flock is missing.
    #[must_use]
    pub fn hold(path: &Path) -> Option<Self> {
        let mut command = shell("exec 9<\"$0\" && flock -n 9 && echo held && cat", path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Self(command.spawn().expect("start sh as another user"));
        let output = holder.0.stdout.take().expect("a pipe");
        let held = BufReader::new(output).lines().map_while(Result::ok).any(|line| line == "held");
        held.then_some(holder)
    }

    /// Runs a script, whose `$0` is the path; returns whether it succeeded.
    ///
    /// # Panics
    /// As [`UnprivilegedProcess::hold`].
    #[must_use]
    pub fn run(script: &str, path: &Path) -> bool {
        shell(script, path).status().expect("start sh as another user").success()
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for UnprivilegedProcess {
    fn drop(&mut self) {
        // Fails only if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes all capabilities from the calling thread, and from those that it starts.
///
/// # Panics
/// The kernel refuses it.
pub fn drop_capabilities() {
    let header = [0x2008_0522_u32, 0];
    let none = [0_u32; 6];
    // SAFETY: header and data of version 3 of capset, which only reads them.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(result, 0, "capset");
}

fn shell(script: &str, path: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(path).current_dir("/").stderr(Stdio::null());
    command.uid(OTHER_USER).gid(OTHER_USER);
    command
}
