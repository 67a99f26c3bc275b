//! POWERLINK message: a parsed and emitted message is parsed to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::powerlink::Message;

fuzz_target!(|octets: &[u8]| {
    let Ok(message) = Message::parse(octets) else { return };
    let again = emitted(message.buffer_len(), |buffer| message.emit(buffer));
    assert_eq!(Message::parse(&again), Ok(message));
    let _ = message.to_string();
});
