//! What a zone weighs: resident memory of an address record, and the time to load it.

use super::Options;
use super::catamaran_server::CatamaranServer;
use super::load_time;
use super::machine::{SERVER_CORE, resident_bytes};
use super::rivals::{self, NAMES};
use super::table::{Row, Verdict, spread};
use super::zones::{APEX, Zone};
use std::path::Path;
use std::time::Duration;

/// Ours once more, when it did not import the zone but found it on its disk.
const AGAIN: &str = "catamaran started again";
/// After this time a server that has loaded its zones has what it keeps.
const SETTLED: Duration = Duration::from_secs(2);
/// Whose time to load is no shorter than ours.
const LOAD_RIVALS: [&str; 2] = ["nsd", "knot"];
/// Bytes of resident memory for an A record, of so many names on: of few, what a node keeps ready weighs much.
const RECORD_BYTES_MAX: (f64, u32) = (100.0, 1_000_000);

struct MemoryUse {
    name: &'static str,
    bytes_a_record: f64,
    seconds: f64,
}

/// Every server with the zone and with a zone of one name: the difference is the records'.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let empty = Zone::make(&options.folder, 1)?;
    for &names in &options.names {
        let zone = Zone::make(&options.folder, names)?;
        let mut weighed = Vec::new();
        for round in 0..options.rounds {
            for name in
                NAMES.into_iter().filter(|name| *name != "echo" && options.servers.iter().any(|one| one == name))
            {
                let folder = options.folder.join(format!("weight-{round}"));
                let Some(without) = weigh(name, &empty, &folder)? else { continue };
                // A folder of its own: what was left there is not to be loaded again.
                let _removed = std::fs::remove_dir_all(&folder);
                let Some(with) = weigh(name, &zone, &folder)? else { continue };
                let _removed = std::fs::remove_dir_all(&folder);
                let bytes_a_record = (with.0 - without.0) / f64::from(names);
                eprintln!("weight {} {name} {names}: {bytes_a_record:.0} bytes a record, {:.2} s", round + 1, with.1);
                weighed.push(MemoryUse { name, bytes_a_record, seconds: with.1 });
                if name == "catamaran" {
                    let (bytes, seconds) = again(&zone, &folder)?;
                    let bytes_a_record = (bytes - again(&empty, &folder)?.0) / f64::from(names);
                    eprintln!(
                        "weight {} {AGAIN} {names}: {bytes_a_record:.0} bytes a record, {seconds:.2} s",
                        round + 1
                    );
                    weighed.push(MemoryUse { name: AGAIN, bytes_a_record, seconds });
                }
            }
        }
        rows.extend(figures(names, &options.servers, &weighed));
    }
    Ok(rows)
}

/// Resident bytes, and seconds to the first answer.
fn weigh(name: &'static str, zone: &Zone, folder: &Path) -> Result<Option<(f64, f64)>, String> {
    let Some(rival) = rivals::start(name, zone, folder)? else { return Ok(None) };
    std::thread::sleep(SETTLED);
    let bytes = rival.pids().into_iter().map(resident_bytes).sum::<f64>();
    Ok(Some((bytes, rival.ready_after.as_secs_f64())))
}

/// Ours, ended and started again: as the others it finds its zones on its disk. Resident bytes, and seconds until it
/// is ready.
fn again(zone: &Zone, folder: &Path) -> Result<(f64, f64), String> {
    let mut own = CatamaranServer::start(folder, &[(APEX, &zone.file)], &[SERVER_CORE], &[])?;
    let seconds = own.restart(&[SERVER_CORE])?.as_secs_f64();
    // Memory is given back a moment after zones came.
    std::thread::sleep(SETTLED);
    let bytes = own.pids().into_iter().map(resident_bytes).sum();
    drop(own);
    let _removed = std::fs::remove_dir_all(folder);
    Ok((bytes, seconds))
}

fn figures(names: u32, asked_for: &[String], weighed: &[MemoryUse]) -> Vec<Row> {
    let mut rows = Vec::new();
    let all = |name: &str, value: fn(&MemoryUse) -> f64| {
        spread(&weighed.iter().filter(|one| one.name == name).map(value).collect::<Vec<_>>())
    };
    let rivals = LOAD_RIVALS.into_iter().filter(|name| asked_for.iter().any(|one| one == name));
    let rivals: Vec<f64> = rivals.map(|name| all(name, |one| one.seconds).0).collect();
    for name in NAMES.into_iter().chain([AGAIN]).filter(|name| weighed.iter().any(|one| one.name == *name)) {
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
