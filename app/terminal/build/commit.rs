//! The commit that a source tree was checked out or archived from.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Written by `git archive`.
const ARCHIVE: &str = "app/terminal/build/commit.txt";

/// The commit of the sources in `root`: 40 or 64 hexadecimal digits, and `-dirty` if a source of the
/// programs differs from it. `None` if the tree is neither an archive nor a repository that git can read.
pub(crate) fn of_sources(root: &Path) -> Option<String> {
    of_archive(root).or_else(|| of_repository(root))
}

fn of_archive(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join(ARCHIVE)).ok()?;
    Some(text.trim().to_owned()).filter(|text| is_hash(text))
}

fn of_repository(root: &Path) -> Option<String> {
    // An unpacked archive may be inside of a repository of something else.
    let top = PathBuf::from(git(root, ["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let hash = git(root, ["rev-parse", "--verify", "HEAD"]).filter(|text| is_hash(text))?;
    let status = ["status", "--porcelain", "--untracked-files=no", "--"].map(PathBuf::from);
    let changed = git(root, status.into_iter().chain(sources(root)))?;
    Some(if changed.is_empty() { hash } else { hash + "-dirty" })
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|octet| octet.is_ascii_hexdigit())
}

/// The files and directories that determine the result.
pub(crate) fn inputs(root: &Path) -> Vec<PathBuf> {
    let of_git = ["HEAD", "refs/heads", "packed-refs"];
    let of_git = of_git.iter().filter_map(|name| git(root, ["rev-parse", "--git-path", name]));
    // A relative path is relative to the directory that git ran in. Cargo runs a build script each time
    // if a path does not exist.
    let paths = of_git.map(PathBuf::from).chain(sources(root)).map(|path| root.join(path));
    paths.filter(|path| path.exists()).collect()
}

/// The inputs of the programs: sources of the workspace's members without their tests, C headers, and
/// versions of crates.
fn sources(root: &Path) -> BTreeSet<PathBuf> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next());
    let members = members.unwrap_or_default().split('"').skip(1).step_by(2);
    let of_member = ["Cargo.toml", "build.rs", "build", "bpf", "src"];
    let of_members = members.flat_map(|member| of_member.map(|name| Path::new(member).join(name)));
    of_members.chain(["abi", "Cargo.toml", "Cargo.lock"].map(PathBuf::from)).collect()
}

/// Output of git; `None` if it fails. Git refuses the repository of another user, whose configuration could
/// execute arbitrary commands.
fn git(root: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<String> {
    let mut git = Command::new("git");
    // A build writes nothing into the repository, not even the index.
    git.arg("--no-optional-locks").args(arguments).current_dir(root);
    let done = git.output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8(done.stdout).ok()?.trim_end().to_owned())
}
