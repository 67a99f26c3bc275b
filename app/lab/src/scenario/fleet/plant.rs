//! Agents, plans and the controller of the plant.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use nix::sys::signal::Signal;
use onbeat_realtime::interrupt;
use onbeat_rollout::Phase;

use super::network::{PlanOutput, name};
use super::process::{Launcher, Process, failed};
use super::store::Etcd;
use crate::worker::Worker;
use crate::{Error, Result};

/// Seconds for which new paths are used before old ones are removed.
const SOAK_S: &str = "1";
/// Seconds within which nodes must acknowledge a phase.
const DEADLINE_S: &str = "60";

/// etcd and the agents.
pub(super) struct Plant {
    pub(super) launcher: Launcher,
    pub(super) etcd: Etcd,
    /// By number of the node. One that is not running was killed by a fault.
    agents: Vec<Option<Process>>,
}

/// A process of `onbeat fleet apply`, with what it reports.
pub(super) struct Controller {
    process: Process,
    lines: Receiver<Phase>,
    _reader: Worker<()>,
}

/// How a controller ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RolloutEnd {
    /// All nodes run the new plan.
    Done,
    /// All nodes run the old plan, or the change was refused.
    Returned,
}

impl Plant {
    pub(super) fn new(launcher: Launcher, etcd: Etcd) -> Self {
        Self { launcher, etcd, agents: Vec::new() }
    }

    /// Writes a plan as `onbeat plan -o` does.
    pub(super) fn write(&self, directory: &str, plan: &PlanOutput) -> Result<()> {
        let directory = self.launcher.at(directory);
        let made = fs::create_dir(&directory).and_then(|()| {
            for (name, text) in &plan.files {
                fs::write(directory.join(format!("{name}.toml")), text)?;
            }
            let manifest = serde_json::to_string(&plan.manifest)?;
            fs::write(directory.join("manifest.json"), manifest)
        });
        made.map_err(|error| Error::io(format!("write {}", directory.display()), error))
    }

    /// Admits a node, and starts its agent.
    pub(super) fn add_agent(&mut self, node: u32) -> Result<()> {
        let (keys, credentials) = (self.launcher.at("keys"), self.credentials(node));
        let [keys, credentials] = [keys.display().to_string(), credentials];
        self.launcher.run(&["invite", &name(node), "-o", &credentials, "--fleet", &keys])?;
        self.agents.push(None);
        self.start_agent(node)
    }

    fn credentials(&self, node: u32) -> String {
        self.launcher.at(&format!("of-{}", name(node))).display().to_string()
    }

    /// Starts the agent of a node.
    pub(super) fn start_agent(&mut self, node: u32) -> Result<()> {
        let name = name(node);
        let state = self.launcher.at(&format!("state-{name}")).display().to_string();
        let arguments = ["agent", &self.credentials(node), "--state", &state];
        let mut command = self.launcher.fleet(&arguments, &format!("agent-{name}.log"))?;
        let agent = Process::start(&format!("the agent of {name}"), &mut command)?;
        self.agents[node as usize] = Some(agent);
        Ok(())
    }

    pub(super) fn kill_agent(&mut self, node: u32) {
        self.agents[node as usize] = None;
    }

    pub(super) fn signal_agent(&self, node: u32, signal: Signal) -> Result<()> {
        self.agents[node as usize].as_ref().map_or(Ok(()), |agent| agent.signal(signal))
    }

    /// Kills all agents.
    pub(super) fn stop_agents(&mut self) {
        self.agents.clear();
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = &Process> {
        self.agents.iter().flatten()
    }

    /// Starts a controller; `plan`: the directory of a plan; none: it continues a roll-out.
    pub(super) fn control(&self, plan: Option<&str>) -> Result<Controller> {
        let keys = self.launcher.at("keys").display().to_string();
        let plan = plan.map(|plan| self.launcher.at(plan).display().to_string());
        let mut arguments = vec!["apply", "--fleet", &keys, "--deadline", DEADLINE_S];
        match &plan {
            Some(plan) => arguments.extend(["--soak", SOAK_S, plan]),
            None => arguments.push("--continue"),
        }
        let mut command = self.launcher.fleet(&arguments, "controller.log")?;
        command.stdout(Stdio::piped());
        let mut process = Process::start("the controller", &mut command)?;
        let output = process.take_output();
        let (sender, lines) = channel();
        // Ends with the controller.
        let reader = Worker::start("lab-controller", move |_| {
            let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            for phase in lines.map_while(std::result::Result::ok).filter_map(|line| phase(&line)) {
                if sender.send(phase).is_err() {
                    return;
                }
            }
        })?;
        Ok(Controller { process, lines, _reader: reader })
    }
}

impl Controller {
    /// The phase that it reported next.
    pub(super) fn phase(&self) -> Option<Phase> {
        self.lines.try_recv().ok()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// How it ended, if it did.
    pub(super) fn end(&mut self, plant: &Plant) -> Result<Option<RolloutEnd>> {
        let Some(status) = self.process.exited() else { return Ok(None) };
        match status.code() {
            Some(0) => Ok(Some(RolloutEnd::Done)),
            Some(1) => Ok(Some(RolloutEnd::Returned)),
            _ => {
                interrupt::check()?;
                let log =
                    fs::read_to_string(plant.launcher.at("controller.log")).unwrap_or_default();
                Err(failed("onbeat fleet apply", status, &log))
            }
        }
    }
}

/// The phase in a line "step 8: accept of plan 1 to 2, ...".
fn phase(line: &str) -> Option<Phase> {
    let name = line.strip_prefix("step ")?.split_once(": ")?.1.split(' ').next()?;
    Phase::ALL.into_iter().find(|phase| phase.name() == name)
}

/// The file of a node of the laboratory without streams, which agents may replace: the head of a planned one.
pub(super) fn managed_head(name: &str, planned: &str) -> String {
    let head = planned.split("[[stream]]").next().unwrap_or_default();
    let directory = onbeat_host::run_directory!("lab");
    let keys = format!(
        "[node]\nmanaged-by = \"fleet\"\nmanagers = \"root\"\nmanaged-file = \"{directory}/managed/{name}.toml\"\n"
    );
    head.replacen("[node]\n", &keys, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_from_lines_of_the_controller() {
        let line = "step 8: prove of plan 1 to 2, 3 of 12 nodes; waits for a, b";
        assert_eq!(phase(line), Some(Phase::Prove));
        assert_eq!(phase("plan 1 to 2: the files of 12 nodes change"), None);
    }
}
