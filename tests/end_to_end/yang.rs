//! Streams that `onbeat yang set` gives a running node: in effect at once, and kept by restarts and reloads.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use onbeat_lab::World;
use onbeat_node::control::{Client, ClientError, DIRECTORY, Request};
use onbeat_node::yang::{self, NodeData, SetError, SetTerms};
use serde_json::{Value, json};

use crate::common::{
    Capture, FrameText, GROUP, Injector, PORTS, VLAN, can_run, one_node, program, replicate, run,
    show, start, wait_for,
};

/// The second file.
pub(crate) const STORED: &str = "/run/onbeat/lab/stored/a.toml";
const FILE: &str = "/run/onbeat/lab/a.toml";
const DOCUMENT: &str = "/run/onbeat/lab/document.json";
pub(crate) const OTHER: &str = "01:00:5e:00:00:02";
const IDENTITY: &str = "ieee802-dot1cb-stream-identification:stream-identity";

pub(crate) fn text() -> String {
    let node = format!("[node]\nstored-streams = \"{STORED}\"\n");
    format!("{node}{PORTS}{}", replicate("axis", GROUP, VLAN))
}

fn get() -> Value {
    let got = run(&["yang", "get", "a", "--config"]);
    assert_eq!((got.code, got.err.as_str()), (0, ""));
    serde_json::from_str(&got.out).unwrap()
}

/// An entry of a stream that the node forwards to a path.
fn guest(handle: u32, vlan: u16, path: &str) -> Value {
    json!({
        "index": handle,
        "handle": handle,
        "out-facing": { "input-port": ["host"], "output-port": [path] },
        "null-stream-identification":
            { "destination-mac": OTHER.to_uppercase().replace(':', "-"), "tagged": "tagged", "vlan": vlan },
    })
}

fn set(document: &Value) -> onbeat_testing::CommandOutput {
    fs::write(DOCUMENT, document.to_string()).unwrap();
    run(&["yang", "set", "a", DOCUMENT])
}

/// A change of a document.
type Change<'a> = &'a dyn Fn(&mut Value);

fn names() -> Vec<String> {
    show("a").streams.into_iter().map(|stream| stream.name).collect()
}

/// Checks that frames of the guest stream leave by a path.
pub(crate) fn leaves_by(world: &World, path: &str) {
    let mut capture = Capture::open(world, path, "eth0");
    let frame = FrameText::new(OTHER, &[VLAN], None).octets();
    let host = Injector::open(world, "host", "eth0");
    wait_for(&format!("a frame at {path}"), || {
        host.send(&frame);
        capture.take().contains(&frame)
    });
}

fn restart(world: &mut World) {
    world.daemon("a").unwrap().terminate().unwrap();
    world.start("a", program()).unwrap();
}

#[test]
fn streams_that_are_set_stay_after_a_reload_and_a_restart() {
    if !can_run() {
        return;
    }
    let _ = fs::remove_dir_all("/run/onbeat/lab/stored");
    let mut world = start(&one_node(&text()));
    let before = get();
    assert_eq!((set(&before).code, names()), (0, vec!["axis".to_owned()]));

    // Handles of others do not shift: 40 is kept, and 1 to 3 are those of the file.
    let mut with_guest = before.clone();
    with_guest[IDENTITY].as_array_mut().unwrap().push(guest(40, VLAN, "path1"));
    let done = set(&with_guest);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(get(), with_guest);
    leaves_by(&world, "path1");
    let mode = fs::metadata(STORED).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let mut other = before.clone();
    other[IDENTITY].as_array_mut().unwrap().push(guest(40, VLAN, "path2"));
    assert_eq!(set(&other).code, 0);
    leaves_by(&world, "path2");
    assert_eq!(run(&["reload", "a"]).code, 0);
    assert_eq!((get(), names()), (other.clone(), vec!["axis".to_owned(), "stream-40".to_owned()]));
    restart(&mut world);
    assert_eq!(get(), other);
    leaves_by(&world, "path2");

    // The same stream in both files: nothing changes, and the message names both.
    let both = format!("{}{}", text(), replicate("stream-40", "01:00:5e:00:00:03", VLAN));
    fs::write(FILE, &both).unwrap();
    let refused = run(&["reload", "a"]);
    assert_eq!(refused.code, 2);
    for part in [STORED, "the node's file has a stream \"stream-40\", too"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    assert_eq!(run(&["run", "--check", FILE]).code, 2);
    fs::write(FILE, text()).unwrap();
    assert_eq!(run(&["run", "--check", FILE]).code, 0);

    // Without streams of its own there is no second file.
    assert_eq!(set(&before).code, 0);
    assert!(!fs::exists(STORED).unwrap());
    assert_eq!(get(), before);
}

/// Increments the VLAN of a stream of node "a", each time as it is read; returns the number of refusals because of the other
/// writer.
fn increment(times: usize) -> usize {
    let mut refusals = 0;
    for _ in 0..times {
        loop {
            let mut client = Client::to_node(Some("a"), Path::new(DIRECTORY)).unwrap();
            let NodeData { mut document, sha256, .. } = yang::running(&mut client, false).unwrap();
            let entries = document[IDENTITY].as_array_mut().unwrap();
            let vlan = &mut entries.last_mut().unwrap()["null-stream-identification"]["vlan"];
            *vlan = json!(vlan.as_u64().unwrap() + 1);
            let terms = SetTerms { base: sha256, ..SetTerms::default() };
            match yang::set(&mut client, &document, terms, "document.json") {
                Ok(_) => break,
                Err(SetError::Changed | SetError::Client(ClientError::Conflict(_))) => {
                    refusals += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    refusals
}

#[test]
fn no_write_of_two_concurrent_writers_is_lost() {
    const TIMES: usize = 100;
    if !can_run() {
        return;
    }
    let _ = fs::remove_dir_all("/run/onbeat/lab/stored");
    let _world = start(&one_node(&text()));
    let before = get();

    // In turn: the later write is derived from what the earlier one changed.
    let write_to = |name: &str, document: &Value| {
        let path = format!("/run/onbeat/lab/{name}.json");
        fs::write(&path, document.to_string()).unwrap();
        path
    };
    let base = write_to("base", &before);
    let with = |handle: u32| {
        let mut document = before.clone();
        document[IDENTITY].as_array_mut().unwrap().push(guest(handle, VLAN, "path1"));
        write_to(&format!("with-{handle}"), &document)
    };
    let with_40 = with(40);
    assert_eq!(run(&["yang", "set", "a", &with_40, "--base", &base]).code, 0);
    let refused = run(&["yang", "set", "a", &with(41), "--base", &base]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("has changed since it was read"), "{}", refused.err);
    assert_eq!(names(), ["axis", "stream-40"]);
    let mut client = Client::to_node(Some("a"), Path::new(DIRECTORY)).unwrap();
    let terms = SetTerms { base: Some("0".repeat(64)), ..SetTerms::default() };
    let refused = yang::set(&mut client, &before, terms, "a").unwrap_err();
    assert!(matches!(refused, SetError::Changed), "{refused}");
    // After the last reading by the client, the node itself refuses.
    let stale = |base: &str| Request::SetStreams {
        remove: vec!["stream-41".to_owned()],
        text: String::new(),
        file: "a".to_owned(),
        store: false,
        base: Some(base.to_owned()),
        has_lock: false,
        force: false,
    };
    let former = yang::running(&mut client, false).unwrap().sha256.unwrap();
    let other = run(&["yang", "set", "a", &with(41), "--base", &with_40]);
    assert_eq!((other.code, names()), (0, vec!["axis".to_owned(), "stream-41".to_owned()]));
    let refused = client.order(&stale(&former)).unwrap_err();
    assert!(matches!(refused, ClientError::Conflict(_)), "{refused}");
    assert!(refused.to_string().contains("\"a\" has changed since it was read"), "{refused}");

    let vlan = || get()[IDENTITY][3]["null-stream-identification"]["vlan"].as_u64().unwrap();
    let before = vlan();
    let refusals = std::thread::scope(|scope| {
        let writers = [(); 2].map(|()| scope.spawn(|| increment(TIMES)));
        writers.map(|writer| writer.join().unwrap())
    });
    assert_eq!(vlan(), before + 2 * TIMES as u64, "refusals: {refusals:?}");
    // Without a conflict, nothing was tried.
    assert!(refusals.iter().sum::<usize>() > 0);
}

#[test]
fn a_document_is_set_as_a_whole_or_refused_by_leaf() {
    if !can_run() {
        return;
    }
    let _ = fs::remove_dir_all("/run/onbeat/lab/stored");
    let world = start(&one_node(&text()));
    let before = get();
    let with = |change: Change<'_>| {
        let mut document = before.clone();
        document[IDENTITY].as_array_mut().unwrap().push(guest(40, VLAN, "path1"));
        change(&mut document);
        document
    };
    let frer = "ieee802-dot1cb-frer:frer";
    let cases: [(Change<'_>, &str); 6] = [
        (
            &|document| document[IDENTITY][3]["in-facing"] = json!({ "input-port": ["path1"] }),
            "stream-identity[index='40']/in-facing/input-port: the node has no in-facing",
        ),
        (
            &|document| document[IDENTITY][3]["index"] = json!(7),
            "stream-identity[index='7']: the node would not keep this entry",
        ),
        (
            &|document| document[IDENTITY][0]["null-stream-identification"]["vlan"] = json!(5),
            "stream-identity[index='1']: stream \"axis\" is of the node's file, and is changed here",
        ),
        (
            &|document| {
                document[IDENTITY].as_array_mut().unwrap().drain(..3);
                document.as_object_mut().unwrap().remove(frer);
            },
            "stream-identity[index='1']: stream \"axis\" is of the node's file, and is removed here",
        ),
        (
            &|document| {
                _ = document["ietf-interfaces:interfaces"]["interface"]
                    .as_array_mut()
                    .unwrap()
                    .pop()
            },
            "interface[name='path2']: the interface is missing",
        ),
        (
            &|document| document[IDENTITY][3]["handle"] = json!(0),
            "stream-identity[index='40']/handle: 0 is not a number",
        ),
    ];
    for (change, cause) in cases {
        let refused = set(&with(change));
        assert_eq!(refused.code, 1, "{cause}: {}", refused.err);
        assert!(refused.err.contains(cause), "{cause}: {}", refused.err);
        assert_eq!(names(), ["axis"]);
        assert!(!fs::exists(STORED).unwrap());
    }
    // Running otherwise than the file: it would come back with the next start.
    let part = "/run/onbeat/lab/axis.part";
    fs::write(part, replicate("axis", GROUP, 7)).unwrap();
    assert_eq!(run(&["stream", "change", part, "--node", "a"]).code, 0);
    let mut running = get();
    running[IDENTITY].as_array_mut().unwrap().push(guest(40, VLAN, "path1"));
    let refused = set(&running);
    assert!(
        refused.code == 2 && refused.err.contains("stream \"axis\" differs in"),
        "{}",
        refused.err
    );
    assert_eq!(names(), ["axis"]);
    drop(world);
}

#[test]
fn a_stored_file_that_another_user_could_write_is_refused() {
    if !can_run() {
        return;
    }
    let _ = fs::remove_dir_all("/run/onbeat/lab/stored");
    let world = start(&one_node(&text()));
    let mut document = get();
    document[IDENTITY].as_array_mut().unwrap().push(guest(40, VLAN, "path1"));
    assert_eq!(set(&document).code, 0);
    let refused = |cause: &str| {
        let refused = run(&["reload", "a"]);
        assert!(refused.code == 2 && refused.err.contains(cause), "{cause}: {}", refused.err);
        assert_eq!(names(), ["axis", "stream-40"]);
    };
    fs::set_permissions(STORED, PermissionsExt::from_mode(0o666)).unwrap();
    refused("other users can write to it (mode 0666)");
    let aside = "/run/onbeat/lab/stored/aside";
    fs::set_permissions(STORED, PermissionsExt::from_mode(0o600)).unwrap();
    fs::rename(STORED, aside).unwrap();
    symlink(aside, STORED).unwrap();
    refused("it is a symbolic link");
    fs::remove_file(STORED).unwrap();
    fs::rename(aside, STORED).unwrap();
    std::os::unix::fs::chown(STORED, Some(1), None).unwrap();
    refused("it belongs to user 1");
    std::os::unix::fs::chown(STORED, Some(0), None).unwrap();
    assert_eq!(run(&["reload", "a"]).code, 0);
    drop(world);
}
