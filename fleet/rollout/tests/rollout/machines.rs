//! Controllers, agents and records, case by case: what the explorer abstracts from.

use onbeat_rollout::agent::{Action, Agent, DiskRecord, Outcome};
use onbeat_rollout::controller::{
    ChangeTimes, Controller, Decision, ExpectedState, Goal, View, adopted,
};
use onbeat_rollout::record::{self, Change, FileHash, NodeState, RecordError, Signer, Verifier};
use onbeat_rollout::{Current, Phase, key};

const TIMES: ChangeTimes = ChangeTimes { drain_ns: 1000, soak_ns: 5000 };

fn current(step: u64, phase: Phase, prev: Phase) -> Current {
    Current { step, from: 1, to: 2, phase, prev }
}

fn state(current: Current, ok: bool) -> Option<NodeState> {
    let why = if ok { String::new() } else { "no room".into() };
    let hash = FileHash::default();
    let proof = String::new();
    Some(NodeState { current, hash, ok, why, instance: 7, proved: 0, lost: 0, proof })
}

fn decide(view: View<'_>, goal: Goal, now_ns: u64) -> Decision {
    Controller::default().decide(&view, TIMES, goal, now_ns)
}

#[test]
fn a_controller_advances_with_all_and_returns_without() {
    let proving = current(5, Phase::Prove, Phase::Accept);
    let earlier = current(4, Phase::Accept, Phase::Rest);
    let all = [state(proving, true), state(proving, true)];
    let late = [state(proving, true), state(earlier, true)];
    let refused = [state(proving, true), state(proving, false)];
    let gone = [state(proving, true), None];
    let view =
        |states: &'static [Option<NodeState>], is_late| View { current: proving, states, is_late };
    let leak = |states: [Option<NodeState>; 2]| -> &'static [Option<NodeState>] {
        Box::leak(Box::new(states))
    };
    let [all, late, refused, gone] = [all, late, refused, gone].map(leak);
    let forward = Decision::Write(current(6, Phase::Send, Phase::Prove));
    let back = Decision::Write(current(6, Phase::Accept, Phase::Prove));
    for (states, is_late, goal, wanted) in [
        (all, false, Goal::Continue, forward),
        (all, true, Goal::Continue, forward),
        (all, false, Goal::Return, back),
        (late, false, Goal::Continue, Decision::Wait),
        (late, true, Goal::Continue, back),
        (gone, false, Goal::Continue, Decision::Wait),
        (gone, true, Goal::Continue, back),
        (refused, false, Goal::Continue, back),
        (late, false, Goal::Return, back),
        (all, false, Goal::Reach(2), forward),
        (all, false, Goal::Reach(3), Decision::Busy),
    ] {
        assert_eq!(decide(view(states, is_late), goal, 0), wanted, "{states:?} {is_late} {goal:?}");
    }
    assert_eq!(view(late, true).missing().collect::<Vec<_>>(), [1]);
    // Without all acknowledgements it returns once, and then waits, whatever the deadline.
    let returning = current(6, Phase::Accept, Phase::Prove);
    let states = [state(returning, true), state(proving, true)];
    let view = View { current: returning, states: &states, is_late: true };
    assert_eq!(decide(view, Goal::Return, 0), Decision::Wait);
}

#[test]
fn an_acknowledgement_that_contradicts_the_signed_plan_is_a_refusal() {
    let expected = ExpectedState { hash: FileHash([1; 32]), new_members: 3 };
    let sending = current(6, Phase::Send, Phase::Prove);
    let proving = current(5, Phase::Prove, Phase::Accept);
    let returning = current(7, Phase::Prove, Phase::Send);
    let says = |current, hash, proved| NodeState {
        hash: FileHash([hash; 32]),
        proved,
        ..state(current, true).unwrap()
    };
    let why = |record, state: NodeState| {
        let judged = expected.judge(&record, state.clone());
        assert_eq!(NodeState { ok: true, why: String::new(), ..judged.clone() }, state);
        (!judged.ok).then_some(judged.why)
    };
    // Paths are proved in one phase only, and a roll-out that returns no longer needs them.
    for (record, state) in [
        (sending, says(sending, 1, 0)),
        (proving, says(proving, 1, 3)),
        (returning, says(returning, 1, 0)),
        // Not about this record: nothing can be said.
        (sending, says(proving, 2, 0)),
    ] {
        assert_eq!(why(record, state), None);
    }
    let wrong = why(sending, says(sending, 2, 0)).unwrap();
    assert!(wrong.contains("020202020202...") && wrong.contains("010101010101..."), "{wrong}");
    let unproved = why(proving, says(proving, 1, 2)).unwrap();
    assert!(unproved.contains("2 of 3 new members"), "{unproved}");
    // The roll-out returns because of it, and never goes on.
    let refused = [expected.judge(&sending, says(sending, 2, 0))].map(Some);
    let view = View { current: sending, states: &refused, is_late: false };
    let back = Decision::Write(current(7, Phase::Prove, Phase::Send));
    assert_eq!(decide(view, Goal::Continue, 0), back);
    let draining = current(7, Phase::Drain, Phase::Send);
    let refused = [expected.judge(&draining, says(draining, 2, 0))].map(Some);
    let view = View { current: draining, states: &refused, is_late: true };
    assert_eq!(decide(view, Goal::Continue, 0), Decision::Wait);
}

#[test]
fn lost_frames_in_the_phase_send_return_a_roll_out() {
    let sending = current(6, Phase::Send, Phase::Prove);
    let lossy = NodeState { lost: 3, ..state(sending, true).unwrap() };
    let states = [Some(lossy.clone()), state(sending, true)];
    let view = View { current: sending, states: &states, is_late: false };
    let back = Decision::Write(current(7, Phase::Prove, Phase::Send));
    assert_eq!(decide(view, Goal::Continue, 0), back);
    // Without a time without loss nothing is required.
    let times = ChangeTimes { soak_ns: 0, ..TIMES };
    let decided = Controller::default().decide(&view, times, Goal::Continue, 0);
    assert_eq!(decided, Decision::WaitUntil(1000));
    // Losses of the phase before say nothing about this one.
    let later = current(8, Phase::Drain, Phase::Send);
    let view = View { current: later, ..view };
    assert_eq!(decide(view, Goal::Continue, 0), Decision::Wait);

    // The agent reports them once, and again if there are more.
    let saved = DiskRecord { current: sending, hash: FileHash::default() };
    let mut agent = Agent::start(7, Some(saved));
    agent.complete(Outcome::Done);
    agent.complete(Outcome::Hash(saved.hash));
    agent.complete(Outcome::Done);
    agent.wake();
    agent.complete(read(Some(sending), Some((state(sending, true).unwrap(), 20))));
    assert_eq!(agent.action(), Action::Count(sending));
    agent.complete(Outcome::Lost(3, String::new()));
    assert_eq!(agent.action(), Action::Acknowledge(lossy.clone(), 20));
    agent.complete(Outcome::Done);
    agent.wake();
    agent.complete(read(Some(sending), Some((lossy, 21))));
    agent.complete(Outcome::Lost(3, String::new()));
    assert_eq!(agent.action(), Action::Idle);
}

#[test]
fn a_controller_measures_the_drain_time_itself() {
    let sending = current(6, Phase::Send, Phase::Prove);
    let states = [state(sending, true)];
    let view = View { current: sending, states: &states, is_late: true };
    let mut controller = Controller::default();
    let mut decide = |now| controller.decide(&view, TIMES, Goal::Continue, now);
    assert_eq!(decide(100), Decision::WaitUntil(5100));
    assert_eq!(decide(5099), Decision::WaitUntil(5100));
    assert_eq!(decide(5100), Decision::Write(current(7, Phase::Drain, Phase::Send)));
    // A successor waits again.
    let mut successor = Controller::default();
    let wait = successor.decide(&view, TIMES, Goal::Continue, 9000);
    assert_eq!(wait, Decision::WaitUntil(14_000));
    // The last return waits for frames of the new plan.
    let accepting = current(8, Phase::Accept, Phase::Prove);
    let states = [state(accepting, true)];
    let view = View { current: accepting, states: &states, is_late: false };
    let mut decide = |now| successor.decide(&view, TIMES, Goal::Return, now);
    assert_eq!(decide(20_000), Decision::WaitUntil(21_000));
    assert_eq!(decide(21_000), Decision::Write(current(9, Phase::Rest, Phase::Accept)));
}

#[test]
fn drained_paths_do_not_return_and_the_new_plan_rests() {
    let draining = current(7, Phase::Drain, Phase::Send);
    let missing = [state(draining, true), None];
    let view = View { current: draining, states: &missing, is_late: true };
    assert_eq!(decide(view, Goal::Return, 0), Decision::Wait);
    let all = [state(draining, true)];
    let rest = Current { step: 8, from: 2, to: 2, phase: Phase::Rest, prev: Phase::Rest };
    let view = View { current: draining, states: &all, is_late: true };
    assert_eq!(decide(view, Goal::Continue, 0), Decision::Write(rest));
    let view = View { current: rest, states: &[], is_late: false };
    assert_eq!(decide(view, Goal::Continue, 0), Decision::Rest);
    assert_eq!(decide(view, Goal::Reach(2), 0), Decision::Rest);
    let start = Current { step: 9, from: 2, to: 3, phase: Phase::Accept, prev: Phase::Rest };
    assert_eq!(decide(view, Goal::Reach(3), 0), Decision::Write(start));
}

#[test]
fn a_restored_store_is_recognized_and_continues_from_its_nodes() {
    let old = current(4, Phase::Accept, Phase::Rest);
    let late = current(6, Phase::Send, Phase::Prove);
    let states = [state(late, true), state(current(5, Phase::Prove, Phase::Accept), true)];
    let view = View { current: old, states: &states, is_late: true };
    assert_eq!(decide(view, Goal::Continue, 0), Decision::Restored(6));
    assert_eq!(adopted(&states), Some(Current { step: 7, ..late }));
    assert_eq!(adopted(&[state(late, true), None]), None, "a missing node can have a later step");
}

fn read(current: Option<Current>, own: Option<(NodeState, u64)>) -> Outcome {
    let revision = own.as_ref().map_or(0, |(_, revision)| *revision);
    Outcome::Read { current, own: own.map(|(own, _)| own), revision }
}

/// Runs an agent's actions until it is idle; returns them.
fn run(agent: &mut Agent, current: Option<Current>, own: Option<(NodeState, u64)>) -> Vec<Action> {
    let mut actions = Vec::new();
    loop {
        let action = agent.action();
        actions.push(action.clone());
        agent.complete(match action {
            Action::Idle => return actions,
            Action::Read => read(current, own.clone()),
            Action::Prepare(_) | Action::Inspect => Outcome::Hash(FileHash::default()),
            Action::Prove(_) => Outcome::Proved { counted: 3, missing: 0 },
            _ => Outcome::Done,
        });
    }
}

#[test]
fn an_agent_follows_greater_steps_and_acknowledges_its_own() {
    let mut agent = Agent::start(7, None);
    let proving = current(5, Phase::Prove, Phase::Accept);
    let saved = DiskRecord { current: proving, hash: FileHash::default() };
    let acknowledged = NodeState { proved: 3, ..state(proving, true).unwrap() };
    assert_eq!(
        run(&mut agent, Some(proving), None),
        [
            Action::Read,
            Action::Prepare(proving),
            Action::Save(saved),
            Action::Apply(saved),
            Action::Inspect,
            Action::Prove(proving),
            Action::Acknowledge(acknowledged.clone(), 0),
            Action::Idle,
        ]
    );
    agent.wake();
    let own = Some((acknowledged.clone(), 12));
    assert_eq!(run(&mut agent, Some(proving), own), [Action::Read, Action::Idle]);
    // A lost state is written again; an older record changes nothing.
    agent.wake();
    let older = current(4, Phase::Accept, Phase::Rest);
    let actions = run(&mut agent, Some(older), None);
    assert_eq!(actions[1..3], [Action::Inspect, Action::Prove(proving)]);
    // Nor does an absent one: the store may have been restored.
    agent.wake();
    let own = Some((acknowledged.clone(), 12));
    assert_eq!(run(&mut agent, None, own), [Action::Read, Action::Idle]);
    // Another node of the name applies nothing, until the state is gone.
    let mut twin = Agent::start(8, None);
    let own = Some((acknowledged, 12));
    assert_eq!(run(&mut twin, Some(proving), own), [Action::Read, Action::Idle]);
    assert!(twin.is_twin());
    twin.wake();
    assert_eq!(run(&mut twin, Some(proving), None).len(), 8);
}

#[test]
fn a_node_that_was_changed_gets_its_stage_again() {
    let sending = current(6, Phase::Send, Phase::Prove);
    let saved = DiskRecord { current: sending, hash: FileHash([1; 32]) };
    let mut agent = Agent::start(7, Some(saved));
    agent.complete(Outcome::Done);
    assert_eq!(agent.action(), Action::Inspect);
    // Another program changes the node between both actions.
    agent.complete(Outcome::Hash(FileHash([2; 32])));
    assert_eq!(agent.action(), Action::Idle);
    agent.wake();
    agent.complete(read(Some(sending), None));
    assert_eq!(agent.action(), Action::Apply(saved));
    agent.complete(Outcome::Done);
    agent.complete(Outcome::Hash(saved.hash));
    assert!(matches!(agent.action(), Action::Acknowledge(state, _) if state.ok));
    agent.complete(Outcome::Done);
    agent.recheck();
    agent.complete(Outcome::Hash(FileHash([2; 32])));
    agent.wake();
    // Without a store the node gets its stage, too.
    agent.complete(Outcome::Failed);
    assert_eq!(agent.action(), Action::Apply(saved));
    agent.complete(Outcome::Refused("no room".into()));
    let Action::Acknowledge(refusal, _) = agent.action() else { panic!("{agent:?}") };
    assert!(!refusal.ok && refusal.why == "no room");
    agent.complete(Outcome::Done);
    // It tries again, and writes the same refusal once.
    agent.wake();
    agent.complete(read(Some(sending), Some((refusal.clone(), 20))));
    assert_eq!(agent.action(), Action::Apply(saved));
    agent.complete(Outcome::Refused("no room".into()));
    assert_eq!(agent.action(), Action::Idle);
    // The controller returns: the node that refuses follows.
    agent.wake();
    let back = current(7, Phase::Prove, Phase::Send);
    agent.complete(read(Some(back), Some((refusal, 20))));
    assert_eq!(agent.action(), Action::Prepare(back));
}

/// Accepts the signature of the message's length.
struct Key;

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let sum = message.iter().fold(0u32, |sum, octet| sum.rotate_left(5) ^ u32::from(*octet));
        sum.to_be_bytes().to_vec()
    }
}

impl Verifier for Key {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.sign(message) == signature
    }
}

#[test]
fn records_are_valid_at_their_key_with_their_signature_only() {
    let sending = current(6, Phase::Send, Phase::Prove);
    let sealed = record::seal(&sending, &Key);
    let open = |key: &str, octets: &[u8]| record::open::<Current>(key, octets, &Key);
    assert_eq!(open(key::CURRENT, &sealed).unwrap(), sending);
    let text = String::from_utf8(sealed.clone()).unwrap();
    let forged = text.replace("\\\"step\\\":6", "\\\"step\\\":7");
    assert_ne!(forged, text);
    assert!(matches!(open(key::CURRENT, forged.as_bytes()), Err(RecordError::Signature { .. })));
    assert!(matches!(open("plan/other", &sealed), Err(RecordError::Invalid { .. })));
    // A record of another kind has another signature.
    let change = Change {
        from: 1,
        to: 2,
        affected: vec!["a".into()],
        drain_ms: 1000,
        soak_ms: 0,
        deadline_s: 30,
    };
    let sealed = record::seal(&change, &Key);
    assert!(matches!(open(key::CURRENT, &sealed), Err(RecordError::Signature { .. })));
    let key = key::change(1, 2);
    assert_eq!(record::open::<Change>(&key, &sealed, &Key).unwrap(), change);
    for broken in [
        Change { drain_ms: 999, ..change.clone() },
        Change { deadline_s: 4, ..change.clone() },
        Change { affected: vec!["a/b".into()], ..change.clone() },
        Change { affected: vec!["a".into(); 10_001], ..change },
    ] {
        let sealed = record::seal(&broken, &Key);
        assert!(matches!(
            record::open::<Change>(&key, &sealed, &Key),
            Err(RecordError::Invalid { .. })
        ));
    }
    let long = vec![b' '; record::LONGEST_RECORD + 1];
    assert!(matches!(open(key::CURRENT, &long), Err(RecordError::TooLong { .. })));
}

#[test]
fn records_that_no_controller_writes_are_invalid() {
    for invalid in [
        current(0, Phase::Accept, Phase::Rest),
        current(5, Phase::Send, Phase::Accept),
        current(5, Phase::Send, Phase::Send),
        current(5, Phase::Send, Phase::Drain),
        Current { to: 1, ..current(5, Phase::Accept, Phase::Rest) },
    ] {
        assert!(invalid.check().is_err(), "{invalid:?}");
    }
    assert_eq!(Current::FIRST.check(), Ok(()));
    let text = serde_json::to_string(&current(5, Phase::Send, Phase::Prove)).unwrap();
    assert_eq!(text, r#"{"step":5,"from":1,"to":2,"phase":"send","prev":"prove"}"#);
}
