//! A `realtime` table: real-time settings of the cyclic thread.

use std::str::FromStr;

use onbeat_realtime::Profile;

use crate::reader::Value;

/// Maximum of dma-latency-us: a second, in which any CPU wakes up.
const LONGEST_LATENCY_US: u32 = 1_000_000;

/// Reads the table.
pub fn read(value: &Value<'_>) -> Profile {
    let mut profile = Profile::default();
    let Some(mut table) = value.table() else { return profile };
    let scheduling = table.take("scheduling");
    profile.scheduling =
        scheduling.and_then(|value| parse(&value, "use a value such as \"fifo 49\", or \"other\""));
    let cpus = table.take("cpus");
    profile.cpus = cpus.and_then(|value| parse(&value, "use a value such as \"1\" or \"2-3,5\""));
    profile.lock_memory =
        table.take("lock-memory").and_then(|value| value.flag()).unwrap_or_default();
    let latency = table.take("dma-latency-us");
    profile.dma_latency_us = latency.and_then(|value| value.number(0..=LONGEST_LATENCY_US));
    table.finish();
    profile
}

/// Parses text according to its type; `help` is the remedy for invalid text.
pub fn parse<T: FromStr<Err: std::fmt::Display>>(value: &Value<'_>, help: &str) -> Option<T> {
    match value.text()?.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            value.fault(error.to_string(), help);
            None
        }
    }
}
