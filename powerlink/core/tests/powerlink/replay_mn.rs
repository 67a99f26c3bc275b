//! A managing node that receives the controlled node's frames of a capture takes it to OPERATIONAL like the
//! recorded managing node: with the same commands, and the same SDO frames, octet for octet.

use crate::common::{CN_MAC, CapturedFrame, MN_MAC, capture, message, unpadded};
use onbeat_powerlink::Node;
use onbeat_powerlink::mn::{Config, Event, ManagingNode, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_powerlink::od::{Dictionary, ObjectId, id};
use onbeat_wire::powerlink::{
    Body, CommandId, Connection, Message, NetTime, NmtCommandId, NmtState, NodeId,
    RequestedService, Sdo, Service,
};

const CN: NodeId = NodeId(1);
const MS: u64 = 1_000_000;
const CYCLE_NS: u64 = 50 * MS;
/// The recorded node is deaf for this long after a reset.
const DEAF_NS: u64 = 500 * MS;

fn sdo<'a>(frame: &'a [u8]) -> Option<Sdo<'a>> {
    match message(frame).body {
        Body::Asnd(Service::Sdo(sdo)) => Some(sdo),
        _ => None,
    }
}

fn nmt_command(frame: &[u8]) -> Option<NmtCommandId> {
    match message(frame).body {
        Body::Asnd(Service::NmtCommand(command)) => Some(command.command),
        _ => None,
    }
}

/// The frames of a station in a capture.
fn frames_of(frames: &[CapturedFrame], mac: [u8; 6]) -> Vec<&[u8]> {
    let of = frames.iter().filter(|captured| captured.frame[6..12] == mac);
    of.map(|captured| &captured.frame[..]).collect()
}

/// The objects that the recorded managing node wrote, between restoring and storing parameters.
fn concise_dcf(frames: &[&[u8]]) -> Vec<u8> {
    let written: Vec<&[u8]> = frames
        .iter()
        .filter_map(|frame| sdo(frame)?.command)
        .filter(|command| command.command == CommandId::WRITE_BY_INDEX)
        .map(|command| command.payload)
        .collect();
    let [_load, entries @ .., _save, _cycle] = &written[..] else { panic!("no configuration") };
    let mut dcf = (entries.len() as u32).to_le_bytes().to_vec();
    for entry in entries {
        dcf.extend(&entry[..3]);
        dcf.extend((entry.len() as u32 - 4).to_le_bytes());
        dcf.extend(&entry[4..]);
    }
    dcf
}

fn managing_node(dcf: &[u8]) -> ManagingNode {
    let identity = Identity {
        device_type: 0x000f_0191,
        vendor_id: 0,
        product_code: 0,
        revision_number: 0x0002_0007,
        serial_number: 0,
        features: 0,
        device_name: Vec::new(),
        host_name: Vec::new(),
    };
    let nodes = [CN, NodeId(32), NodeId(110)];
    let mut od = profile::managing_node(&identity, 50_000, &nodes).unwrap();
    let set = |od: &mut Dictionary, object: ObjectId, value: u64| {
        od.set_number(object, value).unwrap_or_else(|abort| panic!("{object}: {abort}"));
    };
    let mandatory = od.number(id(profile::NODE_ASSIGNMENT, 1)) | 8;
    set(&mut od, id(profile::NODE_ASSIGNMENT, 1), mandatory);
    set(&mut od, id(profile::EXPECTED_DATE, 1), 0x3124);
    set(&mut od, id(profile::EXPECTED_TIME, 1), 0x0373_5955);
    set(&mut od, profile::ASYNC_SLOT_NS, 500_000);
    set(&mut od, id(profile::PRES_TIMEOUT_NS, 1), 200_000);
    set(&mut od, id(0x1c09, 1), 40);
    od.set(id(profile::CONCISE_DCF, 1), dcf).unwrap();
    ManagingNode::new(Config { mac: MN_MAC, objects: od }).unwrap()
}

/// The recorded node: answers each request with the next matching recorded response.
struct Player<'a> {
    frames: Vec<&'a [u8]>,
    /// Positions of the next response, by kind: IdentResponse, StatusResponse, PRes, SDO.
    next: [usize; 4],
    /// SDO frames that the node must answer.
    owed: usize,
    hears_from_ns: u64,
    /// The last commanded state.
    state: NmtState,
    /// It has restarted its boot.
    rebooted: bool,
}

impl<'a> Player<'a> {
    fn answer(&mut self, kind: usize, fits: impl Fn(&Message<'_>) -> bool) -> Option<&'a [u8]> {
        let behind = &self.frames[self.next[kind]..];
        let place = behind.iter().position(|frame| fits(&message(frame)))?;
        self.next[kind] += place + 1;
        Some(behind[place])
    }

    fn hear(&mut self, now_ns: u64, frame: &[u8]) -> Option<&'a [u8]> {
        let heard = message(frame);
        let reset = matches!(
            nmt_command(frame),
            Some(NmtCommandId::RESET_NODE | NmtCommandId::RESET_CONFIGURATION)
        );
        if reset {
            (self.hears_from_ns, self.owed) = (now_ns + DEAF_NS, 0);
            (self.state, self.rebooted) = (NmtState::PRE_OPERATIONAL_1, true);
            return None;
        }
        if now_ns < self.hears_from_ns {
            return None;
        }
        let (state, waits) = (self.state, self.owed > 0);
        match heard.body {
            Body::Soc(_) if state == NmtState::PRE_OPERATIONAL_1 => {
                self.state = NmtState::PRE_OPERATIONAL_2;
                None
            }
            Body::Preq(_) if heard.destination == CN => self.answer(2, |message| {
                matches!(message.body, Body::Pres(pres)
                    if pres.state == state && pres.request.pending == 0)
            }),
            Body::Soa(soa) if soa.target == CN => match soa.service {
                RequestedService::IDENT_REQUEST => self.answer(0, |message| {
                    matches!(message.body, Body::Asnd(Service::IdentResponse(_)))
                }),
                RequestedService::STATUS_REQUEST => self.answer(1, |message| {
                    matches!(message.body, Body::Asnd(Service::StatusResponse(status))
                        if status.state == state && (status.request.pending > 0) == waits)
                }),
                RequestedService::UNSPECIFIED_INVITE => {
                    assert!(waits, "invited, and nothing to send");
                    self.owed -= 1;
                    self.answer(3, |message| matches!(message.body, Body::Asnd(Service::Sdo(_))))
                }
                _ => None,
            },
            Body::Asnd(Service::Sdo(sdo)) => {
                let opens = sdo.sequence.receive.connection == Connection::Initialise
                    || sdo.sequence.send.connection == Connection::Initialise;
                self.owed += usize::from(opens || sdo.command.is_some());
                None
            }
            Body::Asnd(Service::NmtCommand(command)) if heard.destination == CN => {
                match command.command {
                    NmtCommandId::ENABLE_READY_TO_OPERATE => {
                        self.state = NmtState::READY_TO_OPERATE;
                    }
                    NmtCommandId::START_NODE => self.state = NmtState::OPERATIONAL,
                    other => panic!("unexpected: {other}"),
                }
                None
            }
            _ => None,
        }
    }
}

/// Runs the managing node with the recorded node; returns its frames and their times.
fn play(node: &mut ManagingNode, player: &mut Player<'_>, end_ns: u64) -> Vec<(u64, Vec<u8>)> {
    let mut sent = Vec::new();
    node.start(0, NetTime { seconds: 1_795_220_619, nanoseconds: 0 });
    while let Some(deadline) = node.next_deadline_ns().filter(|at| *at < end_ns) {
        node.handle_deadline(deadline);
        let mut now_ns = deadline;
        // A response can trigger the next request.
        loop {
            let mut answer = None;
            while let Some(frame) = node.poll_transmit() {
                answer = player.hear(now_ns, &frame).or(answer);
                sent.push((now_ns, frame));
            }
            let Some(answer) = answer else { break };
            now_ns += 40_000;
            node.handle_frame(now_ns, answer);
        }
    }
    sent
}

#[test]
fn a_recorded_node_reaches_operational() {
    let frames = capture("boot-1cn-mandatory");
    let (recorded, node_frames) = (frames_of(&frames, MN_MAC.0), frames_of(&frames, CN_MAC.0));
    let mut node = managing_node(&concise_dcf(&recorded));
    let mut player = Player {
        frames: node_frames,
        next: [0; 4],
        owed: 0,
        hears_from_ns: 0,
        state: NmtState::NOT_ACTIVE,
        rebooted: false,
    };
    // Until the recorded node's SDO server probes a closed client.
    let sent = play(&mut node, &mut player, 5500 * MS);
    assert!(player.rebooted);
    assert_eq!((node.state(), node.step(CN)), (State::Operational, Some(Step::Operational)));

    // Steps 0 to 2: silent for a second, ten idle phases, reset of all nodes.
    assert_eq!(sent[0].0, 1000 * MS);
    for (n, (_, frame)) in sent.iter().take(12).enumerate() {
        assert_eq!(unpadded(frame), unpadded(recorded[n]), "frame {n}");
    }

    // Steps 3 and 4: no requests for five cycles.
    let reset_ns = sent[11].0;
    let asked = sent.iter().find(|(_, frame)| {
        matches!(message(frame).body, Body::Soa(soa) if soa.service == RequestedService::IDENT_REQUEST && soa.target == CN)
    });
    assert!(asked.is_some_and(|(at, _)| (5 * CYCLE_NS..6 * CYCLE_NS).contains(&(at - reset_ns))));

    // Steps 8 to 21: the SDO frames, from opening to closing.
    let ours: Vec<&[u8]> = sent.iter().map(|(_, frame)| &frame[..]).collect();
    let sdo_frames = |frames: &[&[u8]]| -> Vec<(String, Vec<u8>)> {
        let sdo = frames.iter().filter(|frame| sdo(frame).is_some());
        sdo.map(|frame| (message(frame).to_string(), unpadded(frame).to_vec())).collect()
    };
    let (sdo, recorded_sdo) = (sdo_frames(&ours), sdo_frames(&recorded));
    for (n, (ours, theirs)) in sdo.iter().zip(&recorded_sdo).enumerate() {
        assert_eq!(ours, theirs, "SDO frame {n}");
    }
    assert_eq!(sdo.len(), recorded_sdo.len());

    // Steps 2, 20, 28 and 30: the commands.
    let commands = |frames: &[&[u8]]| {
        let commands = frames.iter().filter_map(|frame| nmt_command(frame));
        commands.collect::<Vec<_>>()
    };
    assert_eq!(commands(&ours), commands(&recorded));

    // Steps 25 to 31: the states of the managing node, and of the node.
    let mut states = Vec::new();
    for (_, frame) in &sent {
        if let Body::Soa(soa) = message(frame).body {
            states.push(soa.state);
        }
    }
    states.dedup();
    assert_eq!(
        states,
        [
            NmtState::PRE_OPERATIONAL_1,
            NmtState::PRE_OPERATIONAL_2,
            NmtState::READY_TO_OPERATE,
            NmtState::OPERATIONAL
        ]
    );
    let mut steps = Vec::new();
    while let Some(event) = node.poll_event() {
        match event {
            Event::Node(CN, step) => steps.push(step),
            Event::Failed(node, failure) => panic!("{node}: {failure:?}"),
            Event::LostPres(node) => panic!("{node} was polled before it was present"),
            _ => {}
        }
    }
    use Step::*;
    assert_eq!(
        steps,
        [
            Reset,
            Identify,
            Configure,
            Reset,
            Identify,
            Configured,
            CheckPreOperational2,
            Enable,
            Ready,
            Start,
            Operational,
        ]
    );
}

/// The first frames of the isochronous cycle, except for the time of day.
#[test]
fn cycles_start_as_recorded() {
    let frames = capture("boot-1cn-mandatory");
    let (recorded, node_frames) = (frames_of(&frames, MN_MAC.0), frames_of(&frames, CN_MAC.0));
    let mut node = managing_node(&concise_dcf(&recorded));
    let (state, next, rebooted) = (NmtState::NOT_ACTIVE, [0; 4], false);
    let mut player =
        Player { frames: node_frames, next, owed: 0, hears_from_ns: 0, state, rebooted };
    let sent = play(&mut node, &mut player, 5500 * MS);
    let soc = |frame: &[u8]| match message(frame).body {
        Body::Soc(soc) => Some((soc.relative_time_us, soc.prescaled_slot)),
        _ => None,
    };
    let ours: Vec<_> = sent.iter().filter_map(|(_, frame)| soc(frame)).take(20).collect();
    let theirs: Vec<_> = recorded.iter().filter_map(|frame| soc(frame)).take(20).collect();
    assert_eq!(ours, theirs);
    let times = sent.iter().filter(|(_, frame)| soc(frame).is_some()).map(|(at, _)| *at);
    let times: Vec<u64> = times.collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == CYCLE_NS));
}
