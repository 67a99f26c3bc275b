//! A BPF file system that only one thread sees, and that is gone with it.

use std::path::Path;
use std::thread;

use nix::mount::{MsFlags, mount};
use onbeat_netdev::PrivateMounts;

use crate::harness::can_run;

/// Runs `test` on a thread with a mount namespace of its own, which ends with the thread; its
/// argument is a directory, not there yet, in a new BPF file system.
pub(crate) fn with_private_bpffs(test: impl FnOnce(&Path) + Send) {
    if !can_run() {
        return;
    }
    let name = thread::current().name().unwrap_or("test").replace(':', "-");
    let place = std::env::temp_dir().join(format!("onbeat-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory to mount on");
    let result = thread::scope(|scope| {
        let body = || {
            let _mounts = PrivateMounts::enter().expect("mounts of this thread");
            mount(Some("bpf"), &place, Some("bpf"), MsFlags::empty(), None::<&str>)
                .expect("a BPF file system");
            test(&place.join("node"));
        };
        thread::Builder::new().name(name).spawn_scoped(scope, body).expect("a thread").join()
    });
    let _ = std::fs::remove_dir(&place);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
