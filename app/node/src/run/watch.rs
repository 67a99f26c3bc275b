//! Polls streams in turn, and reports their events.
//!
//! Each stream is polled once per interval. The time of one step is bounded: the data plane is read for a few
//! streams at a time, with a pause after each step, so that clients of the control socket are not delayed. With more
//! streams than fit in the interval, the interval becomes longer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use onbeat_frer::dataplane::DataPlane;
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{Recovery, Stream};
use onbeat_frer::watch::{Cause, Condition, StreamMonitor};

use super::adapt::FollowedPaths;
use super::error::{Error, Result};
use super::events::{EventSubject, Events};
use super::latent::LatentErrorMonitor;
use super::setup::Setup;
use crate::config::{EventsConfig, PortConfig, StreamSet};
use crate::control::{EventDetail, StreamTrouble};

/// Number of streams polled in one step.
const SLICE: usize = 128;

/// Pause after each step: at most 12,800 streams/s.
const PAUSE_NS: u64 = 10_000_000;

/// Time for which a stream without trouble is still listed: the counters of a trouble that ended are read several times.
const LISTED_NS: u64 = 3_600_000_000_000;

/// Monitor of a node's streams.
#[derive(Debug)]
pub(super) struct Watcher {
    config: EventsConfig,
    streams: HashMap<Rc<str>, WatchedStream>,
    /// Deadlines of streams; each of `streams` once.
    due: BTreeSet<(u64, Rc<str>)>,
    pause_until_ns: u64,
    /// Streams whose recovery follows other paths than before.
    adapted: Vec<(Rc<str>, Recovery)>,
    /// Streams that are or were in trouble lately.
    troubled: BTreeMap<Rc<str>, TroubledStream>,
}

#[derive(Debug)]
struct TroubledStream {
    /// Present troubles.
    kinds: Vec<StreamTrouble>,
    since_ns: u64,
    last_ns: u64,
}

#[derive(Debug, Default)]
struct WatchedStream {
    due_ns: u64,
    /// `None` before the first poll.
    watch: Option<StreamMonitor>,
    latent: Option<LatentErrorMonitor>,
    /// Members whose paths are being removed.
    draining: Box<[usize]>,
    /// If parameters follow the paths.
    paths: Option<FollowedPaths>,
}

impl Watcher {
    pub(super) fn new(config: EventsConfig) -> Self {
        Self {
            config,
            streams: HashMap::new(),
            due: BTreeSet::new(),
            pause_until_ns: 0,
            adapted: Vec::new(),
            troubled: BTreeMap::new(),
        }
    }

    /// Monitors these streams from now on. Unchanged streams keep their state.
    pub(super) fn update(&mut self, config: EventsConfig, before: &StreamSet, now: &StreamSet) {
        self.config = config;
        let stays = |name: &str| {
            now.get(name).is_some_and(|stream| before.get(name) == Some(stream))
                && before.draining(name) == now.draining(name)
        };
        let gone: Vec<_> =
            self.streams.keys().filter(|name| now.get(name).is_none()).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        let new: Vec<_> = now.iter().filter(|stream| !stays(&stream.name)).collect();
        new.into_iter().for_each(|stream| self.set(stream, now.draining(&stream.name)));
    }

    /// Monitors a new or changed stream. Members that are `draining` lose no paths.
    pub(super) fn set(&mut self, stream: &Stream, draining: &[usize]) {
        let (latent, paths) = match self.take(&stream.name) {
            Some(before) => (before.latent, before.paths),
            None => (None, None),
        };
        if !StreamMonitor::is_needed(stream) {
            return;
        }
        let latent = stream.recover.and_then(|recover| recover.latent).map(|config| {
            latent
                .filter(|before| before.config == config)
                .unwrap_or(LatentErrorMonitor::new(config))
        });
        let follows = stream.recover.is_some_and(|recover| recover.adaptive.any());
        let paths = follows.then(|| paths.unwrap_or_default());
        let name: Rc<str> = stream.name.as_str().into();
        // Its first poll, which starts the monitoring, is the next.
        self.due.insert((0, Rc::clone(&name)));
        self.streams.insert(
            name,
            WatchedStream { latent, paths, draining: draining.into(), ..WatchedStream::default() },
        );
    }

    /// Sets the reset timeouts that events of a stream report.
    pub(super) fn set_timeouts(&mut self, stream: &Stream) {
        if let Some(watched) = self.streams.get_mut(stream.name.as_str()) {
            watched.watch = watched.watch.take().map(|watch| watch.with_timeouts(stream));
        }
    }

    /// Takes the streams whose recovery follows other paths than before.
    pub(super) fn take_adapted(&mut self) -> Vec<(Rc<str>, Recovery)> {
        std::mem::take(&mut self.adapted)
    }

    /// Notes that the data plane refused other parameters of a stream.
    pub(super) fn refuse_adapted(&mut self, stream: &str, now_ns: u64) {
        let watched = self.streams.get_mut(stream);
        watched
            .and_then(|watched| watched.paths.as_mut())
            .into_iter()
            .for_each(|paths| paths.refuse(now_ns));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.take(name);
    }

    fn take(&mut self, name: &str) -> Option<WatchedStream> {
        let (name, watched) = self.streams.remove_entry(name)?;
        self.troubled.remove(&name);
        self.due.remove(&(watched.due_ns, name));
        Some(watched)
    }

    /// Notes the present troubles of a stream.
    fn note(&mut self, now_ns: u64, name: &Rc<str>, kinds: Vec<StreamTrouble>) {
        if kinds.is_empty() {
            if let Some(troubled) = self.troubled.get_mut(name) {
                troubled.kinds = kinds;
                if now_ns.saturating_sub(troubled.last_ns) > LISTED_NS {
                    self.troubled.remove(name);
                }
            }
            return;
        }
        let start = || TroubledStream { kinds: Vec::new(), since_ns: now_ns, last_ns: now_ns };
        let troubled = self.troubled.entry(Rc::clone(name)).or_insert_with(start);
        (troubled.kinds, troubled.last_ns) = (kinds, now_ns);
    }

    /// Present troubles of a stream.
    pub(super) fn troubles(&self, stream: &str) -> &[StreamTrouble] {
        self.troubled.get(stream).map_or(&[], |troubled| &troubled.kinds)
    }

    /// Present troubles of all streams, each kind of a stream once.
    pub(super) fn all_troubles(&self) -> impl Iterator<Item = StreamTrouble> {
        self.troubled.values().flat_map(|troubled| troubled.kinds.iter().copied())
    }

    /// Streams that are or were in trouble lately: first those that are, each group from the longest on.
    pub(super) fn lately_troubled(&self) -> Vec<&str> {
        let mut streams: Vec<_> = self.troubled.iter().collect();
        streams.sort_by_key(|(_, troubled)| (troubled.kinds.is_empty(), troubled.since_ns));
        streams.into_iter().map(|(name, _)| &**name).collect()
    }

    /// A stream's latent error detection.
    pub(super) fn latent(&self, stream: &str) -> Option<&LatentErrorMonitor> {
        self.streams.get(stream)?.latent.as_ref()
    }

    /// Whether a member of a stream is lost.
    pub(super) fn is_lost(&self, stream: &str, member: usize) -> bool {
        let watch = self.streams.get(stream).and_then(|watched| watched.watch.as_ref());
        watch.is_some_and(|watch| watch.is_lost(member))
    }

    /// When to poll next, by CLOCK_MONOTONIC.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        Some(self.due.first()?.0.max(self.pause_until_ns))
    }

    /// Polls the streams that are due.
    pub(super) fn poll(
        &mut self,
        now_ns: u64,
        plane: &dyn DataPlane<Error>,
        setup: &Setup,
        events: &mut Events,
    ) -> Result<()> {
        if self.next_deadline_ns().is_none_or(|due| due > now_ns) {
            return Ok(());
        }
        self.pause_until_ns = now_ns + PAUSE_NS;
        let mut names: Vec<Rc<str>> = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now_ns && names.len() < SLICE) {
            names.extend(self.due.pop_first().map(|(_, name)| name));
        }
        let (readings, mut read) = match plane.read_streams(&names) {
            Ok(readings) => (readings, Ok(())),
            Err(error) => (vec![None; names.len()], Err(error)),
        };
        let interval_ns = self.config.interval.as_nanos() as u64;
        for (name, reading) in names.into_iter().zip(readings) {
            let Some(watched) = self.streams.get_mut(&name) else { continue };
            watched.due_ns = now_ns + interval_ns;
            let mut kinds = Vec::new();
            if let (Some(reading), Some(stream)) = (reading, setup.streams.get(&name)) {
                let mut reporter = StreamReporter { events, ports: &setup.ports, stream };
                watched.poll(&self.config, now_ns, &reading, Cause::TimeOut, &mut reporter);
                match watched.follow_paths(now_ns, stream, &reading, plane) {
                    Ok(next) => self.adapted.extend(next.map(|next| (Rc::clone(&name), next))),
                    Err(error) => read = Err(error),
                }
                kinds = watched.troubles();
            }
            let latent = watched.latent.as_ref().and_then(LatentErrorMonitor::next_deadline_ns);
            watched.due_ns = latent.map_or(watched.due_ns, |due| due.min(watched.due_ns));
            self.due.insert((watched.due_ns, Rc::clone(&name)));
            self.note(now_ns, &name, kinds);
        }
        read
    }

    /// Reports the reset of a stream on request, from its counters `before` and `after`.
    pub(super) fn reset(
        &mut self,
        now_ns: u64,
        [before, after]: [&StreamReading; 2],
        reporter: &mut StreamReporter<'_>,
    ) {
        // Generators reset only on request, so a stream with only a generator is not monitored.
        let mut other = WatchedStream::default();
        let watched = self.streams.get_mut(reporter.stream.name.as_str()).unwrap_or(&mut other);
        watched.poll(&self.config, now_ns, before, Cause::TimeOut, reporter);
        watched.poll(&self.config, now_ns, after, Cause::Request, reporter);
    }
}

impl WatchedStream {
    /// Its present troubles. Without one, no memory is allocated.
    fn troubles(&self) -> Vec<StreamTrouble> {
        let of_monitor = [
            (Condition::PathLost, StreamTrouble::PathLost),
            (Condition::RogueFlood, StreamTrouble::RogueFlood),
            (Condition::AllRogue, StreamTrouble::AllRogue),
            (Condition::StuckTransmitter, StreamTrouble::StuckTransmitter),
        ];
        let is_in = |condition| self.watch.as_ref().is_some_and(|watch| watch.is_in(condition));
        let present = of_monitor.into_iter().filter(|(condition, _)| is_in(*condition));
        let latent = self.latent.as_ref().is_some_and(LatentErrorMonitor::is_active);
        present.map(|(_, kind)| kind).chain(latent.then_some(StreamTrouble::LatentError)).collect()
    }

    /// Returns other parameters of recovery than at present, if these follow from the paths.
    fn follow_paths(
        &mut self,
        now_ns: u64,
        stream: &Stream,
        reading: &StreamReading,
        plane: &dyn DataPlane<Error>,
    ) -> Result<Option<Recovery>> {
        let Some(followed) = self.paths.as_mut().filter(|paths| paths.is_due(now_ns)) else {
            return Ok(None);
        };
        let (Some(recover), Some(recovery)) = (&stream.recover, &reading.recovery) else {
            return Ok(None);
        };
        let paths = plane.read_paths(&stream.name)?;
        Ok(paths.and_then(|paths| followed.poll(now_ns, recover, &recovery.counters, &paths)))
    }

    fn poll(
        &mut self,
        config: &EventsConfig,
        now_ns: u64,
        reading: &StreamReading,
        cause: Cause,
        reporter: &mut StreamReporter<'_>,
    ) {
        let start = || StreamMonitor::new(reading).with_timeouts(reporter.stream);
        let watch = self.watch.get_or_insert_with(start);
        watch.set_draining(&self.draining);
        watch.update(&config.rules, now_ns, reading, cause, |event| {
            reporter.report(event.member, EventDetail::Watch(event.kind));
        });
        if let (Some(latent), Some(recovery)) = (&mut self.latent, &reading.recovery) {
            let what = latent.poll(now_ns, &recovery.counters);
            what.into_iter().for_each(|what| reporter.report(None, what));
        }
    }
}

/// Reports events of a stream.
pub(super) struct StreamReporter<'a> {
    pub(super) events: &'a mut Events,
    pub(super) ports: &'a [PortConfig],
    pub(super) stream: &'a Stream,
}

impl StreamReporter<'_> {
    fn report(&mut self, member: Option<usize>, what: EventDetail) {
        let port = member.and_then(|member| {
            let port = self.stream.members.get(member)?.port;
            Some(self.ports.get(usize::from(port.0))?.name.as_str())
        });
        self.events.record(&EventSubject { stream: Some(&self.stream.name), port, member }, what);
    }
}
