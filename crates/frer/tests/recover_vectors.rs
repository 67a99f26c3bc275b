//! Runs vectors/recover.toml; its head says what the steps mean.

use onbeat_frer::counters::Counters;
use onbeat_frer::generate::Generate;
use onbeat_frer::recover::{Reason, Recover, Role, Verdict};
use onbeat_frer::spec::{Algorithm, Recovery};
use serde::Deserialize;

const NS_PER_MS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    recover: Vec<RecoverCase>,
    generate: Vec<GenerateCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoverCase {
    number: usize,
    name: String,
    mistake: Option<u8>,
    functions: Vec<Function>,
    steps: Vec<String>,
    counters: Vec<Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerateCase {
    number: usize,
    name: String,
    mistake: Option<u8>,
    steps: Vec<String>,
    seq_gen_resets: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Function {
    algorithm: String,
    history_length: u16,
    reset_timeout_ms: u32,
    take_no_sequence: bool,
    individual: bool,
    preset: Expected,
}

impl Default for Function {
    fn default() -> Self {
        Self {
            algorithm: "vector".into(),
            history_length: 2,
            reset_timeout_ms: 0,
            take_no_sequence: false,
            individual: false,
            preset: Expected::default(),
        }
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    out_of_order: u64,
    rogue: u64,
    passed: u64,
    discarded: u64,
    lost: u64,
    tagless: u64,
    resets: u64,
    lost_before_first: u64,
}

impl From<Expected> for Counters {
    fn from(expected: Expected) -> Self {
        Self {
            out_of_order: expected.out_of_order,
            rogue: expected.rogue,
            passed: expected.passed,
            discarded: expected.discarded,
            lost: expected.lost,
            tagless: expected.tagless,
            resets: expected.resets,
            lost_before_first: expected.lost_before_first,
            ..Self::default()
        }
    }
}

impl Function {
    fn build(&self) -> Recover {
        let algorithm = match self.algorithm.as_str() {
            "vector" => Algorithm::Vector { history_length: self.history_length },
            "match" => Algorithm::Match,
            other => panic!("algorithm {other:?}"),
        };
        let config = Recovery {
            algorithm,
            reset_timeout_ms: self.reset_timeout_ms,
            take_no_sequence: self.take_no_sequence,
            latent: None,
        };
        let role = if self.individual { Role::Individual } else { Role::Sequence };
        let mut function = Recover::new(&config, role).expect("a valid configuration");
        function.carry_over(self.preset.into());
        function
    }
}

fn vectors() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/recover.toml");
    toml::from_str(&std::fs::read_to_string(path).expect(path)).expect(path)
}

fn number(text: &str) -> u16 {
    match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("number {text:?}: {error}"))
}

/// The numbers from A up to B of `A..B`, modulo 65536.
fn range(text: &str) -> impl Iterator<Item = u16> {
    let (from, to) = text.split_once("..").expect("a range A..B");
    let (from, to) = (number(from), number(to));
    (0..=to.wrapping_sub(from)).map(move |offset| from.wrapping_add(offset))
}

/// Takes `@I` off the front of a step; 0 where there is none.
fn address(step: &str) -> (usize, &str) {
    match step.strip_prefix('@') {
        Some(rest) => {
            let (index, step) = rest.split_once(' ').expect("a step behind @I");
            (index.parse().expect("an index"), step)
        }
        None => (0, step),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Discard(Reason::Duplicate) => "duplicate",
        Verdict::Discard(Reason::Rogue) => "rogue",
        Verdict::Discard(Reason::Tagless) => "tagless",
    }
}

struct World {
    now_ns: u64,
    functions: Vec<Recover>,
}

impl World {
    fn expire(&mut self) {
        for function in &mut self.functions {
            function.expire(self.now_ns);
        }
    }

    fn step(&mut self, step: &str, context: &str) {
        let (index, step) = address(step);
        let words: Vec<&str> = step.split_whitespace().collect();
        let now_ns = self.now_ns;
        let function = &mut self.functions[index];
        let mut packet = |number, expected: &str| {
            assert_eq!(verdict(function.packet(now_ns, number)), expected, "{context}: {number:?}");
        };
        match words[..] {
            ["packet", n, expected] => packet(Some(number(n)), expected),
            ["packets", numbers, expected] => {
                range(numbers).for_each(|number| packet(Some(number), expected));
            }
            ["times", times, "packet", n, expected] => {
                for _ in 0..times.parse::<u32>().expect("a number of times") {
                    packet(Some(number(n)), expected);
                }
            }
            ["tagless", expected] => packet(None, expected),
            ["advance", ms] => self.now_ns += ms.parse::<u64>().expect("ms") * NS_PER_MS,
            ["expire"] => self.expire(),
            ["reset"] => function.reset(now_ns),
            ["counters", ref expected @ ..] => {
                self.expire();
                for expected in expected {
                    let (name, value) = expected.split_once('=').expect("NAME=VALUE");
                    let counter = self.functions[index].counters().iter().find(|c| c.name == name);
                    let counter = counter.unwrap_or_else(|| panic!("{context}: no {name}"));
                    assert_eq!(counter.value.to_string(), value, "{context}: {name}");
                }
            }
            _ => panic!("{context}: unknown step"),
        }
    }
}

#[test]
fn recover() {
    for case in vectors().recover {
        let mut world =
            World { now_ns: 1, functions: case.functions.iter().map(Function::build).collect() };
        let name = format!("recover {} ({})", case.number, case.name);
        for step in &case.steps {
            world.step(step, &format!("{name}: {step}"));
        }
        world.expire();
        let counters: Vec<Counters> = world.functions.iter().map(|f| *f.counters()).collect();
        let expected: Vec<Counters> = case.counters.into_iter().map(Into::into).collect();
        assert_eq!(counters, expected, "{name}: counters at the end");
    }
}

#[test]
fn generate() {
    for case in vectors().generate {
        let mut function = Generate::new();
        let name = format!("generate {} ({})", case.number, case.name);
        for step in &case.steps {
            // Which port a packet came in at must make no difference.
            let (_, step) = address(step);
            match step.split_whitespace().collect::<Vec<_>>()[..] {
                ["next", n] => assert_eq!(function.next(), number(n), "{name}: {step}"),
                ["run", numbers] => {
                    range(numbers).for_each(|n| assert_eq!(function.next(), n, "{name}: {step}"));
                }
                ["reset"] => function.reset(),
                _ => panic!("{name}: unknown step {step}"),
            }
        }
        assert_eq!(function.counters().seq_gen_resets, case.seq_gen_resets, "{name}: resets");
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
