//! Results of analyses contain their origin: the command line, which a shell can repeat, and the inputs
//! with the hashes of sha256sum; and no conditions of the analyzing machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use onbeat_testing::TemporaryDirectory;
use serde_json::Value;

use crate::common::json::{can_validate, validate};
use crate::common::{CommandOutput, program, root, run};

const BUS: &str = "vectors/powerlink/boot-1cn-stock.pcap";

fn sha256sum(path: &Path) -> String {
    let ran = Command::new("sha256sum").arg(path).output().expect("sha256sum");
    let text = String::from_utf8(ran.stdout).expect("text");
    // A name with a backslash or a line end has a backslash in front.
    text.trim_start_matches('\\').split(' ').next().expect("a hash").to_owned()
}

/// Runs a line by a shell that finds `onbeat`.
fn shell(line: &str) -> CommandOutput {
    let directory = Path::new(program()).parent().expect("the directory of the program");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    Command::new("sh").args(["-c", line]).env("PATH", path).output().expect("sh").into()
}

#[track_caller]
fn result(ran: &CommandOutput) -> Value {
    assert!(ran.code < 2, "{ran:?}");
    if can_validate() {
        validate(&ran.out);
    }
    serde_json::from_str(&ran.out).expect("JSON")
}

#[track_caller]
fn assert_conditions_unknown(result: &Value) {
    let conditions = result["conditions"].as_object().expect("an object");
    assert!(conditions.values().all(Value::is_null), "{conditions:?}");
    assert!(result["origin"]["analyzed_on"]["kernel"].is_string(), "{result:#}");
}

/// The text of the first `pre` element.
fn command_line(page: &str) -> String {
    let pre = page.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let pre = pre.expect("a command line").to_owned();
    entities.iter().fold(pre, |text, (entity, c)| text.replace(entity, c))
}

#[test]
fn a_report_repeats_by_its_command_line() {
    let directory = TemporaryDirectory::new("origin");
    let capture = directory.file("it's a \"bus\" & <more> $HOME.pcap");
    fs::copy(root().join(BUS), &capture).expect("a copy");
    let page = directory.file("bus.html");
    let words = [
        "powerlink",
        "sniff",
        capture.to_str().expect("text"),
        "--quiet",
        "--json",
        "--html",
        page.to_str().expect("text"),
    ];
    let first = result(&run(&words));
    assert_conditions_unknown(&first);
    let command: Vec<&str> = [&["onbeat"][..], &words].concat();
    assert_eq!(first["origin"]["command"], Value::from(command));
    let input = &first["origin"]["inputs"][0];
    assert_eq!(input["sha256"], sha256sum(&capture), "{input}");
    assert_eq!(input["size_octets"], fs::metadata(&capture).expect("it is there").len());

    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.contains(&sha256sum(&capture)) && html.contains("unknown: the inputs"), "{html}");
    fs::remove_file(&page).expect("it is there");
    let again = result(&shell(&command_line(&html)));
    assert_eq!(again["origin"]["command"], first["origin"]["command"]);
    assert_eq!(again["figures"], first["figures"]);
    assert!(page.is_file(), "the command line writes the page again");
}

#[test]
fn both_captures_are_inputs_and_a_pipe_is_hashed_as_it_is_read() {
    let bus = root().join(BUS);
    let (path, hash) = (bus.to_str().expect("text"), sha256sum(&bus));
    let files = result(&run(&["delay", "match", path, path, "--quiet", "--json"]));
    assert_conditions_unknown(&files);
    let inputs = files["origin"]["inputs"].as_array().expect("inputs");
    // The same file twice is one input.
    assert_eq!(inputs.len(), 1, "{inputs:?}");
    assert_eq!((&inputs[0]["kind"], &inputs[0]["sha256"]), (&"file".into(), &hash.clone().into()));

    let piped =
        result(&shell(&format!("gzip -c '{path}' | onbeat delay match '{path}' - --quiet --json")));
    let inputs = piped["origin"]["inputs"].as_array().expect("inputs");
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(inputs[0]["sha256"], hash);
    assert_eq!((&inputs[1]["name"], &inputs[1]["kind"]), (&"-".into(), &"pipe".into()));
    // The hash is of the compressed octets.
    let sum = shell(&format!("gzip -c '{path}' | sha256sum")).out;
    assert!(sum.starts_with(inputs[1]["sha256"].as_str().expect("a hash")), "{sum}: {inputs:?}");
}
