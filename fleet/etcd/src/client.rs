//! Requests to a cluster of servers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::call::Stream;
use crate::connection::{Connection, Tls};
use crate::message::{
    self, Lease, Operation, Permission, Range, RangeResponse, Status, Transaction,
    TransactionResponse, WatchRequest, WatchResponse,
};
use crate::wire::{EncodingError, Writer};
use crate::{Endpoint, Error, Result};

/// How servers are reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// The servers; one after the other is tried.
    pub endpoints: Vec<Endpoint>,
    /// Certificates for those with TLS.
    pub tls: Option<Tls>,
    /// Limit of a connection attempt.
    pub connect_timeout: Duration,
    /// Limit of a request: etcd itself ends one after 7 s.
    pub request_timeout: Duration,
}

/// Keys of a page: a response of most records stays below the limit of a message.
const PAGE: u32 = 500;

#[derive(Debug)]
struct ConnectionSlot {
    connection: Option<Arc<Connection>>,
    /// The server to try next.
    next: usize,
}

/// A client of a cluster. One connection is shared by all requests, and is opened again when it has ended.
#[derive(Debug)]
pub struct Client {
    options: Options,
    connected: Mutex<ConnectionSlot>,
}

impl Client {
    /// Creates a client, which connects at its first request.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, connected: Mutex::new(ConnectionSlot { connection: None, next: 0 }) }
    }

    /// Returns the open connection, or the first one that a server accepts.
    async fn connection(&self) -> Result<Arc<Connection>> {
        let mut connected = self.connected.lock().await;
        if let Some(open) = connected.connection.as_ref().filter(|connection| connection.is_open())
        {
            return Ok(Arc::clone(open));
        }
        let endpoints = &self.options.endpoints;
        let mut last = None;
        for _ in 0..endpoints.len() {
            let endpoint = &endpoints[connected.next % endpoints.len()];
            let opening = Connection::open(endpoint, self.options.tls.as_ref());
            match timeout(self.options.connect_timeout, opening).await {
                Ok(Ok(connection)) => {
                    let connection = Arc::new(connection);
                    connected.connection = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                Ok(Err(error @ Error::Tls(_))) => return Err(error),
                Ok(Err(error)) => last = Some(error.to_string()),
                Err(_) => last = Some(format!("{endpoint} did not answer")),
            }
            connected.next += 1;
        }
        let names: Vec<String> = endpoints.iter().map(Endpoint::to_string).collect();
        let why = last.unwrap_or_else(|| "none is given".into());
        Err(Error::Unreachable { endpoints: names.join(", "), why })
    }

    /// Uses another server next: this one is frozen, or has no leader.
    async fn leave(&self, connection: &Arc<Connection>) {
        let mut connected = self.connected.lock().await;
        if connected.connection.as_ref().is_some_and(|open| Arc::ptr_eq(open, connection)) {
            connected.connection = None;
            connected.next += 1;
        }
    }

    /// Sends a request of one message, and reads its response.
    async fn call<T>(
        &self,
        method: &str,
        request: Writer,
        read: impl FnOnce(&[u8]) -> Result<T, EncodingError>,
    ) -> Result<T> {
        let connection = self.connection().await?;
        let exchange = async {
            let mut stream = Stream::open(&connection, method).await?;
            stream.send(&request.0, true)?;
            let message = stream.receive().await?;
            // The status follows.
            if message.is_some() {
                stream.receive().await?;
            }
            Ok(message)
        };
        let limit = self.options.request_timeout;
        let endpoint = connection.endpoint.clone();
        let answer = timeout(limit, exchange).await;
        let answer =
            answer.unwrap_or(Err(Error::TimedOut { endpoint: endpoint.clone(), after: limit }));
        if answer.as_ref().is_err_and(Error::is_of_server) {
            self.leave(&connection).await;
        }
        let Some(message) = answer? else {
            return Err(Error::Foreign { endpoint, why: format!("{method}: no response") });
        };
        read(&message).map_err(|why| Error::malformed(&endpoint, method, why))
    }

    /// Reads keys.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn range(&self, range: &Range) -> Result<RangeResponse> {
        self.call("/etcdserverpb.KV/Range", range.write(), RangeResponse::read).await
    }

    /// Reads all keys of a range by pages, in one state of the store.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn range_all(&self, range: &Range) -> Result<RangeResponse> {
        let mut all = self.range(&Range { limit: PAGE, ..range.clone() }).await?;
        let revision = all.header.revision;
        while all.has_more {
            let Some(last) = all.keys.last() else { break };
            let next = Range { limit: PAGE, revision, ..range.after(&last.key) };
            let page = self.range(&next).await?;
            all.keys.extend(page.keys);
            all.has_more = page.has_more;
        }
        Ok(all)
    }

    /// Executes a transaction.
    ///
    /// # Errors
    /// [`Error`]; whether it was executed is unknown after some.
    pub async fn transact(&self, transaction: &Transaction) -> Result<TransactionResponse> {
        let request = transaction.write();
        self.call("/etcdserverpb.KV/Txn", request, TransactionResponse::read).await
    }

    /// Writes a key.
    ///
    /// # Errors
    /// As [`Client::transact`].
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let put = Operation::Put { key: key.into(), value: value.to_owned(), lease: 0 };
        self.transact(&Transaction { then: vec![put], ..Transaction::default() }).await.map(drop)
    }

    /// Begins to watch keys.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn watch(&self, request: &WatchRequest) -> Result<Watcher> {
        let connection = self.connection().await?;
        let method = "/etcdserverpb.Watch/Watch";
        let mut stream = Stream::open(&connection, method).await?;
        stream.send(&request.write().0, false)?;
        Ok(Watcher { stream, connection })
    }

    /// Creates a lease of this number of seconds, at least 2.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn grant(&self, seconds: u32) -> Result<Lease> {
        let request = Writer::default().number(1, seconds.into());
        self.call("/etcdserverpb.Lease/LeaseGrant", request, Lease::read).await
    }

    /// Restarts the time of a lease; its time is 0 if it has ended.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn keep_alive(&self, lease: i64) -> Result<Lease> {
        let request = Writer::default().number(1, lease as u64);
        self.call("/etcdserverpb.Lease/LeaseKeepAlive", request, Lease::read).await
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// [`Error`]; it does not exist.
    pub async fn revoke(&self, lease: i64) -> Result<()> {
        let request = Writer::default().number(1, lease as u64);
        self.call("/etcdserverpb.Lease/LeaseRevoke", request, |_| Ok(())).await
    }

    /// Returns the state of the server that is connected.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status(&self) -> Result<Status> {
        self.call("/etcdserverpb.Maintenance/Status", Writer::default(), Status::read).await
    }

    /// Removes revisions before this one.
    ///
    /// # Errors
    /// [`Error`]; it is in the future, or removed.
    pub async fn compact(&self, revision: i64) -> Result<()> {
        let request = Writer::default().number(1, revision as u64);
        self.call("/etcdserverpb.KV/Compact", request, |_| Ok(())).await
    }

    /// Adds a user that has a certificate of this name, and no password.
    ///
    /// # Errors
    /// [`Error`]; it exists.
    pub async fn add_user(&self, name: &str) -> Result<()> {
        let options = Writer::default().number(1, 1);
        let request = Writer::default().octets(1, name.as_bytes()).message(3, options);
        self.call("/etcdserverpb.Auth/UserAdd", request, |_| Ok(())).await
    }

    /// Returns the names of all users.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn users(&self) -> Result<Vec<String>> {
        self.call("/etcdserverpb.Auth/UserList", Writer::default(), message::read_users).await
    }

    /// Removes a user.
    ///
    /// # Errors
    /// [`Error`]; it does not exist.
    pub async fn remove_user(&self, name: &str) -> Result<()> {
        let request = Writer::default().octets(1, name.as_bytes());
        self.call("/etcdserverpb.Auth/UserDelete", request, |_| Ok(())).await
    }

    /// Adds a role without permissions.
    ///
    /// # Errors
    /// [`Error`]; it exists.
    pub async fn add_role(&self, name: &str) -> Result<()> {
        let request = Writer::default().octets(1, name.as_bytes());
        self.call("/etcdserverpb.Auth/RoleAdd", request, |_| Ok(())).await
    }

    /// Removes a role, and takes it from all users.
    ///
    /// # Errors
    /// [`Error`]; it does not exist.
    pub async fn remove_role(&self, name: &str) -> Result<()> {
        let request = Writer::default().octets(1, name.as_bytes());
        self.call("/etcdserverpb.Auth/RoleDelete", request, |_| Ok(())).await
    }

    /// Gives a permission to a role, which may have it.
    ///
    /// # Errors
    /// [`Error`]; the role does not exist.
    pub async fn permit(&self, role: &str, permission: &Permission) -> Result<()> {
        let grant = Writer::default().octets(1, role.as_bytes()).message(2, permission.write());
        self.call("/etcdserverpb.Auth/RoleGrantPermission", grant, |_| Ok(())).await
    }

    /// Gives a role to a user.
    ///
    /// # Errors
    /// [`Error`]; one of them does not exist.
    pub async fn grant_role(&self, user: &str, role: &str) -> Result<()> {
        let request = Writer::default().octets(1, user.as_bytes()).octets(2, role.as_bytes());
        self.call("/etcdserverpb.Auth/UserGrantRole", request, |_| Ok(())).await
    }

    /// From now on requests need a user with a role.
    ///
    /// # Errors
    /// [`Error`]; there is no user `root` with role `root`.
    pub async fn enable_authentication(&self) -> Result<()> {
        self.call("/etcdserverpb.Auth/AuthEnable", Writer::default(), |_| Ok(())).await
    }
}

/// Changes of keys. It ends with its connection: then read the keys again, and watch from the next revision.
#[derive(Debug)]
pub struct Watcher {
    stream: Stream,
    connection: Arc<Connection>,
}

impl Watcher {
    /// Waits for the next response; `None`: the server has ended the watch.
    ///
    /// # Errors
    /// [`Error`]: the connection has ended.
    pub async fn next(&mut self) -> Result<Option<WatchResponse>> {
        let Some(message) = self.stream.receive().await? else { return Ok(None) };
        let read = WatchResponse::read(&message);
        read.map(Some).map_err(|why| Error::malformed(&self.connection.endpoint, "Watch", why))
    }
}
