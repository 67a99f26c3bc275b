//! Conformance of this crate's output, checked independently: results by a JSON Schema validator, pictures
//! and plots by an XML parser, both of Python.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::plot::Layout;
use crate::{Figure, Input, Outcome, figure::Figures, html, plot, sample};

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");

/// Reads cases from standard input, a JSON list, and returns `null` or an error for each.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
def first_error(case):
    return next((error.json_path + ': ' + error.message[:200] for error in validator.iter_errors(case)), None)
json.dump([first_error(case) for case in json.load(sys.stdin)], sys.stdout)
";

const PARSE_XML: &str = "
import json, sys, xml.etree.ElementTree
def error(text):
    try:
        xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        return str(error)
json.dump([error(text) for text in json.load(sys.stdin)], sys.stdout)
";

/// Runs a Python script with `cases` as input. `None`, with a message, if Python or `module` is missing; a
/// failure if all features are required.
fn python(test: &str, module: &str, script: &str, cases: &Value) -> Option<Vec<Option<String>>> {
    let probe = Command::new("python3")
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        let package = if module == "xml" { "python3" } else { "python3-jsonschema" };
        let missing = format!("{test}: python3 with {module} is missing (apt: {package})");
        assert!(std::env::var_os("ONBEAT_REQUIRE_ALL").is_none_or(|v| v != "1"), "{missing}");
        eprintln!("SKIP {missing}");
        return None;
    }
    let mut child = Command::new("python3")
        .args(["-c", script, SCHEMA_FILE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start python3");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(cases.to_string().as_bytes()).expect("python3 reads its input");
    drop(input);
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "{test}: the script failed");
    Some(serde_json::from_slice(&output.stdout).expect("a result for each case"))
}

fn samples() -> Vec<Outcome> {
    let mut failed = sample::scenario();
    failed.check(crate::Check::max("not measured", f64::NAN, 1_u64, "ns"));
    failed.cause("empty capture", "<in.pcap> holds no packet");
    let mut bare = crate::Run::begin("bare").finish();
    bare.conditions = crate::Conditions::default();
    bare.figure("nothing", crate::Measurement::of_runs("ns", &[]));
    let run = crate::Run::analysis("analysis");
    for input in [Input::of_file("in.pcap", b"packets"), Input::secret("probe.key")] {
        run.inputs().add(input);
    }
    let mut inputs = run.finish();
    inputs.seed(u64::MAX);
    vec![sample::scenario(), sample::bench(), failed, bare, inputs]
}

#[test]
fn results_conform_to_the_schema() {
    let cases = serde_json::to_value(samples()).unwrap();
    let Some(answers) = python("results_conform_to_the_schema", "jsonschema", VALIDATE, &cases)
    else {
        return;
    };
    assert_eq!(answers, vec![None; samples().len()]);
}

/// The results in documents: blocks `json` with the schema of results.
fn documented_results(directory: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(documented_results(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("```json\n").skip(1) {
                let block = rest.split("```").next().unwrap_or_default();
                if block.contains("\"schema\": \"onbeat-result/") {
                    let result = serde_json::from_str(block);
                    let name = path.display().to_string();
                    found.push((name.clone(), result.unwrap_or_else(|e| panic!("{name}: {e}"))));
                }
            }
        }
    }
    found
}

#[test]
fn results_in_documents_conform_to_the_schema() {
    let (names, cases): (Vec<_>, Vec<_>) =
        documented_results(Path::new(SCHEMA_FILE).parent().unwrap()).into_iter().unzip();
    assert!(!cases.is_empty(), "docs/reference/results.md has a result");
    let test = "results_in_documents_conform_to_the_schema";
    let Some(answers) = python(test, "jsonschema", VALIDATE, &json!(cases)) else { return };
    for (name, answer) in names.iter().zip(answers) {
        assert_eq!(answer, None, "{name}");
    }
}

/// One change each to a conforming object: (JSON pointer, new value).
fn mistakes() -> Vec<(&'static str, Value)> {
    vec![
        ("/schema", json!("onbeat-result/1")),
        ("/name", json!("")),
        ("/ok", json!("yes")),
        ("/ok", json!(false)),
        ("/checks/0/ok", json!(false)),
        ("/checks/0/value", json!(null)),
        ("/checks/0/value", json!("0")),
        ("/checks/0/sense", json!("lt")),
        ("/checks/0", json!({"name": "lost"})),
        ("/figures/counters/kind", json!("table")),
        ("/figures/counters/rows/0/0", json!([1])),
        ("/figures/delay by rate/parameter", json!("rate")),
        ("/figures/delay by rate/series/0/points/0/mean", json!("1")),
        ("/figures/delay by rate/series/0/points/0/deviation", json!(-1)),
        ("/figures/delay by rate/series/0/points/0/runs", json!(0.5)),
        ("/figures/delay by phase/series/0/curve/0", json!([101, 5])),
        ("/figures/delay by phase/series/0/count", json!(-1)),
        ("/figures/delay by phase/series/0/max", json!(null)),
        ("/figures/delay by phase/series/2/max", json!(5)),
        ("/figures/delay over time/series/0/points", json!(vec![(0, 0); 4001])),
        ("/figures/delay over time/phases/0/state", json!("sideways")),
        ("/figures/delay over time/losses/0/frames", json!(0)),
        ("/figures/topology/links/0/state", json!("maybe")),
        ("/figures/topology/streams/0/color", json!("pink")),
        ("/conditions", json!({})),
        ("/conditions/load", json!([0.1])),
        ("/conditions/steal_percent", json!(101)),
        ("/conditions/kernel", json!(6.1)),
        ("/origin", json!(null)),
        ("/origin", json!({})),
        ("/origin/command", json!([])),
        ("/origin/command", json!("onbeat delay")),
        ("/origin/commit", json!("main")),
        ("/origin/seed", json!(-1)),
        ("/origin/started", json!("yesterday")),
        ("/origin/inputs/0/kind", json!("socket")),
        ("/origin/inputs/0/sha256", json!("00")),
        ("/origin/inputs/0/sha256", json!(null)),
        ("/origin/inputs/0/size_octets", json!(null)),
        ("/origin/inputs/1/sha256", json!("0".repeat(64))),
        ("/started", json!("yesterday")),
        ("/duration_s", json!(-1)),
        ("/notes", json!("one")),
        ("/causes", json!([{"name": "empty capture"}])),
    ]
}

#[test]
fn broken_results_are_rejected() {
    let mut good = sample::scenario();
    good.input(Input::of_file("in.pcap", b"packets"));
    good.input(Input::interface("eth0"));
    let good = serde_json::to_value(good).unwrap();
    let mut cases = Vec::new();
    for (pointer, value) in mistakes() {
        let mut case = good.clone();
        let place = case.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} does not exist"));
        *place = value;
        cases.push(case);
    }
    for key in good.as_object().unwrap().keys() {
        let mut case = good.clone();
        case.as_object_mut().unwrap().remove(key);
        cases.push(case);
    }
    let mut extra = good.clone();
    extra["surprise"] = json!(1);
    cases.push(extra);

    let answers = python("broken_results_are_rejected", "jsonschema", VALIDATE, &json!(cases));
    for (index, answer) in answers.into_iter().flatten().enumerate() {
        assert!(answer.is_some(), "case {index} passed, {:?}", mistakes().get(index));
    }
}

fn pictures(figures: &Figures) -> Vec<String> {
    let picture = |layout: Layout| {
        move |(name, figure): (&String, &Figure)| match figure {
            Figure::Ratio(ratio) => Some(plot::ratios(&[(name, ratio)], name, layout)),
            Figure::Distribution(distribution) => {
                let legend = plot::distribution_legend(distribution);
                Some(plot::distribution(distribution, name, layout) + &legend)
            }
            Figure::TimeSeries(series) => Some(plot::time_series(series, name, layout)),
            Figure::Sweep(sweep) => {
                Some(plot::sweep(sweep, name, layout) + &plot::sweep_legend(sweep))
            }
            Figure::Topology(topology) => Some(topology.svg(layout)),
            Figure::Measurement(_) | Figure::Counters(_) => None,
        }
    };
    let each =
        Layout::ALL.into_iter().flat_map(|layout| figures.iter().filter_map(picture(layout)));
    each.map(|picture| format!("<p>{picture}</p>")).collect()
}

#[test]
fn pictures_are_well_formed() {
    let evil = "</svg><b a='\"&\u{0}\u{ffff}";
    let mut outcomes = samples();
    let mut renamed = Figures::new();
    for (name, mut figure) in sample::scenario().figures.into_iter().chain(sample::bench().figures)
    {
        match &mut figure {
            Figure::TimeSeries(series) => series.phases[0].name = evil.into(),
            Figure::Distribution(distribution) => distribution.series[0].name = evil.into(),
            Figure::Ratio(ratio) => ratio.limit_name = evil.into(),
            Figure::Sweep(sweep) => {
                sweep.series[0].name = evil.into();
                sweep.parameter.name = evil.into();
            }
            Figure::Topology(topology) => topology.nodes[0].name = evil.into(),
            Figure::Measurement(_) | Figure::Counters(_) => {}
        }
        renamed.insert(format!("{name}{evil}"), figure);
    }
    outcomes[0].figures.extend(renamed);
    let mut svgs: Vec<String> =
        outcomes.iter().flat_map(|outcome| pictures(&outcome.figures)).collect();
    assert!(svgs.len() > 15, "{}", svgs.len());
    let expected = svgs.len();
    svgs.push("<svg><line></svg>".into());
    let Some(answers) = python("pictures_are_well_formed", "xml", PARSE_XML, &json!(svgs)) else {
        return;
    };
    assert!(answers[expected].is_some(), "the parser detects errors");
    assert_eq!(answers[..expected], vec![None; expected]);
}

#[test]
#[ignore = "writes sample reports for manual review"]
fn write_sample_reports() {
    let directory = std::env::temp_dir().join("onbeat-report-samples");
    std::fs::create_dir_all(&directory).unwrap();
    for outcome in samples() {
        let place = directory.join(&outcome.name).with_extension("html");
        std::fs::write(&place, html::render(&outcome)).unwrap();
        println!("{}\n{}", crate::text::render(&outcome, true), place.display());
    }
}
