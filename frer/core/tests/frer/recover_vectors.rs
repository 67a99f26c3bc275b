//! Runs vectors/recover.toml; its head says what the steps mean.

use onbeat_frer::counters::Counters;
use onbeat_frer::generate::Generate;
use onbeat_frer::recover::Recover;

use crate::recover_cases::{Function, Functions, Generator, Told, vectors};

impl Functions for Vec<Recover> {
    fn packet(&mut self, function: usize, now_ns: u64, number: Option<u16>) -> Told {
        Told::Verdict(self[function].packet(now_ns, number))
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

/// Which port a packet came in at must make no difference.
impl Generator for Generate {
    fn next(&mut self, _port: usize) -> u16 {
        Generate::next(self)
    }

    fn reset(&mut self) {
        Generate::reset(self);
    }

    fn seq_gen_resets(&self) -> u64 {
        self.resets()
    }
}

#[test]
fn recover() {
    for case in vectors().recover {
        let build = |function: &Function| {
            let mut recover =
                Recover::new(&function.config(), function.role()).expect("a valid configuration");
            recover.carry_over(function.preset.into());
            recover
        };
        case.run(&mut case.functions.iter().map(build).collect::<Vec<_>>());
    }
}

#[test]
fn generate() {
    for case in vectors().generate {
        case.run(&mut Generate::new());
    }
}

#[test]
fn cases_are_numbered_named_apart_and_cover_the_mistakes() {
    let vectors = vectors();
    let mut names: Vec<_> = vectors.recover.iter().map(|case| &case.name).collect();
    names.extend(vectors.generate.iter().map(|case| &case.name));
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name stands twice");

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
