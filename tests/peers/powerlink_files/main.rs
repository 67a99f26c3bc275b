//! Files of other implementations: every device description, configuration and project below the folders of
//! `POWERLINK_FILES`, separated by colons. They are read where they are, and nothing of them is copied.
//! README.md names the folders.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use onbeat_powerlink_node::Project;
use onbeat_xdd::Description;

const VARIABLE: &str = "POWERLINK_FILES";

/// The files below a folder, in order.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

fn read(path: &Path) -> Option<Description> {
    let text = std::fs::read_to_string(path).ok()?;
    // Other files have these endings, too.
    if !text.contains("<ObjectList") {
        return None;
    }
    let device = onbeat_xdd::read(&text).unwrap_or_else(|faults| {
        let faults: Vec<String> =
            faults.iter().map(|fault| format!("{}:{fault}", path.display())).collect();
        panic!("{}", faults.join("\n"))
    });
    Some(device)
}

/// A project with its process image: each channel has its object.
fn project(cdc: &Path) -> usize {
    let xap = cdc.with_file_name("xap.xml");
    let xap = xap.is_file().then_some(xap);
    let project = Project::load(cdc, xap.as_deref()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(project.unused, [""; 0], "{}: channels without an object", cdc.display());
    let ignored = &project.project.ignored;
    assert!(ignored.is_empty(), "{}: {ignored:?} are missing", cdc.display());
    if xap.is_some() {
        let unnamed = project.names.iter().zip(&project.project.values);
        let unnamed = unnamed.filter(|(name, value)| **name == value.object.to_string());
        assert_eq!(unnamed.count(), 0, "{}: objects without a channel", cdc.display());
    }
    project.project.values.len()
}

fn main() -> ExitCode {
    let folders = std::env::var(VARIABLE).unwrap_or_default();
    let folders: Vec<&Path> =
        folders.split(':').filter(|folder| !folder.is_empty()).map(Path::new).collect();
    let missing = folders.iter().find(|folder| !folder.is_dir());
    if let (true, _) | (_, Some(_)) = (folders.is_empty(), missing) {
        let missing = missing.map_or(String::new(), |folder| folder.display().to_string());
        eprintln!("peers: no such folder: {VARIABLE}={missing}; tests/peers/README.md");
        return ExitCode::from(2);
    }
    let mut found = Vec::new();
    folders.iter().for_each(|folder| files(folder, &mut found));
    let (mut descriptions, mut projects) = (0, 0);
    for path in found {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        if ["xdd", "xdc", "xml"].iter().any(|of| extension.eq_ignore_ascii_case(of)) {
            if let Some(device) = read(&path) {
                descriptions += 1;
                let objects = device.objects.objects().count();
                let actual = device.actual.len();
                println!("{}: {objects} objects, {actual} configured", path.display());
            }
        } else if extension.eq_ignore_ascii_case("cdc") {
            projects += 1;
            println!("{}: {} values of process data", path.display(), project(&path));
        }
    }
    println!("{descriptions} descriptions and {projects} projects read");
    assert!(descriptions + projects > 0, "no file found");
    ExitCode::SUCCESS
}
