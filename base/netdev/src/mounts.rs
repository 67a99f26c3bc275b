//! Mounts that only one thread sees.

use std::{env, fs::File, marker::PhantomData, path::PathBuf};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    unistd::{chdir, chroot, fchdir},
};

use crate::{Error, Result};

const NONE: Option<&str> = None;

/// A mount namespace of the calling thread, and of the threads and processes that it starts. What is
/// mounted there spreads nowhere, and goes with the last that is inside.
///
/// On drop the thread goes back to where it was.
#[derive(Debug)]
pub struct PrivateMounts {
    namespace: File,
    root: File,
    directory: Option<PathBuf>,
    /// Of the thread that made it: another one has nothing to go back from.
    of_this_thread: PhantomData<*const ()>,
}

impl PrivateMounts {
    /// Moves the calling thread into a new mount namespace.
    ///
    /// # Errors
    /// Where the caller lacks CAP_SYS_ADMIN; in a chroot, where nothing is mounted on /proc.
    pub fn enter() -> Result<Self> {
        let open =
            |path| File::open(path).map_err(|error| Error::io(format!("open {path}"), error));
        let (namespace, root) = (open("/proc/thread-self/ns/mnt")?, open("/")?);
        let directory = env::current_dir().ok();
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| Error::io("make a mount namespace", errno))?;
        // From here on an early return goes back, too.
        let mounts = Self { namespace, root, directory, of_this_thread: PhantomData };
        // Without this, mounts would spread to the rest of the machine.
        match mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE) {
            Err(Errno::EINVAL) => leave_chroot_mount()
                .map_err(|errno| Error::io("make the mounts of this chroot private", errno))?,
            result => result.map_err(|errno| Error::io("make the mounts private", errno))?,
        }
        if let Some(directory) = &mounts.directory {
            let _ = env::set_current_dir(directory);
        }
        Ok(mounts)
    }
}

/// The root directory of a chroot need not be one of a mount. Then nobody inside can reach the mount
/// that it is on, to make it private; and what is mounted on its directories would spread with that
/// mount. So the thread goes to a copy of the tree that is mounted where nothing spreads: on /proc,
/// which is a mount that can be made private.
fn leave_chroot_mount() -> nix::Result<()> {
    mount(NONE, "/proc", NONE, MsFlags::MS_PRIVATE, NONE)?;
    mount(Some("/"), "/proc", NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    mount(NONE, "/proc", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    chroot("/proc")?;
    chdir("/")
}

impl Drop for PrivateMounts {
    fn drop(&mut self) {
        // A thread that cannot go back (it never could come here then) stays: the namespace ends
        // with it.
        if setns(&self.namespace, CloneFlags::CLONE_NEWNS).is_ok() {
            // That led to the namespace's root, which is not that of a chroot.
            let _ = fchdir(&self.root).and_then(|()| chroot("."));
            if let Some(directory) = &self.directory {
                let _ = env::set_current_dir(directory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt, path::Path, thread};

    use super::*;
    use onbeat_testing::{Feature, require};

    fn place() -> (PathBuf, PathBuf, (u64, u64)) {
        let root = fs::metadata("/").unwrap();
        let namespace = fs::read_link("/proc/thread-self/ns/mnt").unwrap();
        (namespace, env::current_dir().unwrap(), (root.dev(), root.ino()))
    }

    /// Enters, mounts something on `target`, and leaves.
    fn visit(target: &Path) {
        let (namespace, directory, root) = place();
        let mounts = PrivateMounts::enter().unwrap();
        assert_ne!(place().0, namespace);
        assert_eq!(place().1, directory);
        mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
        fs::write(target.join("mark"), "").unwrap();
        drop(mounts);
        assert_eq!(place(), (namespace, directory, root));
        assert!(!target.join("mark").exists());
    }

    #[test]
    fn nothing_is_seen_outside_and_nothing_stays() {
        if !require(Feature::Root) {
            return;
        }
        thread::spawn(|| visit(Path::new("/mnt"))).join().unwrap();
    }

    #[test]
    fn in_a_chroot_that_is_no_mount() {
        if !require(Feature::Root) {
            return;
        }
        let root = env::temp_dir().join(format!("onbeat-chroot-{}", std::process::id()));
        for directory in ["proc", "mnt"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let inside = root.clone();
        // The outer mounts take /proc away with the thread.
        thread::spawn(move || {
            let outer = PrivateMounts::enter().unwrap();
            let proc = inside.join("proc");
            mount(Some("proc"), &proc, Some("proc"), MsFlags::empty(), NONE).unwrap();
            chroot(&inside).unwrap();
            env::set_current_dir("/").unwrap();
            visit(Path::new("/mnt"));
            drop(outer);
        })
        .join()
        .unwrap();
        assert!(!root.join("mnt/mark").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
