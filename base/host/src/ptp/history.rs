//! Samples of a clock, and their judgment.

use std::collections::VecDeque;

use onbeat_wire::ptp::{ClockIdentity, ManagementData, PortState, Response};

use super::{PtpState, PtpStatus};

/// Number of samples of a clock that is locked.
pub const SAMPLES: usize = 10;

/// Largest offset of a locked clock with time stamps of the NIC, and of software.
const HARDWARE_LIMIT_NS: u64 = 100;
const SOFTWARE_LIMIT_NS: u64 = 10_000;

/// Samples within which a Sync message arrives.
const FRESH: usize = 4;

/// Rounds without a response after which ptp4l is silent.
const PATIENCE: u32 = 3;

/// A port of ptp4l.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its interface.
    pub interface: String,
    /// Its state.
    pub state: PortState,
    /// Whether the NIC makes its time stamps.
    pub is_hardware: bool,
}

/// The responses of one round of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    source: Option<ClockIdentity>,
    /// The ports that responded.
    pub ports: Vec<Port>,
    time: Option<(i64, i64, Option<ClockIdentity>)>,
    path_delay_ns: Option<i64>,
    /// TAI minus UTC in seconds, if the time is TAI.
    pub utc_offset_s: Option<i16>,
}

impl Round {
    /// Adds a response. Those of other clocks than that of the first are ignored.
    pub fn add(&mut self, response: &Response<'_>) {
        if *self.source.get_or_insert(response.source) != response.source {
            return;
        }
        match response.data {
            ManagementData::Port { state, is_hardware, interface } => {
                self.ports.push(Port { interface: interface.to_owned(), state, is_hardware });
            }
            ManagementData::TimeStatus { offset_ns, ingress_ns, grandmaster } => {
                self.time = Some((offset_ns, ingress_ns, grandmaster));
            }
            ManagementData::Current { path_delay_ns, .. } => {
                self.path_delay_ns = Some(path_delay_ns);
            }
            ManagementData::TimeProperties { utc_offset_s, is_tai } => {
                self.utc_offset_s = Some(if is_tai { utc_offset_s } else { 0 });
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.time.is_some() && !self.ports.is_empty()
    }

    /// The port that follows a master.
    fn follower(&self) -> Option<&Port> {
        let follows =
            |port: &&Port| matches!(port.state, PortState::Slave | PortState::Uncalibrated);
        self.ports.iter().find(follows)
    }
}

/// The last samples of a clock.
#[derive(Debug, Clone)]
pub struct History {
    /// Number of samples of a locked clock.
    required: usize,
    last: Round,
    /// Offset, and time of receipt of the last Sync message.
    samples: VecDeque<(i64, i64)>,
    missed: u32,
}

impl History {
    /// A history without samples. A clock with fewer than `required` samples is not locked.
    #[must_use]
    pub fn new(required: usize) -> Self {
        Self { required, last: Round::default(), samples: VecDeque::new(), missed: PATIENCE }
    }

    /// Adds the responses of a round.
    pub fn push(&mut self, round: Round) {
        if !round.is_complete() {
            self.missed = self.missed.saturating_add(1);
            if self.missed >= PATIENCE {
                self.samples.clear();
            }
            return;
        }
        self.missed = 0;
        let reference = |round: &Round| (round.source, round.time.and_then(|time| time.2));
        let is_slave = round.follower().is_some_and(|port| port.state == PortState::Slave);
        if !is_slave || reference(&round) != reference(&self.last) {
            self.samples.clear();
        }
        if let (true, Some((offset_ns, ingress_ns, _))) = (is_slave, round.time) {
            self.samples.push_back((offset_ns, ingress_ns));
            let excess = self.samples.len().saturating_sub(self.required);
            self.samples.drain(..excess);
        }
        self.last = round;
    }

    /// The last responses, unless ptp4l is silent.
    #[must_use]
    pub fn last(&self) -> Option<&Round> {
        (self.missed < PATIENCE).then_some(&self.last)
    }

    /// Judges the samples.
    #[must_use]
    pub fn status(&self) -> PtpStatus {
        let Some(round) = self.last() else {
            let cause = "ptp4l does not respond; continue or restart it".to_owned();
            return PtpStatus { cause: Some(cause), ..PtpStatus::default() };
        };
        let port = round.follower();
        let worst_offset_ns = self.samples.iter().map(|(offset, _)| offset.unsigned_abs()).max();
        let (state, cause) = self.judge(round, worst_offset_ns);
        let grandmaster = round.time.and_then(|time| time.2).map(|clock| clock.to_string());
        PtpStatus {
            state,
            cause,
            interface: port.map(|port| port.interface.clone()),
            hardware: port.map(|port| port.is_hardware),
            grandmaster,
            offset_ns: self.samples.back().map(|(offset, _)| *offset),
            worst_offset_ns,
            path_delay_ns: port.and(round.path_delay_ns),
            phc_offset_ns: None,
            system_synchronized: false,
        }
    }

    fn judge(&self, round: &Round, worst_offset_ns: Option<u64>) -> (PtpState, Option<String>) {
        let not_locked = |cause: String| (PtpState::NotLocked, Some(cause));
        let has_grandmaster = round.time.is_some_and(|time| time.2.is_some());
        let Some(port) = round.follower() else {
            let is_master = |port: &Port| port.state == PortState::Master;
            if round.ports.iter().any(is_master) && !has_grandmaster {
                return (PtpState::Grandmaster, None);
            }
            let states =
                round.ports.iter().map(|port| format!("{} {}", port.interface, port.state));
            let states: Vec<String> = states.collect();
            return not_locked(format!("no port follows a master: {}", states.join(", ")));
        };
        let limit_ns = if port.is_hardware { HARDWARE_LIMIT_NS } else { SOFTWARE_LIMIT_NS };
        let fresh = self.samples.len().saturating_sub(FRESH);
        let last = self.samples.back().map(|(_, ingress)| *ingress);
        let is_stale = self.samples.len() >= FRESH.min(self.required)
            && self.samples.iter().skip(fresh).all(|(_, ingress)| Some(*ingress) == last);
        match worst_offset_ns {
            _ if port.state != PortState::Slave => not_locked(format!("port is {}", port.state)),
            _ if !has_grandmaster => not_locked("no grandmaster is present".to_owned()),
            _ if is_stale => not_locked("no Sync message arrives".to_owned()),
            Some(worst) if worst > limit_ns => {
                not_locked(format!("an offset exceeds {limit_ns} ns"))
            }
            _ if self.samples.len() < self.required => {
                let (present, required) = (self.samples.len(), self.required);
                not_locked(format!("samples so far: {present} of {required}"))
            }
            _ => (PtpState::Locked, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: ClockIdentity = ClockIdentity([1; 8]);
    const GRANDMASTER: ClockIdentity = ClockIdentity([2; 8]);

    /// A round of a clock with one port.
    fn round(
        state: PortState,
        is_hardware: bool,
        (offset_ns, ingress_ns): (i64, i64),
        grandmaster: Option<ClockIdentity>,
    ) -> Round {
        let mut round = Round::default();
        for data in [
            ManagementData::Port { state, is_hardware, interface: "eth1" },
            ManagementData::TimeStatus { offset_ns, ingress_ns, grandmaster },
            ManagementData::Current { steps_removed: 1, path_delay_ns: 512 },
            ManagementData::TimeProperties { utc_offset_s: 37, is_tai: true },
        ] {
            round.add(&Response { source: SOURCE, sequence: 1, data });
        }
        round
    }

    fn slave(offset_ns: i64, ingress_ns: i64) -> Round {
        round(PortState::Slave, true, (offset_ns, ingress_ns), Some(GRANDMASTER))
    }

    fn history(rounds: impl IntoIterator<Item = Round>) -> History {
        let mut history = History::new(SAMPLES);
        rounds.into_iter().for_each(|round| history.push(round));
        history
    }

    fn state(history: &History) -> (PtpState, String) {
        let status = history.status();
        (status.state, status.cause.unwrap_or_default())
    }

    #[test]
    fn a_clock_with_ten_small_offsets_of_fresh_messages_is_locked() {
        let mut locked = history((0..9).map(|n| slave(-100, n)));
        assert_eq!(state(&locked).1, "samples so far: 9 of 10");
        locked.push(slave(100, 9));
        let status = locked.status();
        let expected = PtpStatus {
            state: PtpState::Locked,
            interface: Some("eth1".into()),
            hardware: Some(true),
            grandmaster: Some("020202.0202.020202".into()),
            offset_ns: Some(100),
            worst_offset_ns: Some(100),
            path_delay_ns: Some(512),
            ..PtpStatus::default()
        };
        assert_eq!(status, expected);
        assert_eq!(
            status.to_string(),
            "locked to 020202.0202.020202  by eth1 (hardware time stamps)  offset 100 ns (worst 100 ns)  path delay 512 ns  \
             system clock not synchronized"
        );
        assert_eq!(locked.last().and_then(|round| round.utc_offset_s), Some(37));
        // One round without a response is no silence.
        locked.push(Round::default());
        assert_eq!(locked.status().state, PtpState::Locked);
        // An old excess is not judged.
        let recovered = history([slave(5000, 0)].into_iter().chain((1..11).map(|n| slave(1, n))));
        assert_eq!(recovered.status().state, PtpState::Locked);
        // Software time stamps are less exact.
        let software = |offset| {
            let rounds =
                (0..10).map(|n| round(PortState::Slave, false, (offset, n), Some(GRANDMASTER)));
            state(&history(rounds)).0
        };
        assert_eq!((software(-10_000), software(10_001)), (PtpState::Locked, PtpState::NotLocked));
    }

    #[test]
    fn a_clock_that_lies_or_stops_is_not_locked() {
        let locked = || history((0..10).map(|n| slave(1, n)));
        let after = |rounds: Vec<Round>| {
            let mut history = locked();
            rounds.into_iter().for_each(|round| history.push(round));
            state(&history)
        };
        let one = |round: Round| after(vec![round]);
        for (offset, cause) in
            [(101, "an offset exceeds 100 ns"), (i64::MIN, "exceeds"), (-101, "exceeds")]
        {
            let (state, why) = one(slave(offset, 11));
            assert!(state == PtpState::NotLocked && why.contains(cause), "{why}");
        }
        // Numbers without messages.
        let stale = after(vec![slave(1, 9), slave(1, 9), slave(1, 9)]);
        assert_eq!(stale, (PtpState::NotLocked, "no Sync message arrives".into()));
        assert_eq!(after(vec![slave(1, 9), slave(1, 9)]).0, PtpState::Locked);
        let lone = one(round(PortState::Slave, true, (1, 11), None));
        assert_eq!(lone.1, "no grandmaster is present");
        let servo = one(round(PortState::Uncalibrated, true, (1, 11), Some(GRANDMASTER)));
        assert_eq!(servo.1, "port is UNCALIBRATED");
        let listening = one(round(PortState::Listening, true, (0, 0), None));
        assert_eq!(listening.1, "no port follows a master: eth1 LISTENING");
        let passive = one(round(PortState::Master, true, (0, 0), Some(GRANDMASTER)));
        assert_eq!(passive.0, PtpState::NotLocked);
        // Another grandmaster, another time.
        let other = one(round(PortState::Slave, true, (1, 11), Some(SOURCE)));
        assert_eq!(other.1, "samples so far: 1 of 10");
        // Silence, and no judgment by samples from before.
        let silent = after(vec![Round::default(); 3]);
        assert!(
            silent.0 == PtpState::Silent && silent.1.contains("does not respond"),
            "{silent:?}"
        );
        let mut back = locked();
        vec![Round::default(); 3].into_iter().for_each(|round| back.push(round));
        assert!(back.last().is_none());
        back.push(slave(1, 20));
        assert_eq!(state(&back).1, "samples so far: 1 of 10");
        assert_eq!(History::new(SAMPLES).status().state, PtpState::Silent);
    }

    #[test]
    fn a_grandmaster_is_a_state_of_its_own() {
        let own = history([round(PortState::Master, false, (0, 0), None)]);
        assert_eq!(state(&own), (PtpState::Grandmaster, String::new()));
        assert_eq!(own.status().to_string(), "grandmaster  system clock not synchronized");
    }

    #[test]
    fn responses_of_other_clocks_are_ignored() {
        let mut round = slave(1, 1);
        let data = ManagementData::TimeStatus { offset_ns: 9, ingress_ns: 9, grandmaster: None };
        round.add(&Response { source: GRANDMASTER, sequence: 1, data });
        assert_eq!(round, slave(1, 1));
    }
}
