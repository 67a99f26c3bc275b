//! Folded stacks, as flamegraph.pl and its relatives read them: `group;command;class N`, N in nanoseconds.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{GroupKey, ProcessRow, Table};

/// The group of time that no process caused.
const NO_PROCESS: &str = "no process";

impl Table {
    /// Caused time as folded stacks, one in a line. The class is the evidence of processes' time. Time of no process has
    /// its class and device instead of command and class. Without a key of groups, a process is in its pod, its
    /// container, its unit or its control group: the first that it has.
    #[must_use]
    pub fn folded(&self, by: GroupKey) -> String {
        let mut stacks: BTreeMap<[String; 3], u64> = BTreeMap::new();
        let mut add = |frames: [&str; 3], ns| *stacks.entry(frames.map(frame)).or_default() += ns;
        for row in &self.processes {
            let group = group(row, by).unwrap_or_else(|| "none".into());
            let command = row.command.as_deref().unwrap_or("unknown");
            for part in &row.parts {
                let device = by == GroupKey::Device;
                let group = if device { part.device.as_str() } else { &group };
                add([group, command, part.by.name()], part.ns);
            }
        }
        if let Some(others) = &self.others {
            add(["others", "others", "others"], others.caused_ns);
        }
        for row in &self.unowned {
            let class = match &row.reason {
                Some(reason) => format!("{}: {reason}", row.class),
                None => row.class.to_owned(),
            };
            let device = row.device.as_deref().unwrap_or("-");
            add([NO_PROCESS, &class, device], row.ns);
        }
        let mut text = String::new();
        for (frames, ns) in stacks.into_iter().filter(|(_, ns)| *ns > 0) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {ns}", frames.join(";"));
        }
        text
    }
}

fn group(row: &ProcessRow, by: GroupKey) -> Option<String> {
    if by != GroupKey::Process {
        return by.of(row);
    }
    let groups = [GroupKey::Pod, GroupKey::Container, GroupKey::Unit, GroupKey::Cgroup];
    groups.into_iter().find_map(|key| key.of(row))
}

/// A name without the separator of frames.
fn frame(name: &str) -> String {
    match name {
        "" => "none".into(),
        name => name.replace(';', "\\x3b"),
    }
}
