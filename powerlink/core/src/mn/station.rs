//! A controlled node in the view of the managing node.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{IdentResponse, NmtState, NodeId, SendRequest};

use super::{Failure, dcf};
use crate::od::{Dictionary, ObjectId, id, profile};
use crate::pdo::Channel;
use crate::sdo::{Client, OutgoingFrame, Request};

/// Settings of a node in the dictionary.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) start: bool,
    pub(super) mandatory: bool,
    /// Device type, vendor, product, revision, serial number; 0: any.
    identity: [u32; 5],
    /// Date and time; 0 and 0: any.
    configuration: (u32, u32),
    /// Of the software, if checked; 0: any.
    software: [u32; 2],
    pub(super) preq_limit: usize,
    pub(super) pres_timeout_ns: u64,
    /// The cycle of a multiplexed cycle in which it is polled, starting at 1; 0: every cycle.
    pub(super) slot: u64,
    /// Cycles from one poll to the next.
    pub(super) period: u64,
}

/// The objects with the expected date and time of a node's software.
const SOFTWARE: [u16; 2] = [profile::EXPECTED_SOFTWARE_DATE, profile::EXPECTED_SOFTWARE_TIME];

/// The delay of the second attempt after failures in succession.
const FIRST_DELAY_NS: u64 = 500_000_000;
/// How often it doubles: 8 s at most.
const MAX_DOUBLINGS: u32 = 4;

/// A mismatch of a node's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The object with the expected value.
    pub expected_at: u16,
    /// The expected value.
    pub expected: u32,
    /// The node's value.
    pub found: u32,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { expected_at, expected, found } = self;
        write!(f, "{found:#010x} instead of {expected:#010x} (object {expected_at:04X})")
    }
}

impl Settings {
    /// The settings of `node`, if it is a controlled node of this network.
    pub(super) fn new(od: &Dictionary, node: NodeId) -> Option<Self> {
        use profile::assignment::{EXISTS, IS_CONTROLLED, MANDATORY, START, VALID};
        use profile::startup::{CHECK_CONFIGURATION, CHECK_SOFTWARE};
        let startup = od.number(profile::STARTUP) as u32;
        let number = |index| od.number(id(index, node.0)) as u32;
        let assignment = number(profile::NODE_ASSIGNMENT);
        let needed = EXISTS | IS_CONTROLLED | VALID;
        // A slot after the end of the multiplexed cycle would never come.
        let cycles = od.number(profile::MULTIPLEXED_CYCLES);
        let slot = u64::from(number(profile::MULTIPLEXED_ASSIGNMENT));
        let slot = if slot > cycles { 0 } else { slot };
        (node.is_controlled() && assignment & needed == needed).then(|| Settings {
            start: assignment & START != 0,
            mandatory: assignment & MANDATORY != 0,
            identity: profile::EXPECTED_IDENTITY.map(number),
            configuration: match startup & CHECK_CONFIGURATION {
                0 => (0, 0),
                _ => (number(profile::EXPECTED_DATE), number(profile::EXPECTED_TIME)),
            },
            software: match startup & CHECK_SOFTWARE {
                0 => [0; 2],
                _ => SOFTWARE.map(number),
            },
            preq_limit: number(profile::PREQ_LIMIT_OF) as usize,
            pres_timeout_ns: number(profile::PRES_TIMEOUT_NS).into(),
            slot,
            period: if slot == 0 { 1 } else { cycles },
        })
    }

    /// Whether the node is polled in a cycle of the multiplexed cycle, counted from 0.
    pub(super) fn has_slot(&self, cycle: u64) -> bool {
        self.slot == 0 || self.slot == cycle + 1
    }

    /// Checks whether a node is the expected one.
    pub(super) fn check(&self, ident: &IdentResponse<'_>) -> Result<(), Mismatch> {
        let found = [
            ident.device_type,
            ident.vendor_id,
            ident.product_code,
            ident.revision_number,
            ident.serial_number,
        ];
        let identity = profile::EXPECTED_IDENTITY.into_iter().zip(self.identity).zip(found);
        let software = [ident.software_date, ident.software_time];
        let software = SOFTWARE.into_iter().zip(self.software).zip(software);
        for ((expected_at, expected), found) in identity.chain(software) {
            if expected != 0 && expected != found {
                return Err(Mismatch { expected_at, expected, found });
            }
        }
        Ok(())
    }

    /// Whether a node has the expected configuration.
    pub(super) fn is_configured(&self, ident: &IdentResponse<'_>) -> bool {
        let found = (ident.configuration_date, ident.configuration_time);
        self.configuration == (0, 0) || self.configuration == found
    }

    /// The requests that configure a node, in order.
    pub(super) fn download(&self, od: &Dictionary, node: NodeId, restored: bool) -> Vec<Request> {
        let restore = Request::Write(dcf::RESTORE, Arc::from(*b"load"));
        let store = Request::Write(dcf::STORE, Arc::from(*b"save"));
        let cycle = od.get(profile::CYCLE_LENGTH_US).unwrap_or_default().to_vec();
        let dcf = od.get(id(profile::CONCISE_DCF, node.0)).unwrap_or_default();
        let mut requests = Vec::new();
        if !restored {
            requests.push(restore);
        }
        requests
            .extend(dcf::entries(dcf).map(|(object, value)| Request::Write(object, value.into())));
        requests.push(store);
        requests.push(Request::Write(profile::CYCLE_LENGTH_US, cycle.into()));
        requests
    }
}

/// The boot step of a node (EPSG DS 301, 7.4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Identification by IdentRequest.
    Identify,
    /// Its configuration is written.
    Configure,
    /// It was reset, and receives no requests for a while.
    Reset,
    /// It is configured.
    Configured,
    /// It must enter PRE_OPERATIONAL_2 by itself.
    CheckPreOperational2,
    /// It is polled, and must enter READY_TO_OPERATE.
    Enable,
    /// It is ready.
    Ready,
    /// It must enter OPERATIONAL.
    Start,
    /// It is operational.
    Operational,
    /// It was stopped, until the next command.
    Stopped,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Identify => "identification",
            Step::Configure => "configuration",
            Step::Reset => "reset",
            Step::Configured => "configured",
            Step::CheckPreOperational2 => "transition to PRE_OPERATIONAL_2",
            Step::Enable => "transition to READY_TO_OPERATE",
            Step::Ready => "ready to operate",
            Step::Start => "transition to OPERATIONAL",
            Step::Operational => "operational",
            Step::Stopped => "stopped",
        })
    }
}

impl Step {
    /// Whether a node is polled.
    pub const fn is_polled(self) -> bool {
        matches!(self, Step::Enable | Step::Ready | Step::Start | Step::Operational)
    }
}

/// The start of error signaling: ER and EC are set, then cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signaling {
    Raise,
    Lower,
    Done,
}

#[derive(Debug)]
pub(super) struct Station {
    pub(super) node: NodeId,
    pub(super) settings: Settings,
    pub(super) step: Step,
    /// When the step times out, or ends.
    pub(super) deadline_ns: Option<u64>,
    /// It received another request since then, or is not in a queue for one.
    pub(super) requested_again: bool,
    pub(super) mac: Option<MacAddress>,
    /// Its last reported state.
    pub(super) state: NmtState,
    /// Since when its polls report another state than the expected one.
    pub(super) unexpected_since_ns: Option<u64>,
    pub(super) request: SendRequest,
    pub(super) signaling: Signaling,
    /// EA: EN of its last status.
    pub(super) acknowledged: bool,
    /// It reported errors since the last publication.
    pub(super) emergency_new: bool,
    /// A StatusRequest is due.
    pub(super) status_due: bool,
    /// No StatusRequest before this time, since it did not answer.
    pub(super) status_after_ns: u64,
    pub(super) polled: bool,
    /// Its last poll was not answered in time: the response may still arrive.
    pub(super) may_be_late: bool,
    /// An IdentRequest is due, besides the requests of its step.
    pub(super) ident_due: bool,
    /// Consecutive answered polls.
    pub(super) good_polls: u32,
    /// Its parameters were restored to defaults.
    pub(super) restored: bool,
    /// Its configuration was written since its last node reset.
    pub(super) downloaded: bool,
    /// How often it entered OPERATIONAL.
    pub(super) operational: u64,
    pub(super) failures: u64,
    pub(super) last_failure: Option<Failure>,
    /// Failures since it was last in OPERATIONAL.
    pub(super) failed_in_succession: u32,
    /// Added to the pause after its next reset.
    pub(super) delay_ns: u64,
    /// Objects of its configuration that it does not have.
    pub(super) skipped: BTreeSet<ObjectId>,
    /// Ignored frames of another address.
    pub(super) foreign: u64,
    pub(super) sdo: Client,
    /// SDO frames queued for an asynchronous phase of this node.
    pub(super) frames: VecDeque<OutgoingFrame>,
    pub(super) tpdo: Channel,
    pub(super) rpdo: Channel,
}

impl Station {
    pub(super) fn new(node: NodeId, settings: Settings, sdo_timeout_ns: u64) -> Self {
        Station {
            node,
            settings,
            step: Step::Identify,
            deadline_ns: None,
            requested_again: false,
            mac: None,
            state: NmtState::NOT_ACTIVE,
            unexpected_since_ns: None,
            request: SendRequest::NONE,
            signaling: Signaling::Raise,
            acknowledged: false,
            emergency_new: false,
            status_due: false,
            status_after_ns: 0,
            polled: false,
            may_be_late: false,
            ident_due: false,
            good_polls: 0,
            restored: false,
            downloaded: false,
            operational: 0,
            failures: 0,
            last_failure: None,
            failed_in_succession: 0,
            delay_ns: 0,
            skipped: BTreeSet::new(),
            foreign: 0,
            sdo: Client::new(sdo_timeout_ns),
            frames: VecDeque::new(),
            tpdo: Channel::default(),
            rpdo: Channel::default(),
        }
    }

    /// Continues the record of the same node with new settings.
    pub(super) fn continue_with(&mut self, former: Station) {
        let Station { settings, tpdo, rpdo, sdo, .. } = core::mem::replace(self, former);
        (self.settings, self.tpdo, self.rpdo, self.sdo) = (settings, tpdo, rpdo, sdo);
    }

    /// Resets the state, as after a reset of the node.
    pub(super) fn reset(&mut self) {
        // Queued commands are not for its state after the reset.
        self.frames.retain(|frame| frame.sdo().command.is_none());
        self.sdo.close(&mut self.frames);
        self.polled = false;
        self.may_be_late = false;
        self.good_polls = 0;
        self.request = SendRequest::NONE;
        self.state = NmtState::NOT_ACTIVE;
        self.status_due = false;
        self.deadline_ns = None;
    }

    /// Records a failure. One that recurs before the node reaches OPERATIONAL delays its next attempt; returns the
    /// delay, if any.
    pub(super) fn record_failure(&mut self, failure: Failure) -> Option<u64> {
        self.failures += 1;
        self.last_failure = Some(failure);
        if !failure.recurs() {
            return None;
        }
        self.failed_in_succession = self.failed_in_succession.saturating_add(1);
        // The first attempt after a failure is not delayed.
        let doublings = self.failed_in_succession.checked_sub(2)?;
        let delay_ns = FIRST_DELAY_NS << doublings.min(MAX_DOUBLINGS);
        self.delay_ns = delay_ns;
        Some(delay_ns)
    }

    /// Whether the node reports its requests only in its status.
    pub(super) fn needs_status(&self) -> bool {
        let busy = self.sdo.pending() > 0 && !self.polled;
        let boots = !matches!(self.step, Step::Identify | Step::Reset);
        boots && (busy || self.status_due || self.signaling != Signaling::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::od::profile::{Identity, startup};
    use onbeat_wire::powerlink::{EplVersion, HostName, Links};

    fn ident() -> IdentResponse<'static> {
        IdentResponse {
            exception_new: false,
            exception_clear: false,
            links: Links::default(),
            request: SendRequest::NONE,
            state: NmtState::PRE_OPERATIONAL_1,
            version: EplVersion::V2,
            features: 0,
            mtu: 300,
            poll_in_size: 36,
            poll_out_size: 36,
            response_time_ns: 0,
            device_type: 1,
            vendor_id: 2,
            product_code: 3,
            revision_number: 4,
            serial_number: 5,
            vendor_extension_1: 0,
            configuration_date: 6,
            configuration_time: 7,
            software_date: 8,
            software_time: 9,
            address: core::net::Ipv4Addr::UNSPECIFIED,
            mask: core::net::Ipv4Addr::UNSPECIFIED,
            gateway: core::net::Ipv4Addr::UNSPECIFIED,
            host_name: HostName([0; 32]),
            vendor_extension_2: &[0; 48],
        }
    }

    /// Settings of a node of which an object of the managing node expects a value.
    fn expecting(index: u16, value: u64, startup: u32) -> Settings {
        let identity = Identity {
            device_type: 0,
            vendor_id: 0,
            product_code: 0,
            revision_number: 0,
            serial_number: 0,
            features: 0,
            device_name: Vec::new(),
            host_name: Vec::new(),
        };
        let mut od = profile::managing_node(&identity, 1000, &[NodeId(1)]).unwrap();
        od.set_number(profile::STARTUP, startup.into()).unwrap();
        od.set_number(id(index, 1), value).unwrap();
        Settings::new(&od, NodeId(1)).unwrap()
    }

    #[test]
    fn every_part_of_an_identity_is_checked() {
        let all = startup::CHECK_SOFTWARE | startup::CHECK_CONFIGURATION;
        let parts =
            profile::EXPECTED_IDENTITY.into_iter().zip(1..).chain(SOFTWARE.into_iter().zip(8..));
        for (index, found) in parts {
            assert_eq!(expecting(index, 0, all).check(&ident()), Ok(()), "{index:x}: any");
            assert_eq!(expecting(index, found.into(), all).check(&ident()), Ok(()), "{index:x}");
            let mismatch = Mismatch { expected_at: index, expected: 77, found };
            assert_eq!(expecting(index, 77, all).check(&ident()), Err(mismatch), "{index:x}");
        }
        let unchecked = expecting(SOFTWARE[0], 77, startup::CHECK_CONFIGURATION);
        assert_eq!(unchecked.check(&ident()), Ok(()), "0x1F80 does not require it");
    }

    #[test]
    fn attempts_after_failures_in_succession_are_delayed() {
        let settings = expecting(profile::EXPECTED_DATE, 0, 0);
        let mut station = Station::new(NodeId(1), settings, 0);
        let delays = [(); 8].map(|()| station.record_failure(Failure::NotConfigured));
        let ms = [0, 500, 1000, 2000, 4000, 8000, 8000, 8000];
        assert_eq!(delays.map(|delay| delay.unwrap_or(0) / 1_000_000), ms);
        let lost = station.record_failure(Failure::LossOfPres);
        assert_eq!((lost, station.failures), (None, 9), "a loss is counted, and not delayed");
    }

    #[test]
    fn a_configuration_is_checked_if_required() {
        let check = startup::CHECK_CONFIGURATION;
        assert!(!expecting(profile::EXPECTED_DATE, 6, check).is_configured(&ident()), "the time");
        assert!(expecting(profile::EXPECTED_DATE, 6, 0).is_configured(&ident()));
        assert!(expecting(profile::EXPECTED_DATE, 0, check).is_configured(&ident()), "any");
    }
}
