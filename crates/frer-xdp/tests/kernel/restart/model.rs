//! What a stream's reading must be after frames and reloads.

use std::collections::BTreeMap;

use onbeat_frer::recover::{Recover, Role};
use onbeat_frer::spec::{Identification, PortId, Recovery, Stream};
use onbeat_frer_xdp::StreamReading;

/// A recovery function with the parameters it was given.
struct Function {
    config: Recovery,
    role: Role,
    recover: Recover,
}

impl Function {
    fn new(config: Recovery, role: Role) -> Self {
        Self { config, role, recover: Recover::new(&config, role).expect("valid") }
    }

    /// The function under these parameters from now on: other ones reset it.
    fn reconfigured(self, config: Recovery) -> Self {
        if self.config == config {
            return self;
        }
        let mut new = Self::new(config, self.role);
        new.recover.carry_over(*self.recover.counters());
        new
    }
}

fn over(old: Option<Function>, config: Option<Recovery>, role: Role) -> Option<Function> {
    let config = config?;
    Some(match old {
        Some(function) => function.reconfigured(config),
        None => Function::new(config, role),
    })
}

struct MemberState {
    input: u64,
    individual: Option<Function>,
}

type MemberKey = (PortId, String);

struct State {
    stream: Stream,
    members: BTreeMap<MemberKey, MemberState>,
    next: Option<u16>,
    sequence: Option<Function>,
    output: u64,
}

fn key(port: PortId, identification: &Identification) -> MemberKey {
    (port, format!("{identification:?}"))
}

/// All streams by name.
#[derive(Default)]
pub(crate) struct Model {
    streams: BTreeMap<String, State>,
}

impl Model {
    pub(crate) fn apply(&mut self, streams: &[Stream]) {
        let mut before = std::mem::take(&mut self.streams);
        for stream in streams {
            let old = before.remove(&stream.name);
            let (mut members, next, sequence, output) = match old {
                Some(old) => (old.members, old.next, old.sequence, old.output),
                None => (BTreeMap::new(), None, None, 0),
            };
            let now = stream.members.iter().map(|member| {
                let key = key(member.port, &member.identification);
                let old = members.remove(&key);
                let (input, individual) = old.map_or((0, None), |old| (old.input, old.individual));
                let individual = over(individual, member.individual, Role::Individual);
                (key, MemberState { input, individual })
            });
            let members = now.collect();
            let state = State {
                members,
                next: stream.generate.then(|| next.unwrap_or(0)),
                sequence: over(sequence, stream.recover, Role::Sequence),
                output,
                stream: stream.clone(),
            };
            self.streams.insert(stream.name.clone(), state);
        }
    }

    /// Whether a frame passes that this member of a stream receives.
    pub(crate) fn packet(&mut self, name: &str, member: usize, number: Option<u16>) -> bool {
        let state = self.streams.get_mut(name).expect("a stream of the model");
        let parameters = &state.stream.members[member];
        let key = key(parameters.port, &parameters.identification);
        let member = state.members.get_mut(&key).expect("a member of the stream");
        member.input += 1;
        let passes = |function: &mut Option<Function>| {
            function.as_mut().is_none_or(|f| f.recover.packet(1, number).is_accept())
        };
        let accepted = passes(&mut member.individual) && passes(&mut state.sequence);
        if accepted {
            state.output += 1;
            if let (Some(next), None) = (&mut state.next, number) {
                *next = next.wrapping_add(1);
            }
        }
        accepted
    }

    pub(crate) fn check(&self, name: &str, reading: &StreamReading, context: &str) {
        let state = &self.streams[name];
        let counters =
            |function: &Option<Function>| function.as_ref().map(|f| *f.recover.counters());
        for (parameters, member) in state.stream.members.iter().zip(&reading.members) {
            let expected = &state.members[&key(parameters.port, &parameters.identification)];
            assert_eq!(member.input, expected.input, "{context}: {name}");
            let individual = member.individual.map(|r| r.counters);
            assert_eq!(individual, counters(&expected.individual), "{context}: {name}");
        }
        let sequence = reading.recovery.map(|r| r.counters);
        assert_eq!(sequence, counters(&state.sequence), "{context}: {name}");
        assert_eq!(reading.generation.map(|g| g.next), state.next, "{context}: {name}");
        assert_eq!(reading.output, state.output, "{context}: {name}");
    }
}
