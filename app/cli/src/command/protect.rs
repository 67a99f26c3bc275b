//! `onbeat protect`

use onbeat_node::config::Backend;
use onbeat_node::protect::{self, Format, Lifetime, Protection};
use onbeat_node::run::Removal;

use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;
use onbeat_terminal::values::one_of;

/// Make a link redundant: one interface above two networks
///
/// Creates an interface whose frames are sent over two interfaces at once, by PRP (IEC 62439-3). The receiver delivers the
/// first copy of each. Peers are hosts with this command, and other PRP nodes; hosts without redundancy stay reachable.
/// With --format rtag, frames have an R-TAG (IEEE 802.1CB) instead: both ends run onbeat, and no other host is reached.
/// The two interfaces keep their addresses and protocols. The networks behind them must not be connected.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat protect eth1 eth2
  onbeat protect eth1 eth2 --check
  onbeat protect eth1 eth2 --save
  onbeat protect eth1 eth2 --for eth3
  onbeat protect eth1 eth2 --format rtag
  onbeat protect --undo red0

Exit status: 0 success, 1 incomplete removal (--undo), 2 error (nothing is changed).")]
pub(crate) struct Arguments {
    /// The interfaces of LAN A and LAN B
    #[arg(value_name = "INTERFACE", num_args = 2, required_unless_present = "undo")]
    lans: Vec<String>,
    /// Format of the frames on both networks
    #[arg(long, value_enum, default_value_t = FormatName::Prp, conflicts_with = "undo")]
    format: FormatName,
    /// Name of the interface to create, of at most 10 characters, and of its node
    #[arg(long, default_value = "red0")]
    name: String,
    /// Protect the stations behind this interface (RedBox), instead of creating one
    #[arg(long = "for", value_name = "INTERFACE")]
    protected: Option<String>,
    /// MTU of the created interface; raises that of both LANs if required [default: 6 less than the
    /// smaller LAN]
    #[arg(long, value_parser = clap::value_parser!(u32).range(68..=4089), conflicts_with = "protected")]
    mtu: Option<u32>,
    /// Data plane [default: xdp over NICs whose drivers support it, else packet]
    #[arg(long, value_name = "NAME", value_parser = one_of(BACKENDS), conflicts_with = "undo")]
    backend: Option<Backend>,
    /// Print the changes and the configuration, and change nothing
    #[arg(long)]
    check: bool,
    /// Save the configuration in /etc/onbeat, and enable its service
    #[arg(long, conflicts_with = "check")]
    save: bool,
    /// Remove a redundant interface, the only one or this, and restore the host
    #[arg(long, value_name = "NAME", num_args = 0..=1,
          conflicts_with_all = ["lans", "protected", "mtu", "check", "save"])]
    undo: Option<Option<String>>,
    /// Print the state of the node as JSON
    #[arg(long, conflicts_with_all = ["check", "undo"])]
    json: bool,
}

/// Data planes of redundant interfaces.
const BACKENDS: [(&str, Backend); 2] =
    [Backend::ALL[Backend::Xdp as usize], Backend::ALL[Backend::Packet as usize]];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FormatName {
    /// The trailer of PRP (IEC 62439-3)
    Prp,
    /// The R-TAG of IEEE 802.1CB
    Rtag,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Prp => Self::Prp,
            FormatName::Rtag => Self::RTag,
        }
    }
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let Self { lans, format, name, protected, mtu, backend, check, save, undo, json } = self;
        if let Some(name) = undo {
            return remove(name);
        }
        let lans = lans.try_into().map_err(|_| Failure::new("two interfaces are required"))?;
        let format = format.into();
        let protection = Protection { format, name, lans, protected, mtu, backend };
        let plan = protection.plan()?;
        if check {
            let changes: String = plan.changes.iter().map(|line| format!("{line}\n")).collect();
            output::print(&format!("{changes}\n{}", plan.text))?;
            return Ok(CommandResult::Success);
        }
        let lifetime = if save { Lifetime::Permanent } else { Lifetime::Boot };
        let started = plan.start(lifetime)?;
        if json {
            output::print_json(&started.status)?;
            return Ok(CommandResult::Success);
        }
        output::print(&protect::summary(&protection, &started.status))?;
        if save {
            let enabled = if started.is_enabled {
                "its service is enabled"
            } else {
                "no service manager runs it"
            };
            output::print(&format!("saved: {}; {enabled}\n", started.file.display()))?;
        }
        Ok(CommandResult::Success)
    }
}

/// Removes the interface of this name, or the only one.
fn remove(name: Option<String>) -> Result {
    let name = name.map_or_else(only_name, Ok)?;
    let removal = protect::undo(&name)?;
    if removal == Removal::Complete {
        output::print(&format!("{name} is removed\n"))?;
    }
    Ok(CommandResult::good_if(removal == Removal::Complete))
}

/// Returns the name of the only interface of this network namespace.
fn only_name() -> Result<String> {
    let text = match (protect::names_here()?.as_slice(), protect::names()?.as_slice()) {
        ([only], _) => return Ok(only.clone()),
        ([], []) => "onbeat protect created no interface on this host".to_owned(),
        ([], others) => format!(
            "onbeat protect created no interface in this network namespace; in others: {}; name one: onbeat protect --undo NAME",
            others.join(", ")
        ),
        (names, _) => {
            let names = names.join(", ");
            format!("several interfaces: {names}; name one: onbeat protect --undo NAME")
        }
    };
    Err(Failure::new(text))
}

#[cfg(test)]
mod tests {
    use super::FormatName;
    use crate::command::{Command, parse};

    #[test]
    fn accepts_two_interfaces_or_a_removal() {
        let Ok(Command::Protect(protect)) = parse("protect eth1 eth2 --check") else { panic!() };
        assert_eq!(
            (protect.lans.as_slice(), protect.name.as_str()),
            (&["eth1".into(), "eth2".into()][..], "red0")
        );
        for line in [
            "protect",
            "protect eth1",
            "protect a b c",
            "protect a b --undo red0",
            "protect a b --mtu 5000",
            "protect a b --format hsr",
            "protect --undo red0 --format rtag",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(protect.format, FormatName::Prp);
        let Ok(Command::Protect(protect)) = parse("protect a b --format rtag") else { panic!() };
        assert_eq!(protect.format, FormatName::Rtag);
        let Ok(Command::Protect(protect)) = parse("protect --undo") else { panic!() };
        assert_eq!(protect.undo, Some(None));
        let Ok(Command::Protect(protect)) = parse("protect --undo=") else { panic!() };
        assert_eq!(
            protect.undo,
            Some(Some(String::new())),
            "a variable without a value selects no interface"
        );
        let Ok(Command::Protect(protect)) = parse("protect --undo red1") else { panic!() };
        assert_eq!(protect.undo, Some(Some("red1".into())));
    }
}
