//! `[[stream]]` tables for a node that runs: the syntax and the faults of a file, and checks whose
//! work goes by these streams alone, however many the node has.

use onbeat_frer::spec::{PortId, Stream};

use super::diagnostic::Source;
use super::reader::{Faults, Table};
use super::set::Conflict;
use super::{
    ConfigError, PortConfig, PortIds, ReplacedStreams, SourceText, StreamSet, Warnings, block,
    check, parse, stream,
};

/// What streams are to be to those that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOperation {
    /// New.
    Add,
    /// In the place of those with the same names.
    Change,
}

/// Streams for a node that runs.
#[derive(Debug, Clone)]
pub struct Addition {
    /// The streams, each name once.
    pub streams: Vec<Stream>,
    /// The table of each.
    blocks: Vec<usize>,
    how: StreamOperation,
    written: SourceText,
}

impl Addition {
    /// Reads a text of `[[stream]]` tables; `file` is what its faults name. The node has these
    /// ports, `already` so many streams, and room for `room`.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn parse(
        text: &str,
        file: &str,
        how: StreamOperation,
        ports: &[PortConfig],
        (already, room): (usize, u32),
    ) -> Result<Addition, ConfigError> {
        let source = Source { file: file.into(), text: text.into() };
        let root = parse(text, &source)?;
        let faults = Faults::default();
        let mut table = Table::root(&root, &faults);
        let ids: PortIds =
            (0..).zip(ports).map(|(id, port)| (port.name.clone(), PortId(id))).collect();
        let blocks = stream::read_all(table.items("stream"), &ids, &faults);
        if !table.has("stream") {
            table.fault("there is no stream", "write [[stream]] tables, as in the node's file");
        }
        table.finish();
        let already = if how == StreamOperation::Add { already } else { 0 };
        let streams = block::unfold(&blocks, already, room, &faults);
        check::all(&streams, &blocks, ports, &faults);
        check::replicas(&streams, &blocks, ports, &faults);

        let warnings = faults.judge(&source)?;
        let (owners, streams) = streams.into_iter().unzip();
        let written = SourceText { source, warnings, blocks, control: None };
        Ok(Addition { streams, blocks: owners, how, written })
    }

    /// Checks that the ports can carry the streams, as [`super::Config::check`] does, and tells the
    /// traps that they step into.
    ///
    /// # Errors
    /// A path that is too narrow.
    pub fn check(
        &self,
        ports: &[PortConfig],
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        self.written.check(ports, mtu_of)
    }

    /// Enters the streams among those that run; tells what was in their places.
    ///
    /// # Errors
    /// One is there already, or is not there; one takes frames of another. Nothing has changed then.
    pub fn enter(
        &self,
        running: &mut StreamSet,
        ports: &[PortConfig],
    ) -> Result<ReplacedStreams, ConfigError> {
        let faults = Faults::default();
        for (stream, &block) in self.streams.iter().zip(&self.blocks) {
            let name = &stream.name;
            let (message, help) = match (self.how, running.get(name)) {
                (StreamOperation::Add, Some(_)) => (
                    format!("the node has a stream {name:?} already"),
                    "change it (onbeat stream change), or give this one a name of its own",
                ),
                (StreamOperation::Change, None) => (
                    format!("the node has no stream {name:?}"),
                    "add it (onbeat stream add); onbeat show lists those there are",
                ),
                _ => continue,
            };
            let place = &self.written.blocks[block].place;
            faults.note(place.span.clone(), &place.path, message, help);
        }
        let mut before = ReplacedStreams::new();
        if faults.count() == 0 {
            match running.exchange(&self.streams) {
                Ok(streams) => before = streams,
                Err(Conflict { stream, member, other }) => {
                    let block = &self.written.blocks[self.blocks[stream]];
                    let stream = &self.streams[stream];
                    let help = check::DIFFER;
                    check::same_frames(stream, member, &other, block, ports, &faults, help);
                }
            }
        }
        faults.judge(&self.written.source)?;
        Ok(before)
    }
}
