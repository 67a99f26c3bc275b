//! `onbeat run`

use std::fmt::Write;
use std::path::PathBuf;

use onbeat_frer::spec::Stream;
use onbeat_frer::wildcard::Scope;
use onbeat_node::config::{Backend, Config, InterfaceKind, LinkConfig};
use onbeat_node::run;
use onbeat_node::service::{self, MissingDropIns};
use onbeat_report::format::count;

use onbeat_terminal::exit::{self, CommandResult, Failure, Result};
use onbeat_terminal::output;
use onbeat_terminal::values::one_of;

/// Run the node that a configuration file describes
///
/// Runs in the foreground, and notifies systemd when the node is ready. SIGHUP or `onbeat reload` reloads
/// the file. With backend "xdp" the data plane is in the kernel. It forwards frames after the daemon is killed,
/// stopped by SIGTERM or upgraded, and the next start takes it over. Ctrl-C or `onbeat down` removes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat run --check /etc/onbeat/bridge.toml
  onbeat run /etc/onbeat/bridge.toml
  onbeat run --replace bridge.toml

Exit status: 0 the node stopped, or the file has no errors (--check); 1 the node stopped, but a setting of \
the host or an interface could not be restored; 2 error; 78 as a service, an error that a restart does not \
remedy: the file is refused, the unit lacks a drop-in, or the data plane in the kernel has tables of another version \
or size.")]
pub(crate) struct Arguments {
    /// Configuration file
    file: PathBuf,
    /// Check the file against this host and exit. Print a summary, warnings and the required systemd drop-ins, or
    /// all errors. Requires no root. As root, compare it with the node that runs, and print the effect of a restart
    #[arg(long, conflicts_with = "replace")]
    check: bool,
    /// Replace XDP programs of other processes on the interfaces
    #[arg(long)]
    replace: bool,
    /// Override the data plane of all ports: BPF programs in the kernel (xdp), or this process with packet
    /// sockets (packet) or AF_XDP sockets (xsk)
    #[arg(long, value_name = "NAME", value_parser = one_of(Backend::ALL))]
    backend: Option<Backend>,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        if self.check {
            let mut config = exit::load_to_preview(&self.file, Config::load)?;
            if nix::unistd::geteuid().is_root() {
                config.load_stored()?;
            }
            if let Some(backend) = self.backend {
                config.set_backend(backend)?;
            }
            config.check_control()?;
            let warnings = run::check(&config)?;
            output::print(&summary(&config))?;
            let absent: Vec<_> = run::absent_interfaces(&config)?.into_iter().collect();
            if !absent.is_empty() {
                let absent = absent.join(", ");
                output::print(&format!("  interfaces that do not exist on this host: {absent}\n"))?;
            }
            output::print(&service::summary(&config))?;
            if let Some(restart) = run::restart(&config, &self.file) {
                output::print(&format!("  a restart {restart}\n"))?;
            }
            if let Some(missing) = MissingDropIns::to_install(&config, &self.file) {
                output::print(&format!("{missing}\n"))?;
            }
            if warnings.count() > 0 {
                exit::warn(warnings);
            }
            return Ok(CommandResult::Success);
        }
        let options = run::Options { replace: self.replace, backend: self.backend };
        match run::run(&self.file, options) {
            Err(error) if error.is_permanent() && service::is_service() => {
                Err(Failure::with_code(error, service::EXIT_CONFIG))
            }
            restored => Ok(CommandResult::good_if(restored?)),
        }
    }
}

/// Summarizes a configuration, in a bounded number of lines.
fn summary(config: &Config) -> String {
    const STREAMS: usize = 16;
    let mut text = format!(
        "node {}: {}, {}, room for {}\n",
        config.node.name,
        count(config.ports.len() as u64, "port"),
        count(config.streams.len() as u64, "stream"),
        config.node.max_streams,
    );
    // Writing to a String cannot fail.
    let width = config.ports.iter().map(|port| port.name.len()).max().unwrap_or(0);
    for port in &config.ports {
        let _ = write!(text, "  port {:<width$}  {}", port.name, port.interface);
        let _ = match port.create {
            Some(InterfaceKind::Veth) => {
                writeln!(text, " (created by the node, with {})", port.attached_interface())
            }
            None => writeln!(text),
        };
    }
    if let Some(guard) = &config.node.guard {
        let _ = writeln!(text, "  guard: {}", guard.interfaces.join(", "));
    }
    if let Some(prp) = &config.prp {
        let _ = writeln!(text, "  PRP: {}", describe_link(config, prp));
    }
    for wildcard in &config.wildcards {
        let scope = match wildcard.scope {
            Scope::All => "all frames".to_owned(),
            Scope::Vlan(vlan) => format!("VLAN {vlan}"),
        };
        let link = describe_link(config, &wildcard.link);
        let _ = writeln!(text, "  wildcard {} ({scope}): {link}", wildcard.name);
    }
    let shown = &config.streams[..config.streams.len().min(STREAMS)];
    let width = shown.iter().map(|stream| stream.name.len()).max().unwrap_or(0);
    for stream in shown {
        let _ =
            writeln!(text, "  stream {:<width$}  {}", stream.name, describe_path(config, stream));
    }
    let rest = config.streams.len() - shown.len();
    if rest > 0 {
        let _ = writeln!(text, "  and {rest} more");
    }
    text
}

/// `host <-> path1, path2`
fn describe_link(config: &Config, link: &LinkConfig) -> String {
    let [host, a, b] = [link.host, link.a, link.b].map(|port| config.port(port).name.as_str());
    format!("{host} <-> {a}, {b}")
}

/// `talker -> generate -> path1, path2`
fn describe_path(config: &Config, stream: &Stream) -> String {
    let function = match (stream.generate, &stream.recover) {
        (true, _) => "generate",
        (false, Some(_)) => "recover",
        (false, None) => "forward",
    };
    let ports = |ids: &mut dyn Iterator<Item = _>| {
        ids.map(|id| config.port(id).name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let from = ports(&mut stream.members.iter().map(|member| member.port));
    let to = ports(&mut stream.egress.iter().map(|egress| egress.port));
    format!("{from} -> {function} -> {to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn requires_a_file() {
        let Ok(Command::Run(run)) = parse("run a.toml --replace") else { panic!() };
        assert_eq!(run.file.to_str(), Some("a.toml"));
        assert!(run.replace && !run.check);
        assert!(parse("run").is_err());
    }

    #[test]
    fn check_and_replace_exclude_each_other() {
        let Ok(Command::Run(run)) = parse("run --check a.toml") else { panic!() };
        assert!(run.check);
        assert!(parse("run --check --replace a.toml").is_err());
    }

    #[test]
    fn a_summary_lists_stream_paths_in_a_bounded_number_of_lines() {
        let text = r#"
            [node]
            name = "a"
            max-streams = 32
            [[port]]
            name = "talker"
            interface = "tsn0"
            create = "veth"
            [[port]]
            name = "path1"
            interface = "eth0"
            [[stream]]
            name = "axis-{n}"
            count = 18
            step = { destination = 1 }
            generate = true
            member = [{ port = "talker", identify = { type = "null", destination = "01:00:5e:00:02:00" } }]
            egress = [{ port = "path1", tag = "r-tag" }]
        "#;
        let summary = summary(&Config::parse(text, "a.toml").unwrap());
        assert!(
            summary.starts_with(
                "\
node a: 2 ports, 18 streams, room for 32
  port talker  tsn0 (created by the node, with tsn0-frer)
  port path1   eth0
  stream axis-0   talker -> generate -> path1
"
            ),
            "{summary}"
        );
        assert!(
            summary.ends_with("  stream axis-15  talker -> generate -> path1\n  and 2 more\n"),
            "{summary}"
        );
    }
}
