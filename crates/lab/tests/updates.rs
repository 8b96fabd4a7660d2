//! The same updates to ours and to the peers that take updates; every difference has a name.
//!
//! `UPDATES=20000` draws as many; the default is a small part of it. `ROUND=50` compares the whole root zone after
//! every 50 steps of its history.
use lab::compare::updates::{Contents, History, Plan, Server, Tally, client, generate, run, run_history};
use lab::peers::{Kind, Peer, ServedZone, Setup, UpdateKey, start};
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wire::name::Name;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn free_address() -> std::io::Result<SocketAddr> {
    loop {
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let address = tcp.local_addr()?;
        let shared = (address.ip(), address.port().saturating_sub(1));
        if std::net::UdpSocket::bind(address).is_ok() && std::net::TcpListener::bind(shared).is_ok() {
            return Ok(address);
        }
    }
}

/// Starts a server with these zones in a folder of its own.
fn start_with(kind: Kind, folder: &Path, zones: &[(Name, Contents)]) -> Result<Peer, Box<dyn Error>> {
    let mut served = Vec::new();
    let _cleared = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    for (index, (apex, contents)) in zones.iter().enumerate() {
        let file = folder.join(format!("source{index}"));
        std::fs::write(&file, contents.zone_file())?;
        served.push(ServedZone { apex: apex.to_string(), file });
    }
    let key = UpdateKey { name: "key.test.".into(), secret: SECRET.to_vec() };
    let setup = Setup { zones: served, key: Some(key), address: free_address()?, folder: folder.to_path_buf() };
    Ok(start(kind, &setup)?)
}

/// Those that are installed; the others are named.
fn servers(folder: &Path, zones: &[(Name, Contents)]) -> Vec<Server<'static>> {
    let mut servers = Vec::new();
    for kind in [Kind::Catamaran, Kind::Bind, Kind::Knot] {
        if kind.program().is_none() {
            println!("skipped: {} is not installed", kind.label());
            continue;
        }
        let folder: PathBuf = folder.join(kind.label());
        let mut running = Some(start_with(kind, &folder, zones).unwrap());
        let address = running.as_ref().unwrap().address;
        let restart = move |zones: &[(Name, Contents)]| {
            drop(running.take());
            running = Some(start_with(kind, &folder, zones)?);
            Ok(running.as_ref().unwrap().address)
        };
        servers.push(Server { kind, address, restart: Box::new(restart) });
    }
    servers
}

#[test]
fn generated() {
    let folder = std::env::temp_dir().join(format!("catlab-updates-{}", std::process::id()));
    let apexes: Vec<Name> = (0..8).map(|index| format!("z{index}.test.").parse().unwrap()).collect();
    let zones: Vec<_> =
        apexes.iter().enumerate().map(|(index, apex)| (apex.clone(), generate::zone(apex, index))).collect();
    let mut servers = servers(&folder, &zones);
    let key = client::key("key.test", SECRET).unwrap();
    let plan = Plan { key, apexes, count: number("UPDATES", 400), seed: number("SEED", 1) as u64 };
    let mut tally = Tally::default();
    let outcome = run(&plan, &mut servers, &mut tally);
    drop(servers);
    for (_, difference) in tally.unexplained.iter().take(number("SHOWN", 20)) {
        println!("{difference}\n");
    }
    println!("{tally}");
    let _cleared = std::fs::remove_dir_all(&folder);
    outcome.unwrap();
    assert_eq!(tally.unexplained_count, 0);
}

#[test]
fn history_of_the_root_zone() {
    let data = std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    let read = |file: &str| lab::trace::read_whole(&data.join("zones").join(file)).ok();
    let (Some(base), Some(steps)) = (read("roothistory-base.zone.xz"), read("roothistory-diffs.patch.xz")) else {
        return eprintln!("skipped: the history of the root zone is not there");
    };
    let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
    let history = History::read(&text(base), &text(steps)).unwrap();
    println!("{} records, {} steps", history.base.records.len(), history.steps.len());
    let folder = std::env::temp_dir().join(format!("catlab-history-{}", std::process::id()));
    let mut servers = servers(&folder, &[(Name::root(), history.base.clone())]);
    let key = client::key("key.test", SECRET).unwrap();
    let steps = number("STEPS", 100);
    let outcome = run_history(&history, &key, steps, number("ROUND", 20), &mut servers);
    drop(servers);
    let _cleared = std::fs::remove_dir_all(&folder);
    assert_eq!(outcome.unwrap(), steps.min(history.steps.len()));
}
