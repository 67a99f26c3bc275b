//! Programs that are attached only while packets need them.

use std::time::{Duration, Instant};

use onbeat_irq_core::charge::Attribution;

use crate::harness::BOUND;
use crate::judge::Judge;
use crate::reader::Reader;

const AT_ARRIVALS: &str = "on_netif_receive_skb";
const AT_READS: &str = "on_sock_recv_length";

/// Until packets of other tests are few.
const LONG: Duration = BOUND.saturating_mul(3);

fn is_attached(judge: &Judge, program: &str) -> bool {
    judge.meter.tracer().attached().any(|attached| attached == program)
}

/// Packets of one process need neither, and are charged alike; those of two need both. Other packets of this host may need
/// them too: these are a small share.
#[test]
fn packets_with_one_cause_pass_one_program() {
    const PACKETS: u32 = 20_000;
    const OF_EACH: u32 = 16;
    let Some(mut judge) = Judge::new(&[]) else { return };
    let [one, other] = [judge.world.flow(), judge.world.flow()];
    let mut reader = Reader::of(&other.reader);
    let deadline = Instant::now() + LONG;
    while [AT_ARRIVALS, AT_READS].iter().any(|program| is_attached(&judge, program)) {
        assert!(Instant::now() < deadline, "a program stays attached");
        judge.accounts(|_| one.pass(PACKETS, 64));
        judge.meter.observe_all(false).unwrap();
    }

    judge.measure(
        |_| one.pass(PACKETS, 64),
        |phase| {
            phase.assert_known();
            assert_eq!(phase.by(Attribution::Reader).packets, u64::from(PACKETS), "{phase:?}");
        },
    );

    while [AT_ARRIVALS, AT_READS].iter().any(|program| !is_attached(&judge, program)) {
        assert!(Instant::now() < deadline, "a program is not attached");
        judge.accounts(|world| {
            for _ in 0..PACKETS / OF_EACH / 20 {
                reader.begin(OF_EACH);
                world.with_thread_blocked(|| {
                    one.send(OF_EACH, 64);
                    other.send(OF_EACH, 64);
                });
                one.read(OF_EACH);
                reader.finish();
            }
        });
    }
    judge.meter.observe_all(true).unwrap();
    judge.meter.observe_all(false).unwrap();
    assert!(is_attached(&judge, AT_ARRIVALS), "it is needed");
}
