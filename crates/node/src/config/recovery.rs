//! `recover = { ... }` and `individual = { ... }` (802.1CB 7.4.2, managed by 10.4).

use onbeat_frer::spec::{Algorithm, LatentErrorDetection, MAX_HISTORY, Recovery};

use super::reader::{Table, Value};

/// Default and minimum of frerSeqRcvyHistoryLength.
const DEFAULT_HISTORY: u16 = 2;

/// frerSeqRcvyResetMSec when the file does not say.
const DEFAULT_RESET_TIMEOUT_MS: u32 = 2000;

/// Default of frerSeqRcvyLatentErrorPeriod.
const DEFAULT_LATENT_PERIOD_MS: u32 = 2000;

/// Default of frerSeqRcvyLatentResetPeriod.
const DEFAULT_LATENT_RESET_PERIOD_MS: u32 = 30000;

/// Whose recovery it is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scope {
    /// Over all members (`recover`).
    Sequence,
    /// Of one member (`individual`).
    Individual,
}

pub(super) fn read(value: &Value<'_>, scope: Scope) -> Option<Recovery> {
    let mut table = value.table()?;
    let algorithm = algorithm(&mut table);
    let timeout = table.take("reset-timeout-ms").and_then(|value| value.number(0..=u32::MAX));
    let take_no_sequence = table.take("take-no-sequence").and_then(|value| value.flag());
    let latent = latent(&mut table, scope);
    table.finish();
    Some(Recovery {
        algorithm,
        reset_timeout_ms: timeout.unwrap_or(DEFAULT_RESET_TIMEOUT_MS),
        take_no_sequence: take_no_sequence.unwrap_or(false),
        latent,
    })
}

fn algorithm(table: &mut Table<'_>) -> Algorithm {
    let vector = Algorithm::Vector { history_length: DEFAULT_HISTORY };
    let words = [("vector", vector), ("match", Algorithm::Match)];
    let chosen = table.take("algorithm").map(|value| value.choice(&words));
    let Some(value) = table.take("history-length") else {
        return chosen.flatten().unwrap_or(vector);
    };
    if chosen == Some(Some(Algorithm::Match)) {
        value.fault(
            "match recovery has no history",
            "remove history-length, or use algorithm = \"vector\"",
        );
    }
    let history_length = value.number(DEFAULT_HISTORY..=MAX_HISTORY).unwrap_or(DEFAULT_HISTORY);
    Algorithm::Vector { history_length }
}

fn latent(table: &mut Table<'_>, scope: Scope) -> Option<LatentErrorDetection> {
    let value = table.take("latent-error")?;
    if scope == Scope::Individual {
        value.fault(
            "individual recovery and latent error detection exclude each other (10.4.1.11)",
            "put latent-error into the stream's recover",
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
