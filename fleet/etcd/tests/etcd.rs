//! The client against etcd of the distribution, on loopback: one server, three of them, and with certificates and roles.

mod servers;

use std::time::{Duration, Instant};

use onbeat_etcd::{
    Access, Client, Comparison, Error, EventKind, Operation, Outcome, Permission, Range, Response,
    Transaction, WatchRequest,
};
use servers::{Authority, Cluster, run};

fn put(key: &str, value: &str, lease: i64) -> Operation {
    Operation::Put { key: key.into(), value: value.into(), lease }
}

async fn value(client: &Client, key: &str) -> Option<String> {
    let found = client.range(&Range::key(key)).await.unwrap();
    found.keys.first().map(|key| String::from_utf8(key.value.clone()).unwrap())
}

#[test]
fn keys_transactions_and_pages() {
    let Some(cluster) = Cluster::start(1, None) else { return };
    run(async {
        let client = cluster.client(None);
        let create = Transaction {
            conditions: vec![Comparison::absent("plan/current")],
            then: vec![put("plan/current", "one", 0)],
            otherwise: vec![Operation::Range(Range::key("plan/current"))],
        };
        assert!(client.transact(&create).await.unwrap().has_succeeded);
        let second = client.transact(&create).await.unwrap();
        let [Response::Range(found)] = &second.responses[..] else { panic!("{second:?}") };
        let found = &found.keys[0];
        assert_eq!((second.has_succeeded, &found.value[..]), (false, &b"one"[..]));
        assert_eq!((found.create_revision, found.version), (found.mod_revision, 1));

        // Comparison and swap: of two writers with one revision, one wins.
        let swap = |value: &str| Transaction {
            conditions: vec![Comparison::unchanged("plan/current", found.mod_revision)],
            then: vec![put("plan/current", value, 0)],
            ..Transaction::default()
        };
        assert!(client.transact(&swap("two")).await.unwrap().has_succeeded);
        assert!(!client.transact(&swap("three")).await.unwrap().has_succeeded);
        assert_eq!(value(&client, "plan/current").await.as_deref(), Some("two"));

        // More keys than a page, in one state of the store.
        let many = 1_203;
        for first in (0..many).step_by(100) {
            let numbers = first..(first + 100).min(many);
            let then = numbers.map(|n| put(&format!("state/{n:05}"), "x", 0)).collect();
            client.transact(&Transaction { then, ..Transaction::default() }).await.unwrap();
        }
        let all = client.range_all(&Range::prefix("state/")).await.unwrap();
        let keys: Vec<&[u8]> = all.keys.iter().map(|key| &key.key[..]).collect();
        assert_eq!((keys.len(), all.has_more), (many, false));
        assert!(keys.is_sorted() && keys[0] == b"state/00000", "{keys:?}");
        let removed = Operation::Delete(Range::prefix("state/"));
        let removed = Transaction { then: vec![removed], ..Transaction::default() };
        let removed = client.transact(&removed).await.unwrap();
        assert_eq!(removed.responses, [Response::Deleted(many as i64)]);

        // 1 MiB, a part of a file.
        let part = vec![0xa5; 1 << 20];
        client.put("part", &part).await.unwrap();
        assert_eq!(client.range(&Range::key("part")).await.unwrap().keys[0].value, part);
        let error = client.put("part", &vec![0; 2 << 20]).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotExecuted, "{error}");
        assert!(matches!(error, Error::Refused { code: 3 | 8, .. }), "{error}");

        // Another program can write more than any fleet: it is not read.
        for number in 0..65 {
            client.put(&format!("part/{number}"), &part).await.unwrap();
        }
        let error = client.range(&Range::prefix("part/")).await.unwrap_err();
        assert!(matches!(error, Error::LongResponse { .. }), "{error}");
        let page = client.range(&Range { limit: 32, ..Range::prefix("part/") }).await.unwrap();
        assert!(page.keys.len() == 32 && page.has_more);

        let status = client.status().await.unwrap();
        assert!(status.leader != 0 && status.version.starts_with("3."), "{status:?}");
    });
}

#[test]
fn a_watch_leaves_no_change_out() {
    let Some(cluster) = Cluster::start(1, None) else { return };
    run(async {
        let client = cluster.client(None);
        client.put("state/a", b"before").await.unwrap();
        let from_revision = client.range(&Range::key("state/a")).await.unwrap().header.revision + 1;
        for number in 0..20 {
            client.put("state/a", number.to_string().as_bytes()).await.unwrap();
        }
        let request = WatchRequest { keys: Range::prefix("state/"), from_revision };
        let mut watcher = client.watch(&request).await.unwrap();
        client.put("other", b"x").await.unwrap();
        let remove = Operation::Delete(Range::key("state/a"));
        let remove = Transaction { then: vec![remove], ..Transaction::default() };
        client.transact(&remove).await.unwrap();
        let mut seen = Vec::new();
        while seen.last() != Some(&(EventKind::Deleted, String::new())) {
            let response = watcher.next().await.unwrap().expect("a response");
            let text = |value: &[u8]| String::from_utf8(value.to_owned()).unwrap();
            seen.extend(response.events.iter().map(|event| (event.kind, text(&event.key.value))));
        }
        let expected = (0..20).map(|number| (EventKind::Put, number.to_string()));
        let expected: Vec<_> = expected.chain([(EventKind::Deleted, String::new())]).collect();
        assert_eq!(seen, expected);

        // Revisions that were removed are not watched: the keys are to be read again.
        let latest = client.range(&Range::key("other")).await.unwrap().header.revision;
        client.compact(latest).await.unwrap();
        let mut watcher = client.watch(&request).await.unwrap();
        let response = loop {
            let response = watcher.next().await.unwrap().expect("a response");
            if response.is_canceled {
                break response;
            }
        };
        assert_eq!(response.compact_revision, latest);
    });
}

#[test]
fn keys_of_a_lease_are_removed_with_it() {
    let Some(cluster) = Cluster::start(1, None) else { return };
    run(async {
        let client = cluster.client(None);
        let lease = client.grant(2).await.unwrap();
        let then = vec![put("deadline/7", "", lease.id)];
        client.transact(&Transaction { then, ..Transaction::default() }).await.unwrap();
        let kept = client.keep_alive(lease.id).await.unwrap();
        assert_eq!((kept.id, kept.seconds), (lease.id, lease.seconds));
        assert_eq!(value(&client, "deadline/7").await.as_deref(), Some(""));
        let request = WatchRequest { keys: Range::key("deadline/7"), from_revision: 0 };
        let mut watcher = client.watch(&request).await.unwrap();
        let events = loop {
            let response = watcher.next().await.unwrap().expect("a response");
            if !response.events.is_empty() {
                break response.events;
            }
        };
        assert_eq!((events[0].kind, events.len()), (EventKind::Deleted, 1));
        assert!(client.keep_alive(lease.id).await.unwrap().seconds <= 0, "it has ended");
        assert!(client.revoke(lease.id).await.is_err());
    });
}

/// Another server answers when the connected one is killed, or frozen, which sends no reset.
#[test]
fn another_server_answers() {
    let Some(mut cluster) = Cluster::start(3, None) else { return };
    run(async {
        let client = cluster.client(None);
        client.put("k", b"0").await.unwrap();
        let mut watcher =
            client.watch(&WatchRequest { keys: Range::key("k"), from_revision: 0 }).await.unwrap();
        cluster.freeze(0);
        let mut outcomes = Vec::new();
        loop {
            match client.put("k", b"1").await {
                Ok(()) => break,
                Err(error) => outcomes.push(error),
            }
            assert!(outcomes.len() < 20, "{outcomes:?}");
        }
        let unknown = outcomes.iter().any(|error| error.outcome() == Outcome::Unknown);
        assert!(unknown, "the frozen server may execute it: {outcomes:?}");
        // The watch on it ends by the ping that it does not answer.
        let ended = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                match watcher.next().await {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            }
        });
        let ended = ended.await.expect("it ends");
        assert!(matches!(ended, Err(Error::Connection { .. })), "{ended:?}");
        cluster.thaw(0);

        cluster.kill(1);
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(error) = client.put("k", b"2").await {
            assert!(Instant::now() < deadline, "{error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(value(&client, "k").await.as_deref(), Some("2"));

        // Without a majority nothing is written, and the client says so in time.
        cluster.kill(2);
        let error = client.put("k", b"3").await.unwrap_err();
        assert!(error.to_string().len() > 10, "{error}");
    });
}

/// A node reads plans, and writes its own state only; another authority's certificate is refused.
#[test]
fn certificates_and_roles() {
    let authority = Authority::new();
    let Some(cluster) = Cluster::start(1, Some(&authority)) else { return };
    run(async {
        let root = cluster.client(Some(authority.client("root")));
        root.add_user("root").await.unwrap();
        root.add_role("root").await.unwrap();
        root.grant_role("root", "root").await.unwrap();
        root.add_user("a").await.unwrap();
        let permission = |kind, keys| Permission { kind, keys };
        let role = [
            permission(Access::Read, Range::prefix("plan/")),
            permission(Access::ReadWrite, Range::key("state/a")),
        ];
        root.add_role("node-a").await.unwrap();
        for permission in role.iter().chain(&role) {
            root.permit("node-a", permission).await.unwrap();
        }
        root.grant_role("a", "node-a").await.unwrap();
        root.enable_authentication().await.unwrap();
        root.put("plan/current", b"1").await.unwrap();

        let node = cluster.client(Some(authority.client("a")));
        assert_eq!(value(&node, "plan/current").await.as_deref(), Some("1"));
        node.put("state/a", b"here").await.unwrap();
        for (what, error) in [
            ("the plan", node.put("plan/current", b"2").await.unwrap_err()),
            ("another's state", node.put("state/b", b"x").await.unwrap_err()),
            ("all keys", node.range(&Range::prefix("")).await.unwrap_err()),
        ] {
            let is_refused = matches!(&error, Error::Refused { code: 7, .. });
            assert!(is_refused && error.outcome() == Outcome::NotExecuted, "{what}: {error}");
        }
        // Versions in which the check is passed by: what counts is signed.
        let put = Operation::Put { key: "state/b".into(), value: b"forged".to_vec(), lease: 0 };
        let nested = Operation::Nested(Transaction { then: vec![put], ..Transaction::default() });
        let nested = Transaction { then: vec![nested], ..Transaction::default() };
        let result = node.transact(&nested).await;
        let version = root.status().await.unwrap().version;
        let number = |text: &str| text.parse::<u32>().unwrap_or(0);
        let version: Vec<u32> = version.split('.').map(number).collect();
        let is_fixed = match version[..] {
            [3, 4, patch] => patch >= 42,
            [3, 5, patch] => patch >= 28,
            [3, 6, patch] => patch >= 9,
            _ => true,
        };
        let written = value(&root, "state/b").await;
        match is_fixed {
            true => {
                assert!(matches!(result, Err(Error::Refused { code: 7, .. })) && written.is_none())
            }
            false => assert_eq!(written.as_deref(), Some("forged"), "{version:?}: {result:?}"),
        }
        // Without its role a user has no keys, also if the name of the role exists again.
        root.remove_role("node-a").await.unwrap();
        root.add_role("node-a").await.unwrap();
        root.permit("node-a", &role[0]).await.unwrap();
        let error = node.range(&Range::key("plan/current")).await.unwrap_err();
        assert!(matches!(error, Error::Refused { code: 7, .. }), "{error}");
        let error = root.remove_role("node-b").await.unwrap_err();
        assert!(error.to_string().contains("not found"), "{error}");
        root.add_user("a~1").await.unwrap();
        assert_eq!(root.users().await.unwrap(), ["a", "a~1", "root"]);
        root.remove_user("a~1").await.unwrap();
        assert_eq!(root.users().await.unwrap(), ["a", "root"]);
        let unknown = cluster.client(Some(authority.client("b")));
        assert!(unknown.range(&Range::key("plan/current")).await.is_err(), "not a user");
        let foreign = Authority::new();
        let foreign = cluster.client(Some(foreign.client_of(&authority, "a")));
        let error = foreign.range(&Range::key("plan/current")).await.unwrap_err();
        assert!(matches!(error, Error::Connection { .. } | Error::Unreachable { .. }), "{error}");
        let none = cluster.client(None).range(&Range::key("k")).await.unwrap_err();
        assert!(matches!(none, Error::Tls(_)), "{none}");
    });
}

/// A server that speaks something else.
#[test]
fn another_service_is_not_taken_for_etcd() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut octets = [0; 64];
        let _ = stream.read(&mut octets);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    run(async {
        let client = servers::client(&[format!("http://127.0.0.1:{port}")], None);
        let error = client.range(&Range::key("k")).await.unwrap_err();
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    });
    server.join().unwrap();
}
