//! The commit that the build script determines, in archives, repositories and other trees.

#[path = "../build/commit.rs"]
mod commit;

use std::fs;
use std::path::Path;
use std::process::Command;

use onbeat_testing::{Feature, TemporaryDirectory};

/// A tree with one source, one document and the file that `git archive` writes.
fn tree(name: &str) -> TemporaryDirectory {
    let tree = TemporaryDirectory::new(&format!("commit-{name}"));
    for (name, text) in [
        ("Cargo.toml", "[workspace]\nmembers = [\n    \"app/terminal\",\n]\n"),
        ("app/terminal/src/lib.rs", "// source\n"),
        ("app/terminal/build/commit.txt", "$Format:%H$\n"),
        ("app/terminal/build/.gitattributes", "commit.txt export-subst\n"),
        ("docs/README.md", "page\n"),
    ] {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    tree
}

fn git(root: &Path, arguments: &str) -> String {
    let git = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test", "-c", "init.defaultBranch=main"])
        .args(arguments.split(' '))
        .current_dir(root)
        .output()
        .expect("git runs");
    assert!(git.status.success(), "git {arguments}: {}", String::from_utf8_lossy(&git.stderr));
    String::from_utf8(git.stdout).unwrap().trim().to_owned()
}

/// Commits everything, and returns the hash.
fn record(root: &Path) -> String {
    git(root, "add -A");
    git(root, "commit -q -m commit");
    git(root, "rev-parse HEAD")
}

fn repository(name: &str) -> Option<(TemporaryDirectory, String)> {
    let git_runs = Command::new("git").arg("--version").output().is_ok();
    onbeat_testing::require_that(git_runs, "git (apt-get install git)").then(|| {
        let tree = tree(name);
        git(tree.path(), "init -q");
        let hash = record(tree.path());
        (tree, hash)
    })
}

#[test]
fn a_tree_without_repository_has_no_commit() {
    let tree = tree("none");
    assert_eq!(commit::of_sources(tree.path()), None);
    assert!(commit::inputs(tree.path()).contains(&tree.path().join("app/terminal/src")));
}

#[test]
fn a_repository_has_the_commit_of_head_until_a_source_changes() {
    let Some((tree, hash)) = repository("head") else { return };
    let root = tree.path();
    assert_eq!(commit::of_sources(root), Some(hash.clone()));
    fs::write(root.join("docs/README.md"), "another\n").unwrap();
    fs::write(root.join("app/terminal/src/notes"), "not known to git\n").unwrap();
    assert_eq!(commit::of_sources(root), Some(hash.clone()), "a document is no source");
    fs::write(root.join("app/terminal/src/lib.rs"), "// changed\n").unwrap();
    assert_eq!(commit::of_sources(root), Some(format!("{hash}-dirty")));
    let next = record(root);
    assert_ne!(next, hash);
    assert_eq!(commit::of_sources(root), Some(next));
}

/// Cargo runs the build script again if an input changes.
#[test]
fn a_commit_changes_an_input() {
    let Some((tree, _)) = repository("inputs") else { return };
    let root = tree.path();
    for packed in [false, true] {
        if packed {
            git(root, "pack-refs --all");
        }
        let heads = root.join(".git/refs/heads");
        assert!(commit::inputs(root).contains(&heads), "{:?}", commit::inputs(root));
        let before = fs::metadata(&heads).unwrap().modified().unwrap();
        fs::write(root.join("docs/README.md"), format!("{packed}\n")).unwrap();
        record(root);
        assert!(fs::metadata(&heads).unwrap().modified().unwrap() > before, "packed: {packed}");
    }
}

#[test]
fn an_archive_has_the_commit_of_its_origin() {
    let Some((tree, hash)) = repository("archive") else { return };
    git(tree.path(), "archive --prefix=unpacked/ -o archive.tar HEAD");
    let outer = TemporaryDirectory::new("commit-outer");
    git(outer.path(), "init -q");
    let tar = Command::new("tar")
        .arg("-xf")
        .arg(tree.path().join("archive.tar"))
        .current_dir(outer.path())
        .status();
    assert!(tar.expect("tar runs").success());
    record(outer.path());
    let unpacked = outer.path().join("unpacked");
    assert_eq!(commit::of_sources(&unpacked), Some(hash));
    // Without the file it has no commit, not the one of the outer repository.
    fs::write(unpacked.join("app/terminal/build/commit.txt"), "$Format:%H$\n").unwrap();
    assert_eq!(commit::of_sources(&unpacked), None);
}

/// Git executes programs that the configuration of a repository names, so it refuses that of another user.
#[test]
fn the_repository_of_another_user_is_not_read() {
    if !onbeat_testing::require(Feature::Root) {
        return;
    }
    let Some((tree, _)) = repository("foreign") else { return };
    std::os::unix::fs::chown(tree.path(), Some(65534), Some(65534)).unwrap();
    assert_eq!(commit::of_sources(tree.path()), None);
}
