//! Reads vectors/recover.toml and runs its cases, for every implementation.

use std::collections::BTreeMap;

use onbeat_frer::counters::{Counters, Field};
use onbeat_frer::recover::{Reason, Verdict};
use onbeat_frer::spec::{Algorithm, Recovery, Role};
use onbeat_testing::vectors;
use serde::Deserialize;

const NS_PER_MS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vectors {
    pub(crate) recover: Vec<RecoverCase>,
    pub(crate) generate: Vec<GenerateCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverCase {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) mistake: Option<u8>,
    pub(crate) functions: Vec<Function>,
    pub(crate) steps: Vec<String>,
    pub(crate) counters: Vec<ExpectedCounters>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GenerateCase {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) mistake: Option<u8>,
    pub(crate) steps: Vec<String>,
    pub(crate) seq_gen_resets: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Function {
    pub(crate) algorithm: String,
    pub(crate) history_length: u16,
    pub(crate) reset_timeout_ms: u32,
    pub(crate) take_no_sequence: bool,
    pub(crate) individual: bool,
    pub(crate) preset: ExpectedCounters,
}

impl Default for Function {
    fn default() -> Self {
        Self {
            algorithm: "vector".into(),
            history_length: 2,
            reset_timeout_ms: 0,
            take_no_sequence: false,
            individual: false,
            preset: ExpectedCounters::default(),
        }
    }
}

/// Counters by name; omitted ones are 0.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(from = "BTreeMap<String, u64>")]
pub(crate) struct ExpectedCounters(Counters);

impl From<BTreeMap<String, u64>> for ExpectedCounters {
    fn from(values: BTreeMap<String, u64>) -> Self {
        let mut counters = Counters::default();
        for (name, value) in values {
            *(field(&name).value_mut)(&mut counters) = value;
        }
        Self(counters)
    }
}

impl From<ExpectedCounters> for Counters {
    fn from(expected: ExpectedCounters) -> Self {
        expected.0
    }
}

fn field(name: &str) -> &'static Field<Counters> {
    Counters::field(name).unwrap_or_else(|| panic!("no counter {name:?}"))
}

impl Function {
    pub(crate) fn config(&self) -> Recovery {
        let algorithm = match self.algorithm.as_str() {
            "vector" => Algorithm::Vector { history_length: self.history_length },
            "match" => Algorithm::Match,
            other => panic!("algorithm {other:?}"),
        };
        Recovery {
            algorithm,
            reset_timeout_ms: self.reset_timeout_ms,
            take_no_sequence: self.take_no_sequence,
            ..Recovery::vector(2)
        }
    }

    pub(crate) fn role(&self) -> Role {
        if self.individual { Role::Individual } else { Role::Sequence }
    }
}

pub(crate) fn vectors() -> Vectors {
    vectors::read("recover.toml")
}

fn number(text: &str) -> u16 {
    match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("number {text:?}: {error}"))
}

/// Returns the numbers from A up to B of `A..B`, modulo 65536.
fn range(text: &str) -> impl Iterator<Item = u16> {
    let (from, to) = text.split_once("..").expect("a range A..B");
    let (from, to) = (number(from), number(to));
    (0..=to.wrapping_sub(from)).map(move |offset| from.wrapping_add(offset))
}

/// Splits `@I` off the start of a step; 0 if absent.
fn address(step: &str) -> (usize, &str) {
    match step.strip_prefix('@') {
        Some(rest) => {
            let (index, step) = rest.split_once(' ').expect("a step after @I");
            (index.parse().expect("an index"), step)
        }
        None => (0, step),
    }
}

/// The decision that an implementation reports for a packet.
#[allow(dead_code, reason = "an implementation reports one of them")]
pub(crate) enum Decision {
    Verdict(Verdict),
    /// Whether the packet is passed on; the counters show the reason.
    Accepted(bool),
}

impl Decision {
    fn agrees(&self, expected: &str) -> bool {
        let verdict = match self {
            Decision::Verdict(verdict) => verdict,
            Decision::Accepted(accepted) => return *accepted == (expected == "accept"),
        };
        let name = match verdict {
            Verdict::Accept => "accept",
            Verdict::Discard(Reason::Duplicate) => "duplicate",
            Verdict::Discard(Reason::Rogue) => "rogue",
            Verdict::Discard(Reason::Tagless) => "tagless",
        };
        name == expected
    }
}

/// The recovery functions of a case, in some implementation.
pub(crate) trait Functions {
    fn packet(&mut self, function: usize, now_ns: u64, number: Option<u16>) -> Decision;
    fn expire(&mut self, now_ns: u64);
    fn reset(&mut self, function: usize, now_ns: u64);
    fn counters(&self, function: usize) -> Counters;
}

impl RecoverCase {
    /// Runs the steps; panics with the failing case and step.
    pub(crate) fn run(&self, functions: &mut impl Functions) {
        let mut now_ns = 1;
        let name = format!("recover {} ({})", self.number, self.name);
        for step in &self.steps {
            do_step(functions, &mut now_ns, step, &format!("{name}: {step}"));
        }
        functions.expire(now_ns);
        let counters: Vec<Counters> =
            (0..self.functions.len()).map(|function| functions.counters(function)).collect();
        let expected: Vec<Counters> = self.counters.iter().map(|c| (*c).into()).collect();
        assert_eq!(counters, expected, "{name}: final counters");
    }
}

fn do_step(functions: &mut impl Functions, now_ns: &mut u64, step: &str, context: &str) {
    let (function, step) = address(step);
    let words: Vec<&str> = step.split_whitespace().collect();
    let now = *now_ns;
    let mut packet = |number, expected: &str| {
        let decision = functions.packet(function, now, number);
        assert!(decision.agrees(expected), "{context}: {number:?}");
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
        ["advance", ms] => *now_ns += ms.parse::<u64>().expect("ms") * NS_PER_MS,
        ["expire"] => functions.expire(now),
        ["reset"] => functions.reset(function, now),
        ["counters", ref expected @ ..] => {
            functions.expire(now);
            let counters = functions.counters(function);
            for expected in expected {
                let (name, value) = expected.split_once('=').expect("NAME=VALUE");
                let found = (field(name).value)(&counters);
                assert_eq!(found.to_string(), value, "{context}: {name}");
            }
        }
        _ => panic!("{context}: unknown step"),
    }
}

/// A sequence generation function of some implementation.
pub(crate) trait Generator {
    /// Returns the number of a packet received at `port`.
    fn next(&mut self, port: usize) -> u16;
    fn reset(&mut self);
    fn seq_gen_resets(&self) -> u64;
}

impl GenerateCase {
    /// Runs the steps; panics with the failing case and step.
    pub(crate) fn run(&self, generator: &mut impl Generator) {
        let name = format!("generate {} ({})", self.number, self.name);
        for step in &self.steps {
            let (port, step) = address(step);
            match step.split_whitespace().collect::<Vec<_>>()[..] {
                ["next", n] => assert_eq!(generator.next(port), number(n), "{name}: {step}"),
                ["run", numbers] => {
                    range(numbers).for_each(|n| assert_eq!(generator.next(port), n, "{name}"));
                }
                ["reset"] => generator.reset(),
                _ => panic!("{name}: unknown step {step}"),
            }
        }
        assert_eq!(generator.seq_gen_resets(), self.seq_gen_resets, "{name}: resets");
    }
}
