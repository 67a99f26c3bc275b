//! The part of kmod/uapi/onbeat.h that this crate uses. A test compares it with the header.

/// Declares constants and, for the test, lists them by their names in the header.
macro_rules! abi {
    ($($name:ident: $kind:ty = $value:expr, $header:literal;)*) => {
        $(pub(crate) const $name: $kind = $value;)*

        #[cfg(test)]
        const IN_HEADER: &[(&str, u64)] = &[$(($header, $value as u64)),*];
    };
}

abi! {
    VERSION: u8 = 1, "ONBEAT_GENL_VERSION";
    PROTOCOL: u16 = 0x00be, "ONBEAT_PROTOCOL";
    ANSWERED: u8 = 6, "ONBEAT_ANSWERED";

    ATTACH: u8 = 1, "ONBEAT_CMD_ATTACH";
    GET: u8 = 3, "ONBEAT_CMD_GET";
    SLOT_SET: u8 = 4, "ONBEAT_CMD_SLOT_SET";
    SLOT_FREE: u8 = 5, "ONBEAT_CMD_SLOT_FREE";
    SEND: u8 = 7, "ONBEAT_CMD_SEND";
    LAUNCH: u8 = 8, "ONBEAT_CMD_LAUNCH";
    CANCEL: u8 = 9, "ONBEAT_CMD_CANCEL";
    RESPOND: u8 = 10, "ONBEAT_CMD_RESPOND";
    RESPOND_STOP: u8 = 11, "ONBEAT_CMD_RESPOND_STOP";
    GROUPS: u8 = 12, "ONBEAT_CMD_GROUPS";
    CONFIRMATIONS: u8 = 13, "ONBEAT_CMD_CONFIRMATIONS";

    A_IFINDEX: u16 = 2, "ONBEAT_A_IFINDEX";
    A_MODE: u16 = 3, "ONBEAT_A_MODE";
    A_CLOCK: u16 = 4, "ONBEAT_A_CLOCK";
    A_FLAGS: u16 = 5, "ONBEAT_A_FLAGS";
    A_ETHER_TYPES: u16 = 6, "ONBEAT_A_ETHER_TYPES";
    A_SWITCH_IFINDEX: u16 = 7, "ONBEAT_A_SWITCH_IFINDEX";
    A_SLOT: u16 = 9, "ONBEAT_A_SLOT";
    A_COOKIE: u16 = 10, "ONBEAT_A_COOKIE";
    A_FRAME: u16 = 11, "ONBEAT_A_FRAME";
    A_TIME: u16 = 12, "ONBEAT_A_TIME";
    A_PERIOD: u16 = 13, "ONBEAT_A_PERIOD";
    A_RESPONSE: u16 = 14, "ONBEAT_A_RESPONSE";
    A_VALUE: u16 = 15, "ONBEAT_A_VALUE";
    A_MASK: u16 = 16, "ONBEAT_A_MASK";
    A_GROUPS: u16 = 17, "ONBEAT_A_GROUPS";
    A_CONFIRMATIONS: u16 = 18, "ONBEAT_A_CONFIRMATIONS";
    A_COUNTERS: u16 = 19, "ONBEAT_A_COUNTERS";

    MODE_DIRECT: u32 = 0, "ONBEAT_MODE_DIRECT";
    MODE_QUEUE: u32 = 1, "ONBEAT_MODE_QUEUE";
    MODE_NETPOLL: u32 = 2, "ONBEAT_MODE_NETPOLL";

    FLAG_SWITCH: u32 = 1, "ONBEAT_FLAG_SWITCH";
    FLAG_CONFIRM: u32 = 2, "ONBEAT_FLAG_CONFIRM";

    C_SENT: u16 = 2, "ONBEAT_C_SENT";
    C_SEND_FAILURES: u16 = 3, "ONBEAT_C_SEND_FAILURES";
    C_RESPONSES: u16 = 4, "ONBEAT_C_RESPONSES";
    C_MISSED_CYCLES: u16 = 5, "ONBEAT_C_MISSED_CYCLES";
    C_MAX_LAUNCH_DELAY_NS: u16 = 6, "ONBEAT_C_MAX_LAUNCH_DELAY_NS";
    C_LOST_CONFIRMATIONS: u16 = 9, "ONBEAT_C_LOST_CONFIRMATIONS";

    CAUSE_AT: u8 = 1, "ONBEAT_CAUSE_AT";
    CAUSE_CYCLE: u8 = 2, "ONBEAT_CAUSE_CYCLE";
    CAUSE_RESPONSE: u8 = 3, "ONBEAT_CAUSE_RESPONSE";

    OUTCOME_SENT: u8 = 1, "ONBEAT_OUTCOME_SENT";
}

/// The family's name.
pub(crate) const FAMILY: &str = "onbeat";

/// `struct onbeat_confirmation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfirmationRecord {
    pub(crate) cookie: u64,
    pub(crate) number: u64,
    pub(crate) due_ns: u64,
    pub(crate) released_ns: u64,
    pub(crate) slot: u32,
    pub(crate) cause: u8,
    pub(crate) outcome: u8,
}

impl ConfirmationRecord {
    /// Its length in octets.
    pub(crate) const LEN: usize = 40;

    /// Decodes a record.
    pub(crate) fn read(octets: &[u8; Self::LEN]) -> Self {
        let [cookie, number, due_ns, released_ns, last] = [0, 1, 2, 3, 4]
            .map(|i| u64::from_ne_bytes(octets[8 * i..8 * i + 8].try_into().unwrap_or([0; 8])));
        let [a, b, c, d, cause, outcome, _, _] = last.to_ne_bytes();
        let slot = u32::from_ne_bytes([a, b, c, d]);
        Self { cookie, number, due_ns, released_ns, slot, cause, outcome }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const HEADER: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/uapi/onbeat.h"));

    /// Constants of the header: `#define NAME number`, and enumerators, which count up.
    fn defined() -> HashMap<&'static str, u64> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let mut found = HashMap::new();
        let mut next = 0;
        for line in HEADER.lines().map(str::trim) {
            if line.starts_with("enum ") {
                next = 0;
            }
            let words: Vec<_> =
                line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
            match words[..] {
                ["#define", name, value] => {
                    found.extend(number(value).map(|value| (name, value)));
                }
                [name] if name.starts_with("ONBEAT_") => {
                    found.insert(name, next);
                    next += 1;
                }
                [name, "=", "1", "<<", shift] => {
                    found.extend(number(shift).map(|shift| (name, 1 << shift)));
                }
                _ => {}
            }
        }
        found
    }

    #[test]
    fn constants_equal_those_of_the_header() {
        let defined = defined();
        for (name, value) in IN_HEADER {
            assert_eq!(defined.get(name), Some(value), "{name}");
        }
        assert!(HEADER.contains(&format!("#define ONBEAT_GENL_NAME\t{FAMILY:?}")));
    }

    #[test]
    fn constants_equal_those_of_the_specification() {
        const SPECIFICATION: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/onbeat.yaml"));
        let (_, rest) = SPECIFICATION.split_once("\nattribute-sets:").unwrap();
        let (attributes, operations) = rest.split_once("\noperations:").unwrap();
        let (attributes, counters) = attributes.split_once("\n    name: counters\n").unwrap();
        for (prefix, listed, before) in [
            ("ONBEAT_CMD_", operations, "      name: "),
            ("ONBEAT_A_", attributes, "      - {name: "),
            ("ONBEAT_C_", counters, "      - {name: "),
        ] {
            let lines = HEADER.lines().filter_map(|line| line.trim().strip_suffix(','));
            let defined: Vec<_> = lines
                .filter_map(|line| line.strip_prefix(prefix))
                .filter(|name| *name != "UNSPEC")
                .map(|name| name.to_lowercase().replace('_', "-"))
                .collect();
            let listed: Vec<_> = listed
                .lines()
                .filter_map(|line| line.strip_prefix(before)?.split(',').next())
                .collect();
            assert_eq!(listed, defined);
            assert!(listed.len() > 8, "{listed:?}");
        }
    }

    #[test]
    fn a_confirmation_has_the_layout_of_the_header() {
        let body = HEADER.split_once("struct onbeat_confirmation {").unwrap().1;
        let members: Vec<_> = body
            .lines()
            .map(str::trim)
            .take_while(|line| *line != "};")
            .filter_map(|line| line.strip_prefix("__u")?.strip_suffix(';')?.split_once(' '))
            .collect();
        let expected = [
            ("64", "cookie"),
            ("64", "number"),
            ("64", "due_ns"),
            ("64", "released_ns"),
            ("32", "slot"),
            ("8", "cause"),
            ("8", "outcome"),
            ("16", "reserved"),
        ];
        assert_eq!(members, expected);
        let octets: [u8; ConfirmationRecord::LEN] = std::array::from_fn(|i| i as u8);
        let record = ConfirmationRecord::read(&octets);
        assert_eq!(record.number.to_ne_bytes(), [8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(record.slot.to_ne_bytes(), [32, 33, 34, 35]);
        assert_eq!((record.cause, record.outcome), (36, 37));
    }
}
