//! A node managed by a NETCONF client of another project (ncclient), through the SSH server of the machine.
//!
//! ```text
//!   ncclient --- sshd --- onbeat yang netconf a
//!                                    |
//!   host eth0 ----------- host [ a ] path1 --- eth0 path1
//!                                    path2 --- eth0 path2
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::World;
use onbeat_lab::world::die_with_parent;
use onbeat_testing::{TemporaryDirectory, require_that};
use serde_json::{Value, json};

use crate::common::{
    VLAN, can_run, log, one_node, program, replicate, root, run, show, start, wait_for,
};
use crate::yang::{OTHER, STORED, leaves_by, text};

const PORT: u16 = 2830;
const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const SID: &str = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification";
const PYTHON: &str = "/usr/bin/python3";

/// An SSH server with the subsystem, in the network namespace of the node.
struct SshServer {
    process: Child,
    directory: TemporaryDirectory,
}

impl SshServer {
    fn start(world: &World) -> Self {
        let directory = TemporaryDirectory::new("netconf-sshd");
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.file(key));
            assert!(make.status().unwrap().success());
        }
        let file = |name: &str| directory.file(name).display().to_string();
        let modules = std::env::var("ONBEAT_YANG_MODULES").unwrap_or_default();
        let config = format!(
            "Port {PORT}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin prohibit-password\nUsePAM no\nPidFile none\nSetEnv ONBEAT_YANG_MODULES={modules}\n\
             Subsystem netconf \"{} yang netconf a\"\n",
            file("host"),
            file("user.pub"),
            program().display(),
        );
        fs::write(directory.file("config"), config).unwrap();
        // The directory of its unprivileged process, which a service manager makes.
        fs::create_dir_all("/run/sshd").unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(directory.file("config"));
        sshd.stdin(Stdio::null()).stderr(fs::File::create(directory.file("log")).unwrap());
        die_with_parent(&mut sshd);
        let process = namespace(world).start_in(&mut sshd).spawn().unwrap();
        Self { process, directory }
    }

    fn client(&self, world: &World) -> Client {
        let mut python = Command::new(PYTHON);
        python.arg(root().join("tests/end_to_end/netconf/client.py"));
        python.arg(PORT.to_string()).arg(self.directory.file("user"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        die_with_parent(&mut python);
        let mut process = namespace(world).start_in(&mut python).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, input, output }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn namespace(world: &World) -> &onbeat_netdev::Namespace {
    world.namespace("a").unwrap()
}

/// ncclient, with sessions by name.
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn call(&mut self, session: &str, call: &str, arguments: Value) -> Value {
        let request = json!({ "session": session, "call": call, "arguments": arguments });
        writeln!(self.input, "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{call}: {error}: {line:?}"))
    }

    /// The result of a call that succeeds.
    #[track_caller]
    fn done(&mut self, session: &str, call: &str, arguments: Value) -> String {
        let answer = self.call(session, call, arguments);
        answer["xml"].as_str().unwrap_or_else(|| panic!("{call}: {answer}")).to_owned()
    }

    /// The error of a call.
    #[track_caller]
    fn refused(&mut self, session: &str, call: &str, arguments: Value, tag: &str) -> Value {
        let answer = self.call(session, call, arguments);
        assert_eq!(answer["tag"], tag, "{call}: {answer}");
        answer
    }

    #[track_caller]
    fn edit(&mut self, session: &str, entry: &str) -> String {
        self.done(session, "edit_config", edit(entry))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn edit(entry: &str) -> Value {
    let config = format!("<nc:config xmlns:nc=\"{BASE}\">{entry}</nc:config>");
    json!({ "target": "running", "config": config, "error_option": "rollback-on-error" })
}

/// An entry of a stream that the node forwards to a path.
fn guest(handle: u32, path: &str) -> String {
    let destination = OTHER.to_uppercase().replace(':', "-");
    format!(
        "<stream-identity xmlns=\"{SID}\" nc:operation=\"replace\"><index>{handle}</index><handle>{handle}</handle>\
         <out-facing><input-port>host</input-port><output-port>{path}</output-port></out-facing>\
         <null-stream-identification><destination-mac>{destination}</destination-mac><tagged>tagged</tagged>\
         <vlan>{VLAN}</vlan></null-stream-identification></stream-identity>"
    )
}

fn names() -> Vec<String> {
    show("a").streams.into_iter().map(|stream| stream.name).collect()
}

fn can_manage() -> bool {
    let has = |command: &str, argument: &str| {
        let tried = Command::new(command).args(["-c", argument]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    can_run()
        && require_that(
            has(PYTHON, "import ncclient"),
            "ncclient (apt-get install python3-ncclient)",
        )
        && require_that(
            fs::exists("/usr/sbin/sshd").unwrap(),
            "sshd (apt-get install openssh-server)",
        )
}

fn managed_node() -> World {
    let _ = fs::remove_dir_all("/run/onbeat/lab/stored");
    let world = start(&one_node(&text()));
    let mut up = Command::new("ip");
    up.args(["link", "set", "lo", "up"]);
    assert!(namespace(&world).start_in(&mut up).status().unwrap().success());
    world
}

#[test]
fn ncclient_manages_a_node() {
    if !can_manage() {
        return;
    }
    let mut world = managed_node();
    let server = SshServer::start(&world);
    wait_for("the SSH server", || {
        let log = fs::read_to_string(server.directory.file("log")).unwrap_or_default();
        log.contains("Server listening")
    });
    let mut client = server.client(&world);
    let hello = client.call("x", "hello", json!({}));
    let ssh_log = || fs::read_to_string(server.directory.file("log")).unwrap_or_default();
    let capabilities =
        hello["capabilities"].as_array().unwrap_or_else(|| panic!("{hello}: {}", ssh_log()));
    for capability in
        ["base:1.1", "startup:1.0", "writable-running:1.0", "module=ieee802-dot1cb-frer&"]
    {
        let has = |one: &Value| one.as_str().is_some_and(|one| one.contains(capability));
        assert!(capabilities.iter().any(has), "{capability}: {hello}");
    }

    // State and configuration, all of it and a part.
    let all = client.done("x", "get", json!({}));
    for part in ["<oper-status>up</oper-status>", "<sequence-generation>", "<yang-library"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    is_valid(&all);
    let filter =
        format!("<stream-identity xmlns=\"{SID}\"><index>1</index><handle/></stream-identity>");
    let one = client.done("x", "get", json!({ "filter": ["subtree", filter] }));
    assert!(one.contains("<handle>1</handle>") && !one.contains("<handle>2</handle>"), "{one}");
    let config = client.done("x", "get_config", json!({ "source": "running" }));
    assert!(config.contains("<destination-mac>01-00-5E-00-00-01</destination-mac>"), "{config}");
    assert!(!config.contains("oper-status"));

    // A stream is added, changed and removed; frames follow it.
    client.edit("x", &guest(40, "path1"));
    leaves_by(&world, "path1");
    client.edit("x", &guest(40, "path2"));
    leaves_by(&world, "path2");
    let entry = format!(
        "<stream-identity xmlns=\"{SID}\" nc:operation=\"delete\"><index>40</index></stream-identity>"
    );
    client.edit("x", &entry);
    assert_eq!(names(), ["axis"]);
    let missing = client.refused("x", "edit_config", edit(&entry), "data-missing");
    assert!(missing["path"].as_str().unwrap().contains(":index='40'"), "{missing}");
    let inward = guest(40, "path1").replace("out-facing", "in-facing");
    let refused = client.refused("x", "edit_config", edit(&inward), "invalid-value");
    assert!(refused["path"].as_str().unwrap().contains("in-facing"), "{refused}");
    assert_eq!(names(), ["axis"]);

    // One session has the lock.
    client.done("x", "lock", json!({ "target": "running" }));
    let denied = client.refused("y", "lock", json!({ "target": "running" }), "lock-denied");
    let id = client.call("x", "hello", json!({}))["id"].as_str().unwrap().to_owned();
    assert!(denied["info"].as_str().unwrap().contains(&id), "{denied}");
    client.refused("y", "edit_config", edit(&guest(40, "path1")), "in-use");
    client.edit("x", &guest(40, "path1"));
    // It excludes all other changes, too, and none of them is made later.
    let part = "/run/onbeat/lab/guest.part";
    fs::write(part, replicate("guest", "01:00:5e:00:00:07", VLAN)).unwrap();
    let document = "/run/onbeat/lab/document.json";
    fs::write(document, run(&["yang", "get", "a", "--config"]).out).unwrap();
    let holder = format!("locked by process {id} (onbeat yang netconf)");
    let changes: [&[&str]; 4] = [
        &["stream", "add", part, "--node", "a"],
        &["stream", "remove", "axis", "--node", "a", "--force"],
        &["reload", "a"],
        &["yang", "set", "a", document],
    ];
    for change in changes {
        let refused = run(change);
        assert!(refused.code == 2 && refused.err.contains(&holder), "{change:?}: {refused:?}");
    }
    let pid = Pid::from_raw(world.daemon("a").unwrap().pid() as i32);
    kill(pid, Signal::SIGHUP).unwrap();
    wait_for("the refusal of the signal", || {
        log("a").contains("SIGHUP is refused: running of node")
    });
    assert_eq!(names(), ["axis", "stream-40"]);
    assert_eq!(run(&["reset", "axis", "--node", "a"]).code, 0, "state is not configuration");
    client.done("x", "copy_config", json!({ "source": "running", "target": "startup" }));
    client.done("x", "delete_config", json!({ "target": "startup" }));
    client.done("x", "unlock", json!({ "target": "running" }));
    client.done("y", "lock", json!({ "target": "startup" }));
    let refused = run(&["yang", "set", "a", document]);
    assert!(refused.err.contains("startup of node \"a\" is locked by process"), "{refused:?}");
    let copy = json!({ "source": "running", "target": "startup" });
    client.refused("x", "copy_config", copy, "in-use");
    client.edit("x", &guest(40, "path2"));
    client.done("y", "unlock", json!({ "target": "startup" }));

    // A request that is too long has its reply, and the session goes on.
    let long = format!("<!-- {} -->{}", "x".repeat(2 << 20), guest(41, "path1"));
    let refused = client.refused("x", "edit_config", edit(&long), "too-big");
    assert!(refused["message"].as_str().unwrap().contains("1048576 octets"), "{refused}");
    assert_eq!(names(), ["axis", "stream-40"]);
    client.done("y", "lock", json!({ "target": "running" }));
    let id = client.call("y", "hello", json!({}))["id"].as_str().unwrap().to_owned();
    client.done("x", "kill_session", json!({ "session_id": id }));
    // The lock ends with its session.
    wait_for("the end of the other session", || run(&["reload", "a"]).code == 0);
    client.done("x", "lock", json!({ "target": "running" }));
    client.done("x", "unlock", json!({ "target": "running" }));
    assert_eq!(names(), ["axis"], "the reload");
    client.edit("x", &guest(40, "path1"));

    // Running is not startup until it is copied.
    let startup =
        |client: &mut Client| client.done("x", "get_config", json!({ "source": "startup" }));
    assert!(!startup(&mut client).contains("<handle>40</handle>"));
    client.done("x", "copy_config", json!({ "source": "running", "target": "startup" }));
    assert!(startup(&mut client).contains("<handle>40</handle>") && fs::exists(STORED).unwrap());
    world.daemon("a").unwrap().terminate().unwrap();
    let down = client.refused("x", "get", json!({}), "operation-failed");
    assert!(down["message"].as_str().unwrap().contains("onbeat run"), "{down}");
    world.start("a", program()).unwrap();
    let config = client.done("x", "get_config", json!({ "source": "running" }));
    assert!(config.contains("<handle>40</handle>"), "{config}");
    leaves_by(&world, "path1");
    client.done("x", "delete_config", json!({ "target": "startup" }));
    assert!(!fs::exists(STORED).unwrap());

    match std::env::var_os("ONBEAT_YANG_MODULES") {
        Some(_) => {
            let module =
                client.done("x", "get_schema", json!({ "identifier": "ieee802-dot1cb-frer" }));
            assert!(module.contains("revision 2025-11-12"), "{module}");
        }
        None => eprintln!("SKIP: get-schema requires the modules (ONBEAT_YANG_MODULES)"),
    }
    client.done("x", "close_session", json!({}));
    wait_for("the end of the sessions", || run_count() == 0);
}

/// Checks the data of `get` by yanglint, if the modules are here.
fn is_valid(data: &str) {
    let Some(modules) = std::env::var_os("ONBEAT_YANG_MODULES").map(std::path::PathBuf::from)
    else {
        eprintln!("SKIP: yanglint requires the modules (ONBEAT_YANG_MODULES)");
        return;
    };
    if !require_that(
        Command::new("yanglint").arg("--version").output().is_ok(),
        "yanglint (apt-get install libyang-tools)",
    ) {
        return;
    }
    let directory = TemporaryDirectory::new("netconf-yanglint");
    let mut lint = Command::new("yanglint");
    lint.args(["--disable-searchdir", "--yang-library", "--type", "data", "--path"])
        .arg(directory.path());
    for entry in fs::read_dir(modules).unwrap() {
        let path = entry.unwrap().path();
        // libyang refuses so long a pattern.
        let text = fs::read_to_string(&path).unwrap().replace("{1,1983}", "{1,999}");
        let copy = directory.path().join(path.file_name().unwrap());
        fs::write(&copy, text).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.contains("types") && !name.contains("ieee802-types") {
            lint.arg(copy);
        }
    }
    let (_, inner) = data.split_once("<data").unwrap();
    let (inner, _) = inner.split_once('>').unwrap().1.rsplit_once("</data>").unwrap();
    fs::write(directory.file("get.xml"), inner).unwrap();
    let judged = lint.arg(directory.file("get.xml")).output().unwrap();
    assert!(judged.status.success(), "{}: {inner}", String::from_utf8_lossy(&judged.stderr));
}

/// Number of sessions of this machine's NETCONF subsystem.
fn run_count() -> usize {
    let sessions =
        Command::new("pgrep").args(["-f", "-c", "onbeat yang netconf a$"]).output().unwrap();
    String::from_utf8_lossy(&sessions.stdout).trim().parse().unwrap_or(0)
}

/// Sends octets to a session; returns its exit status, output and errors.
fn session(world: &World, octets: &[u8]) -> onbeat_testing::CommandOutput {
    let mut command = Command::new(program());
    command.args(["yang", "netconf", "a"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = namespace(world).start_in(&mut command).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let octets = octets.to_vec();
    // It may end before it has read all.
    let writer = std::thread::spawn(move || _ = input.write_all(&octets));
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    output.into()
}

#[test]
fn clients_that_break_the_protocol_do_not_reach_the_node() {
    if !can_run() {
        return;
    }
    let world = managed_node();
    let hello = format!(
        "<hello xmlns=\"{BASE}\"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability>\
         </capabilities></hello>]]>]]>"
    );
    let rpc = |content: &str| format!("<rpc xmlns=\"{BASE}\" message-id=\"1\">{content}</rpc>");
    let chunk = |message: &str| format!("{hello}\n#{}\n{message}\n##\n", message.len());
    let close = chunk(&rpc("<close-session/>"));
    assert_eq!(session(&world, close.as_bytes()).code, 0);
    let big = rpc(&"<a/>".repeat(10 << 18));
    let deep = rpc(&"<a>".repeat(50_000));
    let bomb = format!("<!DOCTYPE a [<!ENTITY b \"{}\">]>{}", "c".repeat(1000), rpc("&b;&b;"));
    for (octets, cause) in
        [(chunk(&big), "longer than 1048576 octets"), (chunk(&deep), "more than 32 levels")]
    {
        let replied = session(&world, octets.as_bytes());
        assert_eq!((replied.code, replied.err.as_str()), (0, ""), "{cause}");
        for part in ["message-id=\"1\"><rpc-error>", "<error-tag>too-big</error-tag>", cause] {
            assert!(replied.out.contains(part), "{part}: {}", replied.out);
        }
        assert_eq!(names(), ["axis"]);
    }
    for (octets, cause) in [
        (chunk(&bomb), "declares a document type"),
        (format!("{hello}\n#100\n<rpc"), "closed the connection within a message"),
        (format!("{hello}\n#x\n<rpc"), "do not start a chunk"),
        (chunk("garbage"), "not XML"),
        (format!("{}]]>]]>", rpc("<get/>")), "send hello first"),
        (String::new(), "closed the connection"),
    ] {
        let ended = session(&world, octets.as_bytes());
        assert_eq!(ended.code, 2, "{cause}: {}", ended.err);
        assert!(ended.err.contains(cause), "{cause}: {}", ended.err);
        assert!(ended.out.starts_with("<hello"), "{cause}");
        assert_eq!(names(), ["axis"]);
    }
    assert_eq!(run(&["yang", "netconf", "b"]).code, 2);
}
