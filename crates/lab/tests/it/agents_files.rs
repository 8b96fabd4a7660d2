//! Files that agents receive: populations, keys, CAs, updates. And access to the NATS server: TLS and credentials.

use crate::support::Folder;
use crate::support::far_end::FarEnd;
use crate::support::nats::{Agent, Nats, below, here, own_runs, summary};
use data_encoding::BASE64URL_NOPAD;
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, Key, ServerTransaction};
use measure::Transport;
use nkeys::KeyPair;
use report::Run;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testbed::echo::{Certificate, Echo, EchoPlan};

/// Exit code, standard output and standard error of a run over two agents.
fn over_two(words: &str, url: &str, more: &[&str], out: &Path) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.env_remove("CATLAB_ALLOW").args(words.split(' ')).args(["--quiet", "--nats", url, "--agents", "2"]);
    command.args(more).arg("--out").arg(out).env("TMPDIR", out.parent().unwrap()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn written(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The first name that a message queries or updates.
fn first_name(message: &[u8]) -> String {
    let label = &message[13..13 + usize::from(message[12])];
    String::from_utf8(label.to_vec()).unwrap()
}

#[test]
fn a_population_is_divided_and_each_client_queries_as_in_one_process() {
    let folder = Folder::new("agents-population");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["a", "b"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    // Names are in one file, clients in another.
    let lines: String = (0..5_000).map(|number| format!("q{number}.example A\n")).collect();
    let queries = written(&folder, "queries.txt", &lines);
    let clients = |count| {
        format!(
            "[[clients]]\ncount = {count}\ntransports = {{ udp = 1.0 }}\n\
             rate = {{ distribution = \"constant\", mean = 50.0, arrivals = \"even\" }}\n"
        )
    };
    let population = written(&folder, "seven.toml", &clients(7));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let words = |population: &Path| {
        format!(
            "load --server {} --population {} --queries {} --duration 2s --workers 1",
            far.address,
            population.display(),
            queries.display()
        )
    };
    let (code, text, error) = over_two(&words(&population), &url, &[], &out);
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let alone = written(&folder, "one.toml", &clients(1));
    let (code, _, error) = over_two(&words(&alone), &url, &[], &folder.path().join("none"));
    assert!(code == 2 && error.contains("the population has fewer clients than there are agents (2)"), "{error}");

    let clients = |run: &Run| run.recording.clients.iter().map(|client| client.client).collect::<Vec<_>>();
    let own = own_runs(&out, &names);
    assert_eq!(own.iter().map(clients).collect::<Vec<_>>(), [vec![0, 2, 4, 6], vec![1, 3, 5]]);
    let merged = Run::read(&out).unwrap();
    let mut all = clients(&merged);
    all.sort_unstable();
    assert_eq!(all, (0..7).collect::<Vec<_>>(), "clients are numbered as in one process");
    for client in &merged.recording.clients {
        assert!(client.sent.abs_diff(100) <= 1, "{client:?}");
    }
    let arrivals = far.end();
    assert_eq!(arrivals.len() as u64, merged.total.sent);
    // No name is queried twice: each agent takes every second line.
    let names: BTreeSet<String> = arrivals.iter().map(|arrival| first_name(&arrival.bytes)).collect();
    assert_eq!(names.len(), arrivals.len());
}

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Whether a message has a valid signature of these tests' key.
fn is_signed(bytes: &[u8]) -> bool {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let secret = data_encoding::BASE64.decode(SECRET.as_bytes()).unwrap();
    let key = Arc::new(Key::new(Algorithm::Sha256, &secret, "key.test".parse().unwrap(), None, None).unwrap());
    let mut message = domain::base::Message::from_octets(bytes.to_vec()).unwrap();
    ServerTransaction::request(&key, &mut message, Time48::from_u64(now_s)).is_ok_and(|found| found.is_some())
}

/// A NATS server with TLS and a user key: its URL, and the files that a client needs.
struct Guarded {
    _server: Nats,
    url: String,
    authority: PathBuf,
    seed: PathBuf,
}

impl Guarded {
    fn start(folder: &Folder) -> Option<Self> {
        let certificate = Certificate::new().unwrap();
        let user = KeyPair::new_user();
        let authority = written(folder, "ca.pem", certificate.authority_pem());
        let seed = written(folder, "lab.nk", &format!("{}\n", user.seed().unwrap()));
        let [cert, key] = [("cert.pem", certificate.certificate_pem()), ("key.pem", certificate.key_pem())]
            .map(|(name, text)| written(folder, name, text));
        let config = format!(
            "tls {{ cert_file: {:?}, key_file: {:?} }}\nauthorization {{ users: [ {{ nkey: {} }} ] }}\n",
            cert.display().to_string(),
            key.display().to_string(),
            user.public_key()
        );
        let config = written(folder, "nats.conf", &config);
        let server = Nats::start(&here, "127.0.0.1", folder.path(), &["-c", config.to_str().unwrap()])?;
        let url = format!("tls://127.0.0.1:{}", server.port);
        Some(Self { _server: server, url, authority, seed })
    }

    fn words(&self) -> [&str; 4] {
        ["--nats-ca", self.authority.to_str().unwrap(), "--nats-creds", self.seed.to_str().unwrap()]
    }
}

#[test]
fn a_key_sent_to_agents_over_tls_signs_updates_and_is_stored_nowhere() {
    let folder = Folder::new("agents-tls");
    let Some(nats) = Guarded::start(&folder) else { return };
    let (names, words) = (["a", "b"], nats.words());
    let spools = names.map(|name| below(folder.path(), &format!("spool-{name}")));
    let agents = [0, 1].map(|index| {
        let more = [&words[..], &["--once"]].concat();
        Agent::start(&here, &nats.url, names[index], &spools[index], &more)
    });
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let load = format!(
        "load --server {} --update-zone z.test --name u{{n}}.z.test --popularity sequential --rate 200 --duration 2s \
         --workers 1 --tsig hmac-sha256:key.test:{SECRET}",
        far.address
    );
    let (code, text, error) = over_two(&load, &nats.url, &words, &out);
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let arrivals = far.end();
    assert_eq!(arrivals.len(), 400, "{text}{error}");
    assert!(arrivals.iter().all(|arrival| is_signed(&arrival.bytes)));
    let different: BTreeSet<&[u8]> = arrivals.iter().map(|arrival| &arrival.bytes[2..]).collect();
    assert_eq!(different.len(), 400, "no two agents send the same");
    let sent: Vec<u64> = own_runs(&out, &names).iter().map(|run| run.total.sent).collect();
    assert_eq!(sent, [200, 200]);
    // The key is stored neither in the run's folder nor on the agents.
    for file in files(&out) {
        assert!(!String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains(SECRET), "{}", file.display());
    }
    for mut agent in agents {
        assert!(agent.process.0.wait().unwrap().success());
    }
    assert!(spools.iter().all(|spool| files(spool).is_empty()));
    assert!(std::fs::read_dir(folder.path()).unwrap().all(|entry| {
        // The controller's temporary folder must be gone too.
        !entry.unwrap().file_name().to_string_lossy().starts_with("catlab-")
    }));

    let refused = |url: &str, more: &[&str]| {
        let (code, text, error) = over_two(&load, url, more, &folder.path().join("none"));
        assert_eq!(code, 2, "{text}{error}");
        error
    };
    // A client without the CA does not connect, and a client without the user key is refused.
    let error = refused(&nats.url, &words[2..]);
    assert!(error.contains("NATS at 127.0.0.1:") && error.contains("UnknownIssuer"), "{error}");
    let error = refused(&nats.url, &words[..2]);
    assert!(error.contains("authorization"), "{error}");
    let stranger = written(&folder, "stranger.nk", &KeyPair::new_user().seed().unwrap());
    let error = refused(&nats.url, &[words[0], words[1], "--nats-creds", stranger.to_str().unwrap()]);
    assert!(error.contains("authorization"), "{error}");
    let error = refused(&nats.url, &[words[0], words[1], "--nats-creds", words[1]]);
    assert!(error.contains("neither a NATS USER JWT"), "{error}");
}

/// An address of this machine that is not on loopback.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Connecting a UDP socket sends nothing.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 53)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn a_key_is_not_sent_over_a_network_unencrypted() {
    let folder = Folder::new("agents-clear");
    let Some(address) = own_address() else {
        skip::platform("an address other than loopback");
        return;
    };
    let Some(server) = Nats::start(&here, &address.to_string(), folder.path(), &[]) else { return };
    let url = format!("nats://{address}:{}", server.port);
    let agents = ["a", "b"].map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let load = "load --server 127.0.0.1:9 --name q{n}.example --rate 10 --duration 1s";
    let (code, text, error) =
        over_two(&format!("{load} --tsig key.test:{SECRET}"), &url, &[], &folder.path().join("none"));
    assert!(code == 2 && error.contains("--tsig: the key would go to the NATS server in clear"), "{text}{error}");
    // A run without secrets is accepted.
    let (code, text, error) = over_two(load, &url, &[], &folder.path().join("run"));
    assert!(matches!(code, 0 | 1), "{text}{error}");
    assert_eq!(summary(&folder.path().join("run"))["sent"], 10);
    drop(agents);
}

/// A NATS token, signed by its issuer.
fn token(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: Value) -> String {
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let head = encode(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
    let body = encode(&json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": name,
        "nats": claims,
    }));
    let signed = format!("{head}.{body}");
    let signature = BASE64URL_NOPAD.encode(&issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// A credentials file in the format of `nsc`.
fn credentials(account: &KeyPair, user: &KeyPair) -> String {
    let claims = json!({"type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1});
    let token = token(account, user, "lab", claims);
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n\
         ------END USER NKEY SEED------\n",
        user.seed().unwrap()
    )
}

#[test]
fn a_credentials_file_is_accepted_by_a_server_with_accounts() {
    let folder = Folder::new("agents-creds");
    let (operator, system, account) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = |jetstream: i64| {
        json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1, "mem_storage": jetstream, "disk_storage": jetstream, "streams": jetstream,
            "consumer": jetstream,
        })
    };
    let of_account = |key: &KeyPair, name, jetstream| {
        let claims = json!({"type": "account", "version": 2, "limits": limits(jetstream),
            "default_permissions": {"pub": {}, "sub": {}}});
        token(&operator, key, name, claims)
    };
    let claims = json!({"type": "operator", "version": 2, "system_account": system.public_key()});
    let config = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\n",
        token(&operator, &operator, "operator", claims),
        system.public_key(),
        system.public_key(),
        of_account(&system, "SYS", 0),
        account.public_key(),
        of_account(&account, "LAB", -1),
    );
    let config = written(&folder, "nats.conf", &config);
    let more = ["-c", config.to_str().unwrap()];
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &more) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let file = written(&folder, "lab.creds", &credentials(&account, &KeyPair::new_user()));
    let words = ["--nats-creds", file.to_str().unwrap()];
    let _agents = ["a", "b"].map(|name| Agent::start(&here, &url, name, folder.path(), &words));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let load = format!("load --server {} --name q{{n}}.example --rate 100 --duration 1s --workers 1", far.address);
    let (code, text, error) = over_two(&load, &url, &words, &out);
    assert!(matches!(code, 0 | 1), "{text}{error}");
    assert_eq!(far.end().len(), 100, "{text}{error}");
    // Credentials of an unknown account, and no credentials.
    let foreign = written(&folder, "foreign.creds", &credentials(&KeyPair::new_account(), &KeyPair::new_user()));
    for more in [&["--nats-creds", foreign.to_str().unwrap()][..], &[]] {
        let (code, text, error) = over_two(&load, &url, more, &folder.path().join("none"));
        assert!(code == 2 && error.contains("authorization"), "{text}{error}");
    }
}

#[test]
fn agents_trust_the_ca_that_the_controller_names() {
    let folder = Folder::new("agents-ca");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let _agents = ["a", "b"].map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let plan = EchoPlan::new(&[Transport::Dot]).unwrap();
    let authority = written(&folder, "dot.pem", plan.certificate.authority_pem());
    let echo = Echo::start(&plan).unwrap();
    let load = format!(
        "load --server {} --transport dot --tls-name localhost --name q{{n}}.example --rate 100 --duration 1s \
         --workers 1",
        echo.address(Transport::Dot)
    );
    let out = folder.path().join("run");
    let (code, text, error) = over_two(&format!("{load} --ca {}", authority.display()), &url, &[], &out);
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let totals: BTreeMap<String, Value> = serde_json::from_value(summary(&out)).unwrap();
    assert_eq!((&totals["sent"], &totals["answered"]), (&100.into(), &100.into()), "{text}{error}");
    // Without the CA, agents do not trust the server.
    let (code, text, error) = over_two(&load, &url, &[], &folder.path().join("none"));
    assert!(code == 1 && text.contains("its certificate is not signed by a trusted CA"), "{text}{error}");
}
