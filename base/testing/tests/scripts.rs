//! The scripts of the tree: a failed command of theirs fails them, and they remove no file of the caller.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onbeat_testing::{TemporaryDirectory, root};

fn script(name: &str) -> Command {
    Command::new(root().join("scripts").join(name))
}

/// Runs a command, and returns its exit status and its output.
fn run(command: &mut Command) -> (i32, String) {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
    (status.code().expect("no signal"), text.into_owned())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).unwrap();
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A program that writes a line and fails, in place of one of PATH. Returns the PATH with it.
fn failing(directory: &TemporaryDirectory, name: &str) -> String {
    let program = directory.file("bin").join(name);
    write(&program, "#!/bin/sh\necho part\nexit 1\n");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", directory.file("bin").display(), std::env::var("PATH").unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A tree with the scripts of this one, and a Git repository if `git`.
fn tree(name: &str, git: bool) -> (TemporaryDirectory, PathBuf) {
    let directory = TemporaryDirectory::new(name);
    let tree = directory.file("tree");
    for file in names(&root().join("scripts")) {
        let (from, to) = (root().join("scripts").join(&file), tree.join("scripts").join(&file));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
    for file in ["Cargo.toml", "app/terminal/build/commit.txt", "packaging/debian/control"] {
        fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
        fs::copy(root().join(file), tree.join(file)).unwrap();
    }
    write(&tree.join("packaging/debian/copyright"), "@MAINTAINER@\n");
    if git {
        commit(&tree);
    }
    (directory, tree)
}

fn commit(tree: &Path) {
    let author = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        let (status, text) =
            run(Command::new("git").arg("-C").arg(tree).args(author).args(arguments));
        assert_eq!(status, 0, "{text}");
    }
}

#[test]
fn a_failed_tar_leaves_no_archive() {
    let directory = TemporaryDirectory::new("archive");
    let (files, to) = (directory.file("files"), directory.file("to"));
    write(&files.join("a"), "a\n");
    let archive = || {
        let mut command = script("archive.sh");
        command.args([&files, &to]).arg("0");
        command
    };
    let (status, text) = run(archive().env("PATH", failing(&directory, "tar")));
    assert_ne!(status, 0, "{text}");
    assert!(names(&to).is_empty(), "{:?}", names(&to));
    let (status, text) = run(&mut archive());
    assert_eq!(status, 0, "{text}");
    assert_eq!(names(&to), ["files.tar.xz", "files.tar.xz.sha256"]);
}

#[test]
fn an_export_has_every_tracked_file() {
    let (directory, tree) = tree("export", false);
    let special = ["gr\u{fc}n.txt", "two words", "-dash", "line\nfeed"];
    for name in special {
        write(&tree.join(name), "text\n");
    }
    std::os::unix::fs::symlink("nowhere", tree.join("dangling")).unwrap();
    write(&tree.join("deleted"), "text\n");
    commit(&tree);
    fs::remove_file(tree.join("deleted")).unwrap();
    write(&tree.join("untracked"), "text\n");
    let export =
        |to: &str| Command::new(tree.join("scripts/export.sh")).arg(directory.file(to)).output();
    let status = export("copy").unwrap().status;
    assert!(status.success(), "{status}");
    let copied = names(&directory.file("copy"));
    for name in special.into_iter().chain(["dangling", "scripts"]) {
        assert!(copied.iter().any(|copied| copied == name), "{name:?} in {copied:?}");
    }
    assert!(!copied.iter().any(|name| name == "deleted" || name == "untracked"), "{copied:?}");
    let mut failed = Command::new(tree.join("scripts/export.sh"));
    failed.arg(directory.file("failed")).env("PATH", failing(&directory, "git"));
    assert_ne!(run(&mut failed).0, 0);
}

#[test]
fn a_failed_cargo_lists_no_crates() {
    let directory = TemporaryDirectory::new("crates");
    let path = failing(&directory, "cargo");
    let (status, text) = run(script("crates.sh").env("PATH", path).env("CARGO", "cargo"));
    assert_ne!(status, 0, "{text}");
    assert!(!text.contains("linked statically"), "{text}");
}

#[test]
fn packages_of_others_in_the_directory_stay() {
    let (directory, tree) = tree("deb", true);
    let version = run(&mut Command::new(tree.join("scripts/version.sh"))).1;
    let out = directory.file("out");
    let sources = out.join(format!("onbeat-{}", version.trim()));
    write(&sources.join("a"), "a directory of the caller\n");
    let others = ["onbeat_0.0.1-1_amd64.deb", "other_1_amd64.changes", "other_1_amd64.deb"];
    others.iter().for_each(|name| write(&out.join(name), ""));
    let deb = |path: &str| {
        let mut command = Command::new(tree.join("scripts/deb.sh"));
        command.arg(&out).env("PATH", path);
        command
    };
    let before = names(&out);
    let (status, text) = run(&mut deb(&failing(&directory, "dpkg-buildpackage")));
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("dpkg-buildpackage failed"), "{text}");
    // Of a failed build nothing remains.
    assert_eq!(names(&out), before);
    assert!(!tree.join("out/deb.build").exists());

    // As dpkg-buildpackage does: results are written beside the tree.
    let build = "#!/bin/sh\ntouch ../onbeat_9-1_amd64.deb ../onbeat-lab_9-1_amd64.deb ../onbeat_9-1_amd64.changes\n";
    write(&directory.file("bin/dpkg-buildpackage"), build);
    write(&directory.file("bin/lintian"), "#!/bin/sh\n");
    fs::set_permissions(directory.file("bin/lintian"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.file("bin").display(), std::env::var("PATH").unwrap());
    let (status, text) = run(&mut deb(&path));
    assert_eq!(status, 0, "{text}");
    let results = ["onbeat-lab_9-1_amd64.deb", "onbeat_9-1_amd64.changes", "onbeat_9-1_amd64.deb"];
    let sources = sources.file_name().unwrap().to_str().unwrap();
    let mut expected: Vec<_> =
        others[1..].iter().chain(&results).copied().chain([sources]).collect();
    expected.sort_unstable();
    assert_eq!(names(&out), expected);
}

#[test]
fn a_failed_search_for_placeholders_fails_the_release() {
    for (name, text, git, passes) in [
        ("release-clean", "all is done\n", true, true),
        // Not written as one word: the step searches this file, too.
        ("release-mark", concat!("TO", "DO\n"), true, false),
        ("release-no-git", "all is done\n", false, false),
    ] {
        let (directory, tree) = tree(name, false);
        write(&tree.join("text"), text);
        if git {
            commit(&tree);
        }
        let mut check = Command::new(tree.join("scripts/release-check.sh"));
        check.arg("placeholders").env("GIT_CEILING_DIRECTORIES", directory.path());
        let (status, text) = run(&mut check);
        assert_eq!(status, i32::from(!passes), "{name}: {text}");
    }
}

#[test]
fn words_are_checked_in_every_text_file() {
    let directory = TemporaryDirectory::new("words");
    let (words, clean) = (directory.file("words.kind"), directory.file("clean"));
    write(&words, "It is told.\n"); // words: ok
    write(&clean, "It is configured.\n");
    let types = ["pub struct Blended;\n", "pub struct Tuning;\n"]; // words: ok
    write(&directory.file("type.rs"), &types.concat());
    let checked = |path: &str| run(script("words").arg(path).current_dir(directory.path()));
    for (path, status, finding) in [
        ("words.kind", 1, "words.kind:1: \"told\""), // words: ok
        ("clean", 0, ""),
        ("type.rs", 1, "type.rs:1: \"Blended\""),
        ("nonexistent", 2, "cannot check"),
        (".", 1, "2 findings"),
    ] {
        let (code, text) = checked(path);
        assert_eq!(code, status, "{path}: {text}");
        assert!(text.contains(finding), "{path}: {text}");
    }
}
