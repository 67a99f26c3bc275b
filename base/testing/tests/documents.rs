//! The documents: links and anchors exist, the book has every page, and sources name existing documents.

#[path = "documents/edges.rs"]
mod edges;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat_testing::TemporaryDirectory;
use onbeat_testing::documents::{broken_links, documents};

fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies two levels below the workspace")
}

#[test]
fn every_link_of_a_document_has_a_target() {
    let root = workspace();
    let documents = documents(&root);
    let links: usize = documents.iter().map(|document| document.links().len()).sum();
    assert!(documents.len() > 50 && links > 200, "{} documents, {links} links", documents.len());
    let broken = broken_links(&root, &documents);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_broken_link_is_found() {
    let directory = TemporaryDirectory::new("links");
    let root = directory.file("tree");
    fs::create_dir_all(root.join("sub")).expect("a directory");
    let text = "# Title\n\n## One *two*\n## One two\n[a](sub/b.md) [b](sub/b.md#the-end) [c](c.md)\n\
                [d](#one-two) [e](#one-two-1) [f](#one-two-2) `[g](g.md)` <https://example.org/x>\n\
                ```\n[h](h.md)\n# No heading\n```\n[i](#no-heading)\n";
    fs::write(root.join("a.md"), text).expect("a file");
    fs::write(root.join("sub/b.md"), "# B\n\n[back](../a.md#title)\n<a id=\"there\"></a>\n")
        .expect("a file");
    let documents = documents(&root);
    let expected = [
        "a.md:5: sub/b.md#the-end: no such anchor",
        "a.md:5: c.md: no such file",
        "a.md:6: #one-two-2: no such anchor",
        "a.md:11: #no-heading: no such anchor",
    ];
    assert_eq!(broken_links(&root, &documents), expected);
    assert!(documents[0].links().iter().any(|link| link.target == "https://example.org/x"));
    assert!(documents[1].anchors().contains("there"));
}

#[test]
fn command_lines_are_found_in_blocks_and_in_text() {
    let directory = TemporaryDirectory::new("lines");
    let root = directory.file("tree");
    fs::create_dir_all(&root).expect("a directory");
    let text = "Run `onbeat down a`, not `onbeat down NODE` or `onbeat`.\n\n1. Item\n\n   ```console\n   \
                a# onbeat show a --json | jq .   # all\n   # onbeat run \"a b.toml\" &\n   a is down\n   ```\n\
                ```\nonbeat reset axis-1     resets it\nonbeat lab run NAME\n```\n";
    fs::write(root.join("a.md"), text).expect("a file");
    let lines = documents(&root).remove(0).command_lines();
    let lines: Vec<_> = lines
        .iter()
        .map(|l| (l.location.as_str(), l.words.join("_"), l.may_lack_arguments))
        .collect();
    let expected = [
        ("a.md:6", "show_a_--json".to_owned(), false),
        ("a.md:7", "run_a b.toml".to_owned(), false),
        ("a.md:11", "reset_axis-1".to_owned(), true),
        ("a.md:1", "down_a".to_owned(), true),
    ];
    assert_eq!(lines, expected);
}

/// mdBook shows only pages of its summary, and copies only files below docs.
#[test]
fn the_book_has_every_page_and_links_only_to_itself() {
    let root = workspace();
    let documents = documents(&root);
    let pages = documents.iter().filter_map(|document| document.path.strip_prefix("docs").ok());
    let pages: BTreeSet<_> = pages.filter(|page| *page != Path::new("SUMMARY.md")).collect();
    let summary = documents.iter().find(|document| document.path == Path::new("docs/SUMMARY.md"));
    let links = summary.expect("the summary").links();
    let listed: BTreeSet<_> = links.iter().map(|link| Path::new(&link.target)).collect();
    assert_eq!(listed, pages, "left: docs/SUMMARY.md, right: docs");
    for document in documents.iter().filter(|document| document.path.starts_with("docs")) {
        let depth = document.path.components().count() - 2;
        for link in document.links() {
            let ups = link.target.split('/').take_while(|part| *part == "..").count();
            let place = format!("{}:{}", document.path.display(), link.line);
            assert!(
                ups <= depth,
                "{place}: {}: outside of the book; name the file as code",
                link.target
            );
        }
    }
}

/// Returns files that name documents in messages, comments and recipes. The changelog is history.
fn sources(root: &Path) -> Vec<PathBuf> {
    const NAMES: [&str; 9] = [".rs", ".c", ".h", ".toml", ".sh", ".json", "Makefile", ".md", ".py"];
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_symlink()
                || name.starts_with('.')
                || ["target", "out", "vendor"].contains(&&*name)
            {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if name != "CHANGELOG.md" && NAMES.iter().any(|end| name.ends_with(end)) {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn documents_that_sources_name_exist() {
    let root = workspace();
    let (mut named, mut missing) = (0, Vec::new());
    for file in sources(&root) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        for (at, directory) in text.match_indices("docs/") {
            // Not a path of this tree: docs/ of an address.
            if text[..at].ends_with('/') {
                continue;
            }
            let rest = &text[at + directory.len()..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            let is_document = [".md", ".1", ".json"].iter().any(|kind| name.ends_with(kind));
            named += usize::from(is_document);
            if is_document && !root.join("docs").join(name).is_file() {
                missing.push(format!("{}: docs/{name}", file.display()));
            }
        }
    }
    assert!(named > 20, "{named} names were found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Whether a path of the tree ends with this name: `bpf/parse.h` is frer/xdp/bpf/parse.h.
fn is_path_of(files: &[String], name: &str) -> bool {
    files.iter().any(|file| file.strip_suffix(name).is_some_and(|rest| rest.ends_with('/')))
}

/// Names of source files in a line: words that end like one, except addresses and placeholders.
fn source_files(line: &str) -> Vec<&str> {
    const KINDS: [&str; 5] = [".rs", ".c", ".h", ".py", ".sh"];
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-:".contains(c)));
    let words = words.map(|word| word.trim_end_matches(['.', ':']));
    let is_named = |word: &&str| {
        KINDS.iter().any(|kind| word.len() > kind.len() && word.ends_with(kind))
            && !word.contains("//")
            && !word.contains("NAME")
    };
    words.filter(is_named).collect()
}

/// Names of functions, fields and keys in a line: code spans in snake case or with parentheses.
fn names(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let names = spans.map(|span| (span.rsplit("::").next().unwrap_or(span), span.ends_with("()")));
    let is_name = |&(name, is_call): &(&str, bool)| {
        let name = name.trim_end_matches("()");
        let parts: Vec<_> = name.split('_').collect();
        let is_part = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        (is_call || parts.len() > 1)
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && parts.iter().all(is_part)
    };
    names.filter(is_name).map(|(name, _)| name.trim_end_matches("()")).collect()
}

/// The identifiers of the sources, and the names that serde derives from those of types and variants.
fn identifiers(root: &Path, files: &[PathBuf]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_none_or(|kind| kind != "md")) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if word.starts_with(|first: char| first.is_ascii_uppercase()) {
                let mut snake = String::new();
                for c in word.chars() {
                    if c.is_ascii_uppercase() && !snake.is_empty() {
                        snake.push('_');
                    }
                    snake.push(c.to_ascii_lowercase());
                }
                found.insert(snake);
            }
            found.insert(word.to_owned());
        }
    }
    found
}

/// Documents name files and functions of this tree as they are named there. docs/reference/comparison.md names
/// those of other programs.
#[test]
fn files_and_functions_that_documents_name_exist() {
    const OF_THE_KERNEL: [&str; 2] = ["include/uapi/linux/ethtool.h", "sched_stat_runtime"];
    let root = workspace();
    let sources = sources(&root);
    let files: Vec<String> =
        sources.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let identifiers = identifiers(&root, &sources);
    let (mut named, mut missing) = (0, Vec::new());
    for document in documents(&root) {
        let path = &document.path;
        if ["CHANGELOG.md", "docs/reference/comparison.md"].map(Path::new).contains(&path.as_path())
        {
            continue;
        }
        let text = fs::read_to_string(root.join(path)).expect("a document");
        for (number, line) in (1..).zip(text.lines()) {
            let files = source_files(line).into_iter().filter(|name| {
                named += 1;
                !is_path_of(&files, name.trim_start_matches("../"))
            });
            let functions = names(line).into_iter().filter(|name| !identifiers.contains(*name));
            let unknown = files.chain(functions).filter(|name| !OF_THE_KERNEL.contains(name));
            missing.extend(unknown.map(|name| format!("{}:{number}: {name}", path.display())));
        }
    }
    assert!(named > 200, "{named} files are named");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn names_of_files_and_functions_are_found() {
    let line = "see `f()`, `A::next_deadline`, `backend`, cn/a.rs, <https://example.org/x.h>, `NAME.bpf.c`.";
    assert_eq!(names(line), ["f", "next_deadline"]);
    assert_eq!(source_files(line), ["cn/a.rs"]);
    let files = ["/tree/powerlink/cn/a.rs".to_owned()];
    assert!(is_path_of(&files, "cn/a.rs") && !is_path_of(&files, "n/a.rs"));
}
