//! Control groups of tests.

use std::fs;
use std::path::PathBuf;

/// A control group that is removed with the test.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let of_version_2 = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let mount = of_version_2.split(' ').nth(1)?;
        let path = PathBuf::from(mount).join(format!("onbeat-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// Its path from the root of the hierarchy.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_str().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
