//! Events to the journal of systemd, with their keys as fields (systemd.journal-fields(7)).
//!
//! Lines of the log on standard error have no fields. A service whose standard error is the journal therefore sends its
//! events as datagrams (systemd's "native protocol"). Where that fails, an event is a line of the log.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::control::Event;

/// The socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";

/// A connection to the journal.
#[derive(Debug)]
pub(super) struct Journald(UnixDatagram);

impl Journald {
    /// Connects if standard error is the journal.
    pub(super) fn connect() -> Option<Self> {
        if !onbeat_host::is_journal(std::io::stderr()) {
            return None;
        }
        Self::connect_to(Path::new(SOCKET)).ok()
    }

    fn connect_to(path: &Path) -> std::io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A journal that does not read must not block the node.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends an event; returns whether the journal has it.
    pub(super) fn send(&self, node: &str, event: &Event) -> bool {
        self.0.send(&entry(node, event)).is_ok()
    }
}

/// An entry of the journal: the fields of every entry, `NODE`, and the keys of the event in upper case.
fn entry(node: &str, event: &Event) -> Vec<u8> {
    let priority = if event.detail.is_bad() { "4" } else { "6" };
    let mut entry = Vec::new();
    for (field, value) in [
        ("MESSAGE", event.to_string().as_str()),
        ("PRIORITY", priority),
        ("SYSLOG_IDENTIFIER", "onbeat"),
        ("NODE", node),
    ] {
        add(&mut entry, field, value);
    }
    if let Some(id) = event.detail.message_id() {
        add(&mut entry, "MESSAGE_ID", id);
    }
    // Plain data with text keys always has a JSON form.
    if let Ok(serde_json::Value::Object(keys)) = serde_json::to_value(event) {
        for (key, value) in keys {
            let text = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            add(&mut entry, &key.to_ascii_uppercase(), &text);
        }
    }
    entry
}

/// Adds a field with its length, so that its value may have several lines.
fn add(entry: &mut Vec<u8>, field: &str, value: &str) {
    entry.extend_from_slice(field.as_bytes());
    entry.push(b'\n');
    entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use onbeat_frer::watch::EventKind;
    use onbeat_testing::TemporaryDirectory;

    use super::*;
    use crate::control::EventDetail;

    /// The fields of an entry.
    fn fields(mut entry: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !entry.is_empty() {
            let name = entry.split(|octet| *octet == b'\n').next().unwrap();
            let rest = &entry[name.len() + 1..];
            let (length, rest) = rest.split_first_chunk::<8>().unwrap();
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
            fields.insert(text(name), text(value));
            entry = rest.strip_prefix(b"\n").unwrap();
        }
        fields
    }

    fn event(stream: &str) -> Event {
        Event {
            number: 7,
            time: "2026-11-21T12:03:42.341880Z".into(),
            monotonic_ns: 8,
            stream: Some(stream.to_owned()),
            port: Some("path2".to_owned()),
            member: Some(1),
            detail: EventDetail::Watch(EventKind::PathLoss { packets: 1631 }),
        }
    }

    #[test]
    fn an_event_has_its_keys_as_fields() {
        let directory = TemporaryDirectory::new("journald");
        let path = directory.file("socket");
        assert!(Journald::connect_to(&path).is_err());
        let journal = UnixDatagram::bind(&path).unwrap();
        let journald = Journald::connect_to(&path).unwrap();
        let injected = "axis\nPRIORITY=0";
        assert!(journald.send("bridge", &event(injected)));
        let mut octets = [0; 4096];
        let length = journal.recv(&mut octets).unwrap();
        let fields = fields(&octets[..length]);
        for (field, value) in [
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "onbeat"),
            ("NODE", "bridge"),
            ("EVENT", "path_loss"),
            ("STREAM", injected),
            ("PORT", "path2"),
            ("MEMBER", "1"),
            ("PACKETS", "1631"),
            ("NUMBER", "7"),
            ("TIME", "2026-11-21T12:03:42.341880Z"),
            ("MONOTONIC_NS", "8"),
            ("MESSAGE_ID", event("").detail.message_id().unwrap()),
        ] {
            assert_eq!(fields.get(field).map(String::as_str), Some(value), "{field}");
        }
        assert!(fields["MESSAGE"].contains("path lost: 1631 packets passed without it"));
    }

    /// A journal that is stopped reads nothing.
    #[test]
    fn a_full_journal_refuses_at_once() {
        let directory = TemporaryDirectory::new("journald-full");
        let _journal = UnixDatagram::bind(directory.file("socket")).unwrap();
        let journald = Journald::connect_to(&directory.file("socket")).unwrap();
        let sent = (0..100_000).take_while(|_| journald.send("bridge", &event("axis"))).count();
        assert!(sent < 100_000, "{sent} datagrams");
    }

    /// journalctl, which reads no journal here, judges the form of the catalog.
    #[test]
    fn the_catalog_has_an_entry_of_each_event() {
        let text = onbeat_testing::root().join("packaging/catalog/onbeat.catalog");
        let text = std::fs::read_to_string(text).unwrap();
        let in_catalog: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let known: BTreeSet<&str> = EventDetail::MESSAGES.iter().map(|(_, id)| *id).collect();
        assert_eq!(
            (in_catalog.len(), known.len()),
            (EventDetail::MESSAGES.len(), EventDetail::MESSAGES.len())
        );
        assert_eq!(in_catalog.into_iter().collect::<BTreeSet<_>>(), known);

        let journalctl = std::process::Command::new("journalctl").arg("--version").output().is_ok();
        if !onbeat_testing::require_that(journalctl, "journalctl (apt-get install systemd)") {
            return;
        }
        let root = TemporaryDirectory::new("catalog");
        for directory in ["usr/lib/systemd/catalog", "var/lib/systemd/catalog"] {
            std::fs::create_dir_all(root.file(directory)).unwrap();
        }
        std::fs::write(root.file("usr/lib/systemd/catalog/onbeat.catalog"), &text).unwrap();
        let run = |argument: &str| {
            let mut command = std::process::Command::new("journalctl");
            command.arg(format!("--root={}", root.path().display())).arg(argument);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{argument}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        run("--update-catalog");
        let listed = run("--list-catalog");
        for (name, id) in EventDetail::MESSAGES {
            assert!(listed.contains(id), "{name}: {listed}");
        }
    }
}
