//! Starts a server of a cell, with the settings in its definition.

use super::cell::{CellError, Context};
use super::cgroup;
use super::hosts::{Host, Hosts};
use super::peers::Peers;
use super::process::{self, Identity};
use super::server::{Echo, Program, Server};
use super::zones::Zones;
use crate::definition::variables::substitute;
use crate::definition::{ECHO, Server as Definition, Value, addresses};
use crate::limits::ZONES_ASKED_MAX;
use crate::results::ServerResult;
use measure::Transport;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testbed::echo::Certificate;
use testbed::{Encryption, Kind, Launch, NodeAddresses, Nodes, PeerError, ServedZone, Setup, UpdateKey, spawn_into};

/// Time limit for the echo server to start.
const ECHO_START_MAX: Duration = Duration::from_secs(10);
/// The name of the TSIG key. All servers have the same, so that secondaries can transfer from their primary.
const KEY_NAME: &str = "experiment.";
/// Its secret. It is no secret: servers of experiments only listen on this machine and hold test data.
const SECRET: &[u8; 32] = b"servers of a catlab experiment..";

/// Ports on machines of a net.
const DNS_PORT: u16 = 53;
/// For the other nodes.
const PEER_PORT: u16 = 5_380;
/// For the API.
const API_PORT: u16 = 8_053;

/// A definition whose texts are those of one cell.
struct Texts<'a> {
    definition: &'a Definition,
    values: &'a BTreeMap<String, String>,
}

impl Texts<'_> {
    fn failed(&self, reason: impl std::fmt::Display) -> CellError {
        CellError::Failed(format!("cannot start the server {}: {reason}", self.definition.name))
    }

    fn text(&self, text: &str) -> Result<String, CellError> {
        substitute(text, self.values).map_err(|reason| self.failed(reason))
    }

    /// The value of a text that is a `T`. The definition was checked, so an error is a bug.
    fn parsed<T: std::str::FromStr>(&self, text: Option<&str>) -> Result<Option<T>, CellError> {
        let Some(text) = text else { return Ok(None) };
        let text = self.text(text)?;
        text.parse().map(Some).map_err(|_| self.failed(format!("`{text}` is not a valid value")))
    }

    fn number(&self, value: Option<&Value>) -> Result<Option<usize>, CellError> {
        self.parsed(value.map(|value| value.0.as_str()))
    }
}

/// A program that has started.
struct Started {
    program: Program,
    /// The address of each node, for the transport of the definition.
    addresses: Vec<SocketAddr>,
    /// The command line of each node.
    commands: Vec<Vec<String>>,
    version: String,
    configuration: String,
}

/// Starts a server and waits until it answers.
pub(super) fn start(
    context: &Context<'_>,
    hosts: &Hosts,
    definition: &Definition,
    values: &BTreeMap<String, String>,
) -> Result<Server, CellError> {
    let texts = Texts { definition, values };
    let (kind, mark) = (texts.text(&definition.kind)?, context.record.mark(&definition.name));
    let transport = texts.parsed(definition.transport.as_deref())?.unwrap_or(Transport::Udp);
    let known = Kind::named(&kind);
    if let Some(known) = known.filter(|known| !known.transports().contains(&transport)) {
        return Err(CellError::Unsupported(format!("{} does not answer over {transport}", known.label())));
    }
    let count = texts.number(definition.nodes.as_ref())?.unwrap_or(1);
    let joining = texts.number(definition.joining.as_ref())?.unwrap_or(0);
    let of_nodes: Vec<Host> =
        (0..count).map(|_| hosts.next()).collect::<Result<_, _>>().map_err(|error| texts.failed(error))?;
    let mut setup = setup(context, &texts, &of_nodes[0], &mark)?;
    let authority = setup.folder.join("ca.pem");
    if transport.is_encrypted() && known.is_some() {
        setup.encryption = Some(certificate(&setup.folder, &authority).map_err(|error| texts.failed(error))?);
    }
    let cannot_start = |wrong| match wrong {
        PeerError::Missing(_) | PeerError::Unsupported(..) => CellError::Unsupported(wrong.to_string()),
        wrong => texts.failed(wrong),
    };
    let started = match known {
        Some(Kind::Catamaran) => {
            let has_threads = definition.threads.is_some() || definition.core.is_some();
            setup.threads = setup.threads.filter(|_| has_threads);
            // It has no catalogs. Events change its zones by its API.
            setup.catalog = None;
            start_nodes(&setup, transport, &of_nodes, joining).map_err(cannot_start)?
        }
        Some(kind) => start_peers(kind, &setup, transport, &of_nodes, joining).map_err(cannot_start)?,
        None if kind == ECHO => start_echo(&context.options.catlab, &setup, transport, &of_nodes[0])
            .map_err(|reason| texts.failed(reason))?,
        None => return Err(texts.failed(format!("there is no kind of server `{kind}`"))),
    };
    let mut roots = Vec::new();
    for pid in started.program.pids() {
        let root = Identity::of(pid).ok_or_else(|| texts.failed("it exited"))?;
        context.record.add_process(root).map_err(|error| texts.failed(error))?;
        roots.push(root);
    }
    let (version, configuration) = (started.version, started.configuration);
    let zones = Zones::new(setup.clone(), definition.zones.len());
    let machines = of_nodes.iter().map(|host| host.machine).collect();
    let result = ServerResult { name: definition.name.clone(), kind, version, configuration };
    let file = |path: &Path| path.display().to_string();
    let addresses: Vec<_> = started.addresses.iter().map(SocketAddr::to_string).collect();
    let variables = [
        ("address", addresses.first().cloned()),
        ("addresses", Some(addresses.join(","))),
        ("last", addresses.last().cloned()),
        ("plain", Some(setup.address.to_string())),
        ("pid", roots.first().map(|root| root.pid.to_string())),
        ("key", definition.key.then(|| file(&key_file(&setup)))),
        ("ca", transport.is_encrypted().then(|| file(&authority))),
    ];
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Ok(Server::new(result, variables, started.commands, (started.program, zones), mark, (roots, machines)))
}

/// Checks that a running server of the user has the zones of the experiment. Over encrypted transports it is not asked.
pub(super) fn check_user_server(
    context: &Context<'_>,
    definition: &Definition,
    values: &BTreeMap<String, String>,
    address: SocketAddr,
) -> Result<(), CellError> {
    let texts = Texts { definition, values };
    if texts.parsed::<Transport>(definition.transport.as_deref())?.is_some_and(Transport::is_encrypted) {
        return Ok(());
    }
    let zones = zones(context, &texts)?;
    match zones.iter().take(ZONES_ASKED_MAX).find(|zone| testbed::serves(address, &zone.apex) != Some(true)) {
        None => Ok(()),
        Some(zone) => Err(CellError::Failed(format!(
            "the server at {address} does not answer for the zone `{}`; load the zones of the experiment first",
            zone.apex
        ))),
    }
}

/// The zones of a server.
fn zones(context: &Context<'_>, texts: &Texts<'_>) -> Result<Vec<ServedZone>, CellError> {
    let definition = texts.definition;
    let mut zones = Vec::new();
    for (apex, file) in &definition.zones {
        // An absolute path stays as it is.
        zones.push(ServedZone::new(texts.text(apex)?, context.folder.join(texts.text(file)?)));
    }
    if let Some(folder) = &definition.hierarchy {
        let folder = context.folder.join(texts.text(folder)?);
        let hierarchy = hierarchy::Folder::read(&folder).map_err(|error| texts.failed(error))?;
        zones.extend(hierarchy.zones.into_iter().map(|zone| ServedZone::new(zone.name, folder.join(zone.file))));
    }
    Ok(zones)
}

/// The settings. Nothing has started yet, but the key has its file.
fn setup(context: &Context<'_>, texts: &Texts<'_>, host: &Host, mark: &str) -> Result<Setup, CellError> {
    let definition = texts.definition;
    let launch = Launch {
        cgroups: cgroups(context, definition, texts.values)?,
        core: core(texts.number(definition.core.as_ref())?)?,
        environment: vec![(process::VARIABLE.to_owned(), mark.to_owned())],
        namespace: host.namespace.clone(),
        has_own_group: true,
    };
    let zones = zones(context, texts)?;
    // More threads than cores would only compete with each other.
    let cores = match definition.core {
        Some(_) => 1,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let idle = definition.idle.as_deref().map(|idle| texts.text(idle)).transpose()?;
    let idle = idle.map(|idle| report::parse_duration(&idle)).transpose().map_err(|reason| texts.failed(reason))?;
    let address = host.address(DNS_PORT).map_err(|error| texts.failed(error))?;
    let folder = context.cell_folder.join(format!("server-{}", definition.name));
    let mut setup = Setup {
        threads: Some(texts.number(definition.threads.as_ref())?.unwrap_or(cores)),
        idle_s: idle.and_then(|idle| u32::try_from(idle.as_secs()).ok()),
        primary: texts.parsed(definition.primary.as_deref())?,
        catalog: definition.catalog.as_deref().map(|apex| texts.text(apex)).transpose()?,
        lines: texts.text(&definition.lines)?,
        backends: addresses(&texts.text(&definition.backends)?).map_err(|reason| texts.failed(reason))?,
        launch,
        programs: context.options.user_servers.programs.clone(),
        ..Setup::new(folder, address, zones)
    };
    setup.connections_max = texts.number(definition.connections.as_ref())?;
    if definition.key {
        let key = UpdateKey { name: KEY_NAME.into(), secret: SECRET.to_vec() };
        std::fs::create_dir_all(&setup.folder).map_err(|error| texts.failed(error))?;
        std::fs::write(key_file(&setup), key.bind_text()).map_err(|error| texts.failed(error))?;
        setup.keys.push(key);
    }
    Ok(setup)
}

/// The file of the TSIG key, in the format of `nsupdate -k`.
fn key_file(setup: &Setup) -> PathBuf {
    setup.folder.join("update.key")
}

/// The control groups with the limits of a server.
fn cgroups(
    context: &Context<'_>,
    definition: &Definition,
    values: &BTreeMap<String, String>,
) -> Result<Vec<PathBuf>, CellError> {
    let text = |text: Option<&str>| text.map(|text| substitute(text, values)).transpose().map_err(CellError::Failed);
    let cpu = text(definition.cpu.as_ref().map(|cpu| cpu.0.as_str()))?;
    let memory = text(definition.memory.as_deref())?;
    let name = context.record.cgroup_name(&definition.name);
    let plans = cgroup::plans(&name, cpu.as_deref(), memory.as_deref()).map_err(CellError::Unsupported)?;
    let mut folders = Vec::new();
    for plan in plans {
        context.record.add_cgroup(&plan.folder).map_err(|error| CellError::Failed(error.to_string()))?;
        plan.make().map_err(CellError::Unsupported)?;
        folders.push(plan.folder);
    }
    Ok(folders)
}

/// Checks that a process can be pinned to a core.
pub(super) fn core(core: Option<usize>) -> Result<Option<usize>, CellError> {
    let Some(core) = core else { return Ok(None) };
    if testbed::installed("taskset").is_none() {
        return Err(CellError::Unsupported("taskset is not installed; it is part of util-linux".into()));
    }
    if !Path::new(&format!("/sys/devices/system/cpu/cpu{core}")).is_dir() {
        return Err(CellError::Unsupported(format!("this machine has no core {core}")));
    }
    Ok(Some(core))
}

/// The address for a transport with a port of its own.
fn encrypted(host: &Host, transport: Transport, wanted: &[Transport]) -> io::Result<Option<SocketAddr>> {
    wanted.contains(&transport).then(|| host.address(transport.default_port())).transpose()
}

/// The transports on the port for DNS over TLS and QUIC.
const TLS_OR_QUIC: [Transport; 2] = [Transport::Dot, Transport::Doq];

fn start_nodes(setup: &Setup, transport: Transport, hosts: &[Host], joining: usize) -> Result<Started, PeerError> {
    let program = setup.programs.find(Kind::Catamaran).ok_or(PeerError::Missing(Kind::Catamaran))?;
    let wrong = |error| PeerError::Start(Kind::Catamaran, error);
    let mut nodes = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        nodes.push(NodeAddresses {
            dns: if index == 0 { setup.address } else { host.address(DNS_PORT).map_err(wrong)? },
            dot: encrypted(host, transport, &TLS_OR_QUIC).map_err(wrong)?,
            doh: encrypted(host, transport, &[Transport::Doh]).map_err(wrong)?,
            peer: host.address(PEER_PORT).map_err(wrong)?,
            api: host.loopback(API_PORT).map_err(wrong)?,
            namespace: host.namespace.clone(),
        });
    }
    let running = Nodes::start(setup, &nodes, joining)?;
    let address = |node: &NodeAddresses| node.dot.or(node.doh).unwrap_or(node.dns);
    Ok(Started {
        addresses: nodes.iter().map(address).collect(),
        commands: (0..running.count()).map(|index| running.words(index).to_vec()).collect(),
        version: Kind::Catamaran.version(&program),
        configuration: running.configuration(),
        program: Program::Nodes(Box::new(running)),
    })
}

/// Starts a server, or a primary and its secondaries.
fn start_peers(
    kind: Kind,
    setup: &Setup,
    transport: Transport,
    hosts: &[Host],
    joining: usize,
) -> Result<Started, PeerError> {
    let wrong = |error| PeerError::Start(kind, error);
    let (mut peers, mut addresses) = (Peers::new(kind), Vec::new());
    for (index, host) in hosts.iter().enumerate() {
        let dot = encrypted(host, transport, &TLS_OR_QUIC).map_err(wrong)?;
        let doh = encrypted(host, transport, &[Transport::Doh]).map_err(wrong)?;
        let mut setup = setup.clone();
        if index > 0 {
            setup.primary = peers.running.first().map(|primary| primary.address);
            setup.address = host.address(DNS_PORT).map_err(wrong)?;
            setup.launch.namespace.clone_from(&host.namespace);
            setup.folder = setup.folder.join(format!("secondary-{index}"));
        }
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        if let Some(encryption) = &mut setup.encryption {
            (encryption.dot, encryption.doh) = (port(dot), port(doh));
        }
        addresses.push(dot.or(doh).unwrap_or(setup.address));
        peers.joining.push_back(setup);
        if index < hosts.len() - joining {
            peers.join()?;
        }
    }
    let program = setup.programs.find(kind).ok_or(PeerError::Missing(kind))?;
    Ok(Started {
        addresses,
        commands: peers.running.iter().map(|peer| peer.words().to_vec()).collect(),
        version: kind.version(&program),
        configuration: peers.running[0].configuration(),
        program: Program::Peers(peers),
    })
}

/// Writes a certificate, its key, and the file of its CA.
fn certificate(folder: &Path, authority: &Path) -> io::Result<Encryption> {
    std::fs::create_dir_all(folder)?;
    let certificate = Certificate::new()?;
    let [chain, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&chain, certificate.certificate_pem())?;
    std::fs::write(&key, certificate.key_pem())?;
    std::fs::write(authority, certificate.authority_pem())?;
    Ok(Encryption { certificate: chain, key, dot: None, doh: None })
}

fn start_echo(catlab: &Path, setup: &Setup, transport: Transport, host: &Host) -> Result<Started, String> {
    let (ip, port, threads) = (setup.address.ip(), setup.address.port(), setup.threads.unwrap_or(1));
    let mut ports = format!("udp={port},tcp={port}");
    let mut address = setup.address;
    if transport.is_encrypted() {
        address = host.address(transport.default_port()).map_err(|error| error.to_string())?;
        ports += &format!(",{transport}={}", address.port());
    }
    let mut inner = Command::new(catlab);
    inner
        .args(["echo", "--address", &ip.to_string(), "--ports", &ports, "--threads", &threads.to_string(), "--ca-out"])
        .arg(setup.folder.join("ca.pem"));
    let text = |error: io::Error| format!("{}: {error}", catlab.display());
    std::fs::create_dir_all(&setup.folder).map_err(text)?;
    let output = setup.folder.join("output");
    let mut command = Box::new(setup.launch.command(&inner));
    let child = spawn_into(&mut command, &output).map_err(text)?;
    let mut echo = Echo { child, command, output };
    let is_over = process::wait_until(ECHO_START_MAX, || {
        let is_ready = setup.launch.inside(|| TcpStream::connect(setup.address)).is_ok();
        is_ready || !matches!(echo.child.try_wait(), Ok(None))
    });
    if !is_over || !matches!(echo.child.try_wait(), Ok(None)) {
        return Err(format!("it does not answer; its output ends:\n{}", testbed::output_end(&echo.output)));
    }
    let words = inner.get_args().map(|word| word.to_string_lossy().into_owned());
    Ok(Started {
        addresses: vec![address],
        commands: vec![std::iter::once("catlab".to_owned()).chain(words).collect()],
        version: testbed::version(catlab, "--version"),
        configuration: String::new(),
        program: Program::Echo(echo),
    })
}
