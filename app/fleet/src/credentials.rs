//! Keys and certificates in a directory: those of the fleet, and those of a node.
//!
//! | file | content | fleet | node |
//! |---|---|---|---|
//! | `fleet.json` | servers of etcd, and name of the node | yes | yes |
//! | `ca.pem` | certificate of the authority | yes | yes |
//! | `ca.key` | its key | yes | |
//! | `user.pem`, `user.key` | certificate with the user's name, `root` or [`user_of`] a node | yes | yes |
//! | `sign.pub` | public key of plans | yes | yes |
//! | `sign.key` | key with which plans are signed | yes | |
//! | `node.key` | key with which the node signs its states | | yes |
//! | `servers/HOST/` | certificate and key of a server of etcd, and `ca.pem` | yes | |

use std::path::{Path, PathBuf};

use onbeat_etcd::{Endpoint, Tls};
use onbeat_rollout::key;
use onbeat_rollout::record::{NodeKey, Signer, Verifier, from_hex, to_hex};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519,
    PublicKeyData,
};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::error::{Error, Result};

/// The user with all rights.
pub(crate) const ROOT: &str = "root";

const LONGEST: u64 = 1 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fleet {
    etcd: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

/// A directory of credentials.
#[derive(Debug)]
pub(crate) struct Credentials {
    directory: PathBuf,
    fleet: Fleet,
}

/// Signs plans.
pub(crate) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    #[cfg(test)]
    pub(crate) fn generate() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        signing_key(&key.serialize_pem()).expect("a key")
    }

    /// Its public key, hexadecimal.
    pub(crate) fn public(&self) -> String {
        to_hex(self.0.public_key().as_ref())
    }

    pub(crate) fn verifier(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().to_vec())
    }
}

/// Verifies plans, or states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicKey(Vec<u8>);

impl Signer for SigningKey {
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

impl Verifier for PublicKey {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

/// The user of a node in etcd: the name of the node with its key. A certificate stays valid for years, and etcd takes its common
/// name as the user: so each invitation has a user of its own, and the former one is removed.
pub(crate) fn user_of(node_key: &NodeKey) -> String {
    let NodeKey { node, public } = node_key;
    format!("{node}~{}", public.get(..16).unwrap_or_default())
}

/// Whether a user is of an invitation of the node. Former versions had one user for each name.
pub(crate) fn is_user_of(user: &str, node: &str) -> bool {
    user.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
}

/// What a node sends to be admitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Application {
    /// A certificate signing request, PEM.
    csr: String,
    /// Public key of its states, hexadecimal.
    public: String,
}

impl Application {
    /// The key of a node's states.
    pub(crate) fn node_key(&self, node: &str) -> Result<NodeKey> {
        public_key(&self.public).ok_or_else(|| {
            Error::Join("the public key of the node does not have 64 hexadecimal digits".into())
        })?;
        Ok(NodeKey { node: node.into(), public: self.public.clone() })
    }
}

/// What an admitted node gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admission {
    certificate: String,
    authority: String,
    sign_pub: String,
    fleet: Fleet,
}

impl Admission {
    /// The name of the node.
    pub(crate) fn node(&self) -> Result<&str> {
        let node = self.fleet.node.as_deref().filter(|node| key::is_node_name(node));
        node.ok_or_else(|| Error::Join("the answer names no node".into()))
    }
}

/// Keys of a node that applies; they never leave its machine.
pub(crate) struct NodeSecrets {
    user: KeyPair,
    node: KeyPair,
}

impl NodeSecrets {
    pub(crate) fn generate() -> Result<Self> {
        Ok(Self { user: KeyPair::generate()?, node: KeyPair::generate_for(&PKCS_ED25519)? })
    }

    pub(crate) fn application(&self) -> Result<Application> {
        let csr = CertificateParams::default().serialize_request(&self.user)?.pem()?;
        Ok(Application { csr, public: to_hex(self.node.public_key_raw()) })
    }

    /// Creates the directory of the node.
    pub(crate) fn save(&self, admission: &Admission, directory: &Path) -> Result<()> {
        let files = [
            ("user.pem", admission.certificate.clone()),
            ("user.key", self.user.serialize_pem()),
            ("node.key", self.node.serialize_pem()),
            ("ca.pem", admission.authority.clone()),
            ("sign.pub", admission.sign_pub.clone()),
            ("fleet.json", to_json(&admission.fleet)),
        ];
        disk::create_whole(directory, &files.map(|(name, text)| (name.into(), text)))
    }
}

/// A key that signs, from PEM.
fn signing_key(pem: &str) -> Result<SigningKey, String> {
    let key = KeyPair::from_pem(pem).map_err(|error| error.to_string())?;
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key.serialize_der());
    pair.map(SigningKey).map_err(|error| error.to_string())
}

/// A public key of 64 hexadecimal digits.
pub(crate) fn public_key(text: &str) -> Option<PublicKey> {
    from_hex(text.trim()).filter(|octets| octets.len() == 32).map(PublicKey)
}

/// Issues a certificate for a user, or for the addresses of a server. etcd takes the common name as the user, and calls its
/// own server as a client with the certificate of the server, which therefore has none.
fn issue(
    authority: &Issuer<'_, KeyPair>,
    key: &impl PublicKeyData,
    user: Option<&str>,
    hosts: &[String],
) -> Result<String> {
    let mut parameters = CertificateParams::new(hosts.to_vec())?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    match user {
        Some(user) => parameters.distinguished_name.push(DnType::CommonName, user),
        None => parameters.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth),
    }
    Ok(parameters.signed_by(key, authority)?.pem())
}

impl Credentials {
    /// Opens the credentials of a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let mut credentials =
            Self { directory: directory.to_owned(), fleet: Fleet { etcd: vec![], node: None } };
        let path = directory.join("fleet.json");
        if !disk::exists(&path)? {
            let fault = "no such file; `onbeat fleet init`, `invite` and `join` write it; or name \
                         another directory";
            return Err(Error::Content { path, fault: fault.into() });
        }
        let text = credentials.read("fleet.json")?;
        credentials.fleet = serde_json::from_str(&text).map_err(|fault| Error::Content {
            path: directory.join("fleet.json"),
            fault: format!("{fault}; `onbeat fleet init`, `invite` and `join` write it"),
        })?;
        Ok(credentials)
    }

    /// Creates the credentials of a fleet; returns those that the directory has if it has some.
    pub(crate) fn create(directory: &Path, servers: &[String]) -> Result<Self> {
        if disk::exists(&directory.join("fleet.json"))? {
            return Self::open(directory);
        }
        let endpoints = servers.iter().map(|text| text.parse().map_err(Error::Etcd));
        let endpoints = endpoints.collect::<Result<Vec<Endpoint>>>()?;
        let key = KeyPair::generate()?;
        let certificate = authority()?.self_signed(&key)?.pem();
        let signing = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut files: Vec<(PathBuf, String)> = vec![
            ("ca.key".into(), key.serialize_pem()),
            ("ca.pem".into(), certificate.clone()),
            ("sign.key".into(), signing.serialize_pem()),
            ("sign.pub".into(), to_hex(signing.public_key_raw()) + "\n"),
        ];
        let authority = Issuer::new(authority()?, key);
        let mut add = |name: &str, user, hosts: &[String]| -> Result<()> {
            let key = KeyPair::generate()?;
            files.push((format!("{name}.pem").into(), issue(&authority, &key, user, hosts)?));
            files.push((format!("{name}.key").into(), key.serialize_pem()));
            Ok(())
        };
        add("user", Some(ROOT), &[])?;
        let mut hosts: Vec<String> = endpoints.into_iter().map(|endpoint| endpoint.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in &hosts {
            add(&format!("servers/{host}/server"), None, std::slice::from_ref(host))?;
        }
        let of_server =
            |host: &String| (format!("servers/{host}/ca.pem").into(), certificate.clone());
        files.extend(hosts.iter().map(of_server));
        let fleet = Fleet { etcd: servers.to_vec(), node: None };
        files.push(("fleet.json".into(), to_json(&fleet)));
        disk::create_whole(directory, &files)?;
        Ok(Self { directory: directory.to_owned(), fleet })
    }

    /// Issues what a node needs.
    pub(crate) fn admit(&self, node: &str, application: &Application) -> Result<Admission> {
        // Of the request its key alone is used: the name is that of the invitation.
        let request = CertificateSigningRequestParams::from_pem(&application.csr)?;
        let user = user_of(&application.node_key(node)?);
        Ok(Admission {
            certificate: issue(&self.issuer()?, &request.public_key, Some(&user), &[])?,
            authority: self.read("ca.pem")?,
            sign_pub: self.read("sign.pub")?,
            fleet: Fleet { etcd: self.fleet.etcd.clone(), node: Some(node.to_owned()) },
        })
    }

    /// Certificate and key of a server at a host, and the certificate of the authority.
    pub(crate) fn server(&self, host: &str) -> Result<(String, String, String)> {
        let key = KeyPair::generate()?;
        let certificate = issue(&self.issuer()?, &key, None, &[host.to_owned()])?;
        Ok((certificate, key.serialize_pem(), self.read("ca.pem")?))
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>> {
        Ok(Issuer::new(authority()?, KeyPair::from_pem(&self.read("ca.key")?)?))
    }

    fn read(&self, name: &str) -> Result<String> {
        disk::read(&self.directory.join(name), LONGEST)
    }

    /// The servers of etcd.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let parse = |text: &String| text.parse().map_err(Error::Etcd);
        self.fleet.etcd.iter().map(parse).collect()
    }

    /// Certificates for the servers; none if all are without TLS.
    pub(crate) fn tls(&self) -> Result<Option<Tls>> {
        if !self.endpoints()?.iter().any(|endpoint| endpoint.is_secure) {
            return Ok(None);
        }
        let [authority, certificate, key] =
            ["ca.pem", "user.pem", "user.key"].map(|name| self.read(name));
        Ok(Some(Tls::new(authority?.as_bytes(), certificate?.as_bytes(), key?.as_bytes())?))
    }

    /// The node whose credentials these are.
    pub(crate) fn node(&self) -> Result<&str> {
        self.fleet.node.as_deref().ok_or_else(|| Error::Content {
            path: self.directory.join("fleet.json"),
            fault: "these are the credentials of the fleet; those of a node are from \
                    `onbeat fleet invite NODE`"
                .into(),
        })
    }

    fn own_key(&self, name: &str) -> Result<SigningKey> {
        let fault = |fault| Error::Content { path: self.directory.join(name), fault };
        signing_key(&self.read(name)?).map_err(fault)
    }

    /// The key with which plans are signed.
    pub(crate) fn signing_key(&self) -> Result<SigningKey> {
        self.own_key("sign.key")
    }

    /// The key with which a node signs its states.
    pub(crate) fn node_key(&self) -> Result<SigningKey> {
        self.own_key("node.key")
    }

    /// The key with which plans are verified.
    pub(crate) fn public_key(&self) -> Result<PublicKey> {
        public_key(&self.read("sign.pub")?).ok_or_else(|| Error::Content {
            path: self.directory.join("sign.pub"),
            fault: "not a public key of 64 hexadecimal digits; `onbeat fleet init` writes it"
                .into(),
        })
    }
}

/// The authority: its name, and what its certificate may be used for.
fn authority() -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "onbeat fleet");
    Ok(parameters)
}

fn to_json(fleet: &Fleet) -> String {
    serde_json::to_string_pretty(fleet).expect("text") + "\n"
}
