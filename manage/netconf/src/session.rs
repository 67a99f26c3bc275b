//! A session: hello, requests, replies.

use std::fmt::Write;

use roxmltree::Node as Element;
use serde_json::{Map, Value};

use crate::edit::{self, Operation};
use crate::error::{ErrorTag, RpcError};
use crate::framing::{Decoder, FramingError, encode};
use crate::xml::{
    Document, XmlError, attributes, elements, escape, start_attributes, text, to_xml,
};
use crate::{BASE, MONITORING, filter, library};

/// A configuration datastore. Its text is its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datastore {
    /// The configuration in effect.
    Running,
    /// The configuration after a restart.
    Startup,
}

impl std::fmt::Display for Datastore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Startup => "startup",
        })
    }
}

/// A lock that is not acquired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockError {
    /// Another session has it: its id, 0: another process.
    Held(u32, String),
    /// Any other cause.
    Failed(String),
}

/// The node that a session manages.
pub trait Node {
    /// Returns a configuration, or the running one with its state.
    ///
    /// # Errors
    /// Cause and remedy.
    fn read(&mut self, datastore: Datastore, with_state: bool) -> Result<Value, RpcError>;

    /// Gives the node this running configuration, all or nothing. It is derived from the one that was read last.
    ///
    /// # Errors
    /// Each leaf that the node cannot set; it refuses, as it does if its configuration has changed since.
    fn write(&mut self, configuration: &Value) -> Result<(), Vec<RpcError>>;

    /// Makes the running configuration that of the next start, or removes what is stored.
    ///
    /// # Errors
    /// Cause and remedy.
    fn store(&mut self, remove: bool) -> Result<(), RpcError>;

    /// Acquires the lock of a datastore. Until its release the node refuses changes by others.
    ///
    /// # Errors
    /// Another session has it.
    fn lock(&mut self, datastore: Datastore) -> Result<(), LockError>;

    /// Releases the lock.
    fn unlock(&mut self, datastore: Datastore);

    /// Ends another session.
    ///
    /// # Errors
    /// There is none of this id, or it cannot be ended.
    fn kill(&mut self, session: u32) -> Result<(), RpcError>;

    /// Returns the text of a module, if it is known here.
    fn module(&mut self, name: &str, revision: Option<&str>) -> Option<String>;
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Waits for hello.
    Greeting,
    Open,
    Closed(Option<String>),
}

/// A session. Octets of the client come in by [`Session::receive`]; those for it are returned by [`Session::output`].
#[derive(Debug)]
pub struct Session<N> {
    pub(crate) node: N,
    id: u32,
    decoder: Decoder,
    output: Vec<u8>,
    state: State,
    is_chunked: bool,
    /// Whether this session has the lock of running, and of startup.
    locked: [bool; 2],
}

/// The content of a reply.
type Reply = Result<String, Vec<RpcError>>;

impl<N: Node> Session<N> {
    /// Starts a session with this id, which is not 0.
    pub fn new(node: N, id: u32) -> Self {
        let mut hello = format!("<hello xmlns=\"{BASE}\"><capabilities>");
        for capability in library::capabilities() {
            let _ = write!(hello, "<capability>{}</capability>", escape(&capability));
        }
        let _ = write!(hello, "</capabilities><session-id>{id}</session-id></hello>");
        Self {
            node,
            id,
            decoder: Decoder::default(),
            output: encode(&hello, false),
            state: State::Greeting,
            is_chunked: false,
            locked: [false; 2],
        }
    }

    /// Takes octets of the client.
    pub fn receive(&mut self, octets: &[u8]) {
        self.decoder.push(octets);
        while !self.is_closed() {
            match self.decoder.next_message() {
                Ok(Some(message)) => self.message(&message),
                Ok(None) => return,
                Err(error) => {
                    let message = error.to_string();
                    match error {
                        FramingError::NoChunk { .. } => {
                            self.refuse(ErrorTag::MalformedMessage, message);
                        }
                        FramingError::TooLong { start, is_whole } => {
                            self.too_big(&start, message, is_whole);
                        }
                    }
                }
            }
        }
    }

    /// Takes the end of the client's octets.
    pub fn end(&mut self) {
        if !self.is_closed() {
            let is_whole = self.state == State::Open && !self.decoder.is_partial();
            let cause = "the client closed the connection within a message";
            self.close((!is_whole).then(|| cause.to_owned()));
        }
    }

    /// Returns the octets for the client.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Whether the session is over: the connection is closed after the output.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Why the session is over, if the client broke the protocol.
    pub fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Closed(cause) => cause.as_deref(),
            _ => None,
        }
    }

    fn close(&mut self, cause: Option<String>) {
        for datastore in [Datastore::Running, Datastore::Startup] {
            if std::mem::take(&mut self.locked[datastore as usize]) {
                self.node.unlock(datastore);
            }
        }
        self.state = State::Closed(cause);
    }

    /// Reports an error of a message, and ends the session: what follows may be a part of it.
    fn refuse(&mut self, tag: ErrorTag, message: String) {
        if self.state == State::Open {
            self.reply("", &Err(vec![RpcError::new(tag, message.clone())]));
        }
        self.close(Some(message));
    }

    /// Reports that a message exceeds a limit. The session goes on if its number is known and the next message follows.
    fn too_big(&mut self, start: &[u8], message: String, is_whole: bool) {
        let attributes = start_attributes(start);
        if self.state == State::Open {
            let error = RpcError::new(ErrorTag::TooBig, message.clone());
            self.reply(attributes.as_deref().unwrap_or_default(), &Err(vec![error]));
            if is_whole && attributes.is_some() {
                return;
            }
        }
        self.close(Some(message));
    }

    fn message(&mut self, octets: &[u8]) {
        match Document::parse(octets) {
            Ok(document) if self.state == State::Greeting => self.hello(document.root()),
            Ok(document) => self.request(document.root()),
            Err(error @ (XmlError::TooDeep | XmlError::TooManyAttributes)) => {
                self.too_big(octets, error.to_string(), true);
            }
            Err(error) => self.refuse(ErrorTag::MalformedMessage, error.to_string()),
        }
    }

    fn hello(&mut self, hello: Element<'_, '_>) {
        if !hello.has_tag_name((BASE, "hello")) {
            let name = hello.tag_name().name();
            return self.close(Some(format!("the first message is {name:?}; send hello first")));
        }
        let capabilities = elements(hello).find(|child| child.has_tag_name((BASE, "capabilities")));
        let offers = |name: &str| {
            let uri = format!("urn:ietf:params:netconf:base:{name}");
            capabilities.is_some_and(|all| elements(all).any(|one| text(one) == uri))
        };
        if elements(hello).any(|child| child.has_tag_name((BASE, "session-id"))) {
            return self.close(Some("hello of a client has a session-id; remove it".to_owned()));
        }
        if offers("1.1") {
            self.is_chunked = true;
            self.decoder.use_chunks();
        } else if !offers("1.0") {
            let cause = "hello has neither capability base:1.0 nor base:1.1; add one";
            return self.close(Some(cause.to_owned()));
        }
        self.state = State::Open;
    }

    fn request(&mut self, rpc: Element<'_, '_>) {
        if !rpc.has_tag_name((BASE, "rpc")) {
            let message = format!("element {:?} is not rpc; send rpc", rpc.tag_name().name());
            return self.refuse(ErrorTag::MalformedMessage, message);
        }
        let attributes = attributes(rpc);
        let mut ends = false;
        let reply = match (rpc.attribute("message-id"), elements(rpc).next()) {
            (None, _) => Err(vec![RpcError {
                info: Some(("bad-attribute", "message-id".to_owned())),
                ..RpcError::new(ErrorTag::MissingAttribute, "rpc has no message-id; add it")
            }]),
            (_, None) => Err(vec![RpcError::new(ErrorTag::MissingElement, "rpc has no operation")]),
            (_, Some(operation)) => {
                ends = operation.has_tag_name((BASE, "close-session"));
                self.execute(operation)
            }
        };
        self.reply(&attributes, &reply);
        if ends {
            self.close(None);
        }
    }

    fn reply(&mut self, attributes: &str, reply: &Reply) {
        let mut text = format!("<rpc-reply xmlns=\"{BASE}\"{attributes}>");
        match reply {
            Ok(content) if content.is_empty() => text.push_str("<ok/>"),
            Ok(content) => text.push_str(content),
            Err(errors) => errors.iter().for_each(|error| error.write(&mut text)),
        }
        text.push_str("</rpc-reply>");
        self.output.extend(encode(&text, self.is_chunked));
    }

    fn execute(&mut self, operation: Element<'_, '_>) -> Reply {
        let name = operation.tag_name();
        match (name.namespace(), name.name()) {
            (Some(BASE), "get") => Ok(self.get(operation)?),
            (Some(BASE), "get-config") => Ok(self.get_config(operation)?),
            (Some(BASE), "edit-config") => self.edit_config(operation),
            (Some(BASE), "copy-config") => self.copy_config(operation),
            (Some(BASE), "delete-config") => match datastore(operation, "target")? {
                Datastore::Startup => self.store(true),
                Datastore::Running => {
                    Err(vec![not_supported("running cannot be deleted; use edit-config")])
                }
            },
            (Some(BASE), "lock") => Ok(self.lock(datastore(operation, "target")?)?),
            (Some(BASE), "unlock") => Ok(self.unlock(datastore(operation, "target")?)?),
            (Some(BASE), "close-session") => Ok(String::new()),
            (Some(BASE), "kill-session") => Ok(self.kill(operation)?),
            (Some(MONITORING), "get-schema") => Ok(self.get_schema(operation)?),
            (_, name) => Err(vec![RpcError::element(
                ErrorTag::OperationNotSupported,
                name,
                format!("the node has no operation {name:?}; hello lists its capabilities"),
            )]),
        }
    }

    fn get(&mut self, operation: Element<'_, '_>) -> Result<String, RpcError> {
        let mut data = self.node.read(Datastore::Running, true)?;
        if let Value::Object(data) = &mut data {
            data.extend(library::data());
        }
        selected(operation, &data)
    }

    fn get_config(&mut self, operation: Element<'_, '_>) -> Result<String, RpcError> {
        let data = self.node.read(datastore(operation, "source")?, false)?;
        selected(operation, &data)
    }

    fn edit_config(&mut self, operation: Element<'_, '_>) -> Reply {
        let (mut default, mut config) = (Operation::Merge, None);
        for parameter in elements(operation) {
            let name = parameter.tag_name().name();
            match (name, text(parameter)) {
                ("target", _) => {}
                ("default-operation", "merge") => default = Operation::Merge,
                ("default-operation", "replace") => default = Operation::Replace,
                ("default-operation", "none") => default = Operation::None,
                // All or nothing is a case of stopping, too.
                ("error-option", "stop-on-error" | "rollback-on-error") => {}
                ("config", _) => config = Some(parameter),
                ("default-operation", text) => {
                    let message = format!("{text:?} is no default; use merge, replace or none");
                    return Err(vec![RpcError::element(ErrorTag::BadElement, name, message)]);
                }
                ("error-option", text) => {
                    let message = format!("{text:?} is not supported; use rollback-on-error");
                    let tag = ErrorTag::OperationNotSupported;
                    return Err(vec![RpcError::element(tag, name, message)]);
                }
                _ => {
                    let message = format!("edit-config has no {name:?} here; remove it");
                    return Err(vec![RpcError::element(ErrorTag::UnknownElement, name, message)]);
                }
            }
        }
        if datastore(operation, "target")? == Datastore::Startup {
            let message = "startup is not edited; edit running, then copy it to startup";
            return Err(vec![not_supported(message)]);
        }
        let config = config.ok_or_else(|| missing("config"))?;
        self.change(|data| {
            // The parents of replaced data are the datastore itself.
            if default == Operation::Replace {
                *data = Value::Object(Map::new());
                default = Operation::Merge;
            }
            edit::apply(config, default, data)
        })
    }

    fn copy_config(&mut self, operation: Element<'_, '_>) -> Reply {
        let target = datastore(operation, "target")?;
        let source = child(operation, "source")?;
        if let Some(config) = elements(source).find(|child| child.has_tag_name((BASE, "config"))) {
            if target == Datastore::Startup {
                let message =
                    "startup is copied from running alone; copy the data to running first";
                return Err(vec![not_supported(message)]);
            }
            return self.change(|data| {
                *data = Value::Object(Map::new());
                edit::apply(config, Operation::Merge, data)
            });
        }
        match (datastore(operation, "source")?, target) {
            (Datastore::Running, Datastore::Startup) => self.store(false),
            (Datastore::Startup, Datastore::Running) => {
                let startup = self.node.read(Datastore::Startup, false)?;
                self.change(|data| {
                    *data = startup;
                    Ok(())
                })
            }
            _ => Err(vec![RpcError::new(ErrorTag::InvalidValue, "source and target are the same")]),
        }
    }

    /// Changes the running configuration, as it was read.
    fn change(&mut self, edit: impl FnOnce(&mut Value) -> Result<(), RpcError>) -> Reply {
        let mut data = self.node.read(Datastore::Running, false)?;
        edit(&mut data)?;
        self.node.write(&data).map(|()| String::new())
    }

    fn store(&mut self, remove: bool) -> Reply {
        Ok(self.node.store(remove).map(|()| String::new())?)
    }

    fn lock(&mut self, datastore: Datastore) -> Result<String, RpcError> {
        let denied = |id: u32, holder: &str| RpcError {
            info: Some(("session-id", id.to_string())),
            ..RpcError::new(
                ErrorTag::LockDenied,
                format!("{holder} holds the lock; repeat the request later"),
            )
        };
        if self.locked[datastore as usize] {
            return Err(denied(self.id, "this session"));
        }
        self.node.lock(datastore).map_err(|error| match error {
            LockError::Held(id, holder) => denied(id, &holder),
            LockError::Failed(message) => RpcError::new(ErrorTag::OperationFailed, message),
        })?;
        self.locked[datastore as usize] = true;
        Ok(String::new())
    }

    fn unlock(&mut self, datastore: Datastore) -> Result<String, RpcError> {
        if !std::mem::take(&mut self.locked[datastore as usize]) {
            let message = "this session does not have the lock; lock it first";
            return Err(RpcError::new(ErrorTag::OperationFailed, message));
        }
        self.node.unlock(datastore);
        Ok(String::new())
    }

    fn kill(&mut self, operation: Element<'_, '_>) -> Result<String, RpcError> {
        let id = text(child(operation, "session-id")?).parse().ok().filter(|id| *id != self.id);
        let Some(id) = id else {
            let message = "session-id is not the number of another session; correct it";
            return Err(RpcError::element(ErrorTag::InvalidValue, "session-id", message));
        };
        self.node.kill(id).map(|()| String::new())
    }

    fn get_schema(&mut self, operation: Element<'_, '_>) -> Result<String, RpcError> {
        let parameter = |name: &str| {
            elements(operation).find(|child| child.tag_name().name() == name).map(text)
        };
        let name = parameter("identifier").ok_or_else(|| missing("identifier"))?;
        if let Some(format) = parameter("format") {
            let format = format.split_once(':').map_or(format, |(_, format)| format);
            if format != "yang" {
                let message = format!("no module has format {format:?}; use yang");
                return Err(RpcError::element(ErrorTag::InvalidValue, "format", message));
            }
        }
        let revision = parameter("version").filter(|revision| !revision.is_empty());
        match self.node.module(name, revision) {
            Some(text) => Ok(format!("<data xmlns=\"{MONITORING}\">{}</data>", escape(&text))),
            None => Err(RpcError::new(
                ErrorTag::InvalidValue,
                format!(
                    "the text of module {name:?} is not on this machine; IEEE's licence permits no copy in onbeat: \
                     read the module where its publisher has it"
                ),
            )),
        }
    }
}

impl From<RpcError> for Vec<RpcError> {
    fn from(error: RpcError) -> Self {
        vec![error]
    }
}

/// The selected data, in `data`.
fn selected(operation: Element<'_, '_>, data: &Value) -> Result<String, RpcError> {
    let found = elements(operation).find(|child| child.has_tag_name((BASE, "filter")));
    let Some(filter) = found else { return Ok(format!("<data>{}</data>", to_xml(data))) };
    let kind = filter.attribute("type").or_else(|| filter.attribute((BASE, "type")));
    if let Some(kind) = kind.filter(|kind| *kind != "subtree") {
        return Err(RpcError {
            info: Some(("bad-attribute", "type".to_owned())),
            ..RpcError::new(
                ErrorTag::BadAttribute,
                format!("the node has no filter of type {kind:?}; use subtree"),
            )
        });
    }
    Ok(format!("<data>{}</data>", to_xml(&filter::select(filter, data))))
}

fn child<'a, 'i>(parent: Element<'a, 'i>, name: &'static str) -> Result<Element<'a, 'i>, RpcError> {
    elements(parent).find(|child| child.has_tag_name((BASE, name))).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> RpcError {
    let message = format!("element {name:?} is missing; add it");
    RpcError::element(ErrorTag::MissingElement, name, message)
}

fn not_supported(message: &str) -> RpcError {
    RpcError::new(ErrorTag::OperationNotSupported, message)
}

/// The datastore that a parameter names.
fn datastore(operation: Element<'_, '_>, parameter: &'static str) -> Result<Datastore, RpcError> {
    let named = elements(child(operation, parameter)?).next().ok_or_else(|| missing("running"))?;
    match named.tag_name().name() {
        "running" => Ok(Datastore::Running),
        "startup" => Ok(Datastore::Startup),
        name => Err(RpcError::element(
            ErrorTag::OperationNotSupported,
            name,
            format!("the node has no datastore {name:?}; use running or startup"),
        )),
    }
}
