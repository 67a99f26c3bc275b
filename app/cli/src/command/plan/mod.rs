//! `onbeat plan`

mod discover;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use onbeat_plan::manifest::Manifest;
use onbeat_plan::node_file::{self, NodeFile};
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::route::Element;
use onbeat_plan::{Network, Plan, bridge, failure, picture, report};
use onbeat_report::Run;

use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::output;

/// Largest manifest, in octets.
const LONGEST_MANIFEST: u64 = 1 << 30;

/// Plan disjoint paths of streams, and write the files of the nodes
///
/// Reads nodes, links and streams. Finds disjoint paths of least delay within the capacity of each link, bounds their
/// delay, and sets the recovery of each stream. The files run with `onbeat run`. A stream without disjoint paths gets
/// those that share the fewest elements, or none, and the report names what separates it.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  onbeat plan net.toml
  onbeat plan net.toml -o plan-1 --what-if --html plan.html
  onbeat plan net.toml --keep plan-1/manifest.json -o plan-2
  onbeat plan diff plan-1/manifest.json plan-2/manifest.json
  onbeat plan discover outputs/*.json -o net.toml

Exit status: 0 all streams are protected as requested; 1 a stream is not, or a failure of --fail or --what-if cuts \
streams; 2 error (the file is invalid, or the output cannot be written)."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The network: nodes, links and streams
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Write the files of the nodes, manifest.json and network.svg to this new directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Keep the paths of an earlier plan that still protect their streams
    #[arg(long, value_name = "MANIFEST")]
    keep: Option<PathBuf>,
    /// Report the effect of a failed link, node or group
    #[arg(long, value_name = "NAME", conflicts_with = "what_if")]
    fail: Option<String>,
    /// Report the effect of each link, node and group that fails alone
    #[arg(long)]
    what_if: bool,
    /// Report paths, delays and recovery of a stream, and draw its paths (repeatable)
    #[arg(long, value_name = "NAME")]
    explain: Vec<String>,
    /// Write a self-contained HTML report to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Diff(Diff),
    Discover(discover::Discover),
}

/// Compare two plans, by stream, node and file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat plan diff plan-1/manifest.json plan-2/manifest.json

Exit status: 0 success, also if the plans differ; 2 error (a file is no manifest).")]
struct Diff {
    /// Manifest of the old plan
    old: PathBuf,
    /// Manifest of the new plan
    new: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Some(Command::Diff(diff)) => return diff.execute(),
            Some(Command::Discover(discover)) => return discover.execute(),
            None => {}
        }
        let file = self.file.ok_or_else(|| Failure::new("a file is required"))?;
        output::check_report(self.html.as_deref())?;
        self.output.as_deref().map(check_directory).transpose()?;
        let run = Run::analysis("plan");
        let network = Network::load(&file)?;
        let previous = match &self.keep {
            Some(path) => read_manifest(path)?.previous(&network),
            None => PreviousRoutes::default(),
        };
        let explained = streams(&network, &self.explain)?;
        let failed = self.fail.map(|name| element(&network, &name)).transpose()?;
        let plan = Plan::new(&network, &previous);

        let mut outcome = run.finish();
        report::describe(&mut outcome, &network, &plan);
        let elements: Vec<Element> = match self.what_if {
            true => Element::all(&network).collect(),
            false => failed.into_iter().collect(),
        };
        if !elements.is_empty() {
            let effects = failure::effects(&network, &plan, elements);
            report::describe_failures(&mut outcome, &network, &effects);
        }
        for &index in &explained {
            let name = format!("stream {}", network.streams[index].name);
            outcome.figure(name, report::explain(&network, &plan, index));
        }
        if let Some(directory) = &self.output {
            let files = node_file::all(&network, &plan);
            write(directory, &network, &plan, &files, &explained)?;
        }
        output::report_and_print(outcome, self.json, self.html.as_deref())
    }
}

impl Diff {
    fn execute(self) -> Result {
        let run = Run::analysis("plan-diff");
        let (old, new) = (read_manifest(&self.old)?, read_manifest(&self.new)?);
        let [streams, nodes] = report::differences(&old, &new);
        let mut outcome = run.finish();
        outcome.figure("streams", streams);
        outcome.figure("nodes", nodes);
        output::report_and_print(outcome, self.json, None)
    }
}

fn read_manifest(path: &Path) -> Result<Manifest> {
    let name = path.display().to_string();
    let text = onbeat_host::file::read_text(path, LONGEST_MANIFEST)
        .map_err(|error| Failure::new(format!("{name} cannot be read: {error}")))?;
    Ok(Manifest::parse(&text, &name)?)
}

fn streams(network: &Network, names: &[String]) -> Result<Vec<usize>> {
    let index = |name: &String| {
        network.stream(name).ok_or_else(|| {
            Failure::new(format!(
                "--explain: no stream is named {name:?}; use the name of a [[stream]] of the file"
            ))
        })
    };
    names.iter().map(index).collect()
}

fn element(network: &Network, name: &str) -> Result<Element> {
    Element::find(network, name).ok_or_else(|| {
        Failure::new(format!(
            "--fail: no link, node or group is named {name:?}; use a name of the file, or NODE:PORT of a link"
        ))
    })
}

/// Accepts a directory that does not exist, or is empty.
fn check_directory(directory: &Path) -> Result<()> {
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(format!(
            "--output: directory {directory:?} is not empty; use a new one, and compare both with `onbeat plan diff`"
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::new(format!("--output: {directory:?} cannot be used: {error}"))),
    }
}

/// Writes all files; the manifest last, so that a directory with it is complete.
fn write(
    directory: &Path,
    network: &Network,
    plan: &Plan,
    files: &[NodeFile],
    explained: &[usize],
) -> Result<()> {
    let cannot = |path: &Path, error: std::io::Error| {
        Failure::new(format!("--output: {} cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(directory).map_err(|error| cannot(directory, error))?;
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        onbeat_host::output::write(&path, text).map_err(|error| cannot(&path, error))
    };
    for file in files {
        put(&format!("{}.toml", network.nodes[file.node as usize].name), &file.text)?;
    }
    let entries = bridge::entries(network, plan);
    for of_bridge in entries.chunk_by(|a, b| a.node == b.node) {
        let node = of_bridge[0].node;
        let name = &network.nodes[node as usize].name;
        put(&format!("{name}.bridge"), &bridge::batch(network, node, of_bridge))?;
    }
    put("network.svg", &picture::draw(network, plan, explained))?;
    let manifest = Manifest::new(network, plan, files);
    put("manifest.json", &(serde_json::to_string_pretty(&manifest)? + "\n"))
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn requires_a_file_or_a_subcommand() {
        let Ok(Command::Plan(plan)) = parse("plan net.toml --what-if --explain a --explain b")
        else {
            panic!()
        };
        assert!(plan.what_if && plan.explain == ["a", "b"]);
        assert!(parse("plan diff a.json b.json --json").is_ok());
        assert!(parse("plan discover a.json b.json -o net.toml").is_ok());
        for line in
            ["plan", "plan a b", "plan diff a", "plan discover", "plan a --fail x --what-if"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
