//! Keys and certificates in a directory: those of the fleet, and those of a node.
//!
//! | file | content | fleet | node |
//! |---|---|---|---|
//! | `fleet.json` | servers of etcd, and name of the node | yes | yes |
//! | `ca.pem` | certificate of the authority | yes | yes |
//! | `ca.key` | its key | yes | |
//! | `user.pem`, `user.key` | certificate with the user's name, `root` or the node | yes | yes |
//! | `sign.pub` | public key of plans | yes | yes |
//! | `sign.key` | key with which plans are signed | yes | |
//! | `servers/HOST/` | certificate and key of a server of etcd, and `ca.pem` | yes | |

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use onbeat_etcd::{Endpoint, Tls};
use onbeat_rollout::record::{Signer, Verifier};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519,
};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::disk::{self, create_directory};
use crate::error::{Error, Result};

/// The user with all rights.
pub(crate) const ROOT: &str = "root";

const LONGEST: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
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

/// Verifies plans.
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

/// Creates a file that only its owner can read. One that exists is an error: a key is never replaced.
fn create(path: &Path, content: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Content {
            path: path.to_owned(),
            fault: "exists, perhaps of an interrupted command; remove its directory, and repeat"
                .into(),
        },
        _ => Error::file(path)(error),
    })
}

impl Credentials {
    /// Opens the credentials of a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let mut credentials =
            Self { directory: directory.to_owned(), fleet: Fleet { etcd: vec![], node: None } };
        let text = credentials.read("fleet.json")?;
        credentials.fleet = serde_json::from_str(&text).map_err(|fault| Error::Content {
            path: directory.join("fleet.json"),
            fault: format!("{fault}; `onbeat fleet init` or `invite` write it"),
        })?;
        Ok(credentials)
    }

    /// Creates the credentials of a fleet; returns those that the directory has if it has some.
    pub(crate) fn create(directory: &Path, servers: &[String]) -> Result<Self> {
        match fs::symlink_metadata(directory.join("fleet.json")) {
            Ok(_) => return Self::open(directory),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file(directory)(error)),
        }
        create_directory(directory)?;
        let at = |name: &str| directory.join(name);
        let key = KeyPair::generate()?;
        create(&at("ca.key"), &key.serialize_pem())?;
        create(&at("ca.pem"), &authority()?.self_signed(&key)?.pem())?;
        let signing = KeyPair::generate_for(&PKCS_ED25519)?;
        create(&at("sign.key"), &signing.serialize_pem())?;
        let public: String =
            signing.public_key_raw().iter().map(|octet| format!("{octet:02x}")).collect();
        create(&at("sign.pub"), &format!("{public}\n"))?;
        let fleet = Fleet { etcd: servers.to_vec(), node: None };
        let credentials = Self { directory: directory.to_owned(), fleet };
        credentials.issue(directory, "user", Some(ROOT), &[])?;
        for endpoint in credentials.endpoints()? {
            let of_server = at("servers").join(&endpoint.host);
            if !of_server.exists() {
                create_directory(&of_server)?;
                credentials.issue(&of_server, "server", None, &[endpoint.host])?;
                create(&of_server.join("ca.pem"), &credentials.read("ca.pem")?)?;
            }
        }
        // Last: with it the directory is complete.
        create(&at("fleet.json"), &to_json(&credentials.fleet))?;
        Ok(credentials)
    }

    /// Creates the credentials of a node in another directory.
    pub(crate) fn invite(&self, node: &str, directory: &Path) -> Result<()> {
        create_directory(directory)?;
        self.issue(directory, "user", Some(node), &[])?;
        for name in ["ca.pem", "sign.pub"] {
            create(&directory.join(name), &self.read(name)?)?;
        }
        let fleet = Fleet { etcd: self.fleet.etcd.clone(), node: Some(node.to_owned()) };
        create(&directory.join("fleet.json"), &to_json(&fleet))
    }

    /// Issues a certificate for a user, or for the addresses of a server. etcd takes the common name as the user, and calls
    /// its own server as a client with the certificate of the server, which therefore has none.
    fn issue(&self, to: &Path, name: &str, user: Option<&str>, hosts: &[String]) -> Result<()> {
        let key = KeyPair::from_pem(&self.read("ca.key")?)?;
        let authority = Issuer::new(authority()?, key);
        let mut parameters = CertificateParams::new(hosts.to_vec())?;
        parameters.distinguished_name = DistinguishedName::new();
        if let Some(user) = user {
            parameters.distinguished_name.push(DnType::CommonName, user);
        }
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &authority)?;
        create(&to.join(format!("{name}.key")), &key.serialize_pem())?;
        create(&to.join(format!("{name}.pem")), &certificate.pem())
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

    /// The key with which plans are signed.
    pub(crate) fn signing_key(&self) -> Result<SigningKey> {
        let unusable =
            |fault: String| Error::Content { path: self.directory.join("sign.key"), fault };
        let key = KeyPair::from_pem(&self.read("sign.key")?)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key.serialize_der());
        pair.map(SigningKey).map_err(|error| unusable(error.to_string()))
    }

    /// The key with which plans are verified.
    pub(crate) fn public_key(&self) -> Result<PublicKey> {
        let text = self.read("sign.pub")?;
        let digits = text.trim().as_bytes();
        let octets = digits.chunks(2).map(|pair| {
            std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let octets: Option<Vec<u8>> = octets.collect();
        octets.filter(|octets| octets.len() == 32).map(PublicKey).ok_or_else(|| Error::Content {
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
