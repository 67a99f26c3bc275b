//! `onbeat powerlink sdo`

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat_host::{file, output as files};
use onbeat_powerlink::od::{Abort, ObjectId};
use onbeat_powerlink::sdo::MAX_TRANSFER;
use onbeat_powerlink_node::ObjectClient;
use onbeat_report::format::parse_duration;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;
use onbeat_wire::powerlink::NodeId;
use onbeat_xdd::{Catalog, Description, LookupError, Value};
use serde::Serialize;

/// Maximum octets of a device description.
const LONGEST_XDD: u64 = 16 << 20;
/// Maximum octets, or characters of a text, that are printed of a value.
const PRINTED: usize = 64;

/// Read and write objects of a node (SDO)
///
/// Accesses a node over UDP, by its IP address. A node of this program has one, and a server over UDP, only with
/// virtual-ethernet in its network file. With --interface it accesses the node on its bus, as node 253 (a diagnostic
/// device), which the managing node invites. Objects have an index and a sub-index in hexadecimal, such as
/// 1018/01, or a name, such as NMT_CycleLen_U32.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink sdo read 1 1008 1018/01
  onbeat powerlink sdo read 240 NMT_MNNodeCurrState_AU8/1 --interface eth1
  onbeat powerlink sdo write 1 1006 5000 --address 10.0.0.7

Exit status: 0 success, 1 the node aborted an access, 2 error.")]
pub(super) struct SdoOptions {
    #[command(subcommand)]
    command: Sdo,
}

#[derive(Debug, clap::Subcommand)]
enum Sdo {
    Read(ReadOptions),
    Write(WriteOptions),
}

/// Read objects of a node
///
/// Prints each value in the type of its object. The types of the communication profile are known; --xdd adds those of
/// other objects. Values of unknown type are octets. One SDO command reads several objects if the node supports this.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink sdo read 1 1008 1018/01
  onbeat powerlink sdo read 1 NMT_CycleLen_U32 --json
  onbeat powerlink sdo read 3 Offset_I16 --xdd drive.xdd --interface eth1
  onbeat powerlink sdo read 1 2000/01 --file curve.bin

Exit status: 0 success, 1 the node aborted an access, 2 error.")]
struct ReadOptions {
    #[command(flatten)]
    peer: Peer,
    /// Index and sub-index in hexadecimal, or name
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    /// Write the octets of one object to PATH
    #[arg(long = "file", value_name = "PATH")]
    output: Option<PathBuf>,
}

/// Write objects of a node
///
/// Writes the objects one by one, and stops at the first that the node refuses. The type of an object determines the
/// form of its value: a number (decimal, or hexadecimal with 0x), true or false, a text, or octets.
/// For any object, a value can be hex:0102, text:save, or have a type, such as u16:500.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink sdo write 1 1006 5000
  onbeat powerlink sdo write 1 1010/01 text:save
  onbeat powerlink sdo write 1 2100 hex:0102ff 2101/02 i16:-5
  onbeat powerlink sdo write 1 2000/01 --file curve.bin

Exit status: 0 success, 1 the node aborted an access, 2 error.")]
struct WriteOptions {
    #[command(flatten)]
    peer: Peer,
    /// Object as for read, and its value; further objects and values
    #[arg(required = true, value_name = "OBJECT VALUE", allow_negative_numbers = true)]
    values: Vec<String>,
    /// Write the octets of PATH to one object
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Peer {
    /// Id of the node: 1 to 239, 240 for the managing node
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u8).range(1..=250))]
    node: u8,
    /// IP address of the node; its node id must be ID [default: 192.168.100.ID]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "interface")]
    address: Option<Ipv4Addr>,
    /// Interface on the bus of the node: send frames on the bus instead of UDP datagrams
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Device description or configuration of the node, with names and types of its objects
    #[arg(long, value_name = "PATH")]
    xdd: Option<PathBuf>,
    /// Maximum time without a response of the node, from 1ms to 1h
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An access in JSON.
#[derive(Debug, Serialize)]
struct AccessReport {
    object: String,
    name: Option<String>,
    #[serde(rename = "type")]
    data_type: Option<String>,
    value: Option<serde_json::Value>,
    /// The name of an NMT state.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// In hexadecimal.
    octets: Option<String>,
    abort: Option<AbortReport>,
}

#[derive(Debug, Serialize)]
struct AbortReport {
    code: String,
    reason: String,
}

/// All accesses of a command in JSON.
#[derive(Debug, Serialize)]
struct Report {
    node: u8,
    objects: Vec<AccessReport>,
    /// Objects of the command line behind the first abort or error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_written: Vec<String>,
}

impl SdoOptions {
    pub(super) fn execute(self) -> Result {
        match self.command {
            Sdo::Read(read) => read.execute(),
            Sdo::Write(write) => write.execute(),
        }
    }
}

impl ReadOptions {
    fn execute(self) -> Result {
        let catalog = self.peer.catalog()?;
        let objects = self.objects.iter().map(|name| find(&catalog, name));
        let objects = objects.collect::<Result<Vec<ObjectId>>>()?;
        if self.output.is_some() && objects.len() > 1 {
            return Err(Failure::new(
                "--file contains one object; read the others by further commands",
            ));
        }
        let mut client = self.peer.client()?;
        let results = client.read(&objects)?;
        drop(client);
        if let (Some(path), [Ok(octets)]) = (&self.output, &results[..]) {
            files::write(path, octets).map_err(|error| unusable(path, "write", &error))?;
        }
        let accesses = objects.into_iter().zip(results).collect();
        self.peer.show(&catalog, accesses, &[], self.output.as_deref())
    }
}

impl WriteOptions {
    fn execute(self) -> Result {
        let catalog = self.peer.catalog()?;
        let values = self.octets(&catalog)?;
        let mut client = self.peer.client()?;
        let mut objects: Vec<ObjectId> = values.iter().map(|(object, _)| *object).collect();
        let (accesses, error) = write_all(values, |object, octets| client.write(object, octets));
        drop(client);
        // After an error it is unknown whether the write took effect.
        let first = accesses.len() + usize::from(error.is_some());
        let not_written = objects.split_off(first.min(objects.len()));
        match error {
            // The writes before it took effect.
            Some(error) if accesses.is_empty() => Err(error.into()),
            Some(error) => {
                self.peer.show(&catalog, accesses, &not_written, self.file.as_deref())?;
                Err(error.into())
            }
            None => self.peer.show(&catalog, accesses, &not_written, self.file.as_deref()),
        }
    }

    /// The objects with their values.
    fn octets(&self, catalog: &Catalog) -> Result<Vec<(ObjectId, Vec<u8>)>> {
        if let Some(path) = &self.file {
            let [object] = &self.values[..] else {
                return Err(Failure::new(
                    "--file contains the value of one object; remove the other objects and values",
                ));
            };
            let octets = file::read(path, MAX_TRANSFER as u64);
            let octets = octets.map_err(|error| unusable(path, "read", &error))?;
            return Ok(vec![(find(catalog, object)?, octets)]);
        }
        let pairs = self.values.chunks(2).map(|pair| match pair {
            [name, value] => {
                let object = find(catalog, name)?;
                Ok((object, catalog.octets(object, value).map_err(Failure::new)?))
            }
            _ => Err(Failure::new(format!(
                "object {:?} has no value; write it after the object",
                pair[0]
            ))),
        });
        pairs.collect()
    }
}

/// An access, and the octets read or written.
type Access = (ObjectId, std::result::Result<Vec<u8>, Abort>);

/// Writes values until one is refused or the node is not reachable; returns the completed accesses, and the error.
fn write_all<E>(
    values: Vec<(ObjectId, Vec<u8>)>,
    mut write: impl FnMut(ObjectId, &[u8]) -> std::result::Result<std::result::Result<(), Abort>, E>,
) -> (Vec<Access>, Option<E>) {
    let mut accesses = Vec::new();
    for (object, octets) in values {
        match write(object, &octets) {
            Ok(Ok(())) => accesses.push((object, Ok(octets))),
            Ok(Err(abort)) => {
                accesses.push((object, Err(abort)));
                break;
            }
            Err(error) => return (accesses, Some(error)),
        }
    }
    (accesses, None)
}

impl Peer {
    fn catalog(&self) -> Result<Catalog> {
        let Some(path) = &self.xdd else { return Ok(Catalog::new(Description::default())) };
        let text =
            file::read_text(path, LONGEST_XDD).map_err(|error| unusable(path, "read", &error))?;
        let description = onbeat_xdd::read(&text).map_err(|faults| {
            let faults: Vec<String> = faults
                .iter()
                .map(|fault| format!("{}:{fault}; {}", path.display(), fault.help))
                .collect();
            Failure::new(faults.join("\n"))
        })?;
        Ok(Catalog::new(description))
    }

    fn client(&self) -> Result<ObjectClient> {
        let node = NodeId(self.node);
        let timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        Ok(match &self.interface {
            Some(interface) => ObjectClient::on_bus(node, interface, timeout_ns)?,
            None => ObjectClient::by_udp(node, self.address, timeout_ns)?,
        })
    }

    /// Prints the accesses, and the objects that were not written after them.
    fn show(
        &self,
        catalog: &Catalog,
        accesses: Vec<Access>,
        not_written: &[ObjectId],
        file: Option<&Path>,
    ) -> Result {
        let succeeded = accesses.iter().all(|(_, result)| result.is_ok());
        if self.json {
            let report =
                |(object, result): (ObjectId, _)| AccessReport::new(catalog, object, result);
            let objects = accesses.into_iter().map(report).collect();
            let not_written = not_written.iter().map(ObjectId::to_string).collect();
            output::print_json(&Report { node: self.node, objects, not_written })?;
            return Ok(CommandResult::good_if(succeeded));
        }
        let name = |object| catalog.name(object).map_or(String::new(), |name| format!(" {name}"));
        for (object, result) in accesses {
            let name = name(object);
            match result {
                Ok(octets) => {
                    let value = match file {
                        Some(path) => format!("{} octets, {}", octets.len(), path.display()),
                        None => shown(&catalog.value(object, &octets)),
                    };
                    output::print(&format!("{object}{name}: {value}\n"))?;
                }
                Err(abort) => {
                    let node = self.node;
                    let remedy = remedy(abort, catalog, object);
                    let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
                    output::print(&format!(
                        "{object}{name}: node {node} aborted with {abort}{remedy}\n"
                    ))?;
                }
            }
        }
        for object in not_written {
            output::print(&format!("{object}{}: not written\n", name(*object)))?;
        }
        Ok(CommandResult::good_if(succeeded))
    }
}

impl AccessReport {
    fn new(
        catalog: &Catalog,
        object: ObjectId,
        result: std::result::Result<Vec<u8>, Abort>,
    ) -> Self {
        let octets = result.as_ref().ok();
        let value = octets.map(|octets| catalog.value(object, octets));
        let state = match &value {
            Some(Value::State(state)) => Some(state.to_string()),
            _ => None,
        };
        AccessReport {
            object: object.to_string(),
            name: catalog.name(object),
            data_type: catalog.data_type(object).map(|data_type| data_type.to_string()),
            value: value.as_ref().map(json),
            state,
            octets: octets.map(|octets| hexadecimal(octets)),
            abort: result.as_ref().err().map(|abort| AbortReport {
                code: format!("{:#010x}", abort.0),
                reason: abort.reason().to_owned(),
            }),
        }
    }
}

fn find(catalog: &Catalog, name: &str) -> Result<ObjectId> {
    catalog.find(name).map_err(|error| match error {
        LookupError::Unknown => Failure::new(format!(
            "object {name:?} not found; write index and sub-index in hexadecimal, such as 1018/01, or a name of \
             the communication profile or of --xdd"
        )),
        LookupError::Ambiguous(objects) => {
            let names: Vec<String> =
                objects.iter().filter_map(|object| catalog.name(*object)).collect();
            Failure::new(format!("object {name:?} is ambiguous; use a full name such as {}", names.join(", ")))
        }
    })
}

fn unusable(path: &Path, verb: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display()))
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A value as text.
fn shown(value: &Value) -> String {
    match value {
        Value::Octets(octets) if octets.len() > PRINTED => {
            let first = Value::Octets(octets[..PRINTED].to_vec());
            format!("{first}... {} octets; --file writes all to a file", octets.len())
        }
        Value::Text(text) if text.chars().count() > PRINTED => {
            let first: String = text.chars().take(PRINTED).collect();
            format!("{}... {} octets; --file writes all to a file", Value::Text(first), text.len())
        }
        value => value.to_string(),
    }
}

/// A value in JSON; octets are hexadecimal digits.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Boolean(value) => (*value).into(),
        Value::Unsigned(value) => (*value).into(),
        Value::State(state) => state.0.into(),
        Value::Signed(value) => (*value).into(),
        Value::Real(value) => (*value).into(),
        Value::Address(value) => value.to_string().into(),
        Value::Text(value) => value.as_str().into(),
        Value::Octets(octets) => hexadecimal(octets).into(),
    }
}

/// The remedy for an abort of an access, with type and limits of the object if they are known.
fn remedy(abort: Abort, catalog: &Catalog, object: ObjectId) -> Option<String> {
    let text = match abort {
        Abort::NO_OBJECT | Abort::NO_SUB_INDEX => "check it in the device description of the node",
        Abort::TYPE | Abort::TOO_LONG | Abort::TOO_SHORT => match catalog.data_type(object) {
            Some(data_type) => return Some(format!("its type is {data_type}")),
            None => "write a value of its type, such as u16:500, or use --xdd",
        },
        Abort::VALUE | Abort::TOO_GREAT | Abort::TOO_SMALL => {
            let data_type = catalog.data_type(object);
            let data_type =
                data_type.map_or(String::new(), |data_type| format!("its type is {data_type}, "));
            return Some(match catalog.limits(object) {
                Some(limits) => format!("{data_type}{limits}; the node can have narrower limits"),
                None => {
                    format!("{data_type}its limits are in the device description of the node")
                }
            });
        }
        Abort::STATE => "the state of the node is object 1F8C",
        Abort::NOT_STORED => "store parameters with text:save, restore defaults with text:load",
        Abort::OUT_OF_MEMORY => "the value is too long for the node",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Parses `--timeout`.
fn parse_timeout(text: &str) -> std::result::Result<Duration, String> {
    let timeout = parse_duration(text)?;
    match (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&timeout) {
        true => Ok(timeout),
        false => Err("use a time from 1ms to 1h, such as 5s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn a_node_and_objects_are_required() {
        for line in [
            "read 1 1006",
            "read 240 1008 1018/01 --interface eth1 --json",
            "read 1 NMT_CycleLen_U32 --address 10.0.0.7 --timeout 500ms",
            "write 1 1006 5000",
            "write 1 6423/01 -5 --interface eth1",
            "write 1 2000 --file curve.bin",
        ] {
            let parsed = parse(&format!("powerlink sdo {line}"));
            assert!(matches!(parsed, Ok(Command::Powerlink(_))), "{line}: {parsed:?}");
        }
        for line in [
            "read 1",
            "read 251 1006",
            "write 1",
            "read 1 1006 --address a",
            "delete 1 1006",
            "read 1 1006 --timeout 0s",
            "read 1 1006 --timeout 61min",
        ] {
            assert!(parse(&format!("powerlink sdo {line}")).is_err(), "{line}");
        }
        assert!(parse("powerlink sdo read 1 1006 --address 10.0.0.7 --interface eth1").is_err());
    }

    #[test]
    fn long_values_are_shortened() {
        assert_eq!(shown(&Value::Octets(vec![1; PRINTED])), format!("hex:{}", "01".repeat(64)));
        let long = shown(&Value::Octets(vec![1; PRINTED + 1]));
        assert!(long.ends_with("01... 65 octets; --file writes all to a file"), "{long}");
        let text = |len| shown(&Value::Text("ä".repeat(len)));
        assert!(!text(PRINTED).contains("--file"), "{}", text(PRINTED));
        let long = text(PRINTED + 1);
        assert_eq!(long.matches('ä').count(), PRINTED, "{long}");
        assert!(long.ends_with("... 130 octets; --file writes all to a file"), "{long}");
    }

    #[test]
    fn writes_before_a_failure_are_reported() {
        let object = |sub| onbeat_powerlink::od::id(0x2000, sub);
        let values = || (1..4).map(|sub| (object(sub), vec![sub])).collect();
        let mut results = vec![Err("no answer"), Ok(Ok(()))];
        let (accesses, error) = write_all(values(), |_, _| results.pop().unwrap());
        assert_eq!((accesses, error), (vec![(object(1), Ok(vec![1]))], Some("no answer")));
        let mut results = vec![Ok(Err(Abort::VALUE)), Ok(Ok(()))];
        let (accesses, error) = write_all(values(), |_, _| results.pop().unwrap());
        let expected = vec![(object(1), Ok(vec![1])), (object(2), Err(Abort::VALUE))];
        assert_eq!((accesses, error), (expected, None::<&str>));
    }

    #[test]
    fn a_time_out_has_a_range() {
        assert_eq!(parse_timeout("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_timeout("1h"), Ok(Duration::from_secs(3600)));
        for text in ["0s", "999us", "2h"] {
            let error = parse_timeout(text).unwrap_err();
            assert!(error.contains("from 1ms to 1h"), "{text}: {error}");
        }
    }

    #[test]
    fn remedies_name_type_and_limits_if_known() {
        let catalog = Catalog::new(Description::default());
        let id = onbeat_powerlink::od::id;
        let (mtu, state, unknown) = (id(0x1f98, 8), id(0x1f8c, 0), id(0x7777, 7));
        for (abort, object, expected) in [
            (Abort::TOO_LONG, mtu, "its type is UNSIGNED16"),
            (Abort::TYPE, unknown, "write a value of its type, such as u16:500, or use --xdd"),
            (
                Abort::TOO_GREAT,
                mtu,
                "its type is UNSIGNED16, from 300 to 1500; the node can have narrower limits",
            ),
            (
                Abort::VALUE,
                state,
                "its type is UNSIGNED8, its limits are in the device description of the node",
            ),
            (Abort::VALUE, unknown, "its limits are in the device description of the node"),
        ] {
            assert_eq!(remedy(abort, &catalog, object).as_deref(), Some(expected), "{object}");
        }
    }

    #[test]
    fn a_state_in_json_is_a_number_with_its_name() {
        let catalog = Catalog::new(Description::default());
        let json = |object, octets: Vec<u8>| {
            let report = AccessReport::new(&catalog, object, Ok(octets));
            serde_json::to_value(report).unwrap()
        };
        let state = json(onbeat_powerlink::od::id(0x1f8e, 1), vec![0xfd]);
        assert_eq!((&state["value"], &state["state"]), (&253.into(), &"OPERATIONAL".into()));
        let other = json(onbeat_powerlink::od::id(0x1001, 0), vec![0xfd]);
        assert_eq!((&other["value"], other.get("state")), (&253.into(), None));
    }

    #[test]
    fn values_in_json_have_their_type() {
        let catalog = Catalog::new(Description::default());
        let object = onbeat_powerlink::od::id(0x1006, 0);
        let report = AccessReport::new(&catalog, object, Ok(vec![0x88, 0x13, 0, 0]));
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["value"], 5000);
        assert_eq!(json["octets"], "88130000");
        assert_eq!(json["name"], "NMT_CycleLen_U32");
        let report = AccessReport::new(&catalog, object, Err(Abort::READ_ONLY));
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["abort"]["code"], "0x06010002");
        assert_eq!(json["abort"]["reason"], "the object can only be read");
    }
}
