//! TCP: a web server, a database, connection requests.

use std::fs;
use std::process::Command;

use onbeat_irq_core::charge::Attribution;
use onbeat_testing::TemporaryDirectory;

use crate::harness::{RECEIVER, SENDER, World};
use crate::judge::{Judge, Phase, Service, is_named, run, wait_for_server};

const NGINX: (&str, &str) = ("nginx", "nginx-light");
const AB: (&str, &str) = ("ab", "apache2-utils");

/// A web server that answers with two octets.
struct Web {
    _service: Service,
    _directory: TemporaryDirectory,
}

impl Web {
    fn start(world: &World) -> Self {
        let directory = TemporaryDirectory::new("nginx");
        let path = directory.path().to_str().unwrap().to_owned();
        let file = format!("{path}/nginx.conf");
        let text = format!(
            "daemon off; worker_processes 1; pid {path}/pid; error_log {path}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 1000000; client_body_temp_path {path}/b;\n\
             proxy_temp_path {path}/p; fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u;\n\
             scgi_temp_path {path}/s; server {{ listen 80 backlog=4096; return 200 ok; }} }}\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("nginx");
        command.args(["-c", &file, "-p", &path]);
        let service = Service::start(&world.receiver, &mut command);
        wait_for_server(&world.sender, (RECEIVER, 80).into());
        Self { _service: service, _directory: directory }
    }
}

fn requests(world: &World, count: u32, keep_alive: bool) {
    let (count, url) = (count.to_string(), format!("http://{RECEIVER}/"));
    let mut command = vec!["ab", "-q", "-r", "-n", &count, "-c", "16"];
    command.extend(keep_alive.then_some("-k"));
    command.push(&url);
    let output = run(&world.sender, &command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("Complete requests:      {count}")), "{text}");
}

/// The server's share of the time of r0.
fn share(phase: &Phase, name: &str) -> f64 {
    phase.of(|process| is_named(process, name)).ns as f64 / phase.all().ns as f64
}

#[test]
fn a_web_server_with_small_answers_is_charged() {
    let Some(mut judge) = Judge::new(&[NGINX, AB]) else { return };
    let _web = Web::start(&judge.world);
    judge.measure(
        |world| requests(world, 20_000, true),
        |phase| {
            phase.assert_known();
            assert!(share(phase, "nginx") >= 0.95, "{phase:?}");
        },
    );
}

#[test]
fn new_connections_are_charged_to_the_server_and_requests_to_its_listener() {
    const CONNECTIONS: u32 = 4_000;
    let Some(mut judge) = Judge::new(&[NGINX, AB]) else { return };
    let _web = Web::start(&judge.world);
    judge.measure(
        |world| requests(world, CONNECTIONS, false),
        |phase| {
            phase.assert_known();
            assert!(share(phase, "nginx") >= 0.95, "{phase:?}");
            // A request for a connection, and the end of the handshake.
            let requests = phase.by(Attribution::Listener).packets as f64 / f64::from(CONNECTIONS);
            assert!((1.9..2.1).contains(&requests), "{requests} of a connection: {phase:?}");
        },
    );
}

#[test]
fn a_database_with_short_lived_clients_is_charged() {
    const REDIS: (&str, &str) = ("redis-server", "redis-server");
    let Some(mut judge) = Judge::new(&[REDIS, ("redis-cli", "redis-tools")]) else { return };
    let address = RECEIVER.to_string();
    let mut command = Command::new("redis-server");
    command.args(["--bind", &address, "--protected-mode", "no", "--save", ""]);
    let _redis = Service::start(&judge.world.receiver, &mut command);
    wait_for_server(&judge.world.sender, (RECEIVER, 6379).into());
    let client = format!("for i in $(seq 100); do redis-cli -h {address} ping; done");
    judge.measure(
        |world| _ = run(&world.sender, &["sh", "-c", &client]),
        |phase| {
            phase.assert_known();
            assert!(share(phase, "redis-server") >= 0.95, "{phase:?}");
        },
    );
}

/// A real-time task with a timer runs on the CPU of the NAPI thread.
#[test]
fn connection_requests_are_charged_to_the_listener_and_not_to_a_timer_task() {
    const REQUESTS: u32 = 20_000;
    let Some(mut judge) = Judge::new(&[NGINX, ("cyclictest", "rt-tests")]) else { return };
    let _web = Web::start(&judge.world);
    let mut command = Command::new("cyclictest");
    command.args(["-q", "-p", "80", "-i", "200", "-t", "-a", "-D", "60"]);
    let task = Service::start(&judge.world.sender, &mut command);
    judge.measure(
        |world| flood(world, REQUESTS),
        |phase| {
            assert_eq!(phase.of(|process| process.pid == task.id()).ns, 0, "{phase:?}");
            phase.assert_known();
            let requests = phase.by(Attribution::Listener);
            assert!(requests.packets >= u64::from(REQUESTS) * 95 / 100, "{phase:?}");
            assert!(requests.ns as f64 >= 0.9 * phase.all().ns as f64, "{phase:?}");
            assert!(share(phase, "nginx") >= 0.9, "{phase:?}");
        },
    );
}

/// Connection requests from many ports and addresses that answer nothing.
fn flood(world: &World, count: u32) {
    let send = || {
        // SAFETY: numbers only.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        for number in 0..count {
            // No more at once than the ring of a veth has room for.
            if number % 100 == 0 {
                world.wait_idle();
            }
            let packet = request(number);
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(RECEIVER.octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: both pointers are to values of the lengths that go with them.
            let sent = unsafe {
                libc::sendto(
                    socket,
                    packet.as_ptr().cast(),
                    packet.len(),
                    0,
                    (&raw const address).cast(),
                    size_of_val(&address) as u32,
                )
            };
            assert_eq!(sent, packet.len() as isize, "{}", std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor is this function's.
        unsafe { libc::close(socket) };
    };
    world.sender.namespace().run(send).unwrap();
}

/// An IPv4 packet with SYN; the kernel completes the header of IPv4.
fn request(number: u32) -> [u8; 40] {
    let mut packet = [0; 40];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&40u16.to_be_bytes());
    packet[8] = 64;
    packet[9] = libc::IPPROTO_TCP as u8;
    // An address of the link that no host has: no reset answers.
    let source = [SENDER.octets()[0], SENDER.octets()[1], 0, 77];
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&RECEIVER.octets());
    let port = (1024 + number % 60_000) as u16;
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..24].copy_from_slice(&80u16.to_be_bytes());
    packet[24..28].copy_from_slice(&number.to_be_bytes());
    packet[32..36].copy_from_slice(&[0x50, 0x02, 0xff, 0xff]);
    let pseudo = [&packet[12..20], &[0, libc::IPPROTO_TCP as u8, 0, 20], &packet[20..40]].concat();
    let sum: u32 =
        pseudo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}
