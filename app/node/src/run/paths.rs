//! The paths of streams, read from the data plane.

use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{Algorithm, Recovery, Stream};

use super::assembly::Node;
use super::error::Result;
use crate::control::{PathStatus, Skew, StreamPaths};

/// Reads the paths of a stream, or of all streams with sequence recovery.
pub(super) fn read(node: &Node, name: Option<&str>) -> Result<Vec<StreamPaths>> {
    let mut paths = Vec::new();
    for stream in node.setup.streams.iter().filter(|s| name.is_none_or(|name| name == s.name)) {
        let Some(recover) = &stream.recover else { continue };
        if let Some(reading) = node.plane.read_stream(&stream.name)? {
            paths.extend(of_stream(node, stream, recover, &reading)?);
        }
    }
    Ok(paths)
}

fn of_stream(
    node: &Node,
    stream: &Stream,
    recover: &Recovery,
    reading: &StreamReading,
) -> Result<Option<StreamPaths>> {
    let Some(measured) = node.plane.read_paths(&stream.name)? else { return Ok(None) };
    let counters = reading.recovery.map(|recovery| recovery.counters).unwrap_or_default();
    let sent = counters.passed + counters.lost.saturating_sub(counters.lost_before_first);
    let members = stream.members.iter().zip(&reading.members).enumerate();
    let path = |(place, (member, counted)): (usize, (&_, &onbeat_frer::reading::MemberReading))| {
        let member: &onbeat_frer::spec::Member = member;
        let skew = |share| measured.skew_ns(place, share);
        PathStatus {
            port: node.setup.port(member.port).name.clone(),
            input_packets: counted.input,
            lost_packets: sent.saturating_sub(counted.input),
            first: measured.members[place].first.into(),
            skew_ns: (skew(0.5).zip(skew(0.99)).zip(measured.greatest_skew_ns(place)))
                .map(|((p50, p99), max)| Skew { p50, p99, max }),
        }
    };
    Ok(Some(StreamPaths {
        stream: stream.name.clone(),
        measured: measured.firsts(),
        samples: measured.samples(),
        paths: members.map(path).collect(),
        history_length: match recover.algorithm {
            Algorithm::Vector { history_length } => Some(history_length),
            Algorithm::Match => None,
        },
        history_length_auto: recover.adaptive.history_length,
        history_length_needed: measured.history_length(),
        reset_timeout_ms: recover.reset_timeout_ms,
        reset_timeout_auto: recover.adaptive.reset_timeout,
        reset_timeout_ms_needed: measured.reset_timeout_ms(),
        longest_gap_ns: measured.gap_ns,
    }))
}
