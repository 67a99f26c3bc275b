//! NETCONF: any octets of a client, at once and in two parts, have the same replies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_netconf::{BASE, Datastore, LockError, Node, RpcError, Session, encode};
use serde_json::{Value, json};

/// A node that keeps any configuration.
#[derive(Default)]
struct MemoryNode(Value);

impl Node for MemoryNode {
    fn read(&mut self, _: Datastore, _: bool) -> Result<Value, RpcError> {
        Ok(self.0.clone())
    }
    fn write(&mut self, configuration: &Value) -> Result<(), Vec<RpcError>> {
        self.0 = configuration.clone();
        Ok(())
    }
    fn store(&mut self, _: bool) -> Result<(), RpcError> {
        Ok(())
    }
    fn lock(&mut self, _: Datastore) -> Result<(), LockError> {
        Ok(())
    }
    fn unlock(&mut self, _: Datastore) {}
    fn kill(&mut self, _: u32) -> Result<(), RpcError> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: Option<&str>) -> Option<String> {
        None
    }
}

fn replies(octets: &[u8], cut: usize) -> Vec<u8> {
    let mut session = Session::new(MemoryNode(json!({})), 5);
    session.output();
    let hello = format!(
        "<hello xmlns=\"{BASE}\"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability>\
         </capabilities></hello>"
    );
    session.receive(&encode(&hello, false));
    let (first, second) = octets.split_at(cut.min(octets.len()));
    session.receive(first);
    session.receive(second);
    session.end();
    assert!(session.is_closed());
    session.output()
}

fuzz_target!(|octets: &[u8]| {
    // As frames, and as one message.
    let message = String::from_utf8_lossy(octets).into_owned();
    for octets in [octets, &encode(&message, true)] {
        let whole = replies(octets, usize::MAX);
        assert_eq!(replies(octets, octets.len() / 2), whole);
    }
});
