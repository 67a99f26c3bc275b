//! Streams of a running node: by name, in order, with the owner of each frame.

use std::collections::{BTreeMap, HashMap};

use onbeat_frer::identify::{MemberRef, Table};
use onbeat_frer::spec::{Recovery, Stream};
use onbeat_yang::{KeptHandles, StreamHandles};

use super::StreamKeys;

/// The members that own frames, by port. One lookup finds a conflict, independent of their number.
#[derive(Debug, Clone, Default)]
pub(super) struct FrameOwners(Vec<Table>);

impl FrameOwners {
    /// Assigns frames to a member of the stream at `place`.
    ///
    /// # Errors
    /// The member that owns them already; nothing is changed then.
    pub(super) fn insert(
        &mut self,
        stream: &Stream,
        place: usize,
        member: usize,
    ) -> Result<(), MemberRef> {
        let parameters = &stream.members[member];
        let port = usize::from(parameters.port.0);
        if self.0.len() <= port {
            self.0.resize_with(port + 1, Table::default);
        }
        self.0[port].insert(&parameters.identification, MemberRef { stream: place, member })
    }

    /// Releases the frames of a stream's first `members`.
    fn remove(&mut self, stream: &Stream, members: usize) {
        for member in &stream.members[..members] {
            self.0[usize::from(member.port.0)].remove(&member.identification);
        }
    }
}

/// Keys of streams that the data plane does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamNotes {
    /// Members of streams whose paths are being removed, by name of the stream.
    pub(super) draining: HashMap<String, Vec<usize>>,
    /// Handles of streams that keep theirs.
    pub(super) handles: KeptHandles,
    /// The streams of these handles.
    owners: HashMap<u32, String>,
}

impl StreamNotes {
    /// Sets the notes of a stream. Without handles it keeps those before.
    pub(super) fn set(&mut self, name: &str, draining: &[usize], handles: Option<&StreamHandles>) {
        match draining {
            [] => self.draining.remove(name),
            _ => self.draining.insert(name.to_owned(), draining.to_vec()),
        };
        if let Some(handles) = handles {
            self.release(name);
            self.owners.extend(handles.iter().map(|handle| (handle, name.to_owned())));
            self.handles.insert(name.to_owned(), handles.clone());
        }
    }

    fn remove(&mut self, name: &str) {
        self.draining.remove(name);
        self.release(name);
    }

    fn release(&mut self, name: &str) {
        for handle in self.handles.remove(name).iter().flat_map(StreamHandles::iter) {
            // Another stream of the same change may have it by now.
            if self.owners.get(&handle).is_some_and(|owner| owner == name) {
                self.owners.remove(&handle);
            }
        }
    }

    /// The stream that keeps a handle.
    pub(super) fn owner(&self, handle: u32) -> Option<&str> {
        self.owners.get(&handle).map(String::as_str)
    }
}

/// Streams with unique names and disjoint frames.
#[derive(Debug, Clone, Default)]
pub struct StreamSet {
    /// In order. A changed stream keeps its place, a new one is last.
    streams: BTreeMap<u32, Stream>,
    places: HashMap<String, u32>,
    taken: FrameOwners,
    notes: StreamNotes,
}

/// Streams before a replacement, by name; `None` for new streams.
pub type ReplacedStreams = Vec<(String, Option<Stream>)>;

/// A member whose frames belong to another stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Index of the new stream.
    pub(super) stream: usize,
    pub(super) member: usize,
    /// The stream that owns the frames.
    pub(super) other: String,
}

impl StreamSet {
    /// Streams with disjoint frames; `taken` holds their owners by number.
    pub(super) fn new(streams: Vec<Stream>, taken: FrameOwners, notes: StreamNotes) -> Self {
        let numbered = || (0u32..).zip(&streams);
        let places = numbered().map(|(place, stream)| (stream.name.clone(), place)).collect();
        Self { places, taken, notes, streams: (0..).zip(streams).collect() }
    }

    /// The streams in order, the owners of frames and the notes.
    pub(super) fn into_parts(self) -> (Vec<Stream>, FrameOwners, StreamNotes) {
        (self.streams.into_values().collect(), self.taken, self.notes)
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// All streams, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Stream> + Clone {
        self.streams.values()
    }

    /// A stream by its name.
    pub fn get(&self, name: &str) -> Option<&Stream> {
        self.streams.get(self.places.get(name)?)
    }

    /// The members of a stream whose paths are being removed.
    pub fn draining(&self, name: &str) -> &[usize] {
        self.notes.draining.get(name).map_or(&[], Vec::as_slice)
    }

    /// The keys of a stream that the data plane does not have.
    pub fn keys(&self, name: &str) -> StreamKeys<'_> {
        (self.draining(name), self.notes.handles.get(name))
    }

    /// The handles that streams keep.
    pub fn kept_handles(&self) -> &KeptHandles {
        &self.notes.handles
    }

    pub(super) fn notes(&self) -> &StreamNotes {
        &self.notes
    }

    /// Sets the notes of a stream.
    pub(super) fn set_notes(
        &mut self,
        name: &str,
        draining: &[usize],
        handles: Option<&StreamHandles>,
    ) {
        self.notes.set(name, draining, handles);
    }

    /// Sets the parameters of a stream's sequence recovery.
    pub fn set_recovery(&mut self, name: &str, recovery: Recovery) {
        let stream = self.places.get(name).and_then(|place| self.streams.get_mut(place));
        if let Some(stream) = stream {
            stream.recover = Some(recovery);
        }
    }

    /// Removes a stream.
    pub fn remove(&mut self, name: &str) -> Option<Stream> {
        let stream = self.streams.remove(&self.places.remove(name)?)?;
        self.taken.remove(&stream, stream.members.len());
        self.notes.remove(name);
        Some(stream)
    }

    /// Replaces the streams with the same names, and adds new ones. Frames released by one stream can be
    /// assigned to another. Each name occurs once.
    ///
    /// # Errors
    /// A conflict with a remaining stream; nothing is changed then.
    pub(super) fn exchange(&mut self, new: &[Stream]) -> Result<ReplacedStreams, Conflict> {
        let mut next = self.streams.last_key_value().map_or(0, |(last, _)| last + 1);
        let place = |stream: &Stream| {
            self.places.get(&stream.name).copied().unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        };
        let places: Vec<u32> = new.iter().map(place).collect();
        for before in places.iter().filter_map(|place| self.streams.get(place)) {
            self.taken.remove(before, before.members.len());
        }
        self.take(new, &places)?;
        let put = |(stream, place): (&Stream, u32)| {
            self.places.insert(stream.name.clone(), place);
            (stream.name.clone(), self.streams.insert(place, stream.clone()))
        };
        Ok(new.iter().zip(places).map(put).collect())
    }

    /// Assigns the frames of streams at these places, after the previous streams released theirs.
    fn take(&mut self, new: &[Stream], places: &[u32]) -> Result<(), Conflict> {
        for (number, (stream, &place)) in new.iter().zip(places).enumerate() {
            for member in 0..stream.members.len() {
                let Err(at) = self.taken.insert(stream, place as usize, member) else { continue };
                self.taken.remove(stream, member);
                new[..number].iter().for_each(|new| self.taken.remove(new, new.members.len()));
                for place in places {
                    let Some(before) = self.streams.get(place) else { continue };
                    for member in 0..before.members.len() {
                        let back = self.taken.insert(before, *place as usize, member);
                        debug_assert!(back.is_ok(), "it was there before");
                    }
                }
                let of_new = places.iter().position(|place| *place as usize == at.stream);
                let other = match of_new {
                    Some(number) => Some(&new[number]),
                    None => self.streams.get(&(at.stream as u32)),
                };
                let other = other.map_or_else(String::new, |other| other.name.clone());
                return Err(Conflict { stream: number, member, other });
            }
        }
        Ok(())
    }

    /// Undoes a replacement.
    pub fn revert(&mut self, before: ReplacedStreams) {
        let (mut streams, mut new) = (Vec::new(), Vec::new());
        for (name, before) in before {
            match before {
                Some(stream) => streams.push(stream),
                None => new.push(name),
            }
        }
        for name in new {
            self.remove(&name);
        }
        let back = self.exchange(&streams);
        debug_assert!(back.is_ok(), "they were there before");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Streams by their names, each with the last octet of its address.
    fn streams(named: &[(&str, u8)]) -> Vec<Stream> {
        let stream = |(name, octet): &(&str, u8)| {
            format!(
                "[[stream]]\nname = \"{name}\"\nmember = [{{ port = \"a\", identify = {{ type = \
                 \"null\", destination = \"01:00:5e:00:00:{octet:02x}\" }} }}]\n\
                 egress = [{{ port = \"b\" }}]\n"
            )
        };
        let text: String = named.iter().map(stream).collect();
        let ports =
            "port = [{ name = \"a\", interface = \"x\" }, { name = \"b\", interface = \"y\" }]";
        Config::parse(&format!("{ports}\n{text}"), "a.toml").unwrap().streams
    }

    fn set(named: &[(&str, u8)]) -> StreamSet {
        let mut set = StreamSet::default();
        set.exchange(&streams(named)).unwrap();
        set
    }

    fn names(set: &StreamSet) -> Vec<&str> {
        set.iter().map(|stream| stream.name.as_str()).collect()
    }

    #[test]
    fn a_changed_stream_keeps_its_place_and_a_new_one_is_last() {
        let mut set = set(&[("x", 1), ("y", 2), ("z", 3)]);
        set.exchange(&streams(&[("y", 7), ("w", 4)])).unwrap();
        assert_eq!(names(&set), ["x", "y", "z", "w"]);
        assert_eq!(set.get("y"), Some(&streams(&[("y", 7)])[0]));
        assert_eq!(set.remove("x").unwrap().name, "x");
        assert_eq!((set.remove("x"), set.get("x"), set.len()), (None, None, 3));
        // Released frames are free.
        set.exchange(&streams(&[("v", 1), ("u", 2)])).unwrap();
        assert_eq!(names(&set), ["y", "z", "w", "v", "u"]);
    }

    #[test]
    fn a_conflict_changes_nothing_and_names_both() {
        let mut set = set(&[("x", 1), ("y", 2)]);
        let error = set.exchange(&streams(&[("w", 4), ("v", 2)])).unwrap_err();
        assert_eq!(error, Conflict { stream: 1, member: 0, other: "y".into() });
        let error = set.exchange(&streams(&[("x", 5), ("w", 2)])).unwrap_err();
        assert_eq!(error, Conflict { stream: 1, member: 0, other: "y".into() });
        assert_eq!(names(&set), ["x", "y"]);
        // 4 and 5 are free, and 1 is not.
        assert!(set.exchange(&streams(&[("a", 4), ("b", 5)])).is_ok());
        assert!(set.exchange(&streams(&[("c", 1)])).is_err());
    }

    #[test]
    fn streams_swap_frames_and_the_replacement_can_be_undone() {
        let mut set = set(&[("x", 1), ("y", 2)]);
        let before = set.exchange(&streams(&[("x", 2), ("y", 1), ("z", 3)])).unwrap();
        assert_eq!(names(&set), ["x", "y", "z"]);
        set.revert(before);
        assert_eq!(names(&set), ["x", "y"]);
        assert!(set.exchange(&streams(&[("w", 1)])).is_err());
        assert_eq!(set.exchange(&streams(&[("w", 3)])), Ok(vec![("w".into(), None)]));
    }
}
