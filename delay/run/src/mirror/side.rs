//! Options that distinguish arrivals from departures in a mirrored capture.

use onbeat_delay::pairing::{InterfaceId, SideCriterion};
use onbeat_wire::MacAddress;

use crate::error::{Error, Result};

/// Options that distinguish arrivals from departures.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct SideOptions {
    /// MAC addresses of the hop: packets to one arrive, packets from one depart
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    mac: Vec<MacAddress>,
    /// VLANs of arrivals and of departures
    #[arg(long, value_name = "IN,OUT", value_parser = two::<u16>)]
    vlan: Option<(u16, u16)>,
    /// Interfaces of a pcapng file that captured arrivals and departures, by number, from 0, or by name
    #[arg(long, value_name = "IN,OUT", value_parser = two::<InterfaceId>)]
    interface: Option<(InterfaceId, InterfaceId)>,
    /// Use the direction that a pcapng file or the captured interface reports: inbound packets arrive, outbound
    /// ones depart
    #[arg(long)]
    direction: bool,
}

impl SideOptions {
    /// Returns the criterion.
    pub(super) fn sides(&self) -> Result<SideCriterion> {
        let same = |what: &str| Error::option(format!("{what}: the two sides are the same"));
        Ok(match (self.vlan, &self.interface) {
            (Some((arrivals, departures)), _) if arrivals == departures => {
                return Err(same("--vlan"));
            }
            (Some((arrivals, departures)), _) => SideCriterion::Vlans { arrivals, departures },
            (_, Some((arrivals, departures))) if arrivals == departures => {
                return Err(same("--interface"));
            }
            (_, Some((arrivals, departures))) => SideCriterion::Interfaces {
                arrivals: arrivals.clone(),
                departures: departures.clone(),
            },
            _ if self.direction => SideCriterion::Direction,
            _ => SideCriterion::Addresses(self.mac.clone()),
        })
    }
}

/// The option on the command line.
pub(super) fn given(sides: &SideCriterion) -> (&'static str, Option<String>) {
    match sides {
        SideCriterion::Vlans { arrivals, departures } => {
            ("--vlan", Some(format!("{arrivals},{departures}")))
        }
        SideCriterion::Interfaces { arrivals, departures } => {
            ("--interface", Some(format!("{arrivals},{departures}")))
        }
        SideCriterion::Direction => ("--direction", None),
        SideCriterion::Addresses(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            ("--mac", Some(addresses.join(",")))
        }
    }
}

/// Parses a pair: `101,102`.
fn two<T: std::str::FromStr>(text: &str) -> std::result::Result<(T, T), String> {
    let parts = text.split_once(',');
    let numbers = parts.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    numbers.ok_or_else(|| "two values are required, of arrivals and of departures: 101,102".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sides_are_refused() {
        let same =
            SideOptions { mac: Vec::new(), vlan: Some((5, 5)), interface: None, direction: false };
        assert!(same.sides().is_err());
    }
}
