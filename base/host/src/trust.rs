//! Files that a privileged command acts on, such as configuration files.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onbeat_netdev::shell_word;
use rustix::io::Errno;

use crate::component::LINKS;

/// A file that another user could have written or exchanged.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind} {file:?} is refused: {cause}; {remedy}")]
pub struct UntrustedFile {
    kind: &'static str,
    file: PathBuf,
    cause: String,
    remedy: String,
}

impl From<UntrustedFile> for io::Error {
    fn from(refusal: UntrustedFile) -> Self {
        io::Error::new(io::ErrorKind::PermissionDenied, refusal)
    }
}

/// Reads a file that a privileged command acts on.
///
/// # Errors
/// The error of `read`; as [`check_file`].
pub fn load<T, E: From<UntrustedFile>>(
    file: &Path,
    read: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    // Before reading: a path that passes always resolves to the same file afterwards.
    let checked = check_file(file);
    // A read error has precedence.
    let content = read(file)?;
    checked?;
    Ok(content)
}

/// Refuses a file that another user could have written or exchanged: the file and each directory and
/// symbolic link on its path belong to root, to the user of this process, or to the user who became
/// root with sudo, and no other user can write to them. A directory with the sticky bit, such as /tmp,
/// may be writable for all.
///
/// Write permission of any group is refused: nothing proves that a group has no
/// other member. The bits of the group also show the write permission that an access control list
/// (ACL) grants any user or group, as they are its mask.
///
/// # Errors
/// A file or directory that another user can write to; the path cannot be followed.
pub fn check_file(file: &Path) -> Result<(), UntrustedFile> {
    check("configuration file", file, "copy it to a directory of root, such as /etc/onbeat", None)
}

/// Checks like [`check_file`], for a program that the `running` one executes. It has to be as safe from others as
/// that: its owner, its group and other users may write where they may write to the running program, and the
/// directories on both paths are not checked, as a user who can replace the running program needs no other.
///
/// # Errors
/// As [`check_file`].
pub fn check_program(file: &Path, running: &Path) -> Result<(), UntrustedFile> {
    check("program", file, "install it as root", Some(running))
}

fn check(
    kind: &'static str,
    file: &Path,
    of_another: &str,
    running: Option<&Path>,
) -> Result<(), UntrustedFile> {
    let refused = |cause, remedy| Err(UntrustedFile { kind, file: file.to_owned(), cause, remedy });
    let followed =
        places(file).and_then(|of_file| Ok((of_file, running.map_or(Ok(Vec::new()), places)?)));
    let (mut places, running) = match followed {
        Ok(followed) => followed,
        Err((place, error)) => {
            return refused(format!("{place:?}: {error}"), "use another path".to_owned());
        }
    };
    places.retain(|(place, _)| !running.iter().any(|(known, _)| known == place));
    let running = running.last().map(|(_, status)| status);
    let own = nix::unistd::geteuid().as_raw();
    let sudo = std::env::var("SUDO_UID").ok().filter(|_| own == 0);
    let sudo = sudo.and_then(|uid| uid.parse().ok());
    let trusted = [Some(0), Some(own), sudo, running.map(MetadataExt::uid)];
    if let Some((place, status)) =
        places.iter().find(|(_, status)| !trusted.contains(&Some(status.uid())))
    {
        let cause = format!("{place:?} belongs to user {}", status.uid());
        return refused(cause, of_another.to_owned());
    }
    let shared: Vec<_> = places.iter().filter(|place| is_shared(place, running)).collect();
    if shared.is_empty() {
        return Ok(());
    }
    let of_each = |text: fn(&(PathBuf, Metadata)) -> String, separator| {
        shared.iter().map(|place| text(place)).collect::<Vec<_>>().join(separator)
    };
    let mode = |(place, status): &(PathBuf, Metadata)| {
        format!("{place:?} (mode {:04o})", status.mode() & 0o7777)
    };
    refused(
        format!("other users can write to {}", of_each(mode, ", ")),
        format!("chmod go-w {}", of_each(|(place, _)| shell_word(&place.to_string_lossy()), " ")),
    )
}

/// Returns the directories and symbolic links of a path, and its target file, each once. An error names the
/// unreadable one.
fn places(file: &Path) -> Result<Vec<(PathBuf, Metadata)>, (PathBuf, io::Error)> {
    let absolute = std::path::absolute(file).map_err(|error| (file.to_owned(), error))?;
    let components = |path: &Path| {
        path.iter().rev().filter(|name| *name != ".").map(OsString::from).collect::<Vec<_>>()
    };
    let (mut rest, mut links) = (components(&absolute), 0);
    let (mut place, mut places) = (PathBuf::new(), Vec::<(PathBuf, Metadata)>::new());
    while let Some(name) = rest.pop() {
        if name == ".." {
            // No symbolic link is left in it.
            place.pop();
            continue;
        }
        // "/" replaces the path so far.
        place.push(name);
        let failed = |error| (place.clone(), error);
        let status = fs::symlink_metadata(&place).map_err(failed)?;
        let is_link = status.is_symlink();
        if !places.iter().any(|(known, _)| *known == place) {
            places.push((place.clone(), status));
        }
        if is_link {
            links += 1;
            if links > LINKS {
                return Err(failed(Errno::LOOP.into()));
            }
            rest.extend(components(&fs::read_link(&place).map_err(failed)?));
            place.pop();
        }
    }
    Ok(places)
}

/// Returns whether users other than the owner can change it and cannot change the running program.
fn is_shared((path, status): &(PathBuf, Metadata), running: Option<&Metadata>) -> bool {
    let sticky = status.is_dir() && status.mode() & 0o1000 != 0;
    let accepted = running.map_or(0, |running| {
        let is_its_group = status.gid() == running.gid() && !has_access_control_list(path);
        running.mode() & if is_its_group { 0o022 } else { 0o002 }
    });
    !status.is_symlink() && !sticky && status.mode() & 0o022 & !accepted != 0
}

/// Returns whether the group bits may be the mask of an access control list with other users.
fn has_access_control_list(path: &Path) -> bool {
    let read = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0; 0]);
    !matches!(read, Err(Errno::NODATA | Errno::NOTSUP))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use onbeat_testing::{
        Feature, TemporaryDirectory, UnprivilegedProcess, allow_writing, require_all,
    };

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn accepted(path: &Path) {
        check_file(path).unwrap_or_else(|refusal| panic!("{refusal}"));
    }

    fn refused(path: &Path, cause: &str) {
        let error = check_file(path).unwrap_err().to_string();
        let start = format!("configuration file {path:?} is refused: ");
        assert!(error.starts_with(&start) && error.contains(cause), "{error}");
    }

    #[test]
    fn a_program_is_as_safe_as_the_one_that_executes_it() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let directory = TemporaryDirectory::new("program");
        mode(directory.path(), 0o777);
        let (running, program) = (directory.file("running"), directory.file("program"));
        [&running, &program].iter().for_each(|file| fs::write(file, "").unwrap());
        check_program(&program, &running).unwrap();
        chown(&program, Some(65534), None).unwrap();
        let refusal = check_program(&program, &running).unwrap_err().to_string();
        assert!(refusal.contains("belongs to user 65534; install it as root"), "{refusal}");
        chown(&running, Some(65534), None).unwrap();
        check_program(&program, &running).unwrap();
        let refused = |bits| {
            mode(&program, bits);
            let refusal = check_program(&program, &running).unwrap_err().to_string();
            let expected = format!("(mode {bits:04o}); chmod go-w");
            assert!(refusal.contains(&expected), "{refusal}");
        };
        refused(0o757);
        // Its group, and no other.
        mode(&running, 0o775);
        mode(&program, 0o775);
        check_program(&program, &running).unwrap();
        chown(&program, None, Some(65534)).unwrap();
        refused(0o775);
        chown(&program, None, Some(0)).unwrap();
        mode(&program, 0o755);
        if allow_writing(&program, 65534) {
            refused(0o775);
        }
    }

    #[test]
    fn a_file_that_others_could_have_written_is_refused() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let directory = TemporaryDirectory::new("trust");
        let (file, below) = (directory.file("a.toml"), directory.file("below"));
        fs::create_dir(&below).unwrap();
        let inner = below.join("b.toml");
        [&file, &inner].iter().for_each(|file| fs::write(file, "").unwrap());
        accepted(&file);
        // Group 0 has members, as any other.
        for shared in [0o666, 0o602, 0o664, 0o620] {
            mode(&file, shared);
            refused(&file, &format!("a.toml\" (mode {shared:04o}); chmod go-w "));
        }
        chown(&file, None, Some(65534)).unwrap();
        refused(&file, "other users can write to");
        mode(&file, 0o644);
        accepted(&file);
        chown(&file, Some(65534), None).unwrap();
        refused(&file, "belongs to user 65534; copy it to");

        mode(&below, 0o777);
        refused(&inner, "below\" (mode 0777); chmod go-w");
        mode(&inner, 0o660);
        let (below_path, inner_path) = (below.display(), inner.display());
        refused(&inner, &format!("(mode 0660); chmod go-w {below_path} {inner_path}"));
        mode(&inner, 0o640);
        mode(&below, 0o1777);
        accepted(&inner);
        // As `ln -s` of another user in /tmp, to a file of root.
        let link = below.join("link.toml");
        symlink(&inner, &link).unwrap();
        accepted(&link);
        lchown(&link, Some(65534), None).unwrap();
        refused(&link, "link.toml\" belongs to user 65534");
        // By way of a link of root.
        let first = directory.file("first.toml");
        symlink("./below/../below/link.toml", &first).unwrap();
        refused(&first, "link.toml\" belongs to user 65534");
        chown(&below, Some(65534), None).unwrap();
        refused(&inner, "below\" belongs to user 65534");
        let outer = directory.file("outer.toml");
        symlink(&inner, &outer).unwrap();
        refused(&outer, "below\" belongs to user 65534");

        let circle = directory.file("circle.toml");
        symlink("circle.toml", &circle).unwrap();
        refused(&circle, "Too many levels of symbolic links");
    }

    /// Permissions of an access control list are in the group bits.
    #[test]
    fn a_file_that_an_access_control_list_lets_others_write_is_refused() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let directory = TemporaryDirectory::new("trust-acl");
        mode(directory.path(), 0o755);
        let (file, below) = (directory.file("a.toml"), directory.file("below"));
        fs::create_dir(&below).unwrap();
        let inner = below.join("b.toml");
        [&file, &inner].iter().for_each(|file| fs::write(file, "").unwrap());
        for (listed, file) in [(&file, &file), (&below, &inner)] {
            accepted(file);
            if !allow_writing(listed, 65534) {
                eprintln!("not tested: {listed:?} is on a file system without ACLs");
                return;
            }
            refused(file, "chmod go-w");
            let write = "test -w \"$0\"";
            assert!(
                UnprivilegedProcess::run(write, listed),
                "the user cannot write, nor need be refused"
            );
            // The remedy.
            mode(listed, fs::metadata(listed).unwrap().mode() & !0o022);
            assert!(!UnprivilegedProcess::run(write, listed));
            accepted(file);
        }
    }

    #[test]
    fn a_read_error_has_precedence() {
        let directory = TemporaryDirectory::new("trust-missing");
        let missing = directory.file("missing.toml");
        refused(&missing, "missing.toml\": No such file");
        #[derive(Debug)]
        enum Fault {
            Untrusted,
            Read,
        }
        impl From<UntrustedFile> for Fault {
            fn from(_: UntrustedFile) -> Self {
                Fault::Untrusted
            }
        }
        let fault = load(&missing, |_| Err::<(), _>(Fault::Read)).unwrap_err();
        assert!(matches!(fault, Fault::Read));
        let fault = load(&missing, |_| Ok::<_, Fault>(())).unwrap_err();
        assert!(matches!(fault, Fault::Untrusted));
    }
}
