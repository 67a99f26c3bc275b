//! Configuration files that root acts on.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::error::{Error, Result};
use crate::config::{Config, LoadError};

/// Reads a configuration file that a privileged command acts on.
///
/// # Errors
/// As [`Config::load`]; another user could have written the file.
pub(super) fn load(file: &Path) -> Result<Config> {
    // Before it is read: a path that passes leads to the same file from then on.
    match check_file(file) {
        Ok(()) => Ok(Config::load(file)?),
        // Why it cannot be read comes first.
        Err(refusal) => Err(Config::load(file).map_or_else(Error::from, |_| refusal)),
    }
}

/// Refuses a configuration file that another user could have written or exchanged: the file and each
/// directory and symbolic link on its path belong to root, to the user of this process, or to the
/// user who became root with sudo, and no other user can write to them. A directory with the sticky
/// bit, such as /tmp, may be writable for all, and a group that has the number of the owner is the
/// owner's own.
///
/// # Errors
/// What another user could write to; the path cannot be read.
pub fn check_file(file: &Path) -> Result<()> {
    let read = |source| LoadError::Read { path: file.to_owned(), source };
    let given = std::path::absolute(file).map_err(read)?;
    let resolved = fs::canonicalize(file).map_err(read)?;
    let own = nix::unistd::geteuid().as_raw();
    let sudo = std::env::var("SUDO_UID").ok().filter(|_| own == 0);
    let trusted = [Some(0), Some(own), sudo.and_then(|uid| uid.parse().ok())];
    for place in given.ancestors().chain(resolved.ancestors()) {
        let status = fs::symlink_metadata(place).map_err(read)?;
        let refused = |cause: String, remedy: String| {
            Err(Error::UntrustedFile { file: file.to_owned(), cause, remedy })
        };
        if !trusted.contains(&Some(status.uid())) {
            let remedy = "copy it to a directory of root, such as /etc/onbeat".to_owned();
            return refused(format!("{place:?} belongs to user {}", status.uid()), remedy);
        }
        if is_shared(&status) {
            let mode = status.mode() & 0o7777;
            let cause = format!("other users can write to {place:?} (mode {mode:04o})");
            return refused(cause, format!("chmod go-w {}", place.display()));
        }
    }
    Ok(())
}

/// Whether users besides the owner can change it.
fn is_shared(status: &Metadata) -> bool {
    let mode = status.mode();
    let group = mode & 0o020 != 0 && status.gid() != status.uid();
    let sticky = status.is_dir() && mode & 0o1000 != 0;
    !status.is_symlink() && !sticky && (group || mode & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use onbeat_netdev::testing::{Feature, TemporaryDirectory, require_all};

    use super::*;

    const CONFIG: &str = "[node]\nname = \"nx\"\n[[port]]\nname = \"p\"\ninterface = \"nx0\"\n";

    #[test]
    fn a_file_that_others_could_have_written_is_refused() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let directory = TemporaryDirectory::new("trust");
        let (file, below) = (directory.file("a.toml"), directory.file("below"));
        fs::create_dir(&below).unwrap();
        let inner = below.join("b.toml");
        [&file, &inner].iter().for_each(|file| fs::write(file, CONFIG).unwrap());
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let refused = |path: &Path, cause: &str| {
            let error = load(path).unwrap_err().to_string();
            assert!(error.contains("is refused") && error.contains(cause), "{error}");
        };
        load(&file).unwrap();
        for shared in [0o666, 0o602] {
            mode(&file, shared);
            refused(&file, "chmod go-w");
        }
        // Group 0 is that of user 0.
        mode(&file, 0o664);
        load(&file).unwrap();
        chown(&file, None, Some(65534)).unwrap();
        refused(&file, "other users can write to");
        mode(&file, 0o644);
        load(&file).unwrap();
        chown(&file, Some(65534), None).unwrap();
        refused(&file, "belongs to user 65534; copy it to");

        mode(&below, 0o777);
        refused(&inner, "below\" (mode 0777); chmod go-w");
        mode(&below, 0o1777);
        load(&inner).unwrap();
        // As `ln -s` of another user in /tmp, to a file of root.
        let link = below.join("link.toml");
        symlink(&inner, &link).unwrap();
        load(&link).unwrap();
        lchown(&link, Some(65534), None).unwrap();
        refused(&link, "link.toml\" belongs to user 65534");
        chown(&below, Some(65534), None).unwrap();
        refused(&inner, "below\" belongs to user 65534");
        let outer = directory.file("outer.toml");
        symlink(&inner, &outer).unwrap();
        refused(&outer, "below\" belongs to user 65534");
        mode(&below, 0o777);

        fs::write(&file, "[node").unwrap();
        let error = load(&file).unwrap_err();
        assert!(matches!(error, Error::Load(_)), "{error}");
        let error = load(&directory.file("missing.toml")).unwrap_err();
        assert!(matches!(error, Error::Load(LoadError::Read { .. })), "{error}");
    }
}
