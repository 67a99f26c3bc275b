//! A connection to one server: TCP, TLS, HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{Endpoint, Error, Outcome, Result};

/// Window of flow control, of a stream and a connection: a response is not delayed by it.
const WINDOW: u32 = 4 << 20;

/// A silent connection is probed at this interval: etcd closes one whose client does so more often than each 5 s.
const PING_INTERVAL: Duration = Duration::from_secs(6);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// Certificates for mutual TLS.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads PEM: certificates of authorities, and certificate and key of this client.
    ///
    /// # Errors
    /// One of them is unusable.
    pub fn new(authorities: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self> {
        let error = |what: &str, why: &dyn std::fmt::Display| Error::Tls(format!("{what}: {why}"));
        let read = |pem: &[u8], what: &str| -> Result<Vec<CertificateDer<'static>>> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let all = all.map_err(|why| error(what, &why))?;
            if all.is_empty() { Err(error(what, &"contains no certificate")) } else { Ok(all) }
        };
        let mut roots = RootCertStore::empty();
        for authority in read(authorities, "the certificate of the authority")? {
            roots.add(authority).map_err(|why| error("the certificate of the authority", &why))?;
        }
        let chain = read(certificate, "the client's certificate")?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|why| error("the client's key", &why))?;
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|why| error("the client's certificate and key", &why))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// An open connection; its task ends with the last handle on it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) endpoint: String,
    pub(crate) authority: String,
    pub(crate) is_secure: bool,
    pub(crate) sender: SendRequest<Bytes>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn open(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Self> {
        let name = endpoint.to_string();
        let error = |why: &dyn std::fmt::Display| Error::Connection {
            endpoint: name.clone(),
            why: why.to_string(),
            outcome: Outcome::NotExecuted,
        };
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
        let stream = stream.map_err(|why| error(&why))?;
        stream.set_nodelay(true).map_err(|why| error(&why))?;
        if !endpoint.is_secure {
            return Self::over(endpoint, stream).await;
        }
        let Some(Tls(connector)) = tls else {
            return Err(Error::Tls(format!("{name} requires a certificate of the client")));
        };
        let server = ServerName::try_from(endpoint.host.clone()).map_err(|why| error(&why))?;
        let stream = connector.connect(server, stream).await.map_err(|why| error(&why))?;
        Self::over(endpoint, stream).await
    }

    async fn over<S>(endpoint: &Endpoint, stream: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let name = endpoint.to_string();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let opened = builder.handshake::<_, Bytes>(stream).await;
        let (sender, mut connection) = opened.map_err(|why| Error::Connection {
            endpoint: name.clone(),
            why: why.to_string(),
            outcome: Outcome::NotExecuted,
        })?;
        let pings = connection.ping_pong();
        // Without this task nothing is sent or received. A server that is frozen answers no ping: then the connection ends,
        // and with it all requests.
        let task = tokio::spawn(async move {
            let probe = async {
                let Some(mut pings) = pings else { return std::future::pending().await };
                loop {
                    tokio::time::sleep(PING_INTERVAL).await;
                    let answer = pings.ping(h2::Ping::opaque());
                    if !matches!(tokio::time::timeout(PING_TIMEOUT, answer).await, Ok(Ok(_))) {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = connection => {}
                () = probe => {}
            }
        });
        let authority = match endpoint.host.contains(':') {
            true => format!("[{}]:{}", endpoint.host, endpoint.port),
            false => format!("{}:{}", endpoint.host, endpoint.port),
        };
        Ok(Self { endpoint: name, authority, is_secure: endpoint.is_secure, sender, task })
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.task.is_finished()
    }
}
