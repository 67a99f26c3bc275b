//! Nodes of a network.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{MAX_PAYLOAD, NodeId};

use super::{MAX_SIGNALS, Network, NetworkError, Signal, Station, managing_input, managing_output};
use crate::cn::{self, ControlledNode};
use crate::ethernet::{self, address};
use crate::mn::{self, ManagingNode, concise_dcf, is_optional};
use crate::od::profile::{self, Identity, assignment, startup};
use crate::od::{Abort, Access, AddError, DataType, Dictionary, Object, ObjectId, PdoMapping, id};
use crate::pdo::MappingEntry;

/// Objects and their values.
pub(super) type Entries = Vec<(ObjectId, Vec<u8>)>;

/// Minimum payload octets of a poll: the default of the profile.
const LEAST_LIMIT: usize = 36;

impl Network {
    /// Builds a controlled node of the network, before its configuration; `mac` is its source address.
    ///
    /// # Errors
    /// There is no such node, or its objects conflict.
    pub fn controlled(
        &self,
        node: NodeId,
        mac: MacAddress,
    ) -> Result<ControlledNode, NetworkError> {
        let station = self.station(node)?;
        let mut objects = station.dictionary()?;
        // A managing node does not write the objects that the description lacks: this node has their values.
        for (object, value) in self.derived(station)? {
            if station.lacks(object) {
                let _ = objects.set_default(object, &value);
            }
        }
        ControlledNode::new(cn::Config { node, mac, objects }).map_err(NetworkError::Id)
    }

    /// Builds the managing node of the network; `mac` is its source address.
    ///
    /// # Errors
    /// The objects of a node conflict.
    pub fn managing(&self, mac: MacAddress) -> Result<ManagingNode, NetworkError> {
        self.managing_of(&self.nodes, mac)
    }

    /// Checks a node of the network.
    ///
    /// # Errors
    /// There is no such node, its objects conflict, or another node lacks a value that it receives.
    pub fn check(&self, node: NodeId) -> Result<(), NetworkError> {
        let station = self.station(node)?;
        self.managing_of(core::slice::from_ref(station), MacAddress::default()).map(drop)
    }

    /// Builds the managing node of some of the nodes.
    fn managing_of(
        &self,
        nodes: &[Station],
        mac: MacAddress,
    ) -> Result<ManagingNode, NetworkError> {
        let stations = nodes;
        let nodes: Vec<NodeId> = stations.iter().map(|station| station.node).collect();
        let od = profile::managing_node(&managing_identity(), self.cycle_us, &nodes);
        let mut od = od.map_err(|error| NetworkError::Object(NodeId::MN, error))?;
        set(&mut od, NodeId::MN, profile::ASYNC_SLOT_NS, self.async_slot_ns.into())?;
        let wait_us = self.pre_operational_1_us.into();
        set(&mut od, NodeId::MN, profile::WAIT_PRE_OPERATIONAL_1_US, wait_us)?;
        let wait_ns = stations.iter().map(|station| station.soc_to_poll_ns).max().unwrap_or(0);
        let wait_ns = od.number(profile::WAIT_SOC_PREQ_NS).max(wait_ns.into());
        set(&mut od, NodeId::MN, profile::WAIT_SOC_PREQ_NS, wait_ns)?;
        let cycles = self.multiplexed_cycles.into();
        set(&mut od, NodeId::MN, profile::MULTIPLEXED_CYCLES, cycles)?;
        set(&mut od, NodeId::MN, profile::PRESCALER, self.prescaler.into())?;
        let startup = od.number(profile::STARTUP);
        let bits =
            [(self.start_all, startup::START_ALL), (self.basic_ethernet, startup::BASIC_ETHERNET)];
        let bits = bits.into_iter().filter(|(set, _)| *set).fold(0, |bits, (_, bit)| bits | bit);
        set(&mut od, NodeId::MN, profile::STARTUP, startup | u64::from(bits))?;
        let exceeded = id(profile::CYCLE_EXCEEDED, 3);
        set(&mut od, NodeId::MN, exceeded, self.threshold.into())?;
        for (channel, station) in (0..).zip(stations) {
            self.describe(&mut od, channel, station)?;
        }
        count_entries(&mut od).map_err(|error| NetworkError::Object(NodeId::MN, error))?;
        ManagingNode::new(mn::Config { mac, objects: od }).map_err(NetworkError::Mapping)
    }

    fn station(&self, node: NodeId) -> Result<&Station, NetworkError> {
        let found = self.nodes.iter().find(|station| station.node == node);
        found.ok_or(NetworkError::NoNode(node))
    }

    /// Adds the settings of a node to the managing node.
    fn describe(
        &self,
        od: &mut Dictionary,
        channel: u16,
        station: &Station,
    ) -> Result<(), NetworkError> {
        let node = station.node;
        if station.multiplexed > self.multiplexed_cycles {
            return Err(NetworkError::Slot(node, station.multiplexed, self.multiplexed_cycles));
        }
        // The configuration is tried on an equal node: a real one would refuse the same values.
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
            (number(profile::PRES_LIMIT_OF), limit(&station.inputs) as u64),
            (number(profile::LOSS_OF_PRES[2]), self.threshold.into()),
            (number(profile::LATE_PRES[2]), self.threshold.into()),
            (number(profile::LOSS_OF_STATUS[2]), self.threshold.into()),
            (number(profile::MULTIPLEXED_ASSIGNMENT), station.multiplexed.into()),
        ];
        let identities = profile::EXPECTED_IDENTITY.map(number).into_iter();
        let identities = identities.zip(expected.map(u64::from));
        for (object, value) in identities.chain(values) {
            set(od, node, object, value)?;
        }
        let [to, from] = [PdoMapping::Transmit, PdoMapping::Receive];
        let outputs =
            (profile::TPDO_MAPPING, &station.outputs, to, managing_output as SignalObject);
        let inputs = (profile::RPDO_MAPPING, &station.inputs, from, managing_input as SignalObject);
        for (mapping, signals, mappable, place) in [outputs, inputs] {
            let objects: Vec<ObjectId> = (0..signals.len()).map(|n| place(node, n)).collect();
            for (object, signal) in objects.iter().zip(signals) {
                add(od, node, *object, signal.data_type, mappable)?;
            }
            let entries = mapped(signals, &objects);
            for (sub, entry) in (1..).zip(&entries) {
                set(od, node, id(mapping + channel, sub), entry.number())?;
            }
            set(od, node, id(mapping + channel, 0), entries.len() as u64)?;
        }
        Ok(())
    }

    /// The objects written to a node, in order, and the date and time that identify the configuration: another
    /// configuration has others.
    fn configuration(&self, station: &Station) -> Result<(Entries, [u32; 2]), NetworkError> {
        let mut entries = self.derived(station)?;
        entries.retain(|(object, value)| !station.lacks(*object) && !station.keeps(*object, value));
        entries.extend(station.parameters.iter().cloned());
        let stamp = stamp(&entries);
        let number = |object, value: u32| (object, value.to_le_bytes().to_vec());
        entries.push(number(profile::CONFIGURATION_DATE, stamp[0]));
        entries.push(number(profile::CONFIGURATION_TIME, stamp[1]));
        Ok((entries, stamp))
    }

    /// The values of a node's objects that follow from the network, in the order in which they are written.
    fn derived(&self, station: &Station) -> Result<Entries, NetworkError> {
        let mut entries = Vec::from([
            number(id(profile::RPDO_MAPPING, 0), 1, 0),
            number(id(profile::TPDO_MAPPING, 0), 1, 0),
            number(profile::CYCLE_LENGTH_US, 4, self.cycle_us.into()),
            number(profile::SOC_TOLERANCE_NS, 4, self.soc_tolerance_ns.into()),
            number(id(profile::LOSS_OF_SOC, 3), 4, self.node_threshold.into()),
            number(id(profile::LOSS_OF_SOA, 3), 4, self.node_threshold.into()),
            number(id(profile::LOSS_OF_PREQ, 3), 4, self.node_threshold.into()),
            number(profile::PREQ_LIMIT, 2, limit(&station.outputs) as u64),
            number(profile::PRES_LIMIT, 2, limit(&station.inputs) as u64),
            number(profile::PRESCALER, 2, self.prescaler.into()),
        ]);
        if self.soc_jitter_ns != 0 {
            entries.push(number(profile::SOC_JITTER_RANGE_NS, 4, self.soc_jitter_ns.into()));
            entries.push(number(id(profile::SOC_JITTER, 3), 4, self.node_threshold.into()));
        }
        if self.multiplexed_cycles != 0 {
            let slot = id(profile::MULTIPLEXED_ASSIGNMENT, station.node.0);
            entries.push(number(profile::MULTIPLEXED_CYCLES, 1, self.multiplexed_cycles.into()));
            entries.push(number(slot, 1, station.multiplexed.into()));
        }
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
        entries.extend(self.cross_traffic(station)?);
        Ok(entries)
    }
}

/// The identity of a managing node.
pub(super) fn managing_identity() -> Identity {
    Identity {
        features: profile::MANAGING_NODE_FEATURES,
        device_name: b"onbeat managing node".to_vec(),
        host_name: b"managing-node".to_vec(),
        ..Identity::default()
    }
}

/// An object with a number of `len` octets.
pub(super) fn number(object: ObjectId, len: usize, value: u64) -> (ObjectId, Vec<u8>) {
    (object, value.to_le_bytes()[..len].to_vec())
}

/// The object of a node's signal, by its position.
type SignalObject = fn(NodeId, usize) -> ObjectId;

impl Station {
    /// Whether the device lacks an optional object by its description.
    fn lacks(&self, object: ObjectId) -> bool {
        is_optional(object)
            && self.described.as_ref().is_some_and(|described| described.object(object).is_err())
    }

    /// Whether a peer cannot write an object of its description, which has this value: an entry of a fixed mapping.
    fn keeps(&self, object: ObjectId, value: &[u8]) -> bool {
        self.described.as_ref().is_some_and(|described| {
            described.object(object).is_ok_and(|object| !object.access.writes())
                && described.get(object) == Ok(value)
        })
    }

    fn dictionary(&self) -> Result<Dictionary, NetworkError> {
        let node = self.node;
        let failed = |error| NetworkError::Object(node, error);
        let mut objects =
            profile::controlled_node(&self.identity, self.rpdos().max(profile::RPDOS))
                .map_err(failed)?;
        if let Some(described) = &self.described {
            describe(&mut objects, node, described)?;
        }
        for (object, address) in
            [(profile::ADDRESS, address(node)), (profile::GATEWAY, ethernet::GATEWAY)]
        {
            // A device that describes them in another way keeps its description.
            let _ = objects.set_default(object, &u32::from(address).to_le_bytes());
        }
        let mut taken = BTreeSet::new();
        let inputs = self.inputs.iter().map(|s| (s.object, s.data_type, PdoMapping::Transmit));
        let outputs = self.outputs.iter().map(|s| (s.object, s.data_type, PdoMapping::Receive));
        let received = self.received.iter().map(|s| (s.object, s.data_type, PdoMapping::Receive));
        for (signal, data_type, mappable) in inputs.chain(outputs).chain(received) {
            match self.described.as_ref().map(|od| od.object(signal)) {
                Some(Ok(object)) if taken.insert(signal) => {
                    let fits = fits(object, data_type, mappable);
                    fits.map_err(|abort| NetworkError::Signal(node, signal, abort))?;
                }
                _ => add(&mut objects, node, signal, data_type, mappable)?,
            }
        }
        count_entries(&mut objects).map_err(failed)?;
        Ok(objects)
    }
}

/// Objects for the identity of a node and the features of the stack, or written by the node itself: a
/// description does not change them.
fn is_own(object: ObjectId) -> bool {
    const OWN: [ObjectId; 8] = [
        profile::RESET_COMMAND,
        profile::DEVICE_TYPE,
        profile::ERROR_REGISTER,
        profile::FEATURES,
        profile::EPL_VERSION,
        profile::NMT_STATE,
        profile::NODE_ID,
        profile::HOST_NAME,
    ];
    OWN.contains(&object)
        || matches!(
            object.index,
            0x1003 | 0x1008 | 0x1010 | 0x1011 | 0x1018 | 0x1030 | 0x1c0b..=0x1c0e | 0x1e40
        )
}

/// Whether the value of an object is derived from the description of a network, so that no other source may set
/// it: mappings, the cycle and its counters, date and time of the configuration.
pub fn follows_from_network(object: ObjectId) -> bool {
    let by_index = matches!(
        object.index,
        0x1006
            | 0x1020
            | 0x1400..=0x18ff
            | 0x1a00..=0x1aff
            | 0x1c0b..=0x1c0e
            | 0x1c13
            | 0x1c14
            | 0x1f81
            | 0x1f8d
            | 0x1f9b
    );
    let timing =
        [profile::PREQ_LIMIT, profile::PRES_LIMIT, profile::MULTIPLEXED_CYCLES, profile::PRESCALER];
    by_index || timing.contains(&object) || is_own(object)
}

/// Adds the objects of a device description.
fn describe(od: &mut Dictionary, node: NodeId, described: &Dictionary) -> Result<(), NetworkError> {
    for (index, count, element) in described.arrays().filter(|(index, ..)| !is_own(id(*index, 1))) {
        if od.subs(index).next().is_none() {
            let added = od.add_array(index, count, element.clone());
            added.map_err(|error| NetworkError::Object(node, error))?;
        }
    }
    for (object, described) in described.objects().filter(|(object, _)| !is_own(*object)) {
        if od.object(object).is_ok() {
            od.describe(object, described.clone())
                .map_err(|abort| NetworkError::Described(node, object, abort))?;
        } else {
            let added = od.add(object, described.clone());
            added.map_err(|error| NetworkError::Object(node, error))?;
        }
    }
    Ok(())
}

/// Adds sub-index 0 of objects of the application that have only others: the highest sub-index.
pub(super) fn count_entries(od: &mut Dictionary) -> Result<(), AddError> {
    let mut entries = BTreeMap::new();
    for (object, _) in od.objects().filter(|(object, _)| object.index >= 0x2000) {
        entries.insert(object.index, object.sub);
    }
    for (index, last) in entries {
        if od.object(id(index, 0)).is_err() {
            od.add(id(index, 0), Object::unsigned(1, Access::Constant, last.into()))?;
        }
    }
    Ok(())
}

/// Checks whether an object can be a signal.
fn fits(object: &Object, data_type: DataType, mappable: PdoMapping) -> Result<(), Abort> {
    if !object.mappable.allows(mappable) {
        return Err(Abort::NOT_MAPPABLE);
    }
    if object.data_type == data_type { Ok(()) } else { Err(Abort::INCOMPATIBLE) }
}

fn add(
    od: &mut Dictionary,
    node: NodeId,
    object: ObjectId,
    data_type: DataType,
    mappable: PdoMapping,
) -> Result<(), NetworkError> {
    let default = alloc::vec![0; data_type.fixed_len().unwrap_or_default()];
    let described = Object::new(data_type, Access::ReadWrite, default).mapped(mappable);
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

/// The mapping of consecutive signals, each starting at an octet.
pub(super) fn mapped(signals: &[Signal], objects: &[ObjectId]) -> Vec<MappingEntry> {
    let mut offset = 0;
    let place = |(signal, object): (&Signal, &ObjectId)| {
        let len = signal.data_type.bits().unwrap_or_default();
        let entry = MappingEntry { object: *object, offset, len };
        offset += len.next_multiple_of(8);
        entry
    };
    signals.iter().zip(objects).map(place).collect()
}

/// Payload octets of signals in a poll.
pub(super) fn limit(signals: &[Signal]) -> usize {
    let octets = signals.iter().filter_map(|signal| signal.data_type.fixed_len()).sum::<usize>();
    octets.clamp(LEAST_LIMIT, MAX_PAYLOAD)
}

/// Date (days since 1984) and time (milliseconds of the day) that identify a configuration.
fn stamp(entries: &[(ObjectId, Vec<u8>)]) -> [u32; 2] {
    const DAYS: u64 = 1 << 15;
    const MILLISECONDS: u64 = 86_400_000;
    // FNV-1a: no protection against deliberate collisions is required.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |octet: u8| hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    for (object, value) in entries {
        object.index.to_le_bytes().into_iter().chain([object.sub]).for_each(&mut add);
        value.iter().copied().for_each(&mut add);
    }
    // 0 and 0 would match any configuration.
    [1 + (hash % DAYS) as u32, ((hash >> 15) % MILLISECONDS) as u32]
}
