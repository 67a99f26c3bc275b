//! What this host can do, what is set badly for real time, and how to change it.
//!
//! Everything is looked at through [`HostRoot`], so that tests show it hosts that they made up.

mod device;
mod fix;
mod host;
mod interface;
mod kernel;
mod root;

use std::fmt::Write;

use onbeat_host::settings::Kind;
use serde::{Deserialize, Serialize};

pub use device::{Device, DeviceReader, KernelDevices};
pub use fix::{FixReport, Target, UNDO};
pub use root::HostRoot;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Info,
    /// It works, and delays or hides frames.
    Warn,
    /// It does not work.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, such as `kernel-version` or `interface-mtu`.
    pub id: String,
    /// The interface it is about, where it is about one.
    pub interface: Option<String>,
    /// How much it matters.
    pub level: Level,
    /// What was looked at, and why it matters where it is not as it should be.
    pub what: String,
    /// What was found.
    pub value: String,
    /// What to do: a command, mostly.
    pub remedy: Option<String>,
    /// The setting with which `onbeat doctor --fix` changes it, where there is one.
    #[serde(default)]
    pub fix: Option<Kind>,
}

impl Finding {
    fn new(id: &str, level: Level, what: &str, value: impl Into<String>) -> Finding {
        let (id, what, value) = (id.into(), what.into(), value.into());
        Finding { id, interface: None, level, what, value, remedy: None, fix: None }
    }

    fn ok(id: &str, what: &str, value: impl Into<String>) -> Finding {
        Finding::new(id, Level::Ok, what, value)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = Some(remedy.into());
        self
    }

    fn fix(mut self, kind: Kind) -> Finding {
        self.fix = Some(kind);
        self
    }

    /// The command that changes what was found, where there is one.
    pub fn fixed_by(&self) -> Option<String> {
        let kind = self.fix?;
        let interface = self.interface.as_ref().map_or(String::new(), |name| format!(" {name}"));
        let with = match kind {
            // A thread of normal priority would wait longer than softirq does.
            Kind::ThreadedNapi => format!(",{}", Kind::NapiPriority),
            Kind::IrqAffinity => " --cpu CPUS".to_owned(),
            _ => String::new(),
        };
        Some(format!("onbeat doctor --fix{interface} --only {kind}{with}"))
    }
}

/// Looks at the host, and at the interfaces.
pub fn examine(root: &HostRoot<'_>, interfaces: &[String]) -> Vec<Finding> {
    let mut findings = kernel::examine(root);
    findings.extend(host::examine(root));
    for interface in interfaces {
        findings.extend(interface::examine(root, interface));
    }
    findings
}

/// The worst level among the findings.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// The findings for humans, each with its remedy below.
pub fn table(findings: &[Finding]) -> String {
    let subject = |finding: &Finding| match &finding.interface {
        Some(interface) => format!("{interface}: {}", finding.what),
        None => finding.what.clone(),
    };
    let mut text = String::new();
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Info => "info",
            Level::Warn => "WARN",
            Level::Bad => "BAD",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{level:<5} {}: {}", subject(finding), finding.value);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "      -> {remedy}");
        }
        if let Some(command) = finding.fixed_by() {
            let _ = writeln!(text, "      or {command}");
        }
    }
    text
}
