//! Runs vectors/wildcard.toml through a plane; its header defines the cases.

use onbeat_frer::wildcard::Scope;
use onbeat_testing::wildcard::{self, File};

use super::{A, B, HOST, MS, READY, plane, process, wildcard};

const PORTS: [(&str, onbeat_frer::spec::PortId); 3] = [("host", HOST), ("a", A), ("b", B)];

#[test]
fn frames_are_sent_as_in_the_vectors() {
    let mut steps = 0;
    for case in File::read().case {
        let wildcards = case.wildcards.iter().map(|scope| match scope {
            wildcard::Scope::Vlan(vlan) => wildcard("vlan", Scope::Vlan(*vlan), 1),
            wildcard::Scope::All(all) => {
                assert_eq!(all, "all");
                wildcard("all", Scope::All, 1)
            }
        });
        let mut plane = plane(&wildcards.collect::<Vec<_>>());
        for (n, step) in case.step.iter().enumerate() {
            let port = PORTS.iter().find(|(name, _)| *name == step.port).expect("a port").1;
            let now_ns = READY + step.at_ms * MS;
            let sent = process(&mut plane, port, now_ns, &step.frame());
            let name = |port| PORTS.iter().find(|(_, id)| *id == port).expect("a port").0;
            let sent: Option<Vec<_>> = sent
                .map(|sent| sent.into_iter().map(|(port, octets)| (name(port), octets)).collect());
            assert_eq!(sent, step.sent(), "case {} ({}), step {n}", case.number, case.name);
            steps += 1;
        }
    }
    assert!(steps >= 75, "{steps}");
}
