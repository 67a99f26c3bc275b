//! `recover = { ... }` and `individual = { ... }` (802.1CB 7.4.2, managed by 10.4).

use std::ops::RangeInclusive;

use onbeat_frer::adapt::FIRST_HISTORY;
use onbeat_frer::spec::{Adaptive, Algorithm, LatentErrorDetection, MAX_HISTORY, Recovery};

use super::reader::{Table, Value};

/// Default and minimum of frerSeqRcvyHistoryLength.
const DEFAULT_HISTORY: u16 = 2;

/// Default of frerSeqRcvyResetMSec.
const DEFAULT_RESET_TIMEOUT_MS: u32 = 2000;

/// Default of frerSeqRcvyLatentErrorPeriod.
const DEFAULT_LATENT_PERIOD_MS: u32 = 2000;

/// Default of frerSeqRcvyLatentResetPeriod.
const DEFAULT_LATENT_RESET_PERIOD_MS: u32 = 30000;

/// Scope of a recovery function.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scope {
    /// All members (`recover`).
    Sequence,
    /// One member (`individual`).
    Individual,
}

/// A parameter as written.
#[derive(Clone, Copy, PartialEq)]
enum Parameter<T> {
    Number(T),
    /// It follows the measured paths.
    Auto,
}

/// The values of a recovery table, as locations of warnings; `None`: default.
struct RecoveryValues<'a> {
    table: &'a Value<'a>,
    algorithm: Option<Value<'a>>,
    history_length: Option<Value<'a>>,
    reset_timeout: Option<Value<'a>>,
}

pub(super) fn read(value: &Value<'_>, scope: Scope) -> Option<Recovery> {
    let mut table = value.table()?;
    let values = RecoveryValues {
        table: value,
        algorithm: table.take("algorithm"),
        history_length: table.take("history-length"),
        reset_timeout: table.take("reset-timeout-ms"),
    };
    let timeout =
        values.reset_timeout.as_ref().and_then(|value| parameter(value, 0..=u32::MAX, scope));
    let (algorithm, history) = algorithm(&values, scope);
    let take_no_sequence = table.take("take-no-sequence").and_then(|value| value.flag());
    let recovery = Recovery {
        algorithm,
        reset_timeout_ms: match timeout {
            Some(Parameter::Number(ms)) => ms,
            // The longest one is the default.
            Some(Parameter::Auto) | None => DEFAULT_RESET_TIMEOUT_MS,
        },
        take_no_sequence: take_no_sequence.unwrap_or(false),
        latent: latent(&mut table, scope),
        adaptive: Adaptive {
            history_length: history == Some(Parameter::Auto),
            reset_timeout: timeout == Some(Parameter::Auto),
        },
    };
    table.finish();
    warn(&recovery, scope, &values);
    Some(recovery)
}

/// Reads a number, or "auto".
fn parameter<T>(value: &Value<'_>, range: RangeInclusive<T>, scope: Scope) -> Option<Parameter<T>>
where
    T: Copy + TryFrom<i64> + Into<i64>,
{
    if !value.is_text() {
        return value.number(range).map(Parameter::Number);
    }
    value.choice(&[("auto", ())])?;
    if scope == Scope::Individual {
        value.fault(
            "\"auto\" follows the paths of a stream, and individual recovery covers one path",
            "write a number, or set \"auto\" in the stream's recover",
        );
        return None;
    }
    Some(Parameter::Auto)
}

/// Reads the algorithm, and how its history length is written.
fn algorithm(values: &RecoveryValues<'_>, scope: Scope) -> (Algorithm, Option<Parameter<u16>>) {
    let vector = |history_length| Algorithm::Vector { history_length };
    let words = [("vector", vector(DEFAULT_HISTORY)), ("match", Algorithm::Match)];
    let chosen = values.algorithm.as_ref().map(|value| value.choice(&words));
    let Some(value) = &values.history_length else {
        return (chosen.flatten().unwrap_or(vector(DEFAULT_HISTORY)), None);
    };
    if chosen == Some(Some(Algorithm::Match)) {
        value.fault(
            "match recovery has no history",
            "remove history-length, or use algorithm = \"vector\"",
        );
    }
    let written = parameter(value, DEFAULT_HISTORY..=MAX_HISTORY, scope);
    let length = match written {
        Some(Parameter::Number(length)) => length,
        Some(Parameter::Auto) => FIRST_HISTORY,
        None => DEFAULT_HISTORY,
    };
    (vector(length), written)
}

/// Warns of traps of vector recovery: packets that it discards as rogue, and for how long.
fn warn(recovery: &Recovery, scope: Scope, values: &RecoveryValues<'_>) {
    let Algorithm::Vector { history_length } = recovery.algorithm else { return };
    let RecoveryValues { table, algorithm, history_length: history, reset_timeout } = values;
    if scope == Scope::Individual {
        let also = if history.is_some() { ", and remove history-length" } else { "" };
        algorithm.as_ref().or(history.as_ref()).unwrap_or(table).warn(
            format!(
                "vector recovery of one member: if its numbers jump by {history_length} or more (the path \
                 was cut, the talker restarted), packets are rogue; each rogue packet restarts the reset \
                 timer (7.4.3.4), and the path is lost until the numbers wrap \
                 around, up to 65536 packets later"
            ),
            format!("set algorithm = \"match\"{also}"),
        );
        return;
    }
    if history_length == DEFAULT_HISTORY {
        let written = if history.is_some() { "" } else { ", the default" };
        let until = match recovery.reset_timeout_ms {
            0 => "their numbers wrap around, up to 65536 packets later".into(),
            ms => format!("the reset timeout of {ms} ms expires"),
        };
        history.as_ref().unwrap_or(table).warn(
            format!(
                "history-length {history_length}{written}: one packet lost on all paths makes \
                 those after it rogue until {until}"
            ),
            "use the number of packets sent during the longest loss plus the delay difference of \
             the paths, such as history-length = 64",
        );
    }
    if let (0, Some(value)) = (recovery.reset_timeout_ms, reset_timeout) {
        value.warn(
            "0: recovery is never reset: when the talker restarts, its packets are rogue until \
             their numbers wrap around, up to 65536 packets later",
            "use more than the delay difference of the paths, and at most the permitted interruption of \
             the stream, such as reset-timeout-ms = 2000",
        );
    }
}

fn latent(table: &mut Table<'_>, scope: Scope) -> Option<LatentErrorDetection> {
    let value = table.take("latent-error")?;
    if scope == Scope::Individual {
        value.fault(
            "individual recovery and latent error detection exclude each other (10.4.1.11)",
            "move latent-error to the stream's recover",
        );
        return None;
    }
    let mut table = value.table()?;
    let difference = table.require("difference", "10").and_then(|value| value.number(0..=u32::MAX));
    let paths = table.require("paths", "2").and_then(|value| value.number(2..=u16::MAX));
    let mut period = |key| table.take(key).and_then(|value| value.number(1..=u32::MAX));
    let (period_ms, reset_period_ms) = (period("period-ms"), period("reset-period-ms"));
    table.finish();
    Some(LatentErrorDetection {
        difference: difference?,
        period_ms: period_ms.unwrap_or(DEFAULT_LATENT_PERIOD_MS),
        paths: paths?,
        reset_period_ms: reset_period_ms.unwrap_or(DEFAULT_LATENT_RESET_PERIOD_MS),
    })
}
