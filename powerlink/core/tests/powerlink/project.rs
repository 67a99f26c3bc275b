//! A managing node by a project of a configuration tool takes its node to OPERATIONAL, with process data.

use onbeat_powerlink::mn::concise_dcf;
use onbeat_powerlink::network::Project;
use onbeat_powerlink::od::{ObjectId, id, profile};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NetTime;

use crate::common::cable::{CYCLE_NS, Cable, NODE};

fn dcf(entries: &[(u16, u8, usize, u64)]) -> Vec<u8> {
    let octets: Vec<[u8; 8]> = entries.iter().map(|entry| entry.3.to_le_bytes()).collect();
    let values = entries.iter().zip(&octets);
    let values: Vec<(ObjectId, &[u8])> =
        values.map(|((index, sub, len, _), octets)| (id(*index, *sub), &octets[..*len])).collect();
    concise_dcf(values)
}

#[test]
fn a_project_of_another_tool_runs() {
    let (input, output) = (0x0008_0000_0001_6000, 0x0008_0000_0001_6200);
    let node = dcf(&[
        (0x1600, 0, 1, 0),
        (0x1a00, 0, 1, 0),
        (0x1006, 0, 4, CYCLE_NS / 1000),
        (0x1020, 1, 4, 0x3124),
        (0x1020, 2, 4, 0x0373_5955),
        (0x1c14, 0, 4, CYCLE_NS / 2),
        (0x1600, 1, 8, output),
        (0x1a00, 1, 8, input),
        (0x1600, 0, 1, 1),
        (0x1a00, 0, 1, 1),
    ]);
    let managing = dcf(&[
        (0x1f81, 1, 4, 0x8000_0007),
        (0x1006, 0, 4, CYCLE_NS / 1000),
        (0x1f26, 1, 4, 0x3124),
        (0x1f27, 1, 4, 0x0373_5955),
        (0x1f8a, 2, 4, 100_000),
        (0x1f92, 1, 4, 200_000),
        (0x1400, 1, 1, 1),
        (0x1600, 1, 8, 0x0008_0000_0001_a4c0),
        (0x1600, 0, 1, 1),
        (0x1800, 1, 1, 1),
        (0x1a00, 1, 8, 0x0008_0000_0001_a040),
        (0x1a00, 0, 1, 1),
    ]);
    // The configuration of the node is an entry as well.
    let mut entries: Vec<(ObjectId, &[u8])> =
        onbeat_powerlink::mn::dcf_entries(&managing).collect();
    entries.push((id(profile::CONCISE_DCF, 1), &node));
    let project = Project::read(&concise_dcf(entries)).unwrap();

    let mut cable = Cable::new(false);
    cable.mn = project.managing(MacAddress([2, 0, 0, 0, 0, 240])).unwrap();
    cable.mn.start(0, NetTime::default());
    cable.run_until_operational();
    let [sent, received] = [true, false].map(|is_sent| {
        project.values.iter().find(|value| value.is_sent == is_sent && value.node == NODE).unwrap()
    });
    for value in 1..=20 {
        cable.mn.set_object(sent.object, &[value]).unwrap();
        let node = cable.cn.as_mut().unwrap();
        node.set_object(id(0x6000, 1), &[!value]).unwrap();
        cable.run(cable.now_ns + 3 * CYCLE_NS, |_| false);
        let node = cable.cn.as_ref().unwrap();
        assert_eq!(node.objects().number(id(0x6200, 1)), u64::from(value));
        assert_eq!(cable.mn.objects().number(received.object), u64::from(!value));
    }
}
