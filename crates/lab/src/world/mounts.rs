//! A private view of the file system, for control sockets and pinned programs.

use std::env;
use std::fs::{self, File};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::{Error, Result};

/// Where the lab keeps configurations, sockets and logs of its nodes.
pub(super) const DIRECTORY: &str = "/run/onbeat/lab";

/// A mount namespace of the calling thread, and of the threads and processes that it starts: an
/// empty /run with /run/onbeat in it, and an empty bpffs on /sys/fs/bpf. No other process sees
/// what is made there, and it goes with the last that is inside.
///
/// On drop the thread goes back to where it was.
#[derive(Debug)]
pub struct Mounts {
    former: File,
    directory: Option<PathBuf>,
    /// Of the thread that made it: another one has nothing to go back from.
    of_this_thread: PhantomData<*const ()>,
}

impl Mounts {
    /// Moves the calling thread into a new mount namespace.
    ///
    /// # Errors
    /// Where the caller lacks CAP_SYS_ADMIN, or the kernel lacks tmpfs or BPF.
    pub fn enter() -> Result<Self> {
        let path = "/proc/thread-self/ns/mnt";
        let former = File::open(path).map_err(|error| Error::io(format!("open {path}"), error))?;
        let directory = env::current_dir().ok();
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| Error::io("make a mount namespace (run as root)", errno))?;
        // From here on an early return goes back, too.
        let mounts = Self { former, directory, of_this_thread: PhantomData };
        // Without this, mounts would propagate to the rest of the machine.
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .map_err(|errno| Error::io("make the mounts private", errno))?;
        fresh("tmpfs", Path::new("/run"))?;
        fresh("bpf", Path::new("/sys/fs/bpf"))?;
        fs::create_dir_all(DIRECTORY)
            .map_err(|error| Error::io(format!("make {DIRECTORY}"), error))?;
        Ok(mounts)
    }
}

fn fresh(kind: &str, target: &Path) -> Result<()> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)
        .map_err(|errno| Error::io(format!("mount a {kind} on {}", target.display()), errno))
}

impl Drop for Mounts {
    fn drop(&mut self) {
        // A thread that cannot go back (it never could come here then) stays: the namespace ends
        // with it.
        if setns(&self.former, CloneFlags::CLONE_NEWNS).is_ok() {
            if let Some(directory) = &self.directory {
                let _ = env::set_current_dir(directory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_netdev::testing::{Feature, require};

    #[test]
    fn nothing_is_seen_outside_and_nothing_stays() {
        if !require(Feature::Root) {
            return;
        }
        let here = || fs::read_link("/proc/thread-self/ns/mnt").unwrap();
        let (before, directory) = (here(), env::current_dir().unwrap());
        let mounts = Mounts::enter().unwrap();
        assert_ne!(here(), before);
        assert_eq!(env::current_dir().unwrap(), directory);
        let id = std::process::id();
        let marks = [format!("{DIRECTORY}/mark-{id}"), format!("/sys/fs/bpf/mark-{id}")];
        marks.iter().for_each(|mark| fs::create_dir(mark).unwrap());
        drop(mounts);
        assert_eq!(here(), before);
        assert_eq!(env::current_dir().unwrap(), directory);
        assert!(marks.iter().all(|mark| !Path::new(mark).exists()));
    }
}
