//! Memory of a zone: resident bytes per address record, and the time to load the zone.

use super::load_time;
use super::machine::{SERVER_CORE, family, on_cores, resident_bytes};
use super::options::Options;
use super::rivals::{self, NAMES};
use super::table::{Row, Verdict, spread};
use super::zones::{APEX, Zone};
use std::path::Path;
use std::time::Duration;
use testbed::{Cluster, PeerError, ServedZone};

/// Catamaran after a restart: it reads the zone from its store instead of importing it.
const AGAIN: &str = "catamaran started again";
/// After this time, the memory of a server that has loaded its zones is stable.
const SETTLED: Duration = Duration::from_secs(2);
/// Rivals that must not load faster than catamaran.
const LOAD_RIVALS: [&str; 2] = ["nsd", "knot"];
/// Resident memory per A record, in bytes. Measured only from this many names on: with fewer, fixed costs dominate.
const RECORD_BYTES_MAX: (f64, u32) = (100.0, 1_000_000);

struct MemoryUse {
    name: &'static str,
    bytes_a_record: f64,
    seconds: f64,
}

/// Measures every server with the zone and with a zone of one name. The difference is the memory of the records.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let empty = Zone::make(&options.folder, 1)?;
    for &names in &options.names {
        let zone = Zone::make(&options.folder, names)?;
        let mut measured = Vec::new();
        for round in 0..options.rounds {
            for name in
                NAMES.into_iter().filter(|name| *name != "echo" && options.servers.iter().any(|one| one == name))
            {
                let folder = options.folder.join(format!("weight-{round}"));
                let Some(without) = measure_start(name, &empty, &folder)? else { continue };
                // An empty folder, so that no old data is loaded.
                let _removed = std::fs::remove_dir_all(&folder);
                let Some(with) = measure_start(name, &zone, &folder)? else { continue };
                let _removed = std::fs::remove_dir_all(&folder);
                let bytes_a_record = (with.0 - without.0) / f64::from(names);
                eprintln!("weight {} {name} {names}: {bytes_a_record:.0} bytes a record, {:.2} s", round + 1, with.1);
                measured.push(MemoryUse { name, bytes_a_record, seconds: with.1 });
                if name == "catamaran" {
                    let (bytes, seconds) = measure_restart(&zone, &folder)?;
                    let bytes_a_record = (bytes - measure_restart(&empty, &folder)?.0) / f64::from(names);
                    eprintln!(
                        "weight {} {AGAIN} {names}: {bytes_a_record:.0} bytes a record, {seconds:.2} s",
                        round + 1
                    );
                    measured.push(MemoryUse { name: AGAIN, bytes_a_record, seconds });
                }
            }
        }
        rows.extend(figures(names, &options.servers, &measured));
    }
    Ok(rows)
}

/// Returns resident bytes, and seconds until the first answer.
fn measure_start(name: &'static str, zone: &Zone, folder: &Path) -> Result<Option<(f64, f64)>, String> {
    let Some(rival) = rivals::start(name, zone, folder)? else { return Ok(None) };
    std::thread::sleep(SETTLED);
    let bytes = rival.pids().into_iter().map(resident_bytes).sum::<f64>();
    Ok(Some((bytes, rival.ready_after.as_secs_f64())))
}

/// Stops catamaran and starts it again, so that it reads its zones from disk like the others. Returns resident bytes,
/// and seconds until it is ready.
fn measure_restart(zone: &Zone, folder: &Path) -> Result<(f64, f64), String> {
    let zones = [ServedZone::new(APEX, &zone.file)];
    let (own, restarted) = on_cores(&[SERVER_CORE], || {
        let mut own = Cluster::start_nodes(folder, &zones, 1)?;
        let restarted = own.restart()?;
        Ok::<_, PeerError>((own, restarted))
    })
    .map_err(|error| error.to_string())?;
    let seconds = restarted.as_secs_f64();
    // The server frees memory shortly after it has loaded zones.
    std::thread::sleep(SETTLED);
    let bytes = family(own.pid()).into_iter().map(resident_bytes).sum();
    drop(own);
    let _removed = std::fs::remove_dir_all(folder);
    Ok((bytes, seconds))
}

fn figures(names: u32, asked_for: &[String], measured: &[MemoryUse]) -> Vec<Row> {
    let mut rows = Vec::new();
    let all = |name: &str, value: fn(&MemoryUse) -> f64| {
        spread(&measured.iter().filter(|one| one.name == name).map(value).collect::<Vec<_>>())
    };
    let rivals = LOAD_RIVALS.into_iter().filter(|name| asked_for.iter().any(|one| one == name));
    let rivals: Vec<f64> = rivals.map(|name| all(name, |one| one.seconds).0).collect();
    for name in NAMES.into_iter().chain([AGAIN]).filter(|name| measured.iter().any(|one| one.name == *name)) {
        let is_ours = name.starts_with("catamaran");
        let bytes_max = (is_ours && names >= RECORD_BYTES_MAX.1).then_some(RECORD_BYTES_MAX.0);
        let (bytes, least, most) = all(name, |one| one.bytes_a_record);
        rows.push(Row {
            what: format!("memory of an A record, {names} names: {name}"),
            figure: format!("{bytes:.0} bytes ({least:.0} to {most:.0})"),
            budget: bytes_max.map_or_else(String::new, |max| format!("<= {max:.0}")),
            verdict: bytes_max.map_or(Verdict::Informs, |max| Verdict::of(bytes <= max)),
            note: "resident memory of all its processes, less that with one name".into(),
        });
        let (seconds, least, most) = all(name, |one| one.seconds);
        let (budget, verdict) =
            if is_ours { load_time::judge(seconds, &rivals) } else { (String::new(), Verdict::Informs) };
        rows.push(Row {
            what: format!("start to first answer, {names} names: {name}"),
            figure: format!("{seconds:.2} s ({least:.2} to {most:.2})"),
            budget,
            verdict,
            note: if name == "catamaran" {
                "one core; a new cluster of one imports the zone through its log".into()
            } else {
                "one core".into()
            },
        });
    }
    rows
}
