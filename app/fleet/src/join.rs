//! Admission of a node by a token: what `onbeat fleet invite --listen` and `onbeat fleet join` say to each other.
//!
//! ```text
//!  node                                   inviter
//!    ├── TLS: the authority of the server has the hash of the token ─►│
//!    ├── Request: secret of the token, CSR, public key ──────────────►│  admits the node to the store
//!    │◄───────────────── JoinResponse: certificate, servers of etcd ────────┤
//! ```
//!
//! Each is one line of JSON. Private keys never leave the node. The token names the authority, so the node gives the secret
//! to its own fleet only; the secret is of 128 bits, valid once and for some minutes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onbeat_rollout::record::{from_hex, to_hex};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
};
use serde::{Deserialize, Serialize};

use crate::credentials::{Admission, Application, Credentials};
use crate::error::{Error, Result};

/// Longest message.
const LONGEST: u64 = 64 << 10;

/// Limit of a connection attempt, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of a connection, unless others leave it the time.
const LONGEST_VISIT: Duration = Duration::from_secs(15);

/// Connections that are served at one time.
const CONNECTIONS: usize = 16;

const PREFIX: &str = "onbeat1";

fn hash(octets: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, octets);
    digest.as_ref().try_into().expect("32 octets")
}

/// What a node must know to join: the hash of the authority's certificate, and a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    authority: [u8; 32],
    secret: [u8; 16],
}

impl Token {
    fn new(authority: &CertificateDer<'_>) -> Result<Self> {
        use ring::rand::SecureRandom;
        let mut secret = [0; 16];
        let filled = ring::rand::SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| Error::Join("no random numbers".into()))?;
        Ok(Self { authority: hash(authority), secret })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}.{}.{}", to_hex(&self.authority), to_hex(&self.secret))
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let read = || {
            let &[PREFIX, authority, secret] = &parts[..] else { return None };
            let authority = from_hex(authority)?.try_into().ok()?;
            Some(Self { authority, secret: from_hex(secret)?.try_into().ok()? })
        };
        read().ok_or_else(|| {
            format!("not a token of `onbeat fleet invite --listen`: {PREFIX}.64 digits.32 digits")
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    secret: String,
    application: Application,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JoinResponse {
    Admission(Admission),
    Refusal(String),
}

fn write_line(stream: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).expect("text");
    line.push(b'\n');
    let written = stream.write_all(&line).and_then(|()| stream.flush());
    written.map_err(|error| Error::Join(error.to_string()))
}

fn read_line<T: for<'t> Deserialize<'t>>(stream: impl Read) -> Result<T> {
    let mut line = String::new();
    let read = BufReader::new(stream.take(LONGEST)).read_line(&mut line);
    read.map_err(|error| Error::Join(error.to_string()))?;
    serde_json::from_str(&line)
        .map_err(|error| Error::Join(format!("no message of this version: {error}")))
}

fn limit(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))
}

/// A socket that admits one node.
pub(crate) struct Invitation {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    token: Token,
}

/// A node that has the secret.
pub(crate) struct Applicant {
    application: Application,
    answer: SyncSender<JoinResponse>,
    /// Its end says that the answer was sent.
    sent: Receiver<()>,
}

impl Applicant {
    /// Its keys.
    pub(crate) fn application(&self) -> &Application {
        &self.application
    }

    /// Sends what it needs, or why it gets nothing.
    pub(crate) fn answer(self, admission: &Result<Admission>) {
        let answer = match admission {
            Ok(admission) => JoinResponse::Admission(admission.clone()),
            Err(error) => JoinResponse::Refusal(error.to_string()),
        };
        // A node that has left joins again with another token.
        let _ = self.answer.send(answer);
        let _ = self.sent.recv_timeout(2 * TIMEOUT);
    }
}

enum JoinAttempt {
    /// Of 128 bits none is guessed, so others cannot end an invitation.
    WrongSecret,
    Applicant(Applicant),
    /// A connection that said something else, or nothing.
    Other,
}

impl Invitation {
    /// Listens at an address by which the node reaches this machine.
    pub(crate) fn new(credentials: &Credentials, address: SocketAddr) -> Result<Self> {
        if address.ip().is_unspecified() {
            return Err(Error::Join(format!(
                "{address} is no address by which the node reaches this machine; listen at one of its own"
            )));
        }
        let unusable = |error: &dyn std::fmt::Display| Error::Join(error.to_string());
        let (certificate, key, authority) = credentials.server(&address.ip().to_string())?;
        let chain: Result<Vec<_>> = [&certificate, &authority]
            .map(|pem| {
                CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| unusable(&error))
            })
            .into_iter()
            .collect();
        let chain = chain?;
        let token = Token::new(&chain[1])?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| unusable(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(&error))?;
        let listener = TcpListener::bind(address)
            .map_err(|error| Error::Join(format!("cannot listen at {address}: {error}")))?;
        Ok(Self { listener, config: Arc::new(config), token })
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::Join(error.to_string()))
    }

    /// Waits for a node with the secret; `None`: none came in time.
    pub(crate) fn wait(&self, most: Duration) -> Result<Option<Applicant>> {
        let deadline = Instant::now() + most;
        let (visits, visited) = sync_channel(CONNECTIONS);
        let listener = self.listener.try_clone().map_err(|error| Error::Join(error.to_string()))?;
        let (config, token) = (Arc::clone(&self.config), self.token.clone());
        // It ends with the program: the command does not wait for another node.
        std::thread::spawn(move || {
            let mut open: Vec<(Instant, TcpStream, JoinHandle<()>)> = Vec::new();
            for stream in listener.incoming().flatten() {
                open.retain(|(since, stream, thread)| {
                    // A client that sends an octet now and then meets no other limit.
                    if since.elapsed() > LONGEST_VISIT {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                    !thread.is_finished()
                });
                let Ok(held) = stream.try_clone() else { continue };
                if open.len() >= CONNECTIONS {
                    continue;
                }
                let (config, token, visits) = (Arc::clone(&config), token.clone(), visits.clone());
                let thread = std::thread::spawn(move || serve(stream, config, &token, &visits));
                open.push((Instant::now(), held, thread));
            }
        });
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match visited.recv_timeout(left) {
                Ok(JoinAttempt::Applicant(applicant)) => return Ok(Some(applicant)),
                Ok(JoinAttempt::WrongSecret) => tracing::warn!("a connection had a wrong token"),
                Ok(JoinAttempt::Other) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

/// Serves a connection: a node with the secret waits for its answer.
fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    token: &Token,
    visits: &SyncSender<JoinAttempt>,
) {
    let opened = limit(&stream).ok().and_then(|()| ServerConnection::new(config).ok());
    let Some(connection) = opened else { return };
    let mut stream = StreamOwned::new(connection, stream);
    let visit = |visit| drop(visits.send(visit));
    let Ok(request) = read_line::<Request>(&mut stream) else { return visit(JoinAttempt::Other) };
    let secret = from_hex(&request.secret).unwrap_or_default();
    // Of hashes: how long the comparison takes says nothing about the secret.
    if hash(&secret) != hash(&token.secret) {
        let refusal =
            "the token is wrong; use the whole command that `onbeat fleet invite` printed";
        let _ = write_line(&mut stream, &JoinResponse::Refusal(refusal.into()));
        return visit(JoinAttempt::WrongSecret);
    }
    let (answer, answered) = sync_channel(1);
    let (_sending, sent) = sync_channel(0);
    visit(JoinAttempt::Applicant(Applicant { application: request.application, answer, sent }));
    if let Ok(answer) = answered.recv() {
        let _ = write_line(&mut stream, &answer);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

/// Accepts servers of the authority with a hash.
#[derive(Debug)]
struct AuthorityVerifier {
    authority: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AuthorityVerifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let other = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = chain.iter().find(|certificate| hash(certificate) == self.authority);
        let authority = authority.ok_or_else(|| other.clone())?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let provider = Arc::clone(&self.provider);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.map_err(|_| other)?.verify_server_cert(server, &[], name, stapled, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Applies at the address of an invitation.
pub(crate) fn apply(
    address: SocketAddr,
    token: &Token,
    application: &Application,
) -> Result<Admission> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::Join(format!(
            "{address}: {error}; an invitation by `onbeat fleet invite NODE --listen {address}` must wait there"
        ))
    };
    let provider = Arc::new(provider::default_provider());
    let verifier =
        AuthorityVerifier { authority: token.authority, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::IpAddress(address.ip().into());
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| failed(&error))?;
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(|error| failed(&error))?;
    limit(&stream).map_err(|error| failed(&error))?;
    let mut stream = StreamOwned::new(connection, stream);
    let request = Request { secret: to_hex(&token.secret), application: application.clone() };
    write_line(&mut stream, &request).map_err(|error| failed(&error))?;
    match read_line(&mut stream).map_err(|error| failed(&error))? {
        JoinResponse::Admission(admission) => Ok(admission),
        JoinResponse::Refusal(why) => Err(failed(&why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = Token { authority: [0xa5; 32], secret: [0x5a; 16] };
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        for text in
            ["", "onbeat1", "onbeat1.a5.5a", &token.to_string()[1..], &(token.to_string() + "0")]
        {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
