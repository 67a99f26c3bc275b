//! Abilities of a node by its device description, checked against the network before the start.

use std::fmt::Display;

use onbeat_config::Value;
use onbeat_powerlink::network::{Network, Station};
use onbeat_powerlink::od::{DataType, id, profile};
use onbeat_xdd::Description;

const FEWER: &str = "use fewer signals, or signals of fewer octets";

/// A node's table in the file, and its device.
struct Abilities<'a> {
    node: &'a Value<'a>,
    station: &'a Station,
    device: &'a Description,
}

/// Reports each ability of a device that the network exceeds.
pub(super) fn check(node: &Value<'_>, device: &Description, station: &Station, network: &Network) {
    let abilities = Abilities { node, station, device };
    abilities.cycle(network.cycle_us.into());
    abilities.process_data();
    abilities.services();
}

impl Abilities<'_> {
    /// Reports an attribute and its value, the use, and the remedy.
    fn fault(&self, attribute: impl Display, value: impl Display, needed: &str, help: &str) {
        let id = self.station.node;
        let what = format!("node {id}: {attribute} of its device description is {value}, {needed}");
        self.node.fault(what, help);
    }

    /// Checks a maximum.
    fn at_most(&self, attribute: &str, needed: usize, what: &str, help: &str) {
        let able = self.device.features.number(attribute);
        if let Some(able) = able.filter(|able| needed as u64 > *able) {
            self.fault(attribute, able, &format!("{what} {needed}"), help);
        }
    }

    /// Checks an ability.
    fn required(&self, attribute: &str, what: &str, help: &str) {
        if self.device.features.flag(attribute) == Some(false) {
            self.fault(attribute, false, what, help);
        }
    }

    fn cycle(&self, cycle_us: u64) {
        let number = |attribute| self.device.features.number(attribute);
        let needed = format!("the cycle has {cycle_us} us");
        if let Some(least) = number("NMTCycleTimeMin").filter(|least| cycle_us < *least) {
            let help = format!("use cycle-us = {least} or more");
            self.fault("NMTCycleTimeMin", least, &needed, &help);
        }
        if let Some(most) = number("NMTCycleTimeMax").filter(|most| cycle_us > *most) {
            let help = format!("use cycle-us = {most} or less");
            self.fault("NMTCycleTimeMax", most, &needed, &help);
        }
        let step = number("NMTCycleTimeGranularity").filter(|step| *step > 1);
        if let Some(step) = step.filter(|step| cycle_us % step != 0) {
            let help = format!("use cycle-us = {}", cycle_us.next_multiple_of(step));
            self.fault("NMTCycleTimeGranularity", step, &needed, &help);
        }
    }

    fn process_data(&self) {
        let Abilities { station, device, .. } = self;
        let inputs: Vec<DataType> = station.inputs.iter().map(|signal| signal.data_type).collect();
        let outputs: Vec<DataType> =
            station.outputs.iter().map(|signal| signal.data_type).collect();
        let received: Vec<DataType> =
            station.received.iter().map(|signal| signal.data_type).collect();
        let octets = |of: &[DataType]| of.iter().filter_map(|of| of.fixed_len()).sum::<usize>();
        let channels = match (received.is_empty(), outputs.is_empty()) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => station.rpdos().into(),
        };
        let help = "receive outputs of fewer other nodes (from)";
        self.at_most("PDORPDOChannels", channels, "the number of RPDOs for its outputs is", help);
        let of = |source| station.received.iter().filter(move |s| s.source == source).count();
        let most = station.sources().into_iter().map(of).max().unwrap_or(0).max(outputs.len());
        let what = "the number of outputs of one sender is";
        self.at_most("PDORPDOChannelObjects", most, what, FEWER);
        let (all, what) = (outputs.len() + received.len(), "the number of its outputs is");
        self.at_most("PDORPDOOverallObjects", all, what, FEWER);
        for attribute in ["PDOTPDOChannelObjects", "PDOTPDOOverallObjects"] {
            self.at_most(attribute, inputs.len(), "the number of its inputs is", FEWER);
        }
        let (sent, polled) = (octets(&inputs), octets(&outputs));
        let (sends, receives) = ("the octets of its inputs are", "the octets of its outputs are");
        self.at_most("PDOTPDOCycleDataLim", sent, sends, FEWER);
        self.at_most("PDORPDOCycleDataLim", polled + octets(&received), receives, FEWER);
        // IsochrTxMaxPayload and IsochrRxMaxPayload; a device without a value does not state a limit.
        for (sub, needed, what) in [(1, sent, sends), (2, polled, receives)] {
            let object = id(profile::ASYNC_MTU.index, sub);
            let able = device.objects.number(object);
            if able != 0 && needed as u64 > able {
                self.fault(format!("object {object}"), able, &format!("{what} {needed}"), FEWER);
            }
        }
        let has_bit = inputs.iter().chain(&outputs).chain(&received).any(|of| of.bits() == Some(1));
        let bits = device.features.number("PDOGranularity").filter(|bits| has_bit && *bits > 1);
        if let Some(bits) = bits {
            let help = "use an object of whole octets instead of a bool";
            self.fault("PDOGranularity", bits, "a bool is mapped with 1 bit", help);
        }
    }

    fn services(&self) {
        let Abilities { station, device, .. } = self;
        let help = "use the description of a controlled node";
        self.required("DLLFeatureCN", "it is a controlled node", help);
        self.required("NMTIsochronous", "each node is polled", "leave the node out");
        for attribute in ["SDOServer", "SDOSupportASnd"] {
            let help = "use a device with an SDO server by ASnd";
            self.required(attribute, "its configuration is written by SDO in ASnd", help);
        }
        if station.multiplexed != 0 {
            let help = "remove multiplexed: the node is then polled in every cycle";
            self.required("DLLCNFeatureMultiplex", "it is polled in a multiplexed cycle", help);
        }
        let (latency, timeout) = (profile::RESPONSE_TIME_NS, station.pres_timeout_ns.into());
        let latency_ns = device.objects.number(latency);
        if latency_ns > timeout {
            let needed = format!("its response times out after {timeout} ns");
            let help = format!("use pres-timeout-us = {} or more", latency_ns.div_ceil(1000));
            self.fault(format!("object {latency}"), latency_ns, &needed, &help);
        }
    }
}
