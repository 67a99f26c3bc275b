//! The `[node.events]` table: thresholds of stream events.

use std::time::Duration;

use onbeat_frer::watch::EventRules;

use super::reader::Value;

/// Events of a node's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsConfig {
    /// Interval at which each stream is polled.
    pub interval: Duration,
    /// Number of events stored for later requests.
    pub keep: usize,
    /// Thresholds of events.
    pub rules: EventRules,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self { interval: Duration::from_millis(250), keep: 4096, rules: EventRules::default() }
    }
}

/// Longest time: one hour.
const LONGEST_MS: u32 = 3_600_000;

pub(super) fn read(value: &Value<'_>) -> EventsConfig {
    let mut config = EventsConfig::default();
    let Some(mut table) = value.table() else { return config };
    let mut number = |key, lowest: u32, highest: u32| {
        table.take(key).and_then(|value| value.number(lowest..=highest)).map(u64::from)
    };
    let ns = |ms: u64| ms * 1_000_000;
    if let Some(ms) = number("interval-ms", 10, 60_000) {
        config.interval = Duration::from_millis(ms);
    }
    config.keep = number("keep", 16, 1 << 20).map_or(config.keep, |keep| keep as usize);
    let rules = &mut config.rules;
    let path_packets = number("path-loss-packets", 1, u32::MAX);
    rules.path_packets = path_packets.unwrap_or(rules.path_packets);
    rules.path_ns = number("path-loss-ms", 0, LONGEST_MS).map_or(rules.path_ns, ns);
    rules.rogue_packets = number("rogue-packets", 1, u32::MAX).unwrap_or(rules.rogue_packets);
    rules.rogue_quiet_ns = number("rogue-quiet-ms", 1, LONGEST_MS).map_or(rules.rogue_quiet_ns, ns);
    rules.stuck_packets = number("stuck-packets", 1, u32::MAX).unwrap_or(rules.stuck_packets);
    rules.repeat_ns = number("repeat-ms", 0, LONGEST_MS).map_or(rules.repeat_ns, ns);
    table.finish();
    config
}
