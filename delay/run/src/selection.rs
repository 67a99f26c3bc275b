//! Filter expressions for packets of a side.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use onbeat_delay::capture::{LinkType, Packet};
use onbeat_delay::pairing::PacketFilter;
use onbeat_netdev::libpcap::PcapFilter;

use crate::error::{Error, Result};
use crate::filter;

/// The packets to match, by pcap-filter(7).
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FilterOptions {
    /// Match only packets that pass this filter (pcap-filter(7)): `udp and src net 10.1.0.0/16`
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Match only arrivals that pass this filter
    #[arg(long, value_name = "EXPR")]
    filter_in: Option<String>,
    /// Match only departures that pass this filter
    #[arg(long, value_name = "EXPR")]
    filter_out: Option<String>,
}

impl FilterOptions {
    /// Refuses invalid filters, before any work is done.
    pub(super) fn check(&self) -> Result<()> {
        for (option, expression) in self.given() {
            if let Some(expression) = expression {
                check(option, &expression)?;
            }
        }
        Ok(())
    }

    /// The options, as given.
    pub(super) fn given(&self) -> Vec<(&'static str, Option<String>)> {
        let options = [
            ("--filter", &self.filter),
            ("--filter-in", &self.filter_in),
            ("--filter-out", &self.filter_out),
        ];
        let is_given = |(_, expression): &(_, &Option<String>)| expression.is_some();
        let owned = |(option, expression): (_, &Option<String>)| (option, expression.clone());
        options.into_iter().filter(is_given).map(owned).collect()
    }

    /// The filters of arrivals and of departures, which also require `more`.
    pub(super) fn filters(&self, more: Option<&str>) -> [Option<PacketFilter>; 2] {
        [&self.filter_in, &self.filter_out].map(|of_side| {
            let given = [&self.filter, of_side].into_iter().flatten().cloned();
            let expressions: Vec<String> = given.chain(more.map(str::to_owned)).collect();
            (!expressions.is_empty()).then(|| every(expressions))
        })
    }
}

/// Refuses an invalid filter of an option for Ethernet, before any work is done.
pub(super) fn check(option: &str, expression: &str) -> Result<()> {
    filter::compile(LinkType::ETHERNET.0, expression)
        .map(drop)
        .map_err(|error| Error::option(format!("{option} {expression:?}: {error}")))
}

fn compile(expressions: &[String], link: LinkType) -> std::result::Result<Vec<PcapFilter>, String> {
    let compile =
        |text: &String| filter::compile(link.0, text).map_err(|error| format!("{text:?}: {error}"));
    expressions.iter().map(compile).collect()
}

/// Selects packets that pass every expression, compiled for each link type that occurs.
fn every(expressions: Vec<String>) -> PacketFilter {
    let mut compiled: HashMap<LinkType, Vec<PcapFilter>> = HashMap::new();
    PacketFilter::new(move |packet: &Packet<'_>| {
        let filters = match compiled.entry(packet.link) {
            Entry::Occupied(filters) => filters.into_mut(),
            Entry::Vacant(place) => place.insert(compile(&expressions, packet.link)?),
        };
        Ok(filters.iter().all(|filter| filter.keeps(packet.octets, packet.wire_len)))
    })
}
