//! Names with markup, quotes, control characters and UTF-8 in reports: of interfaces in captures, of
//! processes and devices. page.py checks each page. Names of streams and nodes that a page could not
//! contain are rejected. layout.py checks the layout by chromium.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use onbeat_delay::capture::{LinkType, PcapngWriter};
use onbeat_irq_core::names::Octets;
use onbeat_lab::world::Mounts;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_wire::random::Random;

use crate::common::process::Process;
use crate::common::{CommandOutput, run, run_in, wait_for};
use crate::runs::{Runs, one_of};

const DIRECTORY: &str = "/run/onbeat/lab";

/// A random name, without NUL.
fn name(random: &mut Random) -> String {
    let parts = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</title>",
        "</style>",
        "</svg>",
        "\"",
        "'",
        "\" onload=\"x",
        "' style='x",
        "&",
        "&lt;",
        "&#60;",
        "<!--",
        "-->",
        "]]>",
        "<![CDATA[",
        "javascript:",
        "ü",
        "€",
        "𝄞",
        "\u{202e}",
        "\u{feff}",
        "\u{fffe}",
        "\u{7f}",
        "\u{85}",
        "\u{1b}[31m",
        "\t",
        "\n",
        "\r",
        "\\",
        "`",
        "${x}",
        "a",
        "<",
        ">",
        "=",
        "/",
    ];
    (0..=random.below(5)).map(|_| *one_of(random, &parts)).collect()
}

fn judge(page: &str, shown: Option<&str>) -> CommandOutput {
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/soak/page.py");
    let mut python = Command::new("python3");
    python.args([judge, page]).args(shown);
    python.output().expect("python3").into()
}

/// Checks the layout by chromium, for the size of a phone and of a desktop.
fn judge_layout(page: &str) -> CommandOutput {
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/soak/layout.py");
    let mut python = Command::new("python3");
    python.args([judge, page, "360", "1280"]);
    python.output().expect("python3").into()
}

#[track_caller]
fn assert_laid_out(page: &str, name: &str) {
    let judged = judge_layout(page);
    assert_eq!(judged.code, 0, "{name:?}: {}", judged.err);
}

#[track_caller]
fn assert_closed(page: &str, shown: Option<&str>, name: &str) {
    let judged = judge(page, shown);
    assert_eq!(judged.code, 0, "{name:?}: {}", judged.err);
}

/// A pcapng file of two interfaces: one packet in, the same packet out.
fn pcapng(names: [&str; 2]) -> io::Result<Vec<u8>> {
    let mut file = PcapngWriter::new(Vec::new())?;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    frame.resize(60, 7);
    let [inside, outside] = names.map(|name| file.interface(LinkType::ETHERNET, name));
    file.packet(inside?, 1_000_000, &frame, 60)?;
    file.packet(outside?, 1_010_000, &frame, 60)?;
    file.finish()
}

fn capture(random: &mut Random, with_layout: bool) {
    let (name, page) = (name(random), format!("{DIRECTORY}/capture.html"));
    let other = format!("{name}2");
    let file = format!("{DIRECTORY}/{}.pcapng", name.replace('/', "|").replace('\0', ""));
    fs::write(&file, pcapng([&name, &other]).unwrap()).unwrap();
    // Two packets are too few for a result: the page is checked in any case.
    let sides = if name.contains(',') { "0,1".into() } else { format!("{name},{other}") };
    let sides = if random.chance(0.5) { "0,1".into() } else { sides };
    let ran = run(&["delay", "mirror", &file, "--interface", &sides, "--html", &page, "--quiet"]);
    if ran.code < 2 {
        assert_closed(&page, None, &name);
        if with_layout {
            assert_laid_out(&page, &name);
        }
    }
    let _ = fs::remove_file(&page);
    fs::remove_file(file).unwrap();
}

/// Processes and devices with such names, as the kernel reports them to the ledger.
fn ledger(random: &mut Random, handle: &Handle, with_layout: bool) {
    let fits = |name: String, device: bool| {
        let name: String =
            name.chars().filter(|c| !(*c == '/' || device && (*c == ':' || *c <= ' '))).collect();
        let end = (0..=15).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.get(..end).unwrap_or(&name).to_owned()
    };
    let process = fits(name(random), false);
    let device = fits(name(random), true);
    if process.is_empty()
        || device.is_empty()
        || process.starts_with('.')
        || device.starts_with('.')
    {
        return;
    }
    let (recording, page) = (format!("{DIRECTORY}/names.irq"), format!("{DIRECTORY}/names.html"));
    let link = format!("{DIRECTORY}/names/{process}");
    let _ = fs::remove_dir_all(format!("{DIRECTORY}/names"));
    fs::create_dir(format!("{DIRECTORY}/names")).unwrap();
    // onbeat executes it, and the name of a process is that of the program that was executed last.
    symlink(env!("CARGO_BIN_EXE_onbeat-lab"), &link).unwrap();
    // The kernel rejects a few names; then the device has an ordinary one.
    let named = handle.create_veth(&VethEnd::new(&device), &VethEnd::new("peer")).is_ok();
    if !named {
        handle.create_veth(&VethEnd::new("plain"), &VethEnd::new("peer")).unwrap();
    }
    let device = if named { &device } else { "plain" };
    handle.set_up(device).unwrap();
    handle.set_up("peer").unwrap();
    let mut load = Command::new(&link);
    load.args(["load", "net", "127.0.0.1:9", "--rate", "20000", "--for", "10s"]);
    handle.namespace().start_in(&mut load);
    let load = Process::spawn(load);
    // Until it is observed, there is nothing to name.
    let received = || handle.statistics("lo").unwrap().rx_packets;
    let before = received();
    wait_for("load", || received() > before + 1000);
    let ran = run_in(handle.namespace(), &["irq", "record", "-o", &recording, "--for", "300ms"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    drop(load);
    handle.delete("peer").unwrap();
    let ran = run(&["irq", "report", &recording, "--html", &page]);
    assert!(ran.code < 2, "{ran:?}");
    // The kernel keeps 15 octets; non-printable characters are written as their octets.
    let shown = Octets::from(process.as_bytes()).to_string();
    assert_closed(&page, Some(&shown), &process);
    if with_layout {
        assert_laid_out(&page, &process);
    }
}

/// Names of streams and nodes that a page could not contain are rejected.
fn refused(random: &mut Random) {
    let hostile = format!("{}\0", name(random));
    let name = if random.chance(0.5) { &hostile } else { hostile.trim_end_matches('\0') };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.chars().all(plain) {
        return;
    }
    let quoted = toml_string(name);
    let port = "[[port]]\nname = \"in\"\ninterface = \"lo\"\n";
    for text in [
        format!("[node]\nname = {quoted}\n{port}"),
        format!("{port}[[stream]]\nname = {quoted}\nmember = []\negress = []\n"),
        port.replace("\"in\"", &quoted),
    ] {
        let file = format!("{DIRECTORY}/names.toml");
        fs::write(&file, &text).unwrap();
        let ran = run(&["run", "--check", &file]);
        assert_eq!(ran.code, 2, "{text:?}: {ran:?}");
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!ran.err.chars().any(raw), "control characters for the terminal: {:?}", ran.err);
    }
}

fn toml_string(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
    format!("\"{escaped}\"")
}

/// Reports with every kind of figure: a scenario, captures, a bus.
fn reports() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let bus = format!("{root}/vectors/powerlink/boot-1cn-stock.pcap");
    let page = format!("{DIRECTORY}/report.html");
    for line in [
        &["lab", "run", "link-failure", "--seconds", "0.3", "--quiet"][..],
        &["lab", "run", "matrix", "--seconds", "0.1", "--quiet"],
        &["lab", "run", "ladder", "--seconds", "0.1", "--quiet"],
        &["delay", "match", &bus, &bus, "--quiet"],
        &["powerlink", "sniff", &bus, "--quiet"],
    ] {
        let ran = run(&[line, &["--html", &page]].concat());
        assert!(ran.code < 2, "{line:?}: {ran:?}");
        assert_closed(&page, None, &line.join(" "));
        assert_laid_out(&page, &line.join(" "));
    }
}

/// Control: truncated or overlapping texts are detected.
fn layout_control() {
    let page = format!("{DIRECTORY}/layout.html");
    let judged = |body: &str| {
        let head = "<head><meta charset=utf-8><title>x</title></head>";
        fs::write(&page, format!("<!DOCTYPE html><html>{head}<body>{body}</body></html>")).unwrap();
        judge_layout(&page)
    };
    let svg = |texts: &str| format!("<svg viewBox='0 0 300 40' width=300 height=40>{texts}</svg>");
    let good = judged(&(svg("<text x=20 y=20>one</text><text x=90 y=20>two</text>") + "<p>text"));
    assert_eq!(good.code, 0, "{good:?}");
    for body in [
        "<p style='width: 40px; overflow: hidden; white-space: nowrap'>a text that is cut</p>"
            .into(),
        "<table><tr><td style='white-space: nowrap'>".to_owned() + &"wide ".repeat(99) + "</table>",
        svg("<text x=290 y=20>cut at the right</text>"),
        svg("<text x=20 y=20>one over</text><text x=30 y=20>the other</text>"),
        svg("<text x=20 y=20 font-size=4>too small to read</text>"),
    ] {
        assert_ne!(judged(&body).code, 0, "control: {body}");
    }
}

/// Control: open elements are detected.
fn control() {
    let page = format!("{DIRECTORY}/control.html");
    let judged = |body: &str| {
        fs::write(&page, format!("<!DOCTYPE html><html><body>{body}</body></html>")).unwrap();
        judge(&page, Some("text")).code
    };
    assert_eq!(judged("<p>text</p>"), 0);
    for body in [
        "text<script>1</script>",
        "<p onclick=x>text</p>",
        "text<img src=x>",
        "<p>text",
        "text</p>",
        "<style>@import 'x';</style>text",
        "<p \"x\">text</p>",
        "txt",
        "<svg href='//x'></svg>text",
    ] {
        assert_ne!(judged(body), 0, "control: {body}");
    }
}

pub(crate) fn soak(runs: &mut Runs) {
    let _mounts = Mounts::enter().expect("mounts of its own");
    let handle = Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap();
    assert!(Path::new(DIRECTORY).is_dir());
    control();
    let chromium = Command::new("chromium").arg("--version").output();
    let with_layout = chromium.is_ok_and(|ran| ran.status.success());
    if with_layout {
        layout_control();
        reports();
    } else {
        runs.skip("layouts: no chromium (apt-get install chromium)");
    }
    while let Some(mut random) = runs.next() {
        for number in 0..5 {
            capture(&mut random, with_layout && number == 0);
            refused(&mut random);
        }
        ledger(&mut random, &handle, with_layout);
    }
}
