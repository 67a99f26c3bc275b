//! The fields of POWERLINK messages by the names of `vectors/powerlink/generate`, which writes tshark's interpretation
//! of the same messages.

use onbeat_wire::powerlink::{
    Body, Command, ErrorEntry, IdentResponse, Links, Message, NetTime, NmtCommand, NmtCommandId,
    NmtRequest, ObjectEntry, Preq, Pres, Sdo, Segmentation, SendRequest, Service, Soa, Soc,
    StatusResponse,
};
use serde::Deserialize;
use toml::{Table, Value};

use crate::vectors::octets;

/// A message, and the fields that tshark shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its capture and kind.
    pub name: String,
    /// The type of message.
    pub kind: String,
    /// All that follows the EtherType.
    pub octets: String,
    /// Fields by name.
    pub fields: Table,
}

impl Case {
    /// Compares the message as this codec reads it.
    ///
    /// # Panics
    /// The codec refuses it, or reads another type or another field.
    pub fn check(&self) {
        let Case { name, kind, .. } = self;
        let octets = octets(&self.octets);
        let message = Message::parse(&octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (found, fields) = observe(&message);
        assert_eq!(found, kind, "{name}");
        for (field, value) in &self.fields {
            assert_eq!(fields.get(field), Some(value), "{name}: {field} of {message}");
        }
    }
}

/// Fields by the names of the vectors.
#[derive(Default)]
struct Fields(Table);

impl Fields {
    fn int(mut self, name: &str, value: impl TryInto<i64>) -> Self {
        // TOML numbers are below 2^63, which holds for all 64-bit fields.
        let value = value.try_into().unwrap_or_else(|_| panic!("{name} is too great for TOML"));
        self.0.insert(name.to_owned(), Value::Integer(value));
        self
    }

    fn flag(mut self, name: &str, value: bool) -> Self {
        self.0.insert(name.to_owned(), Value::Boolean(value));
        self
    }

    fn text(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_owned(), Value::String(value.to_string()));
        self
    }

    fn hex(self, name: &str, value: &[u8]) -> Self {
        let digits: Vec<String> = value.iter().map(|octet| format!("{octet:02x}")).collect();
        self.text(name, digits.concat())
    }

    fn list(mut self, name: &str, values: Vec<Value>) -> Self {
        self.0.insert(name.to_owned(), Value::Array(values));
        self
    }

    fn links(self, links: Links) -> Self {
        self.flag("link_first", links.first).flag("link_second", links.second)
    }

    fn request(self, request: SendRequest) -> Self {
        self.int("pr", request.priority.0).int("rs", request.pending)
    }

    fn soc(self, soc: &Soc) -> Self {
        self.flag("mc", soc.multiplexed_cycle_completed)
            .flag("ps", soc.prescaled_slot)
            .list("net_time", time(soc.net_time))
            .int("relative_time_us", soc.relative_time_us as i64)
    }

    fn preq(self, preq: &Preq<'_>) -> Self {
        self.flag("ms", preq.multiplexed_slot)
            .flag("ea", preq.exception_acknowledge)
            .flag("rd", preq.ready)
            .links(preq.links)
            .int("pdo_version", preq.pdo_version.0)
            .int("size", preq.payload.len() as i64)
    }

    fn pres(self, pres: &Pres<'_>) -> Self {
        self.int("state", pres.state.0)
            .flag("ms", pres.multiplexed_slot)
            .flag("en", pres.exception_new)
            .flag("rd", pres.ready)
            .links(pres.links)
            .request(pres.request)
            .int("pdo_version", pres.pdo_version.0)
            .int("size", pres.payload.len() as i64)
    }

    fn soa(self, soa: &Soa) -> Self {
        self.int("state", soa.state.0)
            .flag("ea", soa.exception_acknowledge)
            .flag("er", soa.exception_reset)
            .int("service", soa.service.0)
            .int("target", soa.target.0)
            .int("version", soa.version.0)
            .int("redundancy", soa.redundancy)
    }

    fn ident(self, ident: &IdentResponse<'_>) -> Self {
        self.flag("en", ident.exception_new)
            .flag("ec", ident.exception_clear)
            .links(ident.links)
            .request(ident.request)
            .int("state", ident.state.0)
            .int("version", ident.version.0)
            .int("features", ident.features)
            .int("mtu", ident.mtu)
            .int("poll_in_size", ident.poll_in_size)
            .int("poll_out_size", ident.poll_out_size)
            .int("response_time_ns", ident.response_time_ns)
            .int("device_profile", ident.device_type & 0xffff)
            .int("device_information", ident.device_type >> 16)
            .int("vendor_id", ident.vendor_id)
            .int("product_code", ident.product_code)
            .int("revision_number", ident.revision_number)
            .int("serial_number", ident.serial_number)
            .int("vendor_extension_1", ident.vendor_extension_1)
            .int("configuration_date", ident.configuration_date)
            .int("configuration_time", ident.configuration_time)
            .int("software_date", ident.software_date)
            .int("software_time", ident.software_time)
            .text("address", ident.address)
            .text("mask", ident.mask)
            .text("gateway", ident.gateway)
            .text("host_name", ident.host_name)
            .hex("vendor_extension_2", ident.vendor_extension_2)
    }

    fn status(self, status: &StatusResponse<'_>) -> Self {
        let entry = |entry: ErrorEntry| {
            let additional = Value::Integer(entry.additional as i64);
            let (kind, code) =
                (Value::Integer(entry.kind.into()), Value::Integer(entry.code.into()));
            Value::Array(vec![kind, code, Value::Array(time(entry.time)), additional])
        };
        self.flag("en", status.exception_new)
            .flag("ec", status.exception_clear)
            .links(status.links)
            .request(status.request)
            .int("state", status.state.0)
            // tshark does not show bit 6, which is reserved.
            .int("error_register", status.static_errors[0] & 0xbf)
            .hex("device_errors", &status.static_errors[2..])
            .list("entries", status.entries.all().map(entry).collect())
    }

    fn nmt_request(self, request: &NmtRequest<'_>) -> Self {
        self.int("command", request.command.0)
            .int("target", request.target.0)
            .hex("data", request.data)
    }

    fn sdo(self, sdo: &Sdo<'_>) -> Self {
        let (receive, send) = (sdo.sequence.receive, sdo.sequence.send);
        let fields = self
            .int("receive", receive.number)
            .int("receive_con", receive.connection as u8)
            .int("send", send.number)
            .int("send_con", send.connection as u8);
        match &sdo.command {
            Some(command) => fields.command(command),
            None => fields,
        }
    }

    fn nmt_command(self, command: &NmtCommand<'_>) -> Self {
        let fields = self.int("command", command.command.0);
        match (command.command, command.data) {
            (NmtCommandId::PUBLISH_TIME, _) => {
                let time = command.time_of_day().expect("a time of six octets").to_octets();
                fields.text("time", time.map(|octet| format!("{octet:02x}")).concat())
            }
            (NmtCommandId::RESET_NODE, [low, high, ..]) => {
                fields.int("reason", u16::from_le_bytes([*low, *high]))
            }
            _ => fields,
        }
    }

    fn command(self, command: &Command<'_>) -> Self {
        let (segmentation, data_size) = match command.segmentation {
            Segmentation::Expedited => (0, None),
            Segmentation::Initiate { data_size } => (1, Some(data_size)),
            Segmentation::Segment => (2, None),
            Segmentation::Complete => (3, None),
        };
        let fields = self
            .int("transaction", command.transaction)
            .flag("response", command.response)
            .flag("abort", command.abort)
            .int("segmentation", segmentation)
            .int("command", command.command.0)
            .int("segment_size", command.segment_size() as i64);
        let fields = match data_size {
            Some(size) => fields.int("data_size", size),
            None => fields,
        };
        match command.object() {
            Some((index, sub)) => fields.int("index", index).int("sub_index", sub),
            None => fields.several(command, data_size),
        }
    }

    /// The objects of a command that reads or writes several. tshark shows none whose value continues in the next
    /// segment, and the sizes of values that are written after DataSize.
    fn several(self, command: &Command<'_>, data_size: Option<u32>) -> Self {
        let int = |number: u32| Value::Integer(number.into());
        let (mut objects, mut aborts) = (Vec::new(), Vec::new());
        let mut sizes: Vec<Value> = data_size.map(int).into_iter().collect();
        let mut entries: Vec<_> = command.objects().map(|entry| entry.expect("valid")).collect();
        entries.truncate(entries.len() - usize::from(data_size.is_some() && !entries.is_empty()));
        for ObjectEntry { index, sub, result } in entries {
            objects.push(Value::Array(vec![int(index.into()), int(sub.into())]));
            match result {
                Ok(value) if !value.is_empty() && !command.response => {
                    sizes.push(int(value.len() as u32));
                }
                Ok(_) => {}
                Err(abort) => aborts.push(int(abort.0)),
            }
        }
        self.list("objects", objects).list("sizes", sizes).list("aborts", aborts)
    }
}

fn time(time: NetTime) -> Vec<Value> {
    vec![Value::Integer(time.seconds.into()), Value::Integer(time.nanoseconds.into())]
}

/// Returns the type of a message, and its fields.
fn observe(message: &Message<'_>) -> (&'static str, Table) {
    let fields =
        Fields::default().int("destination", message.destination.0).int("source", message.source.0);
    let (kind, fields) = match &message.body {
        Body::Soc(soc) => ("soc", fields.soc(soc)),
        Body::Preq(preq) => ("preq", fields.preq(preq)),
        Body::Pres(pres) => ("pres", fields.pres(pres)),
        Body::Soa(soa) => ("soa", fields.soa(soa)),
        Body::Asnd(Service::IdentResponse(ident)) => ("ident", fields.ident(ident)),
        Body::Asnd(Service::StatusResponse(status)) => ("status", fields.status(status)),
        Body::Asnd(Service::NmtRequest(request)) => ("nmt_request", fields.nmt_request(request)),
        Body::Asnd(Service::NmtCommand(command)) => ("nmt_command", fields.nmt_command(command)),
        Body::Asnd(Service::Sdo(sdo)) => ("sdo", fields.sdo(sdo)),
        Body::Asnd(Service::Other { .. }) => ("other", fields),
        Body::Amni => ("amni", fields),
    };
    (kind, fields.0)
}
