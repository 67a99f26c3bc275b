//! Stages: the file of a node in each phase of a change, from its files in both plans.
//!
//! | stream of the node | rest | accept, prove | send | drain |
//! |---|---|---|---|---|
//! | relay, old paths | old | old | old | - |
//! | relay, new paths | - | new | new | new |
//! | talker, other paths | old | old | new | new |
//! | talker of a removed stream | old | old | - | - |
//! | talker of an added stream | - | - | new | new |
//! | listener, recovering relay: members | old | old and new | old and new | new |
//! | its egress ports | old | old | new | new |
//! | its history and reset timeout | old | the longer | the longer | new |
//!
//! Relays of two plans have different names, `NAME.vLABEL`. A listener keeps its name, and with it the recovery function:
//! numbers and their history go on. A recovering relay gets frames of both labels and sends the one of its phase, so its
//! egress ports set the VLAN in between. Members of the plan that is silent are `draining`: silence is then no lost path.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use onbeat_report::format::count;
use toml::{Table, Value};

use crate::phase::Phase;
use crate::record::FileHash;

/// Default of `max-streams` in node files.
const DEFAULT_MAX_STREAMS: i64 = 4096;

/// Why the change of a node is not possible while frames flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageRefusal {
    /// A file that `onbeat plan` did not write.
    #[error("{file}: {fault}; roll out files of `onbeat plan` only")]
    File {
        /// The node and plan.
        file: String,
        /// The fault.
        fault: String,
    },
    /// Keys that a node reads at its start.
    #[error(
        "node {node:?} must be restarted for other values of {}, which interrupts its streams; plan without it, and restart it",
        keys.join(", ")
    )]
    NeedsRestart {
        /// The node.
        node: String,
        /// The keys.
        keys: Vec<String>,
    },
    /// Both plans together have too many streams.
    #[error(
        "node {node:?} has room for {}, and requires {required} while both plans run; raise max-streams in its file, and restart it",
        count(*room as u64, "stream")
    )]
    NoRoom {
        /// The node.
        node: String,
        /// Streams of both plans.
        required: usize,
        /// `max-streams`.
        room: usize,
    },
    /// The numbers of another talker start at 0.
    #[error(
        "stream {stream:?} has another talker, whose numbers continue none: its frames would be lost until the reset \
         timeout; give the stream another name"
    )]
    TalkerMoved {
        /// The stream.
        stream: String,
    },
    /// Frames of the talker are identified otherwise.
    #[error(
        "node {node:?}: frames of stream {stream:?} are identified otherwise; give the stream another name"
    )]
    Identification {
        /// The node.
        node: String,
        /// The stream.
        stream: String,
    },
    /// Old and new paths have the same label, or none.
    #[error(
        "node {node:?}: old and new paths of stream {stream:?} have one VLAN, so frames of both would mix; set \
         label-vlans and plan with --keep MANIFEST of the plan that runs"
    )]
    Label {
        /// The node.
        node: String,
        /// The stream.
        stream: String,
    },
    /// A frame would belong to two streams.
    #[error(
        "node {node:?}: stream {stream:?} and stream {other:?} of the other plan have the same frames at port {port:?}; \
         plan with --keep MANIFEST of the plan that runs"
    )]
    Conflict {
        /// The node.
        node: String,
        /// The stream.
        stream: String,
        /// The other one.
        other: String,
        /// The port.
        port: String,
    },
    /// A recovery function would be reset.
    #[error(
        "node {node:?}: recovery of stream {stream:?} changes more than history-length and reset-timeout-ms, which resets \
         it; give the stream another name"
    )]
    Recovery {
        /// The node.
        node: String,
        /// The stream.
        stream: String,
    },
}

/// A part of a file: a stream with its text.
#[derive(Debug, Clone)]
struct StreamText<'a> {
    name: String,
    text: &'a str,
    table: Table,
}

/// A file, split before each `[[stream]]`.
struct NodeText<'a> {
    head: &'a str,
    streams: Vec<&'a str>,
}

impl<'a> NodeText<'a> {
    fn split(text: &'a str) -> Self {
        const HEADER: &str = "[[stream]]\n";
        let mut starts: Vec<usize> = text
            .match_indices(HEADER)
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
            .collect();
        starts.push(text.len());
        let streams = starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        Self { head: &text[..starts[0]], streams }
    }
}

fn parse_stream<'a>(text: &'a str, file: &str) -> Result<StreamText<'a>, StageRefusal> {
    let fault = |fault: String| StageRefusal::File { file: file.into(), fault };
    let mut root: Table =
        text.parse().map_err(|error: toml::de::Error| fault(error.to_string()))?;
    let table = match root.remove("stream") {
        Some(Value::Array(mut tables)) if root.is_empty() && tables.len() == 1 => tables.pop(),
        _ => None,
    };
    let Some(Value::Table(table)) = table else {
        return Err(fault("tables other than [[stream]] after the first [[stream]]".into()));
    };
    let Some(name) = table.get("name").and_then(Value::as_str).map(str::to_owned) else {
        return Err(fault("a stream without a name".into()));
    };
    Ok(StreamText { name, text, table })
}

/// Member and egress tables of a stream.
fn tables<'t>(stream: &'t Table, key: &str) -> impl Iterator<Item = &'t Table> + use<'t> {
    stream.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn is_talker(stream: &Table) -> bool {
    stream.get("generate").and_then(Value::as_bool) == Some(true)
}

fn is_host(egress: &Table) -> bool {
    egress.get("tag").and_then(Value::as_str) == Some("none")
}

/// Whether paths of the stream end here.
fn is_sink(stream: &Table) -> bool {
    stream.contains_key("recover") || tables(stream, "egress").any(is_host)
}

/// Port and identification: the frames of a member.
fn frames(member: &Table) -> (Option<&Value>, Option<&Value>) {
    (member.get("port"), member.get("identify"))
}

/// The VLAN of all members.
fn label(stream: &Table) -> Option<&Value> {
    let mut labels = tables(stream, "member").map(|member| member.get("identify")?.get("vlan"));
    let first = labels.next()??;
    labels.all(|label| label == Some(first)).then_some(first)
}

/// Whether two tables agree in all other keys.
fn agrees(a: &Table, b: &Table, except: &[&str]) -> bool {
    let rest = |table: &Table| -> BTreeMap<String, Value> {
        let rest = table.iter().filter(|(key, _)| !except.contains(&key.as_str()));
        rest.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    rest(a) == rest(b)
}

/// A member that must count probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    /// The stream.
    pub stream: String,
    /// Index of the member in the stage.
    pub member: usize,
}

/// The stages of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages {
    /// The files of the phases rest, accept and prove, send, drain.
    texts: [String; 4],
    /// Tables of streams that send along new paths, as in the phase send: the text of a request `prove`.
    pub probes: Vec<(String, String)>,
    /// New members of recovery functions, which count the probes of other nodes.
    pub new_members: Vec<NewMember>,
}

impl Stages {
    /// Computes the stages. A node has no file in a plan without streams for it: it runs without streams.
    ///
    /// # Errors
    /// The change is not possible while frames flow.
    pub fn new(node: &str, from: Option<&str>, to: Option<&str>) -> Result<Self, StageRefusal> {
        let (old_text, new_text) =
            (from.or(to).unwrap_or_default(), to.or(from).unwrap_or_default());
        let (mut old, mut new) = (NodeText::split(old_text), NodeText::split(new_text));
        check_heads(node, old.head, new.head)?;
        let streams_of = |file: Option<&str>, text: &NodeText<'_>| match file {
            Some(_) => text.streams.len(),
            None => 0,
        };
        if streams_of(from, &old) == 0 {
            old.streams.clear();
        }
        if streams_of(to, &new) == 0 {
            new.streams.clear();
        }
        let texts = |text: &NodeText<'_>| text.head.to_owned() + &text.streams.concat();
        let mut merge = Merge::new(node, &old, &new)?;
        merge.run()?;
        let room = room(old.head);
        let count = merge.kept.len() + merge.count;
        if count > room {
            return Err(StageRefusal::NoRoom { node: node.into(), required: count, room });
        }
        let [accept, send] = [merge.accept, merge.send]
            .map(|changed| old.head.to_owned() + &merge.kept.concat() + &changed);
        Ok(Self {
            texts: [texts(&old), accept, send, texts(&new)],
            probes: merge.probes,
            new_members: merge.new_members,
        })
    }

    /// The file in a phase.
    #[must_use]
    pub fn text(&self, phase: Phase) -> &str {
        match phase {
            Phase::Rest => &self.texts[0],
            Phase::Accept | Phase::Prove => &self.texts[1],
            Phase::Send => &self.texts[2],
            Phase::Drain => &self.texts[3],
        }
    }

    /// The hashes of the files of all phases.
    #[must_use]
    pub fn hashes(&self) -> [FileHash; 5] {
        Phase::ALL.map(|phase| FileHash::of(self.text(phase)))
    }

    /// Whether the node has another file in any phase.
    #[must_use]
    pub fn is_affected(&self) -> bool {
        self.texts.iter().any(|text| *text != self.texts[0])
    }
}

fn head_table(node: &str, head: &str) -> Result<Table, StageRefusal> {
    head.parse().map_err(|error: toml::de::Error| StageRefusal::File {
        file: node.into(),
        fault: error.to_string(),
    })
}

fn check_heads(node: &str, old: &str, new: &str) -> Result<(), StageRefusal> {
    if old == new {
        return Ok(());
    }
    let (old, new) = (head_table(node, old)?, head_table(node, new)?);
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = |key: &&&String| old.get(key.as_str()) != new.get(key.as_str());
    let keys: Vec<String> = names.iter().filter(differs).map(|key| format!("[{key}]")).collect();
    match keys.is_empty() {
        true => Ok(()),
        false => Err(StageRefusal::NeedsRestart { node: node.into(), keys }),
    }
}

fn room(head: &str) -> usize {
    let table: Table = head.parse().unwrap_or_default();
    let max = table.get("node").and_then(|node| node.get("max-streams")?.as_integer());
    usize::try_from(max.unwrap_or(DEFAULT_MAX_STREAMS)).unwrap_or_default()
}

/// The streams of a node in both plans, and the stages of those that differ.
struct Merge<'a> {
    node: &'a str,
    /// Texts of streams that are the same in both plans.
    kept: Vec<&'a str>,
    old: Vec<StreamText<'a>>,
    new: Vec<StreamText<'a>>,
    accept: String,
    send: String,
    /// Streams in the stage with the most.
    count: usize,
    probes: Vec<(String, String)>,
    new_members: Vec<NewMember>,
}

impl<'a> Merge<'a> {
    fn new(node: &'a str, old: &NodeText<'a>, new: &NodeText<'a>) -> Result<Self, StageRefusal> {
        // A plan has thousands of streams that stay: only the others are parsed.
        let trimmed = |texts: &[&'a str]| texts.iter().map(|text| text.trim_end()).collect();
        let (before, after): (HashSet<&str>, HashSet<&str>) =
            (trimmed(&old.streams), trimmed(&new.streams));
        let changed = |texts: &[&'a str], other: &HashSet<&str>| {
            let texts = texts.iter().filter(|text| !other.contains(text.trim_end()));
            texts.map(|text| parse_stream(text, node)).collect::<Result<Vec<_>, _>>()
        };
        let is_kept = |text: &&&'a str| after.contains(text.trim_end());
        Ok(Self {
            node,
            kept: old.streams.iter().filter(is_kept).copied().collect(),
            old: changed(&old.streams, &after)?,
            new: changed(&new.streams, &before)?,
            accept: String::new(),
            send: String::new(),
            count: 0,
            probes: Vec::new(),
            new_members: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), StageRefusal> {
        let (old, new) = (std::mem::take(&mut self.old), std::mem::take(&mut self.new));
        self.check_conflicts(&old, &new)?;
        let by_name: HashMap<&str, &StreamText<'_>> =
            new.iter().map(|stream| (stream.name.as_str(), stream)).collect();
        let names: HashSet<&str> = old.iter().map(|stream| stream.name.as_str()).collect();
        for old in &old {
            self.count += 1;
            match by_name.get(old.name.as_str()) {
                Some(new) => self.both(old, new)?,
                None => {
                    self.accept += old.text;
                    if !is_talker(&old.table) {
                        self.send += old.text;
                    }
                }
            }
        }
        for new in new.iter().filter(|new| !names.contains(new.name.as_str())) {
            self.count += 1;
            self.send += new.text;
            if is_talker(&new.table) {
                self.probes.push((new.name.clone(), new.text.to_owned()));
                continue;
            }
            self.accept += new.text;
            if new.table.contains_key("recover") {
                let members = 0..tables(&new.table, "member").count();
                self.new_members
                    .extend(members.map(|member| NewMember { stream: new.name.clone(), member }));
            }
            // Probes end where paths are recovered: the next segment is proved from here.
            let egress = egress(&new.table, label(&new.table)).unwrap_or_default();
            if is_sink(&new.table) && egress.iter().any(|egress| !is_host(egress)) {
                let members: Vec<Table> = tables(&new.table, "member").cloned().collect();
                let recover = new.table.get("recover").and_then(Value::as_table);
                let text = render(&new.table, recover, &members, &egress);
                self.probes.push((new.name.clone(), text));
            }
        }
        Ok(())
    }

    /// A frame belongs to one stream.
    fn check_conflicts(
        &self,
        old: &[StreamText<'_>],
        new: &[StreamText<'_>],
    ) -> Result<(), StageRefusal> {
        let mut owners: HashMap<String, &StreamText<'_>> = HashMap::new();
        let key = |member: &Table| {
            let (port, identify) = frames(member);
            let inline = |value: Option<&Value>| value.map(inline).unwrap_or_default();
            format!("{} {}", inline(port), inline(identify))
        };
        for stream in old {
            owners.extend(tables(&stream.table, "member").map(|member| (key(member), stream)));
        }
        for stream in new {
            for member in tables(&stream.table, "member") {
                match owners.get(&key(member)) {
                    // The talker of an added stream replaces the one of a removed stream, in one phase.
                    Some(other) if is_talker(&other.table) && is_talker(&stream.table) => {}
                    Some(other) if other.name != stream.name => {
                        let port = member.get("port").and_then(Value::as_str).unwrap_or_default();
                        return Err(StageRefusal::Conflict {
                            node: self.node.into(),
                            stream: stream.name.clone(),
                            other: other.name.clone(),
                            port: port.into(),
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn both(&mut self, old: &StreamText<'_>, new: &StreamText<'_>) -> Result<(), StageRefusal> {
        let (node, stream) = (self.node.to_owned(), old.name.clone());
        match (is_talker(&old.table), is_talker(&new.table)) {
            (true, true) if agrees(&old.table, &new.table, &["egress"]) => {
                self.accept += old.text;
                self.send += new.text;
                self.probes.push((stream, new.text.to_owned()));
                Ok(())
            }
            (true, true) => Err(StageRefusal::Identification { node, stream }),
            (false, false) if is_sink(&old.table) && is_sink(&new.table) => self.sink(old, new),
            (false, false) => Err(StageRefusal::Label { node, stream }),
            _ => Err(StageRefusal::TalkerMoved { stream }),
        }
    }

    /// A listener or recovering relay of both plans: one function over the members of both.
    fn sink(&mut self, old: &StreamText<'_>, new: &StreamText<'_>) -> Result<(), StageRefusal> {
        let refusal = |kind: fn(String, String) -> StageRefusal| {
            Err(kind(self.node.to_owned(), old.name.clone()))
        };
        let recovery = |node, stream| StageRefusal::Recovery { node, stream };
        if !agrees(&old.table, &new.table, &["member", "egress", "recover"]) {
            return refusal(recovery);
        }
        let Some(recover) = recover(&old.table, &new.table) else { return refusal(recovery) };
        let contains = |stream: &Table, member: &Table| {
            tables(stream, "member").any(|other| frames(other) == frames(member))
        };
        let [mut accept, mut send] = [Vec::new(), Vec::new()];
        let draining = |member: &Table| {
            let mut member = member.clone();
            member.insert("draining".into(), Value::Boolean(true));
            member
        };
        for member in tables(&old.table, "member") {
            let is_common = contains(&new.table, member);
            accept.push(member.clone());
            send.push(if is_common { member.clone() } else { draining(member) });
        }
        for member in tables(&new.table, "member") {
            if contains(&old.table, member) {
                continue;
            }
            if recover.is_some() {
                self.new_members.push(NewMember { stream: old.name.clone(), member: accept.len() });
            }
            accept.push(draining(member));
            send.push(member.clone());
        }
        let labels = (label(&old.table), label(&new.table));
        let [before, after] = match (egress(&old.table, labels.0), egress(&new.table, labels.1)) {
            (Some(before), Some(after)) => [before, after],
            _ => return refusal(|node, stream| StageRefusal::Label { node, stream }),
        };
        self.accept += &render(&old.table, recover.as_ref(), &accept, &before);
        let text = render(&new.table, recover.as_ref(), &send, &after);
        if after.iter().any(|egress| !is_host(egress)) && before != after {
            self.probes.push((old.name.clone(), text.clone()));
        }
        self.send += &text;
        Ok(())
    }
}

/// Recovery of both plans: the longer history and timeout. `None`: other parameters differ.
#[allow(clippy::option_option, reason = "a stream without recovery is one of the results")]
fn recover(old: &Table, new: &Table) -> Option<Option<Table>> {
    const LENGTHS: [&str; 2] = ["history-length", "reset-timeout-ms"];
    let table = |stream: &Table| stream.get("recover").and_then(Value::as_table).cloned();
    match (table(old), table(new)) {
        (Some(old), Some(mut new)) => {
            if !agrees(&old, &new, &LENGTHS) {
                return None;
            }
            for key in LENGTHS {
                let number = |table: &Table| table.get(key).and_then(Value::as_integer);
                match (number(&old), number(&new)) {
                    (Some(a), Some(b)) => drop(new.insert(key.into(), Value::Integer(a.max(b)))),
                    _ if old.get(key) == new.get(key) => {}
                    _ => return None,
                }
            }
            Some(Some(new))
        }
        (old, new) => Some(old.or(new)),
    }
}

/// Egress ports, those to paths with the VLAN of the plan. `None`: it has no label.
fn egress(stream: &Table, label: Option<&Value>) -> Option<Vec<Table>> {
    let set = |egress: &Table| {
        let mut egress = egress.clone();
        if !is_host(&egress) && !egress.contains_key("vlan") {
            egress.insert("vlan".into(), label?.clone());
        }
        Some(egress)
    };
    tables(stream, "egress").map(set).collect()
}

fn render(stream: &Table, recover: Option<&Table>, members: &[Table], egress: &[Table]) -> String {
    let mut text = String::from("[[stream]]\n");
    for (key, value) in sorted(stream) {
        if !["recover", "member", "egress"].contains(&key.as_str()) {
            let _ = writeln!(text, "{key} = {}", inline(value));
        }
    }
    if let Some(recover) = recover {
        let _ = writeln!(text, "recover = {}", inline_table(recover));
    }
    for (key, tables) in [("member", members), ("egress", egress)] {
        let _ = writeln!(text, "{key} = [");
        for table in tables {
            let _ = writeln!(text, "  {},", inline_table(table));
        }
        text.push_str("]\n");
    }
    text + "\n"
}

/// A value on one line; its text is the same in all versions, because nodes compare hashes.
fn inline(value: &Value) -> String {
    match value {
        Value::Table(table) => inline_table(table),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The order of keys depends on a feature of the crate toml otherwise.
fn sorted(table: &Table) -> BTreeMap<&String, &Value> {
    table.iter().collect()
}

fn inline_table(table: &Table) -> String {
    let key = |key: &str| match key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    };
    let pairs =
        sorted(table).into_iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

/// The number of streams of a file of `onbeat plan`.
pub(crate) fn count_streams(text: &str) -> usize {
    NodeText::split(text).streams.len()
}

/// The file of a node in a batch: the streams of `new` that are chosen, by the name of their part, and the others of `old`.
pub(crate) fn select(
    old: Option<&str>,
    new: Option<&str>,
    is_new: impl Fn(&str) -> bool,
) -> String {
    let name = |text: &str| {
        let stream = parse_stream(text, "");
        stream.map(|stream| stream.name).unwrap_or_default()
    };
    let streams = |text: Option<&str>, wants_new: bool| -> String {
        let streams = NodeText::split(text.unwrap_or_default()).streams;
        streams.into_iter().filter(|text| is_new(&name(text)) == wants_new).collect()
    };
    let head = NodeText::split(old.or(new).unwrap_or_default()).head;
    head.to_owned() + &streams(old, false) + &streams(new, true)
}
