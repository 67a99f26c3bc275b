//! Examination of a host: capabilities and real-time settings, with remedies.
//!
//! All files are read through [`HostRoot`], so that tests can supply simulated hosts.

mod clock;
mod device;
mod fix;
mod host;
mod interface;
mod kernel;
mod manager;
mod nodes;
mod root;

use std::fmt::Write;

use onbeat_host::settings::SettingKind;
use onbeat_netdev::shell_word;
use onbeat_report::table::printable;
use serde::{Deserialize, Serialize};

pub use device::{Device, DeviceReader, KernelDevices};
pub use fix::{FixReport, Target, UNDO};
pub(crate) use kernel::version_of;
pub use nodes::examine_nodes;
pub use root::HostRoot;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As required.
    Ok,
    /// Information.
    Info,
    /// Works, but delays or hides frames.
    Warn,
    /// Does not work.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, such as `kernel-version` or `interface-mtu`.
    pub id: String,
    /// The interface concerned, if any.
    pub interface: Option<String>,
    /// Severity.
    pub level: Level,
    /// The property checked.
    pub what: String,
    /// Its value.
    pub value: String,
    /// The remedy, usually a command.
    pub remedy: Option<String>,
    /// The setting of `onbeat doctor --fix` that changes it, if any.
    #[serde(default)]
    pub fix: Option<SettingKind>,
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

    fn fix(mut self, kind: SettingKind) -> Finding {
        self.fix = Some(kind);
        self
    }

    /// The command that changes the value, if any.
    pub fn fixed_by(&self) -> Option<String> {
        let kind = self.fix?;
        let interface =
            self.interface.as_ref().map_or(String::new(), |name| format!(" {}", shell_word(name)));
        let with = match kind {
            // A thread with normal priority has longer delays than softirq.
            SettingKind::ThreadedNapi => format!(",{}", SettingKind::NapiPriority),
            SettingKind::IrqAffinity => " --cpu CPUS".to_owned(),
            _ => String::new(),
        };
        Some(format!("onbeat doctor --fix{interface} --only {kind}{with}"))
    }
}

/// Examines the host and the interfaces.
pub fn examine(root: &HostRoot<'_>, interfaces: &[String]) -> Vec<Finding> {
    let mut findings = kernel::examine(root);
    findings.extend(host::examine(root));
    findings.extend(clock::examine(root));
    for interface in interfaces {
        findings.extend(interface::examine(root, interface));
    }
    findings
}

/// The worst level among the findings.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// The findings as text, each followed by its remedy.
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
        let line = printable(&format!("{}: {}", subject(finding), finding.value));
        let _ = writeln!(text, "{level:<5} {line}");
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "      -> {}", printable(remedy));
        }
        if let Some(command) = finding.fixed_by() {
            let _ = writeln!(text, "      or {}", printable(&command));
        }
    }
    text
}
