//! Session state of a stateful reflector (RFC 8762 4.3): the number of packets of each session.

use std::hash::Hash;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Idle time after which a session has ended, and restarts, in nanoseconds (RFC 5357 4.1.1: REFWAIT).
const SILENT_NS: i64 = 900_000_000_000;

/// Sessions by sender, `K`, in bounded memory.
#[derive(Debug, Clone)]
pub struct Sessions<K> {
    sessions: HashMap<K, Session>,
    room: usize,
    started: u64,
    evicted: u64,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    next: u32,
    last_ns: i64,
}

impl<K: Hash + Eq + Copy> Sessions<K> {
    /// Creates a table of at most `room` sessions, and at least one.
    pub fn new(room: usize) -> Self {
        Sessions { sessions: HashMap::new(), room: room.max(1), started: 0, evicted: 0 }
    }

    /// Returns the number of a packet of this session that arrived at `now_ns`: 0 for the first. If the table is
    /// full, a new session evicts the one that was idle longest.
    pub fn number(&mut self, key: K, now_ns: i64) -> u32 {
        if self.sessions.len() >= self.room && !self.sessions.contains_key(&key) {
            let silent = self.sessions.iter().min_by_key(|(_, session)| session.last_ns);
            if let Some(key) = silent.map(|(key, _)| *key) {
                self.sessions.remove(&key);
                self.evicted += 1;
            }
        }
        let session = match self.sessions.entry(key) {
            Entry::Occupied(known) if now_ns.saturating_sub(known.get().last_ns) <= SILENT_NS => {
                known.into_mut()
            }
            entry => {
                self.started += 1;
                entry.insert(Session { next: 0, last_ns: now_ns }).into_mut()
            }
        };
        let number = session.next;
        session.next = number.wrapping_add(1);
        session.last_ns = now_ns;
        number
    }

    /// Sessions started.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Sessions evicted for lack of room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_its_own_numbers_and_restarts_after_idling() {
        let mut sessions = Sessions::new(4);
        assert_eq!([1, 1, 2, 1].map(|key| sessions.number(key, 0)), [0, 1, 0, 2]);
        assert_eq!(sessions.number(1, SILENT_NS), 3);
        assert_eq!(sessions.number(2, SILENT_NS + 1), 0, "it had expired");
        assert_eq!((sessions.started(), sessions.evicted()), (3, 0));
    }

    #[test]
    fn a_full_table_evicts_the_longest_idle_session() {
        let mut sessions = Sessions::new(2);
        assert_eq!(
            [(1, 10), (2, 20), (1, 30)].map(|(key, at)| sessions.number(key, at)),
            [0, 0, 1]
        );
        // The second was idle longest.
        assert_eq!(
            [(3, 40), (1, 50), (2, 60)].map(|(key, at)| sessions.number(key, at)),
            [0, 2, 0]
        );
        assert_eq!((sessions.sessions.len(), sessions.evicted()), (2, 2));
    }
}
