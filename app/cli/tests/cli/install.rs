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
        "share/onbeat/grafana/onbeat-irq.json",
        "share/onbeat/grafana/onbeat-powerlink.json",
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
    for path in
        ["lib/sysusers.d/onbeat-fleet.conf", "lib/systemd/system/onbeat-fleet-agent@.service"]
    {
        assert!(!to.join("opt/onbeat").join(path).exists(), "{path} is of the program of fleets");
    }
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

/// Maintainer scripts of the package, with directories and programs of a test.
struct Maintainer(TemporaryDirectory);

impl Maintainer {
    /// `programs`: their names and the text of their shell scripts.
    fn new(name: &str, programs: &[(&str, &str)]) -> Self {
        let root = TemporaryDirectory::new(name);
        for directory in ["bin", "run", "etc", "bpf"] {
            std::fs::create_dir_all(root.file(directory)).unwrap();
        }
        for (name, text) in programs {
            let program = root.file("bin").join(name);
            let head = format!("#!/bin/sh\nroot='{}'\n", root.path().display());
            std::fs::write(&program, head + text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self(root)
    }

    /// Runs a script, which must succeed within a minute, and returns its output.
    fn runs(&self, script: &str, words: &[&str]) -> String {
        let text = onbeat_testing::root().join("packaging/debian").join(script);
        let mut text = std::fs::read_to_string(text).unwrap();
        for (path, name) in [
            ("/run/onbeat", "run"),
            ("/run/systemd/system", "systemd"),
            ("/etc/onbeat", "etc"),
            ("/sys/fs/bpf/onbeat", "bpf"),
        ] {
            text = text.replace(path, self.0.file(name).to_str().unwrap());
        }
        let text = text.replace("timeout -k 1 20", "timeout -k 1 3");
        let path = format!("{}:{}", self.0.file("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("timeout");
        shell.args(["--kill-after=1", "60", "sh", "-c", &text, script]).args(words);
        let done = shell.env("PATH", &path).output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{script} {words:?}: {done:?}");
        out
    }

    fn socket(&self, name: &str) -> UnixListener {
        UnixListener::bind(self.0.file("run").join(format!("{name}.sock"))).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.file("log")).unwrap_or_default()
    }
}

/// A daemon that is stopped, or in a debugger, accepts a connection and does not respond. dpkg waits for the
/// scripts.
#[test]
fn the_scripts_of_the_package_do_not_wait_for_a_node_that_does_not_respond() {
    // "hangs" blocks, and ignores SIGTERM.
    let onbeat = "case $* in *hangs*) ;; *) echo 'onbeat: cannot find the node: ...'; exit 2 ;; esac\n\
                  trap '' TERM\nmkfifo \"$0.fifo\" 2>/dev/null\nread -r line <>\"$0.fifo\"\n";
    let package = Maintainer::new("maintainer", &[("onbeat", onbeat), ("ischroot", "exit 1")]);
    let _listeners = ["hangs", "gone"].map(|name| package.socket(name));
    for (script, words, message) in [
        ("onbeat.postinst", &["configure", "0.0.1"][..], "node hangs still runs"),
        ("onbeat.prerm", &["remove"], "\"onbeat down hangs\" fails: it does not finish"),
    ] {
        let text = package.runs(script, words);
        assert!(text.contains(message) && !text.contains("gone"), "{text}");
    }
}

#[test]
fn an_upgrade_restarts_the_services_that_lose_no_frame() {
    let onbeat = r#"
        case $1 in show) exit 0 ;; esac
        file=${3##*/}
        case $file in faulty.toml) echo "onbeat: $3:1:1: unknown key" >&2; exit 2 ;; esac
        echo "node n-${file%.toml}: 2 ports"
        case $file in
        packet.toml) echo "  a restart loses frames: the data plane is in user space" ;;
        silent.toml) ;;
        *) echo "  a restart loses no frame: the data plane is in the kernel" ;;
        esac"#;
    let systemctl = r#"
        case $1 in
        --system) ;;
        list-units)
            for name in good faulty packet silent denied broken unknown; do
                echo "onbeat@$name.service loaded active running onbeat node $name"
            done
            ;;
        show) cat "$root/pid.$5" 2>/dev/null || echo 7 ;;
        is-active) [ "$(cat "$root/pid.$3")" != 0 ] ;;
        *) exit 1 ;;
        esac"#;
    let invoke = r#"
        echo "$*" >>"$root/log"
        case $2 in
        onbeat@good.service) echo 8 >"$root/pid.$2" ;;
        onbeat@broken.service) echo 0 >"$root/pid.$2"; exit 1 ;;
        onbeat@unknown.service) echo 9 >"$root/pid.$2"; exit 124 ;;
        esac"#;
    let package = Maintainer::new(
        "upgrade",
        &[("onbeat", onbeat), ("systemctl", systemctl), ("deb-systemd-invoke", invoke)],
    );
    std::fs::create_dir_all(package.0.file("systemd")).unwrap();
    // The last one is no service.
    let _listeners = ["n-good", "n-packet", "faulty", "bench"].map(|name| package.socket(name));
    assert_eq!(package.runs("onbeat.postinst", &["configure", ""]), "", "not at the installation");
    assert_eq!(package.log(), "");
    let text = package.runs("onbeat.postinst", &["configure", "0.0.1"]);
    let restarts = ["good", "denied", "broken", "unknown"]
        .map(|name| format!("try-restart onbeat@{name}.service\n"));
    let others = "try-restart onbeat-metrics.service onbeat-hook@*.service\n";
    assert_eq!(package.log(), restarts.concat() + others);
    let file = package.0.file("etc/faulty.toml");
    let file = file.display();
    let restart = |name: &str| {
        format!(
            "onbeat: to restart it when its streams may be interrupted: systemctl restart onbeat@{name}.service\n"
        )
    };
    let expected = [
        "onbeat: node n-good is restarted, and runs the new version\n".to_owned(),
        format!(
            "onbeat: node faulty still runs the previous version: \"onbeat run --check {file}\" fails: onbeat: \
             {file}:1:1: unknown key\n"
        ),
        restart("faulty"),
        "onbeat: node n-packet still runs the previous version: a restart loses frames: the data plane is in user \
         space\n"
            .to_owned(),
        restart("packet"),
        "onbeat: node n-silent still runs the previous version: it does not answer\n".to_owned(),
        restart("silent"),
        "onbeat: node n-denied still runs the previous version: policy-rc.d or systemd does not permit a restart\n"
            .to_owned(),
        restart("denied"),
        "onbeat: node n-broken does not start with the new version: systemctl status onbeat@broken.service shows the \
         cause; its data plane in the kernel forwards frames\n"
            .to_owned(),
        "onbeat: the state of node n-unknown after its restart is unknown: systemctl status onbeat@unknown.service\n"
            .to_owned(),
        "onbeat: node bench still runs the previous version; to restart it: stop its \"onbeat run\" by SIGTERM, and start \
         it again\n"
            .to_owned(),
    ];
    assert_eq!(text, expected.concat());
}

#[test]
fn a_removal_takes_every_node_down() {
    let onbeat = r#"
        printf '%s|' "$@" >>"$root/log"
        echo >>"$root/log"
        case $3 in
        *left) echo 'onbeat: refused' >&2; exit 2 ;;
        *killed) echo 'killed is down'; exit 1 ;;
        *none) echo 'onbeat: cannot find the node: no node' >&2; exit 2 ;;
        esac"#;
    let invoke = "echo \"$*\" >>\"$root/log\"";
    // A service that policy-rc.d does not permit to stop.
    let systemctl = "echo onbeat@kept.service loaded active running onbeat node kept";
    let package = Maintainer::new(
        "removal",
        &[
            ("onbeat", onbeat),
            ("deb-systemd-invoke", invoke),
            ("systemctl", systemctl),
            ("ischroot", "[ -e \"$root/chroot\" ]"),
        ],
    );
    let file = |path: &str| package.0.file(path);
    for directory in ["systemd", "bpf/--forget", "bpf/a $(reboot)", "bpf/kept", "bpf/left"] {
        std::fs::create_dir_all(file(directory)).unwrap();
    }
    std::fs::write(file("etc/usual.toml"), "[node]\nname = \"usual\"\n").unwrap();
    std::fs::write(file("etc/own.toml"), "[node]\npin = \"/sys/fs/bpf/own\"\n").unwrap();
    std::fs::write(file("run/killed.sock.node-journal"), "").unwrap();
    let _listener = package.socket("none");
    let text = package.runs("onbeat.prerm", &["upgrade", "1.0"]);
    assert_eq!((text.as_str(), package.log().as_str()), ("", ""), "an upgrade stops nothing");
    let text = package.runs("onbeat.prerm", &["remove"]);
    let expected = format!(
        "stop onbeat-metrics.socket onbeat-metrics.service onbeat-hook@*.service onbeat@*.service\n\
         down|--|{}|\ndown|--|--forget|\ndown|--|a $(reboot)|\ndown|--|left|\ndown|--|none|\n\
         down|--|killed|\n",
        file("etc/own.toml").display()
    );
    assert_eq!(package.log(), expected);
    assert!(text.contains("\"onbeat down left\" fails: onbeat: refused\n"), "{text}");
    assert!(text.contains("\"onbeat down killed\" is incomplete: killed is down\n"), "{text}");
    assert!(text.contains("service onbeat@kept.service could not be stopped"), "{text}");
    assert!(!text.contains("none") && !text.contains('$'), "{text}");
    assert!(text.contains("data plane of node left stays in the kernel"), "{text}");

    // In a chroot directory the nodes are those of the machine.
    std::fs::write(file("chroot"), "").unwrap();
    package.runs("onbeat.prerm", &["remove"]);
    assert_eq!(package.log().matches("down|").count(), 6);
    assert_eq!(package.log().matches("stop ").count(), 2);
}
