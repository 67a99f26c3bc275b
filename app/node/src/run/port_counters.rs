//! Counters of ports (802.1CB 9.3, 10.9): sums over all streams since the start of the daemon, including removed
//! ones, so that no counter of a port decreases when streams change.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use onbeat_frer::counters::{Counters, PortCounters, StreamCounters};
use onbeat_frer::dataplane::READ_AT_ONCE;
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{PortId, Stream};

use super::assembly::Node;
use super::error::Result;
use super::setup::names;
use crate::config::{Config, PortConfig};
use crate::control::StreamTotals;

/// Contributions of streams to sums.
pub(super) type Shares = BTreeMap<Rc<str>, Share>;

/// Contribution of a stream to sums.
#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    /// To the counters of ports, by port.
    pub(super) ports: BTreeMap<String, PortCounters>,
    /// To the sums over all streams.
    pub(super) totals: StreamTotals,
}

/// Contribution of a stream to the sums over all streams.
pub(super) fn totals(reading: &StreamReading) -> StreamTotals {
    let individual = reading.members.iter().filter_map(|member| member.individual);
    StreamTotals {
        sequence: reading.recovery.map(|recovery| recovery.counters).unwrap_or_default(),
        individual: individual.map(|individual| individual.counters).sum(),
        seq_enc_errored: reading.members.iter().map(|member| member.enc_errored).sum(),
    }
}

/// Contributions of a stream to the counters of its ports. A sequence recovery function covers all ports of its
/// stream: it is counted at each egress port.
pub(super) fn shares(
    stream: &Stream,
    reading: &StreamReading,
) -> impl Iterator<Item = (PortId, PortCounters)> {
    let members = stream.members.iter().zip(&reading.members).map(|(member, counted)| {
        let traffic = StreamCounters { input_packets: counted.input, ..<_>::default() };
        let individual = counted.individual.map(|individual| individual.counters);
        let (before, last) = match stream.recover {
            Some(_) => (individual, None),
            None => (None, individual),
        };
        (member.port, PortCounters::sum([traffic], last, before))
    });
    let recovery: Option<Counters> = reading.recovery.map(|recovery| recovery.counters);
    let traffic = StreamCounters { output_packets: reading.output, ..<_>::default() };
    let leaving = PortCounters::sum([traffic], recovery, []);
    members.chain(stream.egress.iter().map(move |egress| (egress.port, leaving)))
}

/// Counters of streams that the node no longer has.
#[derive(Debug, Default)]
pub(super) struct FormerCounters {
    ports: BTreeMap<String, PortCounters>,
    totals: StreamTotals,
}

impl FormerCounters {
    /// Adds the contributions that streams no longer have after a change.
    fn add(&mut self, before: Shares, after: &Shares) {
        for (stream, before) in before {
            let after = after.get(&stream);
            for (port, counted) in before.ports {
                let still = after.and_then(|share| share.ports.get(&port)).copied();
                *self.ports.entry(port).or_default() +=
                    counted.saturating_sub(still.unwrap_or_default());
            }
            let still = after.map(|share| share.totals).unwrap_or_default();
            self.totals += before.totals.saturating_sub(still);
        }
    }

    pub(super) fn of_port(&self, port: &str) -> PortCounters {
        self.ports.get(port).copied().unwrap_or_default()
    }

    /// Their part of the sums over all streams.
    pub(super) fn totals(&self) -> StreamTotals {
        self.totals
    }

    pub(super) fn retain_ports(&mut self, is_port: impl Fn(&String) -> bool) {
        self.ports.retain(|port, _| is_port(port));
    }
}

impl Node {
    /// Contributions of the streams with these names, if they exist.
    pub(super) fn read_shares<'a>(
        &self,
        streams: impl IntoIterator<Item = &'a str>,
    ) -> Result<Shares> {
        let there = |name: &&str| self.setup.streams.get(name).is_some();
        let streams: Vec<Rc<str>> = streams.into_iter().filter(there).map(Rc::from).collect();
        let mut all = Shares::new();
        self.read_each(&streams, |stream, reading| {
            let of_stream = all.entry(stream.name.as_str().into()).or_default();
            of_stream.totals = totals(reading);
            for (port, share) in shares(stream, reading) {
                *of_stream.ports.entry(self.setup.port(port).name.clone()).or_default() += share;
            }
        })?;
        Ok(all)
    }

    /// Reads all streams, in any order.
    pub(super) fn read_all(&self, mut take: impl FnMut(&Stream, &StreamReading)) -> Result<()> {
        if self.is_applied {
            return self.plane.read_all(&mut self.setup.streams.iter(), &mut take);
        }
        let streams = self.setup.streams.iter();
        let names: Vec<_> = streams.map(|stream| Rc::from(stream.name.as_str())).collect();
        self.read_each(&names, take)
    }

    /// Reads the streams with these names.
    fn read_each(
        &self,
        names: &[Rc<str>],
        mut take: impl FnMut(&Stream, &StreamReading),
    ) -> Result<()> {
        for some in names.chunks(READ_AT_ONCE) {
            for (name, reading) in some.iter().zip(self.plane.read_streams(some)?) {
                if let (Some(stream), Some(reading)) = (self.setup.streams.get(name), reading) {
                    take(stream, &reading);
                }
            }
        }
        Ok(())
    }

    /// By port: packets of all streams and wildcards that were handed to it, including those of former ones.
    pub(super) fn handed(&self) -> Result<Vec<u64>> {
        let former = |port: &PortConfig| self.former_counters.of_port(&port.name).output_packets;
        let mut sums: Vec<u64> = self.setup.ports.iter().map(former).collect();
        self.read_all(|stream, reading| {
            for (port, share) in shares(stream, reading) {
                sums[usize::from(port.0)] += share.output_packets;
            }
        })?;
        let mut of_wildcards = vec![PortCounters::default(); sums.len()];
        self.add_wildcards(&mut of_wildcards)?;
        for (sum, of_wildcards) in sums.iter_mut().zip(of_wildcards) {
            *sum += of_wildcards.output_packets;
        }
        Ok(sums)
    }

    /// Contributions of the streams that `new` changes or removes.
    pub(super) fn read_changing_shares(&self, new: &Config) -> Result<Shares> {
        let same_ports = |ports: &[PortConfig]| names(ports) == names(&self.setup.ports);
        let streams: HashMap<&str, &Stream> = match same_ports(&new.ports) {
            true => new.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect(),
            // Numbers of ports have another meaning.
            false => HashMap::new(),
        };
        let changes = |stream: &&Stream| streams.get(stream.name.as_str()) != Some(stream);
        let changing = self.setup.streams.iter().filter(changes);
        self.read_shares(changing.map(|stream| stream.name.as_str()))
    }

    /// Keeps the contributions that the streams lose by a change. Packets between the reading of `before` and the
    /// change are not counted.
    pub(super) fn keep_counters(&mut self, before: Shares) {
        match self.read_shares(before.keys().map(|name| &**name)) {
            Ok(after) => self.former_counters.add(before, &after),
            Err(error) => tracing::error!("counters of changed streams cannot be read: {error}"),
        }
    }

    /// Keeps the contributions that wildcards lose by a change, as [`Node::keep_counters`].
    pub(super) fn keep_wildcard_counters(&mut self, before: Shares) {
        match self.wildcard_shares() {
            Ok(after) => self.former_counters.add(before, &after),
            Err(error) => tracing::error!("counters of wildcards cannot be read: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(input_packets: u64, output_packets: u64) -> Share {
        let counted = PortCounters { input_packets, output_packets, ..<_>::default() };
        let totals = StreamTotals { seq_enc_errored: input_packets, ..<_>::default() };
        Share { ports: BTreeMap::from([("p".to_owned(), counted)]), totals }
    }

    #[test]
    fn counters_of_removed_streams_stay_in_their_ports() {
        let mut former = FormerCounters::default();
        let shares =
            |shares: [(&str, _); 2]| shares.map(|(name, ports)| (Rc::from(name), ports)).into();
        // One stream is removed, of the other one member of two.
        let before = shares([("gone", ports(41, 40)), ("changed", ports(150, 7))]);
        let after = shares([("changed", ports(52, 9)), ("new", ports(3, 3))]);
        former.add(before, &after);
        former.add(shares([("new", ports(3, 3)), ("changed", ports(52, 9))]), &after);
        let counted = former.of_port("p");
        assert_eq!((counted.input_packets, counted.output_packets), (41 + 98, 40));
        assert_eq!(former.totals().seq_enc_errored, 41 + 98);
        assert_eq!(former.of_port("q"), PortCounters::default());
        former.retain_ports(|port| port == "q");
        assert_eq!(former.of_port("p"), PortCounters::default());
    }
}
