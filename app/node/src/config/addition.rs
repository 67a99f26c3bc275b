//! `[[stream]]` tables for a running node: syntax and faults as in a file. The cost of the checks depends only on
//! these streams, not on the number of streams of the node.

use std::collections::HashSet;

use onbeat_frer::spec::{PortId, Stream};

use super::diagnostic::Source;
use super::reader::{Faults, read};
use super::set::Conflict;
use super::{
    ConfigError, PortConfig, PortIds, ReplacedStreams, SourceText, StreamSet, Warnings, block,
    check, parse, stream,
};

/// Remedy for a wildcard, which is part of the file.
const WILDCARD: &str = "write it in the file of the node, then run onbeat reload";

/// Operation on the streams of a running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOperation {
    /// Add new streams.
    Add,
    /// Replace the streams with the same names.
    Change,
    /// Add new streams, and replace those with the same names.
    Set,
    /// Add streams of the second file to those of the node's file.
    Store,
}

/// Streams for a running node.
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
    /// Reads a text of `[[stream]]` tables; faults name it `file`. The node has these ports, `already`
    /// streams, and room for `room`.
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
        let ids: PortIds =
            (0..).zip(ports).map(|(id, port)| (port.name.clone(), PortId(id))).collect();
        let (blocks, faults) = read(&root, |mut table, faults| {
            let tables = stream::read_all(table.items("stream"), &ids, faults);
            for wildcard in &tables.wildcards {
                wildcard.fault(faults, "a wildcard cannot be added to a running node", WILDCARD);
            }
            if !table.has("stream") {
                table.fault("no stream found", "write [[stream]] tables, as in the node's file");
            }
            table.finish();
            tables.blocks
        });
        let is_new = matches!(how, StreamOperation::Add | StreamOperation::Store);
        let already = if is_new { already } else { 0 };
        let streams = block::unfold(&blocks, already, room, &faults);
        check::all(&streams, &blocks, ports, &faults);
        check::replicas(&streams, &blocks, ports, &faults);
        block::notes(&blocks, &streams, &faults);

        let warnings = faults.into_result(&source)?;
        let (owners, streams) = streams.into_iter().unzip();
        let written = SourceText { source, warnings, blocks, control: None };
        Ok(Addition { streams, blocks: owners, how, written })
    }

    /// Checks that the ports can carry the streams, like [`super::Config::check`]; returns warnings.
    ///
    /// # Errors
    /// The MTU of a path is too small.
    pub fn check(
        &self,
        ports: &[PortConfig],
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        self.written.check(ports, mtu_of)
    }

    /// Notes the draining members and the handles of the streams, which are running by now.
    pub fn note(&self, running: &mut StreamSet) {
        for (stream, &block) in self.streams.iter().zip(&self.blocks) {
            let block = &self.written.blocks[block];
            running.set_notes(&stream.name, &block.draining, block.handles.as_ref());
        }
    }

    /// Adds the streams to the running ones, or replaces them; returns the replaced streams.
    ///
    /// # Errors
    /// A stream exists already, or does not exist; a stream identifies frames of another. Nothing is changed then.
    pub fn enter(
        &self,
        running: &mut StreamSet,
        ports: &[PortConfig],
    ) -> Result<ReplacedStreams, ConfigError> {
        let faults = Faults::default();
        let own: HashSet<&str> = self.streams.iter().map(|stream| stream.name.as_str()).collect();
        for (stream, &block) in self.streams.iter().zip(&self.blocks) {
            let name = &stream.name;
            let block = &self.written.blocks[block];
            block::one_handle_each(block, name, running.notes(), &own, &faults);
            let (message, help) = match (self.how, running.get(name)) {
                (StreamOperation::Add, Some(_)) => (
                    format!("the node already has a stream {name:?}"),
                    "change it (onbeat stream change), or use another name",
                ),
                (StreamOperation::Store, Some(_)) => (
                    format!("the node's file has a stream {name:?}, too"),
                    "rename it there, or remove it from one of the files",
                ),
                (StreamOperation::Change, None) => (
                    format!("the node has no stream {name:?}"),
                    "add it (onbeat stream add); onbeat show lists the streams",
                ),
                _ => continue,
            };
            let place = &block.place;
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
        faults.into_result(&self.written.source)?;
        Ok(before)
    }
}
