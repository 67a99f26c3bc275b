//! The result object of every `lab run` and `bench`.

use std::cmp::Ordering;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::conditions::Conditions;
use crate::figure::{Figure, Figures};
use crate::format;
use crate::number::Number;
use crate::origin::{Input, Origin};

/// Name and version of the schema, `docs/result.schema.json`.
pub const SCHEMA: &str = "onbeat-result/2";

/// Versions that this program can read. Version 1 has no `origin`.
const READABLE: [&str; 2] = [SCHEMA, "onbeat-result/1"];

/// The result of a run. [`ok`](Self::ok) is derived from its checks alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawOutcome")]
pub struct Outcome {
    /// Scenario or bench.
    pub name: String,
    /// Statements that must hold on any machine.
    pub checks: Vec<Check>,
    /// Measured figures; they do not affect `ok`.
    pub figures: Figures,
    /// Conditions of the measurement; all unknown if files without them were analyzed.
    pub conditions: Conditions,
    /// The command and its inputs; results of schema version 1 have none.
    pub origin: Option<Origin>,
    /// Start of the measurement, or of its analysis if that is unknown; RFC 3339 in UTC.
    pub started: String,
    /// Duration, in seconds.
    pub duration_s: f64,
    /// Remarks: skipped parts, limitations.
    pub notes: Vec<String>,
    /// Reasons for a missing measurement or a changed method.
    pub causes: Vec<Cause>,
}

/// The reason for a missing measurement or a changed method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Its name, constant for programs.
    pub name: String,
    /// The cause, its evidence and the remedy, in one sentence.
    pub statement: String,
}

impl Outcome {
    /// Returns whether every check holds; true without checks.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(Check::ok)
    }

    /// Returns the exit status of the command: 0, or 1 if a check failed.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.ok())
    }

    /// Adds a check.
    pub fn check(&mut self, check: Check) {
        self.checks.push(check);
    }

    /// Adds a figure; replaces one of the same name in its position.
    pub fn figure(&mut self, name: impl Into<String>, figure: impl Into<Figure>) {
        self.figures.insert(name.into(), figure.into());
    }

    /// Adds a cause.
    pub fn cause(&mut self, name: impl Into<String>, statement: impl Into<String>) {
        self.causes.push(Cause { name: name.into(), statement: statement.into() });
    }

    /// Adds an input that was read in addition to those of the run.
    pub fn input(&mut self, input: Input) {
        if let Some(origin) = &mut self.origin {
            origin.inputs.push(input);
        }
    }

    /// Sets the seed of random choices.
    pub fn seed(&mut self, seed: u64) {
        if let Some(origin) = &mut self.origin {
            origin.seed = Some(seed);
        }
    }

    /// Adds a remark.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// The required relation of a check's value to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sense {
    /// At most the limit.
    Max,
    /// At least the limit.
    Min,
    /// Exactly the limit.
    Eq,
}

impl Sense {
    /// Returns the sign between value and limit.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Max => "≤",
            Self::Min => "≥",
            Self::Eq => "=",
        }
    }
}

/// A statement that must hold on any machine: no loss, consistent counters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawCheck")]
pub struct Check {
    /// The subject of the check.
    pub name: String,
    /// The value; a missing one fails.
    pub value: Number,
    /// Unit of value and limit; empty for a bare number.
    pub unit: String,
    /// The limit of the value.
    pub limit: Number,
    /// The required relation.
    pub sense: Sense,
}

impl Check {
    /// Requires that `value` is at most `limit`.
    pub fn max(
        name: impl Into<String>,
        value: impl Into<Number>,
        limit: impl Into<Number>,
        unit: impl Into<String>,
    ) -> Self {
        let (value, limit) = (value.into(), limit.into());
        Self { name: name.into(), value, unit: unit.into(), limit, sense: Sense::Max }
    }

    /// Requires that `value` is at least `limit`.
    pub fn min(
        name: impl Into<String>,
        value: impl Into<Number>,
        limit: impl Into<Number>,
        unit: impl Into<String>,
    ) -> Self {
        Self { sense: Sense::Min, ..Self::max(name, value, limit, unit) }
    }

    /// Requires that `value` equals `limit`.
    pub fn eq(
        name: impl Into<String>,
        value: impl Into<Number>,
        limit: impl Into<Number>,
        unit: impl Into<String>,
    ) -> Self {
        Self { sense: Sense::Eq, ..Self::max(name, value, limit, unit) }
    }

    /// Returns whether it holds.
    pub fn ok(&self) -> bool {
        let Some(order) = self.value.compare(self.limit) else { return false };
        match self.sense {
            Sense::Max => order != Ordering::Greater,
            Sense::Min => order != Ordering::Less,
            Sense::Eq => order == Ordering::Equal,
        }
    }

    /// Returns value, sign and limit as text: `3 frames ≤ 0 frames`.
    pub fn statement(&self) -> String {
        format!(
            "{} {} {}",
            format::quantity(self.value, &self.unit),
            self.sense.sign(),
            format::quantity(self.limit, &self.unit)
        )
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut check = serializer.serialize_struct("Check", 6)?;
        check.serialize_field("name", &self.name)?;
        check.serialize_field("value", &self.value)?;
        check.serialize_field("unit", &self.unit)?;
        check.serialize_field("limit", &self.limit)?;
        check.serialize_field("sense", &self.sense)?;
        check.serialize_field("ok", &self.ok())?;
        check.end()
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut outcome = serializer.serialize_struct("Outcome", 11)?;
        outcome.serialize_field("schema", SCHEMA)?;
        outcome.serialize_field("name", &self.name)?;
        outcome.serialize_field("ok", &self.ok())?;
        outcome.serialize_field("checks", &self.checks)?;
        outcome.serialize_field("figures", &self.figures)?;
        outcome.serialize_field("conditions", &self.conditions)?;
        outcome.serialize_field("origin", &self.origin)?;
        outcome.serialize_field("started", &self.started)?;
        outcome.serialize_field("duration_s", &self.duration_s)?;
        outcome.serialize_field("notes", &self.notes)?;
        outcome.serialize_field("causes", &self.causes)?;
        outcome.end()
    }
}

/// The reason why a read result is invalid.
#[derive(Debug, thiserror::Error)]
enum InvalidResult {
    #[error("\"schema\" is \"{0}\"; this program reads {list}", list = READABLE.join(", "))]
    Schema(String),
    #[error("\"origin\" is missing, which \"{SCHEMA}\" requires")]
    NoOrigin,
    #[error("check \"{name}\": \"ok\" is {stored}, but {statement} is {derived}")]
    Check { name: String, stored: bool, statement: String, derived: bool },
    #[error("\"ok\" is {stored}, but the checks result in {derived}")]
    Outcome { stored: bool, derived: bool },
}

#[derive(Deserialize)]
struct RawCheck {
    name: String,
    value: Number,
    unit: String,
    limit: Number,
    sense: Sense,
    ok: bool,
}

impl TryFrom<RawCheck> for Check {
    type Error = InvalidResult;

    fn try_from(raw: RawCheck) -> Result<Self, Self::Error> {
        let RawCheck { name, value, unit, limit, sense, ok: stored } = raw;
        let check = Self { name, value, unit, limit, sense };
        let derived = check.ok();
        if stored == derived {
            return Ok(check);
        }
        let statement = check.statement();
        Err(InvalidResult::Check { name: check.name, stored, statement, derived })
    }
}

#[derive(Deserialize)]
struct RawOutcome {
    schema: String,
    name: String,
    ok: bool,
    checks: Vec<Check>,
    figures: Figures,
    conditions: Conditions,
    /// Since version 2.
    origin: Option<Origin>,
    started: String,
    duration_s: f64,
    notes: Vec<String>,
    /// Results of earlier releases have none.
    #[serde(default)]
    causes: Vec<Cause>,
}

impl TryFrom<RawOutcome> for Outcome {
    type Error = InvalidResult;

    fn try_from(raw: RawOutcome) -> Result<Self, Self::Error> {
        let RawOutcome {
            schema,
            name,
            ok: stored,
            checks,
            figures,
            conditions,
            origin,
            started,
            duration_s,
            notes,
            causes,
        } = raw;
        if !READABLE.contains(&schema.as_str()) {
            return Err(InvalidResult::Schema(schema));
        }
        if schema == SCHEMA && origin.is_none() {
            return Err(InvalidResult::NoOrigin);
        }
        let outcome =
            Self { name, checks, figures, conditions, origin, started, duration_s, notes, causes };
        let derived = outcome.ok();
        if stored == derived {
            Ok(outcome)
        } else {
            Err(InvalidResult::Outcome { stored, derived })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn senses() {
        for (check, ok) in [
            (Check::max("a", 1_u64, 1_u64, ""), true),
            (Check::max("a", 2_u64, 1_u64, ""), false),
            (Check::min("a", 0.75, 0.75, ""), true),
            (Check::min("a", 0.74, 0.75, ""), false),
            (Check::eq("a", 7_u64, 7_u64, ""), true),
            (Check::eq("a", 6_u64, 7_u64, ""), false),
            (Check::max("a", f64::NAN, 1_u64, ""), false),
            (Check::min("a", Number::MISSING, 0_u64, ""), false),
        ] {
            assert_eq!(check.ok(), ok, "{check:?}");
        }
    }

    #[test]
    fn one_failed_check_fails_the_outcome() {
        let mut outcome = Run::begin("x").finish();
        assert_eq!(outcome.exit_code(), 0);
        outcome.check(Check::eq("lost", 0_u64, 0_u64, "frames"));
        assert!(outcome.ok());
        outcome.check(Check::eq("duplicated", 1_u64, 0_u64, "frames"));
        assert!(!outcome.ok());
        assert_eq!(outcome.exit_code(), 1);
    }

    #[test]
    fn a_result_survives_json() {
        let mut outcome = Run::begin("x").finish();
        outcome.check(Check::max("delay", 1500.5, 2000_u64, "ns"));
        outcome.note("a remark");
        outcome.cause("empty capture", "in.pcap holds no packet");
        let json = serde_json::to_string(&outcome).unwrap();
        let back: Outcome = serde_json::from_str(&json).unwrap();
        assert_eq!(back, outcome);
    }

    #[test]
    fn version_1_has_no_origin_and_version_2_requires_it() {
        let mut json = serde_json::to_value(Run::begin("x").finish()).unwrap();
        assert!(json["origin"]["command"].is_array(), "{json}");
        json.as_object_mut().unwrap().remove("origin");
        let error = serde_json::from_value::<Outcome>(json.clone()).unwrap_err().to_string();
        assert!(error.contains("\"origin\" is missing"), "{error}");
        json["schema"] = "onbeat-result/1".into();
        let conditions = json["conditions"].as_object_mut().unwrap();
        conditions.remove("virtual_machine");
        conditions.insert("virtualised".into(), true.into());
        let outcome: Outcome = serde_json::from_value(json).unwrap();
        assert_eq!((outcome.origin, outcome.conditions.virtual_machine), (None, Some(true)));
    }

    #[test]
    fn ok_cannot_be_forged() {
        let mut outcome = Run::begin("x").finish();
        outcome.check(Check::eq("lost", 3_u64, 0_u64, "frames"));
        let honest = serde_json::to_value(&outcome).unwrap();

        let mut forged = honest.clone();
        forged["ok"] = true.into();
        let error = serde_json::from_value::<Outcome>(forged).unwrap_err().to_string();
        assert_eq!(error, "\"ok\" is true, but the checks result in false");

        let mut forged = honest.clone();
        forged["checks"][0]["ok"] = true.into();
        let error = serde_json::from_value::<Outcome>(forged).unwrap_err().to_string();
        assert_eq!(error, "check \"lost\": \"ok\" is true, but 3 frames = 0 frames is false");

        let mut other = honest;
        other["schema"] = "onbeat-result/9".into();
        let error = serde_json::from_value::<Outcome>(other).unwrap_err().to_string();
        assert!(error.contains("onbeat-result/9") && error.contains(SCHEMA), "{error}");
    }
}
