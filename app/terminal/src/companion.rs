//! The other program of the same installation.
//!
//! It runs with the privileges of the caller, usually root. Therefore it is executed only from the directory of
//! this program or a directory relative to it, never from PATH, and only if users who cannot replace this
//! program cannot replace it either.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onbeat_host::trust;

use crate::exit::{Failure, Result};
use crate::version;

/// Environment variable with the version of the program that executes its companion.
pub const VERSION: &str = "ONBEAT_VERSION";

/// A program of the same installation as this one.
#[derive(Debug, Clone, Copy)]
pub struct Companion {
    /// Name of its file.
    pub name: &'static str,
    /// Its directory relative to that of this program, if it differs.
    pub directory: &'static str,
    /// The remedy if it is not installed.
    pub remedy: &'static str,
}

/// Rejects the caller of a companion if its version differs: its command line may differ as well. `own`: the companion.
///
/// # Errors
/// It differs.
pub fn check_version(of_caller: Option<&str>, own: &str) -> Result<()> {
    let version = version::line();
    match of_caller {
        Some(other) if other != version => Err(Failure::new(format!(
            "onbeat has version {other:?}, and {own} {version}; install the same version of both"
        ))),
        _ => Ok(()),
    }
}

impl Companion {
    /// Path of the program.
    ///
    /// # Errors
    /// It is not installed; another user could have written it; this program was replaced.
    pub fn find(&self) -> Result<PathBuf> {
        let failed =
            |error| Failure::new(format!("cannot determine the path of this program: {error}"));
        let own = env::current_exe().map_err(failed)?;
        // The path may refer to another file by now, of another owner.
        let running = fs::metadata("/proc/self/exe").map_err(failed)?;
        if !fs::metadata(&own).is_ok_and(|found| is_same(&found, &running)) {
            return Err(Failure::new(format!("{own:?} was replaced or removed; start it again")));
        }
        self.of(&own)
    }

    /// Path of the companion of the program `own`.
    fn of(&self, own: &Path) -> Result<PathBuf> {
        let directory = own.parent().unwrap_or(Path::new("/"));
        let paths = [directory.to_owned(), directory.join(self.directory)];
        let Some(program) =
            paths.iter().map(|path| path.join(self.name)).find(|path| path.is_file())
        else {
            let Self { name, remedy, .. } = self;
            let [beside, below] = paths.map(|path| path.display().to_string());
            return Err(Failure::new(format!(
                "{name} is not installed: not in {beside} or {below}; {remedy}"
            )));
        };
        trust::check_program(&program, own)?;
        Ok(program)
    }

    /// Executes the program in place of this process, with [`version::line`] in [`VERSION`]; returns only
    /// on failure. A file that the kernel refuses to execute is not passed to a shell.
    ///
    /// # Errors
    /// As [`Self::find`]; the kernel refuses to execute it; [`VERSION`] is already set, because the program
    /// found is a copy of this one.
    pub fn execute(&self, arguments: impl IntoIterator<Item = OsString>) -> Result {
        let program = self.find()?;
        if env::var_os(VERSION).is_some() {
            return Err(Failure::new(format!(
                "{program:?} is a copy of this program, or {VERSION} is set in the environment; {}",
                self.remedy
            )));
        }
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
        let arguments = [program.clone().into_os_string()].into_iter().chain(arguments);
        let arguments =
            arguments.map(|argument| text(&argument)).collect::<io::Result<Vec<_>>>()?;
        let given = env::vars_os().chain([(VERSION.into(), version::line().into())]);
        let environment = given
            .map(|(name, value)| CString::new([name.into_vec(), value.into_vec()].join(&b'=')))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let Err(errno) = nix::unistd::execve(&arguments[0], &arguments, &environment);
        Err(Failure::new(format!("cannot execute {program:?}: {errno}; {}", self.remedy)))
    }
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use onbeat_testing::TemporaryDirectory;

    use super::*;

    #[test]
    fn another_version_is_rejected() {
        assert!(check_version(None, "other").is_ok());
        assert!(check_version(Some(version::line()), "other").is_ok());
        assert!(check_version(Some("0.0.1"), "other").is_err());
    }

    #[test]
    fn a_companion_is_found_only_in_its_two_directories() {
        const COMPANION: Companion =
            Companion { name: "other", directory: "../libexec", remedy: "install it" };
        let root = TemporaryDirectory::new("companion");
        let (bin, libexec) = (root.path().join("bin"), root.path().join("libexec"));
        let install = |directory: &Path, name, mode| {
            fs::create_dir_all(directory).unwrap();
            let program = directory.join(name);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            program
        };
        let own = install(&bin, "onbeat", 0o755);
        let found = || COMPANION.of(&own).map_err(|failure| format!("{failure:?}"));
        let missing = found().unwrap_err();
        assert!(missing.contains("/libexec; install it"), "{missing}");
        install(&libexec, "other", 0o755);
        assert_eq!(found().unwrap(), bin.join("../libexec/other"));
        fs::set_permissions(&libexec, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(found().unwrap_err().contains("chmod go-w"));
        // A group that can replace this program (umask 002) can replace the other.
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o775)).unwrap();
        let beside = install(&bin, "other", 0o755);
        assert_eq!(found().unwrap(), beside);
        // Users who cannot write this program could have written it: it is refused, and no other is executed.
        install(&bin, "other", 0o775);
        let refused = found().unwrap_err();
        assert!(refused.contains("chmod go-w"), "{refused}");
        install(&bin, "onbeat", 0o775);
        assert_eq!(found().unwrap(), beside);
    }
}
