//! The rules for a [`Stream`], and the remedy for each violation.
//!
//! [`crate::identify::Table`] checks the rule across streams: no two equal identifications.

mod error;

pub use error::{EgressError, LatentError, MemberError, RecoveryError, StreamError};

use crate::spec::{
    Algorithm, Egress, LatentErrorDetection, MAX_EGRESS, MAX_HISTORY, MAX_PORTS, Member, PortId,
    Recovery, Role, Stream,
};

impl Stream {
    /// Returns the index of the first egress port whose replica differs from that of the first port.
    #[must_use]
    pub fn unlike_replica(&self) -> Option<usize> {
        let first = self.egress.first()?;
        let unlike = |egress: &Egress| (egress.tag, egress.rewrite) != (first.tag, first.rewrite);
        self.egress.iter().position(unlike)
    }

    /// Checks all rules that concern this stream alone.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), StreamError> {
        if self.members.is_empty() {
            return Err(StreamError::NoMember);
        }
        if !(1..=MAX_EGRESS).contains(&self.egress.len()) {
            return Err(StreamError::EgressCount(self.egress.len()));
        }
        if self.generate && self.recover.is_some() {
            return Err(StreamError::GenerateAndRecover);
        }
        for (index, member) in self.members.iter().enumerate() {
            member.validate().map_err(|error| StreamError::Member { index, error })?;
        }
        if let Some(recovery) = &self.recover {
            recovery.validate(Role::Sequence).map_err(StreamError::RecoveryFunction)?;
        }
        for (index, egress) in self.egress.iter().enumerate() {
            egress.validate().map_err(|error| StreamError::Egress { index, error })?;
            if self.egress[..index].iter().any(|earlier| earlier.port == egress.port) {
                return Err(StreamError::EgressTwice(egress.port));
            }
        }
        Ok(())
    }
}

impl Member {
    /// Checks port, identification and individual recovery.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), MemberError> {
        check_port(self.port).map_err(MemberError::Port)?;
        self.identification.validate().map_err(MemberError::Identification)?;
        if let Some(recovery) = &self.individual {
            recovery.validate(Role::Individual).map_err(MemberError::Individual)?;
        }
        Ok(())
    }
}

impl Recovery {
    /// Checks the parameters of a recovery function in the given role.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self, role: Role) -> Result<(), RecoveryError> {
        if let Algorithm::Vector { history_length } = self.algorithm {
            if !(2..=MAX_HISTORY).contains(&history_length) {
                return Err(RecoveryError::HistoryLength(history_length));
            }
        }
        if role == Role::Individual && self.adaptive.any() {
            return Err(RecoveryError::IndividualAdaptive);
        }
        match &self.latent {
            Some(_) if role == Role::Individual => Err(RecoveryError::IndividualWithLatent),
            Some(latent) => latent.validate().map_err(RecoveryError::Latent),
            None => Ok(()),
        }
    }
}

impl LatentErrorDetection {
    /// Checks periods and paths.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), LatentError> {
        if self.period_ms == 0 {
            return Err(LatentError::Period);
        }
        if self.reset_period_ms == 0 {
            return Err(LatentError::ResetPeriod);
        }
        if self.paths < 2 { Err(LatentError::Paths(self.paths)) } else { Ok(()) }
    }
}

impl Egress {
    /// Checks port and rewrite.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), EgressError> {
        check_port(self.port).map_err(EgressError::Port)?;
        self.rewrite.validate().map_err(EgressError::Rewrite)
    }
}

fn check_port(port: PortId) -> Result<(), PortId> {
    if usize::from(port.0) < MAX_PORTS { Ok(()) } else { Err(port) }
}
