//! States that a node reports, late or prepared before the last command: one such frame does not reset the node.

use std::cell::Cell;
use std::rc::Rc;

use onbeat_powerlink::Node;
use onbeat_powerlink::code;
use onbeat_powerlink::mn::{Event, Failure, Step};
use onbeat_wire::powerlink::{Body, NmtCommandId, NmtState, Service};

use crate::common::cable::{CYCLE_NS, Cable, NODE};
use crate::common::message;

/// Octets of the NMT state in a frame: of PRes, and of StatusResponse.
const PRES_STATE: usize = 14 + 3;
const STATUS_STATE: usize = 14 + 6;

/// A cable; the state of PRes is replaced in the next `count` ones, and of all StatusResponse if `status`.
fn cable(state: NmtState, count: &Rc<Cell<u32>>, status: bool) -> Cable {
    let mut cable = Cable::new(false);
    let count = Rc::clone(count);
    cable.alter = Box::new(move |frame| match message(frame).body {
        Body::Pres(_) if count.get() > 0 => {
            count.set(count.get() - 1);
            frame[PRES_STATE] = state.0;
        }
        Body::Asnd(Service::StatusResponse(_)) if status => frame[STATUS_STATE] = state.0,
        _ => {}
    });
    cable
}

fn failures(cable: &Cable) -> Vec<Failure> {
    let failure = |event: &Event| match event {
        Event::Failed(NODE, failure) => Some(*failure),
        _ => None,
    };
    cable.events.iter().filter_map(failure).collect()
}

/// PRes with the state before EnableReadyToOperate, before StartNode, or of a node that is not in the cycle.
#[test]
fn one_stale_pres_in_any_step_does_not_reset_the_node() {
    for state in
        [NmtState::PRE_OPERATIONAL_1, NmtState::PRE_OPERATIONAL_2, NmtState::READY_TO_OPERATE]
    {
        for step in [Step::Enable, Step::Ready, Step::Start, Step::Operational] {
            let count = Rc::default();
            let mut cable = cable(state, &count, false);
            cable.run(20_000_000_000, |cable| cable.mn.step(NODE) == Some(step));
            // The next one, and one in two cycles.
            for _ in 0..2 {
                count.set(1);
                let now_ns = cable.now_ns;
                cable.run(now_ns + 2 * CYCLE_NS, |_| false);
                assert_eq!(count.get(), 0);
            }
            cable.run_until_operational();
            let now_ns = cable.now_ns;
            cable.run(now_ns + 100 * CYCLE_NS, |_| false);
            assert_eq!(failures(&cable), [], "{state} in step {step}");
            assert_eq!(cable.mn.step(NODE), Some(Step::Operational));
        }
    }
}

/// PRes of a node that has left OPERATIONAL by itself.
#[test]
fn a_state_that_lasts_resets_the_node_with_the_reason() {
    let count = Rc::default();
    let mut cable = cable(NmtState::PRE_OPERATIONAL_2, &count, false);
    cable.run_until_operational();
    count.set(u32::MAX);
    let (sent, start_ns) = (cable.sent.len(), cable.now_ns);
    cable.run(start_ns + 20 * CYCLE_NS, |cable| !failures(cable).is_empty());
    assert_eq!(failures(&cable), [Failure::State]);
    let waited = (cable.now_ns - start_ns) / CYCLE_NS;
    assert!((5..=7).contains(&waited), "after {waited} cycles");
    // The node is mandatory: the whole network restarts. The reason is in the node's own reset otherwise.
    assert!(cable.sent.len() > sent);
    assert_eq!(Failure::State.code(), code::WRONG_STATE);
}

/// A StatusResponse prepared before the node rejoined: PRE_OPERATIONAL_1 while it is polled, then every state up to
/// the current one.
#[test]
fn a_stale_status_response_does_not_reset_a_polled_node() {
    let count = Rc::default();
    let mut cable = cable(NmtState::PRE_OPERATIONAL_1, &count, false);
    cable.run_until_operational();
    cable.alter = Box::new(|frame| {
        if matches!(message(frame).body, Body::Asnd(Service::StatusResponse(_))) {
            frame[STATUS_STATE] = NmtState::PRE_OPERATIONAL_1.0;
        }
    });
    for error in 1..=4 {
        // New errors lead to StatusRequests.
        cable.cn.as_mut().unwrap().report(0x3001, error, 0);
        let now_ns = cable.now_ns;
        cable.run(now_ns + 20 * CYCLE_NS, |_| false);
    }
    let reported = cable.events.iter().filter(|event| matches!(event, Event::Reported(..)));
    assert_eq!(reported.count(), 4, "status was requested and answered");
    assert_eq!(failures(&cable), []);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational));
}

/// A StatusResponse of an earlier boot, with a state that the node has yet to reach.
#[test]
fn a_stale_status_response_completes_no_step() {
    for (step, state) in
        [(Step::Enable, NmtState::READY_TO_OPERATE), (Step::Start, NmtState::OPERATIONAL)]
    {
        let mut cable = Cable::new(false);
        cable.run(20_000_000_000, |cable| cable.mn.step(NODE) == Some(step));
        let is_status =
            |frame: &[u8]| matches!(message(frame).body, Body::Asnd(Service::StatusResponse(_)));
        let status = cable.answers.iter().rfind(|(_, frame)| is_status(frame));
        let mut status = status.expect("the error signaling was started").1.clone();
        status[STATUS_STATE] = state.0;
        cable.mn.handle_frame(cable.now_ns, &status);
        assert_eq!(cable.mn.step(NODE), Some(step), "{state}");
        cable.run_until_operational();
    }
}

/// StatusResponse with the state before NMTStopNode and NMTEnterPreOperational2: the managing node requests another
/// one until its timeout.
#[test]
fn a_stale_status_response_before_polling_is_requested_again() {
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    cable.mn.command(NODE, NmtCommandId::STOP_NODE);
    let now_ns = cable.now_ns;
    cable.run(now_ns + 100 * CYCLE_NS, |_| false);
    assert_eq!(cable.mn.step(NODE), Some(Step::Stopped));
    let stale = Rc::new(Cell::new(2));
    let left = Rc::clone(&stale);
    cable.alter = Box::new(move |frame| {
        let status = matches!(message(frame).body, Body::Asnd(Service::StatusResponse(_)));
        if status && left.get() > 0 {
            left.set(left.get() - 1);
            frame[STATUS_STATE] = NmtState::STOPPED.0;
        }
    });
    cable.mn.command(NODE, NmtCommandId::ENTER_PRE_OPERATIONAL_2);
    cable.run_until_operational();
    assert_eq!((stale.get(), failures(&cable)), (0, vec![]));
    let resets = cable.sent.iter().filter(|(_, frame)| {
        matches!(message(frame).body, Body::Asnd(Service::NmtCommand(command))
            if command.command == NmtCommandId::RESET_NODE)
    });
    assert_eq!(resets.count(), 1, "all nodes, at the start");
    let deadline = cable.mn.next_deadline_ns();
    assert!(deadline.is_some_and(|at_ns| at_ns >= cable.now_ns));
}
