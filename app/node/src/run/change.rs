//! Addition, change and removal of single streams without the file. The next reload of the file, or the next start,
//! restores the streams of the file.

use std::collections::BTreeSet;

use onbeat_frer::dataplane::Changes;
use onbeat_frer::spec::Stream;

use super::assembly::{Node, log_warnings, sweep_interval};
use super::attach::EgressPorts;
use super::error::{Error, Result};
use super::events::EventSubject;
use super::setup::names;
use crate::config::{Addition, NodeConfig, StreamOperation};
use crate::control::EventDetail;

impl Node {
    /// Adds or changes the streams of `[[stream]]` tables: all of them, or none. Faults name the text `file`.
    ///
    /// # Errors
    /// A fault of the text, a conflict with remaining streams, no room in the data plane.
    pub(super) fn put_streams(
        &mut self,
        how: StreamOperation,
        text: &str,
        file: &str,
    ) -> Result<EventDetail> {
        let setup = &self.setup;
        let room = (setup.streams.len(), setup.node.max_streams);
        let mut addition = Addition::parse(text, file, how, &setup.ports, room)?;
        self.keep_adapted(&mut addition.streams);
        for Stream { name, .. } in &addition.streams {
            self.refuse_wildcard(name)?;
        }
        let warnings = addition.check(&setup.ports, |port| self.devices.mtu(port))?;
        let counted = self.read_shares(addition.streams.iter().map(|stream| &*stream.name))?;
        let setup = &mut self.setup;
        let before = addition.enter(&mut setup.streams, &setup.ports)?;
        let changed = self.plane.change(&names(&setup.ports), &[], &addition.streams);
        let changes = match changed {
            Ok(changes) => changes,
            Err(error) => {
                self.setup.streams.revert(before);
                return Err(error);
            }
        };
        addition.mark_draining(&mut self.setup.streams);
        self.keep_counters(counted);
        log_warnings(&warnings);
        for stream in &addition.streams {
            self.watcher.set(stream, self.setup.streams.draining(&stream.name));
            let sweep = [self.sweep, sweep_interval(stream)];
            self.sweep = sweep.into_iter().flatten().min();
        }
        let what =
            self.changed(addition.streams.iter().map(|stream| stream.name.as_str()), changes);
        // Frames may be forwarded to ports that cannot transmit them in this mode.
        if self.setup.connect(&addition.streams) {
            let layout = self.setup.layout();
            // The streams are added, independent of the drivers.
            self.report_frame_loss(&layout, EgressPorts::All)
                .unwrap_or_else(|error| tracing::error!("{error}"));
        }
        Ok(what)
    }

    /// Removes streams: all of them, or none.
    ///
    /// # Errors
    /// A stream does not exist; the data plane refuses.
    pub(super) fn remove_streams(&mut self, gone: &[String]) -> Result<EventDetail> {
        for name in gone {
            self.refuse_wildcard(name)?;
        }
        if let Some(stream) = gone.iter().find(|name| self.setup.streams.get(name).is_none()) {
            return Err(Error::NoStream { stream: stream.clone() });
        }
        let gone: BTreeSet<&str> = gone.iter().map(String::as_str).collect();
        let gone: Vec<&str> = gone.into_iter().collect();
        let counted = self.read_shares(gone.iter().copied())?;
        let changes = self.plane.change(&names(&self.setup.ports), &gone, &[])?;
        for name in &gone {
            self.setup.streams.remove(name);
            self.watcher.remove(name);
        }
        self.keep_counters(counted);
        Ok(self.changed(gone.into_iter(), changes))
    }

    /// Refuses a change while another system manages the node.
    pub(super) fn refuse_if_managed(&self) -> Result<()> {
        let NodeConfig { name, managed_by, .. } = &self.setup.node;
        match managed_by.clone() {
            Some(manager) => Err(Error::Managed { node: name.clone(), manager }),
            None => Ok(()),
        }
    }

    /// Refuses the name of a wildcard, which only the file changes.
    fn refuse_wildcard(&self, name: &str) -> Result<()> {
        if self.setup.wildcards.iter().any(|wildcard| wildcard.name == name) {
            return Err(Error::Wildcard { name: name.to_owned() });
        }
        Ok(())
    }

    /// Records the event of a change, with the stream if it is only one.
    fn changed<'a>(
        &mut self,
        mut names: impl ExactSizeIterator<Item = &'a str>,
        changes: Changes,
    ) -> EventDetail {
        let Changes { added, changed, removed, .. } = changes;
        self.setup.changed = true;
        let stream = if names.len() == 1 { names.next() } else { None };
        let subject = EventSubject { stream, ..EventSubject::default() };
        let what = EventDetail::Streams { added, changed, removed };
        self.events.record(&subject, what.clone());
        what
    }
}
