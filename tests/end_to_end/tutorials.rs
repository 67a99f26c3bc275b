//! The README and the tutorials of docs/tutorials, executed, and the configurations of the book.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::book::{Page, document, files};
use crate::common::{can, can_run, machine, root, run};
use onbeat_testing::documents::documents;
use onbeat_testing::{Feature, TemporaryDirectory, require_that};

/// Executes a tutorial on boxes connected by these links.
fn follow(name: &str, stations: &[&str], links: &[(&str, &str)], shorter: &[(&str, &str)]) {
    let document = format!("docs/tutorials/{name}");
    let page = Page { document: &document, stations, links, shorter, ..Page::DEFAULT };
    Page { shows_all: true, ..page }.follow();
}

#[test]
fn two_boxes_tutorial() {
    if can_run() {
        let links = [("a:eth1", "b:eth1"), ("a:eth2", "b:eth2")];
        // Long enough for a port that lost frames to be no longer marked.
        follow("two-boxes.md", &["a", "b"], &links, &[("--for 20s", "--for 8s")]);
    }
}

#[test]
fn redundant_link_tutorial() {
    let has_ping = Command::new("ping").arg("-V").output().is_ok();
    if can_run() && require_that(has_ping, "ping (apt-get install iputils-ping)") {
        let page = Page {
            document: "docs/tutorials/redundant-link.md",
            stations: &["a", "b"],
            links: &[("a:eth1", "b:eth1"), ("a:eth2", "b:eth2")],
            shorter: &[("-c 2000", "-c 1200")],
            shows_all: true,
            separate: true,
            ..Page::DEFAULT
        };
        page.follow();
    }
}

/// The two boxes of the README use the example that the package installs.
#[test]
fn the_readme() {
    let has_ping = Command::new("ping").arg("-V").output().is_ok();
    if can_run() && require_that(has_ping, "ping (apt-get install iputils-ping)") {
        let links = [("a:eth1", "b:eth1"), ("a:eth2", "b:eth2")];
        let example = root().join("examples/two-boxes.toml");
        let prepare = |directory: &Path| {
            fs::copy(&example, directory.join("two-boxes.toml")).expect("the example");
        };
        let (document, stations) = ("README.md", &["a", "b"][..]);
        let page = Page { document, stations, links: &links, prepare: &prepare, ..Page::DEFAULT };
        Page { shows_all: true, shorter: &[("-c 2000", "-c 300")], ..page }.follow();
    }
}

/// But for the title of the file.
#[test]
fn the_example_is_the_file_of_the_tutorial() {
    let example = fs::read_to_string(root().join("examples/two-boxes.toml")).expect("the example");
    let blocks = document(Path::new("docs/tutorials/two-boxes.md")).blocks();
    let block = blocks.iter().find(|block| !files(block, "").is_empty()).expect("its file");
    assert_eq!(block.lines[1..], example.lines().skip(1).collect::<Vec<_>>());
}

#[test]
fn powerlink_tutorial() {
    // Its nodes run at real-time priority.
    machine::exclusive();
    if can_run() {
        follow("powerlink.md", &["a", "b"], &[("a:eth1", "b:eth1")], &[]);
    }
}

#[test]
fn softirq_time_tutorial() {
    if can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        let links = [("a:eth1", "b:eth1")];
        follow("softirq-time.md", &["a", "b"], &links, &[("--for 20s", "--for 4s")]);
    }
}

#[test]
fn switch_delay_tutorial() {
    let has_tcpdump = Command::new("tcpdump").arg("--version").output().is_ok();
    if can_run() && require_that(has_tcpdump, "tcpdump (apt-get install tcpdump)") {
        follow(
            "switch-delay.md",
            &["a", "hop", "b"],
            &[("a:eth1", "hop:eth1"), ("hop:eth2", "b:eth1")],
            &[],
        );
    }
}

/// Configuration files in all pages; partial files have no stream.
#[test]
fn configurations_in_the_book_are_valid() {
    let directory = TemporaryDirectory::new("configurations");
    let file = directory.file("node.toml");
    let mut checked = 0;
    for document in documents(&root()).iter().filter(|document| document.path.starts_with("docs")) {
        for block in document.blocks() {
            let has = |table| block.lines.iter().any(|line| line.starts_with(table));
            if block.language != "toml" || !has("[[stream]]") || !has("[[port]]") {
                continue;
            }
            fs::write(&file, block.lines.join("\n")).expect("a file");
            let ran = run(&["run", "--check", &file.to_string_lossy()]);
            assert_eq!(ran.code, 0, "{}:{}: {}", document.path.display(), block.line, ran.err);
            checked += 1;
        }
    }
    assert!(checked > 2, "{checked} configurations were found");
}
