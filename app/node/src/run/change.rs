//! Addition, change and removal of single streams without the file. The next reload of the file, or the next start,
//! restores the streams of the file.

use std::collections::{BTreeSet, HashSet};

use onbeat_frer::dataplane::Changes;
use onbeat_frer::spec::Stream;
use onbeat_host::trust;
use onbeat_yang::{StreamHandles, handles};

use super::assembly::{Node, log_warnings, sweep_interval};
use super::attach::EgressPorts;
use super::error::{Error, Result};
use super::events::EventSubject;
use super::setup::{Setup, names};
use crate::config::{
    Addition, Config, LONGEST, NodeConfig, StreamOperation, configuration_text, sha256, stored_text,
};
use crate::control::{EventDetail, Request};
use crate::netconf;

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
        addition.note(&mut self.setup.streams);
        self.keep_counters(counted);
        log_warnings(&warnings);
        let what =
            self.changed(addition.streams.iter().map(|stream| stream.name.as_str()), changes);
        self.watch(&addition.streams);
        Ok(what)
    }

    /// Monitors new and changed streams.
    fn watch(&mut self, streams: &[Stream]) {
        for stream in streams {
            self.watcher.set(stream, self.setup.streams.draining(&stream.name));
            let sweep = [self.sweep, sweep_interval(stream)];
            self.sweep = sweep.into_iter().flatten().min();
        }
        // Frames may be forwarded to ports that cannot transmit them in this mode.
        if self.setup.connect(streams) {
            let layout = self.setup.layout();
            // The streams are added, independent of the drivers.
            self.report_frame_loss(&layout, EgressPorts::All)
                .unwrap_or_else(|error| tracing::error!("{error}"));
        }
    }

    /// Removes streams, and adds or changes those of `[[stream]]` tables: all of them, or none. With `store`, they are
    /// in the file of stored streams afterwards.
    ///
    /// # Errors
    /// Those of [`Node::put_streams`], [`Node::remove_streams`] and [`Node::store_streams`].
    pub(super) fn set_streams(
        &mut self,
        gone: &[String],
        (text, file): (&str, &str),
        store: bool,
    ) -> Result<EventDetail> {
        self.check_removable(gone)?;
        let setup = &self.setup;
        let room = (0, setup.node.max_streams);
        let read = || Addition::parse(text, file, StreamOperation::Set, &setup.ports, room);
        let mut addition = (!text.is_empty()).then(read).transpose()?;
        let new = addition.as_mut().map_or(&mut [][..], |addition| &mut addition.streams);
        self.keep_adapted(new);
        new.iter().try_for_each(|stream| self.refuse_wildcard(&stream.name))?;
        let mtu = |port: &_| self.devices.mtu(port);
        let warnings = addition.as_ref().map(|new| new.check(&setup.ports, mtu)).transpose()?;
        let (new, gone) = (addition.as_ref().map_or(&[][..], |new| &new.streams), unique(gone));
        let names_of_new = new.iter().map(|stream| stream.name.as_str());
        let subjects: Vec<&str> = gone.iter().copied().chain(names_of_new).collect();
        let counted = self.read_shares(subjects.iter().copied())?;

        let before = self.setup.streams.clone();
        let changed = self.exchange(&gone, addition.as_ref(), store);
        let changes = changed.inspect_err(|_| self.setup.streams = before)?;
        self.keep_counters(counted);
        warnings.iter().for_each(log_warnings);
        gone.iter().for_each(|name| self.watcher.remove(name));
        let what = self.changed(subjects.into_iter(), changes);
        self.watch(new);
        Ok(what)
    }

    fn exchange(
        &mut self,
        gone: &[&str],
        addition: Option<&Addition>,
        store: bool,
    ) -> Result<Changes> {
        let Setup { streams, ports, node, .. } = &mut self.setup;
        gone.iter().for_each(|name| _ = streams.remove(name));
        if let Some(addition) = addition {
            addition.enter(streams, ports)?;
            addition.note(streams);
        }
        let (present, room) = (streams.len(), node.max_streams);
        if present > room as usize {
            return Err(Error::NoRoom { present, room });
        }
        // The file first: it can be restored without a trace.
        let former = store.then(|| self.store_streams()).transpose()?;
        let new = addition.map_or(&[][..], |addition| &addition.streams);
        let changed = self.plane.change(&names(&self.setup.ports), gone, new);
        if let (Err(_), Some(former)) = (&changed, former) {
            self.setup.node.store_text(former.as_deref())?;
        }
        changed
    }

    /// Writes the running streams that are not of the node's file to the file of stored streams; returns its former
    /// text.
    ///
    /// # Errors
    /// Streams of the node's file run otherwise, or exclude the others; the file cannot be written.
    pub(super) fn store_streams(&self) -> Result<Option<String>> {
        let Setup { streams, ports, node, .. } = &self.setup;
        let file = || self.file.display().to_string();
        let mut of_file = Config::load_managed(&self.file)?;
        self.keep_adapted(&mut of_file.streams);
        for stream in &of_file.streams {
            let how = match streams.get(&stream.name) {
                Some(running) if running == stream => continue,
                Some(_) => "differs in",
                None => "is only in",
            };
            let stream = stream.name.clone();
            return Err(Error::OfFile { stream, how, file: file() });
        }
        let known: HashSet<&str> = of_file.streams.iter().map(|stream| &*stream.name).collect();
        let own: Vec<_> = handles(streams.iter(), streams.kept_handles()).collect();
        let others = streams.iter().zip(&own).filter(|(stream, _)| !known.contains(&*stream.name));
        let with_keys = others.map(|(stream, own): (&Stream, &StreamHandles)| {
            (stream, (streams.draining(&stream.name), Some(own)))
        });
        let text = stored_text(ports, with_keys);
        if let Some(text) = &text {
            of_file.add_stored(text)?;
        }
        let former = node.stored_text()?;
        node.store_text(text.as_deref())?;
        Ok(former)
    }

    /// The configuration after a restart: of the file and the stored streams.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(super) fn stored(&self) -> Result<Config> {
        let mut config = Config::load_with_stored(&self.file)?;
        self.keep_adapted(&mut config.streams);
        Ok(config)
    }

    /// Replaces the streams of the node's file by those of a text that differs from it in nothing else. After a crash, the
    /// node has the former streams or these.
    ///
    /// # Errors
    /// The node is not managed; the text differs in more than streams; those of [`Node::reload`].
    pub(super) fn replace_file(&mut self, text: &str) -> Result<()> {
        let node = self.setup.node.clone();
        if node.managed_by.is_none() {
            return Err(Error::NotManaged { node: node.name });
        }
        let longest = longest_text(node.max_streams);
        if text.len() as u64 > longest {
            return Err(Error::LongText { octets: text.len(), longest });
        }
        let file = trust::load(&self.file, Config::load)?;
        // Of its changes an administrator decides when they take effect.
        if file.sha256 != self.setup.sha256_of_file {
            return Err(Error::FileChanged { file: self.file.clone(), node: node.name });
        }
        let mut new = file.with_streams_of(text)?;
        new.load_stored()?;
        let former = node.managed_text()?;
        node.set_managed_text(Some(text))?;
        let changed = self.change_configuration(new);
        if changed.is_err()
            && let Err(error) = node.set_managed_text(former.as_deref())
        {
            tracing::error!(
                "{error}; the next start reads a text that was refused: remove that file"
            );
        }
        changed
    }

    /// Removes streams: all of them, or none.
    ///
    /// # Errors
    /// A stream does not exist; the data plane refuses.
    pub(super) fn remove_streams(&mut self, gone: &[String]) -> Result<EventDetail> {
        self.check_removable(gone)?;
        let gone = unique(gone);
        let counted = self.read_shares(gone.iter().copied())?;
        let changes = self.plane.change(&names(&self.setup.ports), &gone, &[])?;
        for name in &gone {
            self.setup.streams.remove(name);
            self.watcher.remove(name);
        }
        self.keep_counters(counted);
        Ok(self.changed(gone.into_iter(), changes))
    }

    fn check_removable(&self, gone: &[String]) -> Result<()> {
        for name in gone {
            self.refuse_wildcard(name)?;
        }
        match gone.iter().find(|name| self.setup.streams.get(name).is_none()) {
            Some(stream) => Err(Error::NoStream { stream: stream.clone() }),
            None => Ok(()),
        }
    }

    /// Refuses a change while another system manages the node.
    pub(super) fn refuse_if_managed(&self) -> Result<()> {
        let NodeConfig { name, managed_by, .. } = &self.setup.node;
        match managed_by.clone() {
            Some(manager) => Err(Error::Managed { node: name.clone(), manager }),
            None => Ok(()),
        }
    }

    /// Refuses a change of a configuration that a NETCONF session has locked (RFC 6241, 7.5).
    pub(super) fn refuse_if_locked(&self, request: &Request) -> Result<()> {
        let NodeConfig { name, control, .. } = &self.setup.node;
        for &datastore in request.changed_datastores() {
            if let Some(holder) = netconf::lock_holder(control, name, datastore)? {
                return Err(Error::Locked { node: name.clone(), datastore, holder });
            }
        }
        Ok(())
    }

    /// Refuses a change of a configuration that is not, or no longer, the running one.
    pub(super) fn refuse_if_changed(&self, base: Option<&str>) -> Result<()> {
        match base {
            Some(base) if base != sha256(&self.configuration_text()) => {
                Err(Error::Changed { node: self.setup.node.name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Ports and streams as they run, as text of a file.
    pub(super) fn configuration_text(&self) -> String {
        let Setup { node, ports, streams, .. } = &self.setup;
        configuration_text(node, ports, streams.iter(), |name| streams.keys(name))
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

/// Longest text of managers, in octets. Parsing takes up to 80 times its length of memory.
pub(super) fn longest_text(max_streams: u32) -> u64 {
    const HEAD: u64 = 64 << 10;
    const OF_STREAM: u64 = 1 << 10;
    LONGEST.min(HEAD + OF_STREAM * u64::from(max_streams))
}

/// Names, each once.
fn unique(names: &[String]) -> Vec<&str> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    names.into_iter().collect()
}
