//! Checks that dependencies between the crates equal the table in docs/reference/crates.md, and that the
//! number of test programs is small: each is linked separately.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use onbeat_testing::root;
use serde_json::Value;

/// Folder of a crate -> folders that it depends on, each with the kinds of the dependency:
/// "normal", "build" or "dev".
type Edges = BTreeMap<String, BTreeSet<(String, String)>>;

/// Packages of the workspace, from their manifests.
static PACKAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("start cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    std::mem::take(metadata["packages"].as_array_mut().expect("packages"))
});

/// Returns the dependencies declared in the manifests.
fn declared() -> Edges {
    let root = onbeat_testing::root();
    let folder = |path: &str| {
        let path = Path::new(path).strip_prefix(&root).expect("members lie in the workspace");
        path.to_str().expect("folders have plain names").to_owned()
    };
    let edges = PACKAGES.iter().map(|package| {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        // Dependencies from a registry have no path.
        let own = dependencies.iter().filter_map(|dependency| {
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            Some((folder(dependency["path"].as_str()?), kind.to_owned()))
        });
        (folder(manifest.strip_suffix("/Cargo.toml").expect("a manifest")), own.collect())
    });
    edges.collect()
}

/// Returns the dependencies allowed by the table. A row: `| base/host | base/netdev; dev: base/testing |`.
fn allowed() -> Edges {
    let text = fs::read_to_string(root().join("docs/reference/crates.md")).expect("read the table");
    let section = text.split("## Allowed dependencies").nth(1).expect("the section of the table");
    let section = section.split("\n## ").next().expect("a first part");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.filter_map(|row| row.split_once(" | "));
    let crates = cells.filter(|(folder, _)| folder.contains('/'));
    crates
        .map(|(folder, list)| {
            let parts = list.split(';').map(str::trim).filter(|part| !matches!(*part, "" | "-"));
            let edges = parts.flat_map(|part| {
                let (kind, names) = part.split_once(": ").unwrap_or(("normal", part));
                names.split(", ").map(|name| (name.trim().to_owned(), kind.to_owned()))
            });
            (folder.to_owned(), edges.collect())
        })
        .collect()
}

/// Returns all crates that `from` links, without dependencies of tests.
fn linked<'e>(edges: &'e Edges, from: &'e str) -> BTreeSet<&'e str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(folder) = open.pop() {
        let next = edges[folder].iter().filter(|(_, kind)| kind == "normal");
        open.extend(next.map(|(to, _)| to.as_str()).filter(|to| found.insert(*to)));
    }
    found
}

#[test]
fn the_table_and_the_manifests_agree() {
    let (declared, allowed) = (declared(), allowed());
    let folders = |edges: &Edges| edges.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(folders(&declared), folders(&allowed), "left: the workspace, right: the table");
    for (folder, edges) in &declared {
        let extra: Vec<_> = edges.difference(&allowed[folder]).collect();
        assert!(extra.is_empty(), "{folder} depends on {extra:?}, which the table does not allow");
        let unused: Vec<_> = allowed[folder].difference(edges).collect();
        assert!(unused.is_empty(), "the table allows {folder} {unused:?}, which it does not use");
    }
}

#[test]
fn base_depends_on_no_feature_and_the_product_on_no_laboratory() {
    let edges = declared();
    for (folder, to) in &edges {
        for (other, _) in to.iter().filter(|_| folder.starts_with("base/")) {
            assert!(other.starts_with("base/"), "{folder} depends on {other}");
        }
        // Not even for tests.
        let laboratory = to.iter().any(|(other, _)| other == "app/lab");
        assert!(!laboratory, "{folder} depends on app/lab");
    }
    let product = linked(&edges, "app/cli");
    for folder in ["app/lab", "powerlink/sim", "base/testing"] {
        assert!(!product.contains(folder), "the product links {folder}");
    }
}

#[test]
fn a_feature_uses_another_only_through_its_pure_crate_or_the_port() {
    const OPEN: [&str; 6] =
        ["frer/core", "port/core", "powerlink/core", "delay/core", "irq/core", "powerlink/xdd"];
    let feature = |folder: &str| folder.split('/').next().expect("a first level").to_owned();
    for (folder, to) in declared().iter().filter(|(folder, _)| !folder.starts_with("app/")) {
        for (other, _) in to.iter().filter(|(other, kind)| {
            kind != "dev" && !other.starts_with("base/") && feature(other) != feature(folder)
        }) {
            assert!(OPEN.contains(&other.as_str()), "{folder} depends on {other}");
        }
    }
}

/// Crates without access to clocks, sockets or the kernel.
const PURE: [&str; 7] = [
    "base/wire",
    "delay/core",
    "frer/core",
    "irq/core",
    "powerlink/core",
    "powerlink/sim",
    "powerlink/xdd",
];

#[test]
fn pure_crates_do_not_access_the_kernel() {
    /// External crates without such access.
    const ALLOWED: [&str; 13] = [
        "flate2",
        "foldhash",
        "hashbrown",
        "hdrhistogram",
        "hmac",
        "libm",
        "roxmltree",
        "serde",
        "serde_json",
        "sha2",
        "smallvec",
        "thiserror",
        "zstd",
    ];
    let edges = declared();
    for pure in PURE {
        let linked = linked(&edges, pure).into_iter();
        let impure: Vec<_> = linked.filter(|folder| !PURE.contains(folder)).collect();
        assert!(impure.is_empty(), "{pure} links {impure:?}");
        let manifest = format!("/{pure}/Cargo.toml");
        let package = PACKAGES
            .iter()
            .find(|package| package["manifest_path"].as_str().expect("a path").ends_with(&manifest))
            .expect("a package");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = dependency["name"].as_str().expect("a name");
            let own = dependency["path"].is_string() || dependency["kind"] == "dev";
            assert!(own || ALLOWED.contains(&name), "{pure} depends on {name}");
        }
        for file in sources(&root().join(pure).join("src")) {
            let text = fs::read_to_string(&file).expect("read a source");
            for used in ["std::net::", "std::fs", "std::process", "Instant::now", "SystemTime::now"]
            {
                assert!(!text.contains(used), "{}: {used}", file.display());
            }
        }
    }
}

/// `Network::load` reads a file by base/config, which links crates with access to the kernel.
#[test]
fn the_planner_itself_does_not_access_the_kernel() {
    let tests = root().join("fleet/plan/src/tests");
    for file in sources(&root().join("fleet/plan/src")) {
        let text = fs::read_to_string(&file).expect("read a source");
        for used in ["std::net::", "std::fs", "std::process", "Instant::now", "SystemTime::now"] {
            assert!(!text.contains(used) || file.starts_with(&tests), "{}: {used}", file.display());
        }
    }
}

/// Returns the Rust sources below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("read a directory").path());
    let below = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns the possible files of the `mod` lines of a source.
fn declared_modules(source: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(source).expect("read a source");
    let directory = source.parent().expect("a directory");
    let of_line = |line: &str| {
        if let Some(path) = line.strip_prefix("#[path = \"") {
            return vec![directory.join(path.trim_end_matches("\"]"))];
        }
        let Some((before, name)) = line.strip_suffix(';').and_then(|line| line.split_once("mod "))
        else {
            return Vec::new();
        };
        let starts = before.is_empty() || before.starts_with("pub");
        // The last: of the module of tests in the file.
        let below = source.with_extension("");
        let directories = [directory.to_owned(), below.clone(), below.join("tests")];
        let files = directories.map(|directory| {
            [directory.join(format!("{name}.rs")), directory.join(name).join("mod.rs")]
        });
        files.into_iter().flatten().filter(|_| starts).collect()
    };
    text.lines().flat_map(|line| of_line(line.trim())).collect()
}

/// A source that no module declares is not compiled, and its tests never run.
#[test]
fn every_source_is_a_declared_module() {
    let root = onbeat_testing::root();
    let crates: Vec<_> = declared().into_keys().map(|folder| root.join(folder)).collect();
    let mut directories: Vec<_> = crates.iter().map(|folder| folder.join("src")).collect();
    directories.extend(crates.iter().map(|folder| folder.join("tests")));
    directories.push(root.join("tests"));
    let found: Vec<_> = directories.iter().flat_map(|directory| sources(directory)).collect();
    let modules: BTreeSet<_> = found
        .iter()
        .flat_map(|source| declared_modules(source))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let is_program = |path: &Path| {
        let name = path.file_name().expect("a name");
        // Each file of a crate's tests/ is one.
        name == "main.rs"
            || name == "lib.rs"
            || crates.iter().any(|folder| path.parent() == Some(&folder.join("tests")))
    };
    let lost: Vec<_> =
        found.iter().filter(|path| !is_program(path) && !modules.contains(*path)).collect();
    assert!(lost.is_empty() && modules.len() > 500, "no module declares {lost:#?}");
}

#[test]
fn every_crate_is_two_levels_deep_in_a_documented_folder() {
    for folder in declared().keys() {
        let levels: Vec<_> = folder.split('/').collect();
        assert_eq!(levels.len(), 2, "{folder}");
        let readme = root().join(levels[0]).join("README.md");
        assert!(readme.is_file(), "{} is missing", readme.display());
    }
}

/// Each is linked with all its dependencies. A crate has one, unless its tests need processes of their own.
#[test]
fn the_workspace_has_few_test_binaries() {
    const MOST: usize = 33;
    let names: Vec<String> = PACKAGES
        .iter()
        .flat_map(|package| {
            let targets = package["targets"].as_array().expect("targets");
            let tests = targets.iter().filter(|target| target["kind"][0] == "test");
            tests.map(|test| format!("{} {}", package["name"], test["name"])).collect::<Vec<_>>()
        })
        .collect();
    assert!(names.len() <= MOST, "{} test binaries: {names:#?}", names.len());
}
