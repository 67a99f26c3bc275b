//! A BPF file system that is visible to one thread only, and removed with it.

use std::path::Path;
use std::thread;

use nix::mount::{MsFlags, mount};
use onbeat_netdev::PrivateMounts;

use crate::harness::can_run;

/// Runs `test` on a thread with a separate mount namespace, which ends with the thread; its argument is a
/// directory that does not exist yet, in a new BPF file system.
pub(crate) fn with_private_bpffs(test: impl FnOnce(&Path) + Send) {
    if !can_run() {
        return;
    }
    let name = thread::current().name().unwrap_or("test").replace(':', "-");
    let mount_point = std::env::temp_dir().join(format!("onbeat-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&mount_point).expect("a directory to mount on");
    let result = thread::scope(|scope| {
        let body = || {
            let _mounts = PrivateMounts::enter().expect("mounts of this thread");
            mount(Some("bpf"), &mount_point, Some("bpf"), MsFlags::empty(), None::<&str>)
                .expect("a BPF file system");
            test(&mount_point.join("node"));
        };
        thread::Builder::new().name(name).spawn_scoped(scope, body).expect("a thread").join()
    });
    let _ = std::fs::remove_dir(&mount_point);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
