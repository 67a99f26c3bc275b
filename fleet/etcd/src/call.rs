//! Requests of gRPC (grpc.io, "gRPC over HTTP2"): a message has a length of four octets before it, and a status behind it.

use bytes::{Buf, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request};

use crate::connection::Connection;
use crate::{Error, Outcome, Result};

/// Longest response: 32 keys of the longest values that etcd takes, 1.5 MiB, have room.
const LONGEST: usize = 64 << 20;

/// Length of what stands before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A message with its prefix.
fn framed(message: &[u8]) -> Bytes {
    let mut octets = BytesMut::with_capacity(PREFIX + message.len());
    octets.extend_from_slice(&[0]);
    octets.extend_from_slice(&(message.len() as u32).to_be_bytes());
    octets.extend_from_slice(message);
    octets.freeze()
}

/// Failures of a connection.
fn ended(endpoint: &str, why: &dyn std::fmt::Display, outcome: Outcome) -> Error {
    Error::Connection { endpoint: endpoint.to_owned(), why: why.to_string(), outcome }
}

/// An open request whose messages are sent and received one by one.
#[derive(Debug)]
pub(crate) struct Stream {
    endpoint: String,
    sender: SendStream<Bytes>,
    response: Option<h2::client::ResponseFuture>,
    receiver: Option<RecvStream>,
    /// Received octets that are no whole message yet.
    pending: BytesMut,
}

impl Stream {
    /// Begins a request of a method, such as `/etcdserverpb.KV/Range`.
    pub(crate) async fn open(connection: &Connection, method: &str) -> Result<Self> {
        let endpoint = connection.endpoint.clone();
        let error = |why: &dyn std::fmt::Display| ended(&endpoint, why, Outcome::NotExecuted);
        if !connection.is_open() {
            return Err(error(&"it is closed"));
        }
        let scheme = if connection.is_secure { "https" } else { "http" };
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{scheme}://{}{method}", connection.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            // A member without a leader refuses, instead of being silent.
            .header("hasleader", "true")
            .body(())
            .map_err(|why| error(&why))?;
        let ready = connection.sender.clone().ready().await;
        let mut ready = ready.map_err(|why| error(&why))?;
        let (response, sender) = ready.send_request(request, false).map_err(|why| error(&why))?;
        Ok(Self {
            endpoint,
            sender,
            response: Some(response),
            receiver: None,
            pending: BytesMut::new(),
        })
    }

    /// Sends a message; `is_last`: no other follows.
    pub(crate) fn send(&mut self, message: &[u8], is_last: bool) -> Result<()> {
        let sent = self.sender.send_data(framed(message), is_last);
        sent.map_err(|why| ended(&self.endpoint, &why, Outcome::Unknown))
    }

    /// Returns the next message; `None`: the server has ended the request without an error. It can be called again after it
    /// was dropped before its end.
    pub(crate) async fn receive(&mut self) -> Result<Option<Bytes>> {
        if let Some(response) = &mut self.response {
            let response = response.await;
            self.response = None;
            let response = response.map_err(|why| ended(&self.endpoint, &why, Outcome::Unknown))?;
            if response.status() != http::StatusCode::OK {
                let why = format!("HTTP status {}", response.status());
                return Err(Error::Foreign { endpoint: self.endpoint.clone(), why });
            }
            // A request that is refused at once has its status here.
            self.check_status(response.headers())?;
            self.receiver = Some(response.into_body());
        }
        loop {
            if let Some(message) = self.whole_message()? {
                return Ok(Some(message));
            }
            let Some(receiver) = &mut self.receiver else { return Ok(None) };
            match receiver.data().await {
                Some(Ok(octets)) => {
                    let released = receiver.flow_control().release_capacity(octets.len());
                    released.map_err(|why| ended(&self.endpoint, &why, Outcome::Unknown))?;
                    self.pending.extend_from_slice(&octets);
                }
                Some(Err(why)) => return Err(ended(&self.endpoint, &why, Outcome::Unknown)),
                None => {
                    let trailers = receiver.trailers().await;
                    self.receiver = None;
                    let trailers =
                        trailers.map_err(|why| ended(&self.endpoint, &why, Outcome::Unknown))?;
                    self.check_status(&trailers.unwrap_or_default())?;
                    return Ok(None);
                }
            }
        }
    }

    fn whole_message(&mut self) -> Result<Option<Bytes>> {
        let Some(&[is_compressed, a, b, c, d]) = self.pending.get(..PREFIX) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let endpoint = || self.endpoint.clone();
        if is_compressed != 0 {
            let why = "a compressed message".into();
            return Err(Error::Foreign { endpoint: endpoint(), why });
        }
        if length > LONGEST {
            let (octets, most) = (length, LONGEST);
            return Err(Error::LongResponse { endpoint: endpoint(), octets, most });
        }
        if self.pending.len() < PREFIX + length {
            return Ok(None);
        }
        self.pending.advance(PREFIX);
        Ok(Some(self.pending.split_to(length).freeze()))
    }

    fn check_status(&self, headers: &HeaderMap) -> Result<()> {
        let Some(status) = headers.get("grpc-status") else { return Ok(()) };
        match status.to_str().ok().and_then(|code| code.parse::<u32>().ok()) {
            Some(0) => Ok(()),
            code => Err(Error::Refused {
                endpoint: self.endpoint.clone(),
                // "Unknown", as gRPC requires for a code that it does not define.
                code: code.unwrap_or(2),
                message: headers.get("grpc-message").map(decoded).unwrap_or_default(),
            }),
        }
    }
}

/// The text of a status, of which octets beyond printable ASCII are written as `%XX`.
fn decoded(value: &http::HeaderValue) -> String {
    let mut octets = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, then)) = rest.split_first() {
        let coded = then.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match coded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) if first == b'%' => {
                octets.push(octet);
                rest = &then[2..];
            }
            _ => {
                octets.push(first);
                rest = then;
            }
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_status_are_decoded() {
        let text = |value: &'static str| decoded(&http::HeaderValue::from_static(value));
        assert_eq!(text("etcdserver: no leader"), "etcdserver: no leader");
        assert_eq!(text("100%25 %C3%A4 %zz %2"), "100% \u{e4} %zz %2");
    }
}
