//! The file of a managed node: managers replace its streams, and nothing else of it.
//!
//! The text that they set is a whole file, which the program keeps beside the node's file. Ports and the keys of `[node]` are
//! always those of the node's file. A text that requires others is refused, also at the next start.

use std::fmt;
use std::path::{Path, PathBuf};

use onbeat_config::diagnostic::Source;
use onbeat_config::reader::Faults;
use onbeat_host::{Error, trust};
use onbeat_report::format::count;

use super::node::read as read_node;
use super::stored::{own_text, set_own_text};
use super::{Config, ConfigError, LoadError, NodeConfig, PortConfig};

/// Parent of the default files.
const DIRECTORY: &str = "/var/lib/onbeat/managed";

/// Remedy for a text with other values than the file.
const HELP: &str = "change the node's file, remove its managed-file and restart the node, or plan with the value of the file";

/// The default file of the node with this name.
pub(super) fn default_file(node: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{node}.toml"))
}

impl NodeConfig {
    /// Reads the text that managers set; none: the streams are those of the node's file.
    ///
    /// # Errors
    /// Another user could have written it; it cannot be read.
    pub fn managed_text(&self) -> Result<Option<String>, LoadError> {
        own_text(&self.managed_file)
    }

    /// Replaces this text.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_managed_text(&self, text: Option<&str>) -> Result<(), Error> {
        set_own_text(&self.managed_file, text)
    }
}

impl Config {
    /// Reads the file of a node, with the streams that managers have set if it is managed.
    ///
    /// # Errors
    /// Another user could have written a file; faults; the text of managers requires other ports, or another `[node]`.
    pub fn load_managed(path: &Path) -> Result<Config, LoadError> {
        let file = trust::load(path, Config::load)?;
        if file.node.managed_by.is_none() {
            return Ok(file);
        }
        match file.node.managed_text()? {
            Some(text) => Ok(file.with_streams_of(&text)?),
            None => Ok(file),
        }
    }

    /// The configuration with the streams and the tag of another text. Keys that the text leaves out are those of this
    /// file.
    ///
    /// # Errors
    /// Faults of the text; it differs from this file in more than streams and tag.
    pub fn with_streams_of(self, text: &str) -> Result<Config, ConfigError> {
        let name = self.node.managed_file.display().to_string();
        let mut new = Config::parse(text, &name)?;
        let faults = Faults::default();
        let fault = |key: &str, message| faults.note(0..0, key, message, HELP);
        differences(&self, &new, fault);
        faults.into_result(&Source { file: name, text: text.into() })?;
        new.node = NodeConfig { tag: new.node.tag, ..self.node };
        (new.ports, new.sha256_of_file) = (self.ports, self.sha256);
        Ok(new)
    }
}

/// Passes each key, except those of streams, that has another value than the file, and none by default.
fn differences(file: &Config, new: &Config, mut fault: impl FnMut(&str, String)) {
    let mut differs = |key: &str, is_alike: bool, own: &dyn fmt::Debug, other: &dyn fmt::Debug| {
        if !is_alike {
            fault(key, format!("{other:?} is not that of the node's file, {own:?}"));
        }
    };
    // A text without a key has its default.
    let unset = read_node(None, &format!("{}.toml", new.node.name)).0;
    let (own, other) = (&file.node, &new.node);
    // A new key does not compile until it is compared here.
    let NodeConfig {
        name,
        protocol,
        backend,
        poll,
        realtime,
        max_streams,
        control,
        readers,
        ptp_socket,
        // The version of the streams.
        tag: _,
        managed_by,
        managers,
        managed_file,
        stored_streams,
        pin,
        events,
        guard,
    } = other;
    differs("node.name", *name == own.name, &own.name, name);
    // A plan requires room, and the file may have more.
    let has_room = *max_streams <= own.max_streams || *max_streams == unset.max_streams;
    differs("node.max-streams", has_room, &own.max_streams, max_streams);
    macro_rules! compare {
        ($($field:ident $key:literal),*) => {
            $(differs(
                concat!("node.", $key),
                *$field == own.$field || *$field == unset.$field,
                &own.$field,
                $field,
            );)*
        };
    }
    compare!(
        protocol "protocol", backend "backend", poll "poll", realtime "realtime",
        control "control", readers "readers", ptp_socket "ptp-socket", managed_by "managed-by", managers "managers",
        managed_file "managed-file", stored_streams "stored-streams", pin "pin", events "events", guard "guard"
    );
    differs("prp", new.prp == file.prp, &file.prp, &new.prp);
    differs("wildcard", new.wildcards == file.wildcards, &file.wildcards, &new.wildcards);
    let (present, most) = (new.streams.len(), own.max_streams);
    differs(
        "stream",
        present <= most as usize,
        &format_args!("at most {}", count(most.into(), "stream")),
        &format_args!("{}", count(present as u64, "stream")),
    );
    let (own, other) = (&file.ports, &new.ports);
    let names =
        |ports: &[PortConfig]| ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    if names(own) != names(other) {
        return differs("port", false, &names(own), &names(other));
    }
    for (own, other) in own.iter().zip(other) {
        // Likewise.
        let PortConfig {
            name,
            interface,
            backend,
            mode,
            lan,
            mtu,
            create,
            promiscuous,
            whole_frames,
            mac,
        } = other;
        let key = |key: &str| format!("port {name:?}: {key}");
        differs(&key("interface"), *interface == own.interface, &own.interface, interface);
        let is_alike = *backend == own.backend || *backend == new.node.backend;
        differs(&key("backend"), is_alike, &own.backend, backend);
        differs(&key("mode"), *mode == own.mode || *mode == Default::default(), &own.mode, mode);
        differs(&key("lan"), *lan == own.lan, &own.lan, lan);
        differs(&key("mtu"), *mtu == own.mtu || mtu.is_none(), &own.mtu, mtu);
        differs(&key("create"), *create == own.create, &own.create, create);
        let is_alike = *promiscuous == own.promiscuous || *promiscuous == Default::default();
        differs(&key("promiscuous"), is_alike, &own.promiscuous, promiscuous);
        differs(&key("mac"), *mac == own.mac || mac.is_none(), &own.mac, mac);
        let is_alike = *whole_frames == own.whole_frames;
        differs(&key("kind"), is_alike, &own.whole_frames, whole_frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
[node]
name = \"a\"
max-streams = 2
managed-by = \"fleet\"
realtime = { cpus = \"1\" }
[guard]
interfaces = [\"eth0\"]
[[port]]
name = \"in\"
interface = \"eth0\"
mtu = 1506
[[port]]
name = \"out\"
interface = \"eth1\"
";

    fn streams(names: &[&str]) -> String {
        let one = |(number, name): (usize, &&str)| {
            format!(
                "[[stream]]\nname = \"{name}\"\nmember = [{{ port = \"in\", identify = {{ type = \"null\", destination = \"01:00:5e:00:00:0{number}\", vlan = 5 }} }}]\negress = [{{ port = \"out\" }}]\n"
            )
        };
        names.iter().enumerate().map(one).collect()
    }

    fn adopt(text: &str) -> Result<Config, String> {
        let file = Config::parse(&(FILE.to_owned() + &streams(&["old"])), "a.toml").unwrap();
        file.with_streams_of(text).map_err(|error| error.to_string())
    }

    #[test]
    fn streams_and_tag_are_of_the_text_and_all_else_of_the_file() {
        let ports = &FILE[FILE.find("[[port]]").unwrap()..];
        let bare =
            format!("[node]\nname = \"a\"\ntag = \"gen-7\"\n{}", ports.replace("mtu = 1506\n", ""));
        for head in [FILE, &bare] {
            let new = adopt(&(head.to_owned() + &streams(&["new", "second"]))).unwrap();
            let names: Vec<_> = new.streams.iter().map(|stream| &*stream.name).collect();
            assert_eq!(names, ["new", "second"]);
            let file = Config::parse(FILE, "a.toml").unwrap();
            assert_eq!((new.ports, NodeConfig { tag: None, ..new.node }), (file.ports, file.node));
            assert!(new.sha256 != new.sha256_of_file);
        }
    }

    #[test]
    fn a_text_with_another_key_is_refused_with_the_key() {
        for (from, to, key) in [
            ("name = \"a\"", "name = \"b\"", "node.name"),
            ("max-streams = 2", "max-streams = 8", "node.max-streams"),
            ("\"fleet\"", "\"other\"", "node.managed-by"),
            ("\"fleet\"", "\"fleet\"\nmanagers = \"root\"", "node.managers"),
            ("\"fleet\"", "\"fleet\"\nmanaged-file = \"/etc/passwd\"", "node.managed-file"),
            ("\"fleet\"", "\"fleet\"\nstored-streams = \"/etc/passwd\"", "node.stored-streams"),
            ("\"fleet\"", "\"fleet\"\ncontrol = \"/run/other.sock\"", "node.control"),
            ("\"fleet\"", "\"fleet\"\npin = \"/sys/fs/bpf/other/x\"", "node.pin"),
            ("\"fleet\"", "\"fleet\"\nreaders = \"other\"", "node.readers"),
            ("\"fleet\"", "\"fleet\"\nbackend = \"packet\"", "node.backend"),
            ("\"fleet\"", "\"fleet\"\nevents = { keep = 16 }", "node.events"),
            ("cpus = \"1\"", "cpus = \"0\"", "node.realtime"),
            ("interfaces = [\"eth0\"]", "interfaces = [\"eth1\"]", "node.guard"),
            ("interface = \"eth1\"", "interface = \"eth2\"", "port \"out\": interface"),
            (
                "interface = \"eth1\"",
                "interface = \"eth1\"\ncreate = \"veth\"",
                "port \"out\": create",
            ),
            ("mtu = 1506", "mtu = 9000", "port \"in\": mtu"),
            (
                "interface = \"eth1\"",
                "interface = \"eth1\"\n[[port]]\nname = \"x\"\ninterface = \"eth2\"",
                "port",
            ),
        ] {
            assert!(FILE.contains(from), "{from}");
            let error = adopt(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(
                error.contains(key) && error.contains("is not that of the node's file"),
                "{to}: {error}"
            );
        }
        let error = adopt(&(FILE.replace("max-streams = 2\n", "") + &streams(&["x", "y", "z"])))
            .unwrap_err();
        assert!(error.contains("3 streams is not that"), "{error}");
        assert!(adopt("[node").unwrap_err().contains("a.toml"), "a text with faults");
    }
}
