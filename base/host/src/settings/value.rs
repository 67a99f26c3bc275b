//! Values as text: lists of words, of `key=number`, of CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use onbeat_netdev::ethtool::{Coalescing, EnergyEfficient};

use onbeat_realtime::CpuSet;

/// The text of an empty list.
const NONE: &str = "none";

/// Returns the words of a list; none for `none`.
pub(super) fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().filter(|word| *word != NONE).collect()
}

/// Formats a list of words.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    if words.is_empty() { NONE.to_owned() } else { words.join(" ") }
}

/// Returns whether each word of `wanted` is in `now`.
pub(super) fn includes(now: &str, wanted: &str) -> bool {
    words(wanted).is_subset(&words(now))
}

/// Returns whether both are the same list of CPUs.
pub(super) fn same_cpus(now: &str, wanted: &str) -> bool {
    match (now.parse::<CpuSet>(), wanted.parse::<CpuSet>()) {
        (Ok(now), Ok(wanted)) => now == wanted,
        _ => false,
    }
}

/// Returns whether both are the same mask of CPUs: groups of hexadecimal digits, which may lack leading zeros.
pub(super) fn same_mask(now: &str, wanted: &str) -> bool {
    let digits = |text: &str| {
        let text: String = text.chars().filter(|digit| *digit != ',').collect();
        text.trim_start_matches('0').to_ascii_lowercase()
    };
    digits(now) == digits(wanted)
}

/// Returns modes of NAPI instances by their ids; empty for a text without any.
pub(super) fn modes(text: &str) -> BTreeMap<u32, u32> {
    let mode = |word: &str| {
        let (id, mode) = word.split_once('=')?;
        Some((id.parse().ok()?, mode.parse().ok()?))
    };
    text.split_whitespace().filter_map(mode).collect()
}

/// Formats modes of NAPI instances.
pub(super) fn modes_text(modes: impl IntoIterator<Item = (u32, u32)>) -> String {
    let words: Vec<String> = modes.into_iter().map(|(id, mode)| format!("{id}={mode}")).collect();
    words.join(" ")
}

/// Returns whether each NAPI instance of `wanted` that still exists has its mode.
pub(super) fn same_modes(now: &str, wanted: &str) -> bool {
    let now = modes(now);
    modes(wanted).iter().all(|(id, mode)| now.get(id).is_none_or(|now| now == mode))
}

/// Returns whether an offload delays frames or merges them, by the kernel's name.
pub(super) fn is_merging(offload: &str) -> bool {
    offload.starts_with("rx-gro")
        || matches!(offload, "rx-lro" | "rx-udp-gro-forwarding")
        || offload.starts_with("tx-") && offload.ends_with("-segmentation")
}

/// A structure of ethtool as `key=number` words.
pub(super) trait Fields: Sized {
    /// Returns its fields, by the names of ethtool.
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)>;

    /// Returns all fields as text.
    fn text(mut self) -> String {
        let mut text = String::new();
        for (key, field) in self.fields() {
            let separator = if text.is_empty() { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{key}={}", field.number());
        }
        text
    }

    /// Sets the fields in the text; `None`: an unknown name or an invalid number.
    fn set(&mut self, text: &str) -> Option<()> {
        for word in words(text) {
            let (key, number) = word.split_once('=')?;
            let number = number.parse().ok()?;
            let (_, field) = self.fields().into_iter().find(|(known, _)| *known == key)?;
            field.set(number);
        }
        Some(())
    }
}

/// One field.
pub(super) enum Field<'a> {
    Number(&'a mut u32),
    Switch(&'a mut bool),
}

impl Field<'_> {
    fn number(&self) -> u32 {
        match self {
            Field::Number(number) => **number,
            Field::Switch(on) => u32::from(**on),
        }
    }

    fn set(self, value: u32) {
        match self {
            Field::Number(number) => *number = value,
            Field::Switch(on) => *on = value != 0,
        }
    }
}

impl Fields for Coalescing {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("adaptive-rx", Field::Switch(&mut self.adaptive_rx)),
            ("adaptive-tx", Field::Switch(&mut self.adaptive_tx)),
            ("rx-usecs", Field::Number(&mut self.rx_usecs)),
            ("rx-frames", Field::Number(&mut self.rx_frames)),
            ("tx-usecs", Field::Number(&mut self.tx_usecs)),
            ("tx-frames", Field::Number(&mut self.tx_frames)),
        ]
    }
}

impl Fields for EnergyEfficient {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("enabled", Field::Switch(&mut self.enabled)),
            ("advertised", Field::Number(&mut self.advertised)),
            ("tx-lpi", Field::Switch(&mut self.tx_lpi_enabled)),
            ("tx-lpi-timer-us", Field::Number(&mut self.tx_lpi_timer_us)),
        ]
    }
}

/// Returns the changes of interrupt coalescing that avoid any delay; `None`: no change.
///
/// Both time and number of frames must not be 0 (linux/ethtool.h: the interrupt would never occur), but a
/// driver that does not count frames also reports 0. Therefore a number in use becomes 1, and 0 stays.
pub(super) fn least_coalescing(now: &str) -> Option<String> {
    let changed = words_in_order(now).filter_map(|word| {
        let (key, number) = word.split_once('=')?;
        let least = match key {
            "rx-frames" | "tx-frames" if number != "0" => "1",
            "rx-frames" | "tx-frames" => return None,
            _ => "0",
        };
        (number != least).then(|| format!("{key}={least}"))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| changed.join(" "))
}

/// Returns the part of `now` that `wanted` changes, to display a long value.
pub(super) fn changed(now: &str, wanted: &str) -> String {
    let keys: BTreeSet<&str> =
        words(wanted).into_iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let is_changed = |word: &&str| word.split_once('=').is_some_and(|(key, _)| keys.contains(key));
    list(words_in_order(now).filter(is_changed))
}

fn words_in_order(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| *word != NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_text_is_read_again() {
        let text = "adaptive-rx=1 adaptive-tx=0 rx-usecs=50 rx-frames=8 tx-usecs=7 tx-frames=0";
        let mut coalescing = Coalescing::default();
        assert_eq!(coalescing.set(text), Some(()));
        assert!(coalescing.adaptive_rx && coalescing.rx_usecs == 50 && coalescing.rx_frames == 8);
        assert_eq!(coalescing.text(), text);
        assert_eq!(coalescing.set("rx-usec=3"), None);
        assert_eq!(coalescing.set("rx-usecs=x"), None);
        let text = "enabled=1 advertised=40 tx-lpi=1 tx-lpi-timer-us=17";
        let mut eee = EnergyEfficient::default();
        assert_eq!(eee.set(text), Some(()));
        assert_eq!(eee.text(), text);
    }

    #[test]
    fn only_frame_counts_in_use_become_one() {
        for (now, least) in [
            ("adaptive-rx=1 rx-usecs=50 rx-frames=0", Some("adaptive-rx=0 rx-usecs=0")),
            ("rx-usecs=0 rx-frames=16 tx-frames=1", Some("rx-frames=1")),
            ("rx-usecs=0 rx-frames=0", None),
            ("rx-usecs=0 rx-frames=1", None),
        ] {
            assert_eq!(least_coalescing(now).as_deref(), least, "{now}");
        }
    }

    #[test]
    fn only_the_changed_part_of_a_long_value_is_shown() {
        assert_eq!(changed("a=1 b=2 c=3", "c=0 a=0"), "a=1 c=3");
    }

    #[test]
    fn merging_offloads_are_recognized() {
        for name in
            ["rx-gro", "rx-gro-hw", "rx-lro", "tx-tcp-segmentation", "tx-generic-segmentation"]
        {
            assert!(is_merging(name), "{name}");
        }
        for name in ["rx-checksum", "tx-checksum-ipv4", "tx-gso-partial", "rx-vlan-hw-parse"] {
            assert!(!is_merging(name), "{name}");
        }
    }
}
