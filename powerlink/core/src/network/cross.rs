//! Cross traffic: values that a controlled node receives from the PRes of others.
//!
//! The first RPDO is that of the poll; each further one is that of another node, in the order of their ids.

use alloc::collections::BTreeSet;

use onbeat_wire::powerlink::NodeId;

use super::build::{Entries, limit, mapped, number};
use super::{MAX_SIGNALS, Network, NetworkError, ReceivedSignal, Station};
use crate::od::profile::{self, assignment};
use crate::od::{ObjectId, id};
use crate::pdo::MappingEntry;

impl Station {
    /// The nodes whose PRes it receives.
    pub fn sources(&self) -> BTreeSet<NodeId> {
        self.received.iter().map(|signal| signal.source).collect()
    }

    /// Number of its RPDOs: that of the poll, and those of other nodes.
    pub fn rpdos(&self) -> u16 {
        1 + self.sources().len() as u16
    }
}

impl Network {
    /// The values of a node's objects for the PRes of others, in the order in which they are written.
    pub(super) fn cross_traffic(&self, station: &Station) -> Result<Entries, NetworkError> {
        let mut entries = Entries::new();
        for (channel, source) in (1..).zip(station.sources()) {
            let signals = station.received.iter().filter(|signal| signal.source == source);
            let (parameters, mapping) = (profile::RPDO + channel, profile::RPDO_MAPPING + channel);
            let valid = assignment::EXISTS | assignment::IS_CONTROLLED | assignment::VALID;
            let payload = self.nodes.iter().find(|other| other.node == source);
            let payload = payload.map_or(0, |other| limit(&other.inputs)) as u64;
            entries.extend([
                number(id(mapping, 0), 1, 0),
                number(id(profile::NODE_ASSIGNMENT, source.0), 4, valid.into()),
                number(id(profile::PRES_LIMIT_OF, source.0), 2, payload),
                number(id(parameters, 1), 1, source.0.into()),
                number(id(parameters, 2), 1, 0),
            ]);
            let mut count = 0;
            for signal in signals {
                let entry = self.place_of(station.node, signal)?;
                count += 1;
                if count > MAX_SIGNALS {
                    return Err(NetworkError::Signals(station.node));
                }
                entries.push(number(id(mapping, count as u8), 8, entry.number()));
            }
            entries.push(number(id(mapping, 0), 1, count as u64));
        }
        Ok(entries)
    }

    /// The place of a value in the PRes of its source.
    fn place_of(
        &self,
        node: NodeId,
        signal: &ReceivedSignal,
    ) -> Result<MappingEntry, NetworkError> {
        let ReceivedSignal { object, data_type, source, input, .. } = *signal;
        let refused = NetworkError::Source { node, object, source };
        let stations = self.nodes.iter().filter(|station| station.node != node);
        let Some(station) = stations.into_iter().find(|station| station.node == source) else {
            return Err(refused);
        };
        let objects: alloc::vec::Vec<ObjectId> = station.inputs.iter().map(|_| object).collect();
        let places = mapped(&station.inputs, &objects);
        match (station.inputs.get(input), places.get(input)) {
            (Some(found), Some(place)) if found.data_type == data_type => Ok(*place),
            _ => Err(refused),
        }
    }
}
