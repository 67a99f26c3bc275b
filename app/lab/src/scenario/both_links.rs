//! Both paths fail at the same time, repeatedly; one of them recovers first.
//!
//! ```text
//!                        path1
//!   talker --- a ===================== b --- listener
//!                  path2 (+ 300 us)
//! ```

use super::link_failure::play_steps;
use super::options::StreamOptions;
use super::outage::PhaseStep;
use super::stage::Stage;
use crate::Result;

const OUTAGES: usize = 3;

pub(super) fn play(stage: &mut Stage<'_>, options: &StreamOptions) -> Result<()> {
    let phase_ns = options.phases.ns()?;
    let mut steps = vec![PhaseStep::new("both up", [true, true], phase_ns)];
    for number in 1..=OUTAGES {
        steps.push(PhaseStep::new(format!("both down ({number})"), [false, false], phase_ns));
        // The first path to recover alternates.
        let (first, up) =
            if number % 2 == 1 { ("path1", [true, false]) } else { ("path2", [false, true]) };
        steps.push(PhaseStep::new(format!("{first} up ({number})"), up, phase_ns));
        steps.push(PhaseStep::new(format!("both up ({number})"), [true, true], phase_ns));
    }
    play_steps(stage, options, phase_ns, &steps)
}
