//! Installation by `make install`, with the program of this build, and the maintainer scripts of the package.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use onbeat_testing::TemporaryDirectory;
use onbeat_testing::documents::{broken_links, documents};

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn installed(into: &Path, path: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-stripped.sh");
    let program = env!("CARGO_BIN_EXE_onbeat");
    output(Command::new("/bin/sh").args([script, program]).arg(into).arg("/usr").env("PATH", path));
}

fn length(path: &Path) -> u64 {
    path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display())).len()
}

#[test]
fn the_program_is_stripped_and_has_a_debug_link() {
    let root = TemporaryDirectory::new("install");
    installed(&root.file("to"), &std::env::var("PATH").unwrap());
    let built = Path::new(env!("CARGO_BIN_EXE_onbeat"));
    let binary = root.file("to/usr/bin/onbeat");
    assert!(length(&binary) < length(built) / 2, "{} octets", length(&binary));
    assert!(length(&root.file("to/usr/bin/.debug/onbeat.debug")) > 0);
    let sections = output(Command::new("readelf").arg("-SW").arg(&binary));
    for gone in [".debug_info", ".debug_line", ".symtab"] {
        assert!(!sections.contains(gone), "{gone}: {sections}");
    }
    assert!(sections.contains(".gnu_debuglink"), "{sections}");
    assert!(output(Command::new(&binary).arg("--version")).starts_with("onbeat "));

    // An address of a function of this program, whose line only the debug file has.
    let symbols = output(Command::new("nm").arg("--defined-only").arg(built));
    let symbol = symbols.lines().find(|line| line.contains("onbeat4main")).expect("a symbol");
    let address = symbol.split(' ').next().expect("an address");
    let line = output(Command::new("addr2line").arg("-e").arg(&binary).arg(address));
    assert!(line.contains("cli/src/main.rs:"), "{line}");
}

#[test]
fn without_objcopy_the_program_is_installed_unchanged() {
    let root = TemporaryDirectory::new("install-whole");
    let tools = root.file("tools");
    std::fs::create_dir_all(&tools).unwrap();
    for tool in ["basename", "dirname", "install"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{tool}"), tools.join(tool)).unwrap();
    }
    installed(&root.file("to"), tools.to_str().unwrap());
    let built = Path::new(env!("CARGO_BIN_EXE_onbeat"));
    assert_eq!(length(&root.file("to/usr/bin/onbeat")), length(built));
}

#[test]
fn all_files_of_the_product_are_installed() {
    let root = TemporaryDirectory::new("install-all");
    let to = root.file("to");
    // As make calls it, in an environment where `cd scripts/..` would leave the tree.
    std::fs::create_dir_all(root.file("cdpath/scripts")).unwrap();
    let mut install = Command::new("/bin/sh");
    install.args(["scripts/install.sh", env!("CARGO_BIN_EXE_onbeat")]).env("DESTDIR", &to);
    install.current_dir(onbeat_testing::root()).env("CDPATH", root.file("cdpath"));
    output(install.env("PREFIX", "/opt/onbeat").env("STRIP", "no"));
    for path in [
        "bin/onbeat",
        "share/man/man1/onbeat.1",
        "share/man/man1/onbeat-run.1",
        "share/bash-completion/completions/onbeat",
        "share/fish/vendor_completions.d/onbeat.fish",
        "share/zsh/site-functions/_onbeat",
        "lib/systemd/catalog/onbeat.catalog",
        "lib/sysusers.d/onbeat.conf",
        "lib/tmpfiles.d/onbeat.conf",
        "lib/systemd/system/onbeat-hook@.service",
        "lib/systemd/system/onbeat-metrics.service",
        "lib/systemd/system/onbeat-metrics.socket",
        "share/onbeat/grafana/onbeat.json",
        "share/onbeat/prometheus/onbeat.rules.yml",
        "share/onbeat/ssh/onbeat-netconf.conf",
        "share/onbeat/result.schema.json",
        "share/doc/onbeat/examples/reference.toml",
        "share/doc/onbeat/docs/explanation/architecture.md",
        "share/doc/onbeat/LICENSE-MIT",
    ] {
        assert!(length(&to.join("opt/onbeat").join(path)) > 0, "{path}");
    }
    let unit = to.join("opt/onbeat/lib/systemd/system/onbeat@.service");
    let unit = std::fs::read_to_string(unit).expect("the unit");
    assert!(unit.contains("ExecStart=/opt/onbeat/bin/onbeat run"), "{unit}");
    let page = to.join("opt/onbeat/share/man/man1/onbeat-powerlink.1");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("/opt/onbeat/share/doc/onbeat/docs/reference/powerlink.md"), "{page}");
    assert!(!to.join("opt/onbeat/libexec").exists(), "no laboratory is built");
}

/// With and without the files that a package has elsewhere.
#[test]
fn links_of_installed_documents_have_targets() {
    for notices in ["yes", "no"] {
        let root = TemporaryDirectory::new(&format!("install-documents-{notices}"));
        let mut install = Command::new("scripts/install.sh");
        install.arg(env!("CARGO_BIN_EXE_onbeat")).current_dir(onbeat_testing::root());
        install.env("DESTDIR", root.path()).env("PREFIX", "/usr").env("STRIP", "no");
        output(install.env("NOTICES", notices));
        let installed = root.file("usr/share/doc/onbeat");
        let documents = documents(&installed);
        assert!(documents.len() > 50, "{} documents", documents.len());
        let broken = broken_links(&installed, &documents);
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        let exists = |path: &str| installed.join(path).exists();
        assert_eq!(exists("CHANGELOG.md"), notices == "yes");
        for path in ["docs/SUMMARY.md", "docs/book.toml", "docs/book.css"] {
            assert!(!exists(path), "{path}");
        }
        let page = std::fs::read_to_string(installed.join("docs/reference/configuration.md"));
        let page = page.expect("a page that includes a file");
        assert!(page.contains("[node.events]") && !page.contains("{{"), "{page}");
    }
}

#[test]
fn a_purge_removes_links_to_drop_ins() {
    let root = TemporaryDirectory::new("purge");
    let units = root.file("etc/systemd/system");
    let directory = |name: &str| {
        let directory = units.join(format!("onbeat@{name}.service.d"));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    };
    let (linked, mixed) = (directory("linked"), directory("mixed"));
    for directory in [&linked, &mixed] {
        let drop_in = "/usr/share/onbeat/systemd/guard.conf";
        std::os::unix::fs::symlink(drop_in, directory.join("guard.conf")).unwrap();
    }
    std::fs::write(mixed.join("own.conf"), "[Service]\n").unwrap();
    let other = units.join("other.service.d");
    std::fs::create_dir_all(&other).unwrap();
    let script = onbeat_testing::root().join("packaging/debian/onbeat.postrm");
    let script = std::fs::read_to_string(script).unwrap();
    let script = script.replace(" /etc/", &format!(" {}/etc/", root.path().display()));
    let script = script.replace("/run/onbeat", root.file("run").to_str().unwrap());
    output(Command::new("sh").args(["-c", &script, "onbeat.postrm", "purge"]));
    assert!(!linked.exists() && other.exists());
    let left: Vec<_> = std::fs::read_dir(&mixed).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].file_name(), "own.conf");
}

/// A daemon that is stopped, or in a debugger, accepts a connection and does not respond. dpkg waits for the
/// scripts.
#[test]
fn the_scripts_of_the_package_do_not_wait_for_a_node_that_does_not_respond() {
    let root = TemporaryDirectory::new("maintainer");
    let file = |name: &str| root.file(name);
    std::fs::create_dir_all(file("bin")).unwrap();
    let _listeners =
        ["hangs", "gone"].map(|name| UnixListener::bind(file(&format!("{name}.sock"))).unwrap());
    // "hangs" blocks, and ignores SIGTERM.
    let program = "#!/bin/sh\n[ \"$2\" = hangs ] || exit 2\ntrap '' TERM\n\
                   mkfifo \"$0.fifo\" 2>/dev/null\nread -r line <>\"$0.fifo\"\n";
    std::fs::write(file("bin/onbeat"), program).unwrap();
    std::fs::set_permissions(file("bin/onbeat"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", file("bin").display(), std::env::var("PATH").unwrap());
    let started = |script: &str, words: &[&str]| {
        let text = onbeat_testing::root().join("packaging/debian").join(script);
        let text = std::fs::read_to_string(text).unwrap();
        let text = text.replace("/run/onbeat", root.path().to_str().unwrap());
        let mut shell = Command::new("timeout");
        shell.args([
            "--kill-after=1",
            "30",
            "sh",
            "-c",
            &text.replace("/run/systemd", "/nonexistent"),
        ]);
        shell.arg(script).args(words).env("PATH", &path).stdout(std::process::Stdio::piped());
        shell.spawn().unwrap()
    };
    let scripts = [
        (started("onbeat.postinst", &["configure", "0.0.1"]), "node hangs still runs"),
        (started("onbeat.prerm", &["remove"]), "node hangs keeps running"),
    ];
    for (script, message) in scripts {
        let done = script.wait_with_output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success() && text.contains(message), "{}: {text}", done.status);
        assert!(!text.contains("gone"), "{text}");
    }
}
