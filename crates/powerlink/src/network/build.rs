//! Nodes of a network.

use alloc::vec::Vec;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{MAX_PAYLOAD, NodeId};

use super::{MAX_SIGNALS, Network, NetworkError, Signal, Station, managing_input, managing_output};
use crate::cn::{self, ControlledNode};
use crate::mn::{self, ManagingNode, concise_dcf};
use crate::od::profile::{self, Identity, assignment};
use crate::od::{Access, Dictionary, Mappable, Object, ObjectId, id};
use crate::pdo::Mapped;

/// Objects and their values.
type Entries = Vec<(ObjectId, Vec<u8>)>;

/// Payload octets of a poll at least: as the profile has it by default.
const LEAST_LIMIT: usize = 36;

impl Network {
    /// A controlled node of the network, as it is before anybody configured it; it sends from `mac`.
    ///
    /// # Errors
    /// There is no such node, or its objects do not fit each other.
    pub fn controlled(
        &self,
        node: NodeId,
        mac: MacAddress,
    ) -> Result<ControlledNode, NetworkError> {
        let station = self.station(node)?;
        let objects = station.dictionary()?;
        ControlledNode::new(cn::Config { node, mac, objects }).map_err(NetworkError::Id)
    }

    /// The managing node of the network; it sends from `mac`.
    ///
    /// # Errors
    /// The objects of a node do not fit each other.
    pub fn managing(&self, mac: MacAddress) -> Result<ManagingNode, NetworkError> {
        let nodes: Vec<NodeId> = self.nodes.iter().map(|station| station.node).collect();
        let identity = Identity::default();
        let od = profile::managing_node(&identity, self.cycle_us, &nodes);
        let mut od = od.map_err(|error| NetworkError::Object(NodeId::MN, error))?;
        set(&mut od, NodeId::MN, profile::ASYNC_SLOT_NS, self.async_slot_ns.into())?;
        let wait_us = self.pre_operational_1_us.into();
        set(&mut od, NodeId::MN, profile::WAIT_PRE_OPERATIONAL_1_US, wait_us)?;
        for (channel, station) in (0..).zip(&self.nodes) {
            self.describe(&mut od, channel, station)?;
        }
        ManagingNode::new(mn::Config { mac, objects: od }).map_err(NetworkError::Mapping)
    }

    fn station(&self, node: NodeId) -> Result<&Station, NetworkError> {
        let found = self.nodes.iter().find(|station| station.node == node);
        found.ok_or(NetworkError::NoNode(node))
    }

    /// Tells the managing node all there is to know of a node.
    fn describe(
        &self,
        od: &mut Dictionary,
        channel: u16,
        station: &Station,
    ) -> Result<(), NetworkError> {
        let node = station.node;
        // The configuration is tried on a node like it: what that refuses the real one would.
        let (entries, [date, time]) = self.configuration(station)?;
        let mut model = station.dictionary()?;
        for (object, value) in &entries {
            crate::pdo::check_write(&model, *object, value)
                .and_then(|()| model.write(*object, value))
                .map_err(|abort| NetworkError::Value(node, *object, abort))?;
        }
        let dcf = concise_dcf(entries.iter().map(|(object, value)| (*object, value.as_slice())));
        let object = id(profile::CONCISE_DCF, node.0);
        od.set(object, &dcf).map_err(|abort| NetworkError::Value(node, object, abort))?;

        let mandatory = if station.mandatory { assignment::MANDATORY } else { 0 };
        let assigned = id(profile::NODE_ASSIGNMENT, node.0);
        let identity = &station.identity;
        let expected = [
            identity.device_type,
            identity.vendor_id,
            identity.product_code,
            identity.revision_number,
            identity.serial_number,
        ];
        let number = |index| id(index, node.0);
        let values = [
            (assigned, od.number(assigned) | u64::from(mandatory)),
            (number(profile::EXPECTED_DATE), date.into()),
            (number(profile::EXPECTED_TIME), time.into()),
            (number(profile::PRES_TIMEOUT_NS), station.pres_timeout_ns.into()),
            (number(profile::PREQ_LIMIT_OF), limit(&station.outputs) as u64),
            (number(0x1c09), self.threshold.into()),
        ];
        let identities = profile::EXPECTED_IDENTITY.map(number).into_iter();
        let identities = identities.zip(expected.map(u64::from));
        for (object, value) in identities.chain(values) {
            set(od, node, object, value)?;
        }
        let [to, from] = [Mappable::Transmit, Mappable::Receive];
        let outputs = (profile::TPDO_MAPPING, &station.outputs, to, managing_output as Place);
        let inputs = (profile::RPDO_MAPPING, &station.inputs, from, managing_input as Place);
        for (mapping, signals, mappable, place) in [outputs, inputs] {
            let objects: Vec<ObjectId> = (0..signals.len()).map(|n| place(node, n)).collect();
            for (object, signal) in objects.iter().zip(signals) {
                add(od, node, *object, signal, mappable)?;
            }
            let entries = mapped(signals, &objects);
            for (sub, entry) in (1..).zip(&entries) {
                set(od, node, id(mapping + channel, sub), entry.number())?;
            }
            set(od, node, id(mapping + channel, 0), entries.len() as u64)?;
        }
        Ok(())
    }

    /// What is written to a node, in order, and the date and time that stand for it: another
    /// configuration has others.
    fn configuration(&self, station: &Station) -> Result<(Entries, [u32; 2]), NetworkError> {
        let number = |object, len: usize, value: u64| (object, value.to_le_bytes()[..len].to_vec());
        let mut entries = Vec::from([
            number(id(profile::RPDO_MAPPING, 0), 1, 0),
            number(id(profile::TPDO_MAPPING, 0), 1, 0),
            number(profile::CYCLE_LENGTH_US, 4, self.cycle_us.into()),
            number(profile::SOC_TOLERANCE_NS, 4, self.soc_tolerance_ns.into()),
            number(id(profile::LOSS_OF_SOC, 3), 4, self.threshold.into()),
            number(id(profile::LOSS_OF_SOA, 3), 4, self.threshold.into()),
            number(id(profile::LOSS_OF_PREQ, 3), 4, self.threshold.into()),
            number(profile::PREQ_LIMIT, 2, limit(&station.outputs) as u64),
            number(profile::PRES_LIMIT, 2, limit(&station.inputs) as u64),
        ]);
        for (mapping, signals) in
            [(profile::RPDO_MAPPING, &station.outputs), (profile::TPDO_MAPPING, &station.inputs)]
        {
            if signals.len() > MAX_SIGNALS {
                return Err(NetworkError::Signals(station.node));
            }
            let objects: Vec<ObjectId> = signals.iter().map(|signal| signal.object).collect();
            for (sub, entry) in (1..).zip(mapped(signals, &objects)) {
                entries.push(number(id(mapping, sub), 8, entry.number()));
            }
            entries.push(number(id(mapping, 0), 1, signals.len() as u64));
        }
        entries.extend(station.parameters.iter().cloned());
        let stamp = stamp(&entries);
        entries.push(number(profile::CONFIGURATION_DATE, 4, stamp[0].into()));
        entries.push(number(profile::CONFIGURATION_TIME, 4, stamp[1].into()));
        Ok((entries, stamp))
    }
}

/// The object for a signal of a node, by its place.
type Place = fn(NodeId, usize) -> ObjectId;

impl Station {
    fn dictionary(&self) -> Result<Dictionary, NetworkError> {
        let node = self.node;
        let failed = |error| NetworkError::Object(node, error);
        let mut objects = profile::controlled_node(&self.identity, 1).map_err(failed)?;
        for (signals, mappable) in
            [(&self.inputs, Mappable::Transmit), (&self.outputs, Mappable::Receive)]
        {
            for signal in signals {
                add(&mut objects, node, signal.object, signal, mappable)?;
            }
        }
        Ok(objects)
    }
}

fn add(
    od: &mut Dictionary,
    node: NodeId,
    object: ObjectId,
    signal: &Signal,
    mappable: Mappable,
) -> Result<(), NetworkError> {
    let default = alloc::vec![0; signal.data_type.fixed_len().unwrap_or_default()];
    let described = Object::new(signal.data_type, Access::ReadWrite, default).mapped(mappable);
    od.add(object, described).map_err(|error| NetworkError::Object(node, error))
}

fn set(
    od: &mut Dictionary,
    node: NodeId,
    object: ObjectId,
    value: u64,
) -> Result<(), NetworkError> {
    od.set_number(object, value).map_err(|abort| NetworkError::Value(node, object, abort))
}

/// Signals behind one another, each from an octet on.
fn mapped(signals: &[Signal], objects: &[ObjectId]) -> Vec<Mapped> {
    let mut offset = 0;
    let place = |(signal, object): (&Signal, &ObjectId)| {
        let len = signal.data_type.bits().unwrap_or_default();
        let entry = Mapped { object: *object, offset, len };
        offset += len.next_multiple_of(8);
        entry
    };
    signals.iter().zip(objects).map(place).collect()
}

/// Payload octets that signals take in a poll.
fn limit(signals: &[Signal]) -> usize {
    let octets = signals.iter().filter_map(|signal| signal.data_type.fixed_len()).sum::<usize>();
    octets.clamp(LEAST_LIMIT, MAX_PAYLOAD)
}

/// Date (days since 1984) and time (milliseconds of the day) that stand for a configuration.
fn stamp(entries: &[(ObjectId, Vec<u8>)]) -> [u32; 2] {
    const DAYS: u64 = 1 << 15;
    const MILLISECONDS: u64 = 86_400_000;
    // FNV-1a: nobody makes two configurations that collide on purpose.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |octet: u8| hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    for (object, value) in entries {
        object.index.to_le_bytes().into_iter().chain([object.sub]).for_each(&mut add);
        value.iter().copied().for_each(&mut add);
    }
    // 0 and 0 would be any configuration.
    [1 + (hash % DAYS) as u32, ((hash >> 15) % MILLISECONDS) as u32]
}
