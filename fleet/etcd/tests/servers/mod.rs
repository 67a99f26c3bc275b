//! Servers of etcd on loopback, and certificates for them.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use onbeat_etcd::{Client, Options, Tls};
use onbeat_testing::etcd::{etcd, require_etcd, with_certificates};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// Runs a test on one thread.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

pub(crate) fn client(endpoints: &[String], tls: Option<Tls>) -> Client {
    Client::new(Options {
        endpoints: endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect(),
        tls,
        connect_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(3),
    })
}

/// An authority that issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    fn issue(&self, name: Option<&str>) -> (String, String) {
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = name {
            parameters.distinguished_name.push(DnType::CommonName, name);
        }
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The certificate of a user.
    pub(crate) fn client(&self, name: &str) -> Tls {
        self.client_of(self, name)
    }

    /// A certificate of this authority, for servers of another one.
    pub(crate) fn client_of(&self, servers: &Self, name: &str) -> Tls {
        let (certificate, key) = self.issue(Some(name));
        Tls::new(servers.pem.as_bytes(), certificate.as_bytes(), key.as_bytes()).unwrap()
    }
}

/// Servers that end with this value.
pub(crate) struct Cluster {
    children: Vec<Child>,
    endpoints: Vec<String>,
    directory: PathBuf,
}

fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Cluster {
    /// Starts servers; `None`: etcd is missing.
    pub(crate) fn start(count: usize, authority: Option<&Authority>) -> Option<Self> {
        if !require_etcd() {
            return None;
        }
        let ports = free_ports(2 * count);
        let directory = std::env::temp_dir().join(format!("onbeat-etcd-{}", ports[0]));
        std::fs::create_dir_all(&directory).unwrap();
        let scheme = if authority.is_some() { "https" } else { "http" };
        let of_clients = |index: usize| format!("{scheme}://127.0.0.1:{}", ports[index]);
        let of_peers = |index: usize| format!("http://127.0.0.1:{}", ports[count + index]);
        let members: Vec<String> =
            (0..count).map(|index| format!("m{index}={}", of_peers(index))).collect();
        if let Some(authority) = authority {
            let (certificate, key) = authority.issue(None);
            for (name, text) in
                [("ca.pem", &authority.pem), ("server.pem", &certificate), ("server.key", &key)]
            {
                std::fs::write(directory.join(name), text).unwrap();
            }
        }
        let start = |index: usize| {
            let (name, urls) = (format!("m{index}"), [of_clients(index), of_peers(index)]);
            let urls = urls.each_ref().map(String::as_str);
            let mut command = etcd(&name, &directory.join(&name), urls, &members.join(","));
            if authority.is_some() {
                with_certificates(&mut command, &directory);
            }
            command.spawn().expect("etcd starts")
        };
        let children = (0..count).map(start).collect();
        let endpoints = (0..count).map(of_clients).collect();
        let cluster = Self { children, endpoints, directory };
        run(cluster.wait(authority));
        Some(cluster)
    }

    /// Waits for a leader.
    async fn wait(&self, authority: Option<&Authority>) {
        let deadline = Instant::now() + Duration::from_secs(60);
        for endpoint in &self.endpoints {
            let tls = || authority.map(|authority| authority.client("root"));
            let client = client(std::slice::from_ref(endpoint), tls());
            while !client.status().await.is_ok_and(|status| status.leader != 0) {
                assert!(Instant::now() < deadline, "{endpoint} has no leader");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(crate) fn client(&self, tls: Option<Tls>) -> Client {
        client(&self.endpoints, tls)
    }

    fn signal(&self, index: usize, signal: nix::sys::signal::Signal) {
        let process = nix::unistd::Pid::from_raw(self.children[index].id() as i32);
        nix::sys::signal::kill(process, signal).unwrap();
    }

    pub(crate) fn freeze(&self, index: usize) {
        self.signal(index, nix::sys::signal::SIGSTOP);
    }

    pub(crate) fn thaw(&self, index: usize) {
        self.signal(index, nix::sys::signal::SIGCONT);
    }

    pub(crate) fn kill(&mut self, index: usize) {
        self.children[index].kill().unwrap();
        self.children[index].wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
