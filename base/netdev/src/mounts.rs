//! Mounts that are visible to one thread only.

use std::{
    env,
    fs::File,
    marker::PhantomData,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    unistd::{chdir, chroot, fchdir},
};

use crate::{Error, Result};

const NONE: Option<&str> = None;

/// A joined thread has ended within this time.
const JOINED: Duration = Duration::from_secs(1);

/// A mount namespace of the calling thread, and of the threads and processes that it starts. Mounts in it do
/// not propagate, and are removed with its last member.
///
/// On drop, the thread returns to its former mount namespace.
#[derive(Debug)]
pub struct PrivateMounts {
    namespace: File,
    root: File,
    directory: Option<PathBuf>,
    /// Of the creating thread: another one has no former namespace.
    of_this_thread: PhantomData<*const ()>,
}

impl PrivateMounts {
    /// Moves the calling thread into a new mount namespace.
    ///
    /// # Errors
    /// The caller lacks CAP_SYS_ADMIN; in a chroot, nothing is mounted on /proc.
    pub fn enter() -> Result<Self> {
        let open =
            |path| File::open(path).map_err(|error| Error::io(format!("open {path}"), error));
        let (namespace, root) = (open("/proc/thread-self/ns/mnt")?, open("/")?);
        let directory = env::current_dir().ok();
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| Error::io("create a mount namespace", errno))?;
        // From here on an early return restores the former namespace, too.
        let mounts = Self { namespace, root, directory, of_this_thread: PhantomData };
        // Otherwise mounts would propagate to the rest of the machine.
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

/// The root directory of a chroot may not be a mount point. Then no process inside can access the mount that
/// it is on, to make it private, and mounts on its directories would propagate with that mount. The thread
/// therefore moves to a copy of the tree that is mounted without propagation: on /proc, which is a mount that
/// can be made private.
fn leave_chroot_mount() -> nix::Result<()> {
    mount(NONE, "/proc", NONE, MsFlags::MS_PRIVATE, NONE)?;
    mount(Some("/"), "/proc", NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    mount(NONE, "/proc", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    chroot("/proc")?;
    chdir("/")
}

impl Drop for PrivateMounts {
    fn drop(&mut self) {
        // A thread that it started shares its root directory for a moment after it was joined (EINVAL). If it cannot
        // return, it stays: the namespace ends with it.
        let deadline = Instant::now() + JOINED;
        let returned = loop {
            match setns(&self.namespace, CloneFlags::CLONE_NEWNS) {
                Err(Errno::EINVAL) if Instant::now() < deadline => thread::yield_now(),
                result => break result.is_ok(),
            }
        };
        if returned {
            // That changed to the root of the namespace, which is not that of a chroot.
            let _ = fchdir(&self.root).and_then(|()| chroot("."));
            if let Some(directory) = &self.directory {
                let _ = env::set_current_dir(directory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt, path::Path};

    use super::*;
    use onbeat_testing::{Feature, require};

    fn place() -> (PathBuf, PathBuf, (u64, u64)) {
        let root = fs::metadata("/").unwrap();
        let namespace = fs::read_link("/proc/thread-self/ns/mnt").unwrap();
        (namespace, env::current_dir().unwrap(), (root.dev(), root.ino()))
    }

    /// Enters, mounts a file system on `target`, and leaves.
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
    fn mounts_are_private_and_removed() {
        if !require(Feature::Root) {
            return;
        }
        thread::spawn(|| visit(Path::new("/mnt"))).join().unwrap();
    }

    /// A joined thread ends a moment later.
    #[test]
    fn joined_threads_do_not_keep_the_mounts() {
        if !require(Feature::Root) {
            return;
        }
        let visits = || {
            for _ in 0..200 {
                let former = place().0;
                let mounts = PrivateMounts::enter().unwrap();
                let threads: Vec<_> = (0..4).map(|_| thread::spawn(|| {})).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                drop(mounts);
                assert_eq!(place().0, former);
            }
        };
        thread::spawn(visits).join().unwrap();
    }

    #[test]
    fn mounts_in_a_chroot_without_a_mount_point() {
        if !require(Feature::Root) {
            return;
        }
        let root = env::temp_dir().join(format!("onbeat-chroot-{}", std::process::id()));
        for directory in ["proc", "mnt"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let inside = root.clone();
        // The outer mounts remove /proc together with the thread.
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
