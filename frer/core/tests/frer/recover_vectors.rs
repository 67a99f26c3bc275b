//! Runs vectors/recover.toml; its header defines the steps.

use onbeat_frer::counters::Counters;
use onbeat_frer::generate::SequenceGenerator;
use onbeat_frer::recover::RecoveryFunction;

use crate::recover_cases::{Decision, Function, Functions, Generator, vectors};

impl Functions for Vec<RecoveryFunction> {
    fn packet(&mut self, function: usize, now_ns: u64, number: Option<u16>) -> Decision {
        Decision::Verdict(self[function].packet(now_ns, number))
    }

    fn expire(&mut self, now_ns: u64) {
        for function in self {
            function.expire(now_ns);
        }
    }

    fn reset(&mut self, function: usize, now_ns: u64) {
        self[function].reset(now_ns);
    }

    fn counters(&self, function: usize) -> Counters {
        self[function].counters()
    }
}

/// The ingress port of a packet makes no difference.
impl Generator for SequenceGenerator {
    fn next(&mut self, _port: usize) -> u16 {
        SequenceGenerator::next(self)
    }

    fn reset(&mut self) {
        SequenceGenerator::reset(self);
    }

    fn seq_gen_resets(&self) -> u64 {
        self.resets()
    }
}

#[test]
fn recover() {
    for case in vectors().recover {
        let build = |function: &Function| {
            let mut recover = RecoveryFunction::new(&function.config(), function.role())
                .expect("a valid configuration");
            recover.carry_over(function.preset.into());
            recover
        };
        case.run(&mut case.functions.iter().map(build).collect::<Vec<_>>());
    }
}

#[test]
fn generate() {
    for case in vectors().generate {
        case.run(&mut SequenceGenerator::new());
    }
}

#[test]
fn cases_are_numbered_named_apart_and_cover_the_mistakes() {
    let vectors = vectors();
    let mut names: Vec<_> = vectors.recover.iter().map(|case| &case.name).collect();
    names.extend(vectors.generate.iter().map(|case| &case.name));
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "duplicate name");

    assert!(vectors.recover.len() >= 60);
    assert!(vectors.recover.iter().zip(1..).all(|(case, number)| case.number == number));
    assert!(vectors.generate.iter().zip(1..).all(|(case, number)| case.number == number));

    let recover = vectors.recover.iter().filter_map(|case| case.mistake);
    let generate = vectors.generate.iter().filter_map(|case| case.mistake);
    let mut mistakes: Vec<u8> = recover.chain(generate).collect();
    mistakes.sort_unstable();
    mistakes.dedup();
    assert_eq!(mistakes, [1, 4, 5, 6, 8, 9, 10]);
}
