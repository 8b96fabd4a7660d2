//! The same queries to ours and to the peers; every difference has a name.
use lab::compare::{Tally, run};
use lab::peers::{Kind, ServedZone};
use lab::trace;
use std::path::PathBuf;

fn data(path: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    Some(folder.join(path)).filter(|path| path.exists())
}

#[test]
fn root_capture() {
    let ours = Kind::ALL
        .into_iter()
        .find(|k| Some(k.label()) == std::env::var("OURS").ok().as_deref())
        .unwrap_or(Kind::Catamaran);
    if ours.program().is_none() {
        return eprintln!("skipped: {} is not installed", ours.label());
    }
    let (Some(capture), Some(zone)) =
        (data("captures/lroot-20161006-1354-knot-live.pcap.xz"), data("zones/root-20170821.zone.xz"))
    else {
        return eprintln!("skipped: the capture is not there");
    };
    let folder = std::env::temp_dir().join(format!("catlab-compare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("root.zone");
    std::fs::write(&file, trace::read_whole(&zone).unwrap()).unwrap();
    let mut messages = trace::read_pcap(&capture).unwrap();
    messages.truncate(2000);
    let mut tally = Tally::default();
    let plan = run::Plan {
        ours,
        zones: vec![ServedZone { apex: ".".into(), file }],
        messages: &messages,
        folder: &folder,
        progress: &|_| (),
    };
    run::run(&plan, &mut tally).unwrap();
    for line in tally.unexplained.iter().take(20) {
        println!("{}", line.text);
    }
    println!("{tally}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn generated() {
    let ours = Kind::ALL
        .into_iter()
        .find(|k| Some(k.label()) == std::env::var("OURS").ok().as_deref())
        .unwrap_or(Kind::Catamaran);
    if ours.program().is_none() {
        return eprintln!("skipped: {} is not installed", ours.label());
    }
    let folder = std::env::temp_dir().join(format!("catlab-generated-{}", std::process::id()));
    let mut tally = Tally::default();
    run::run_generated(ours, 1, 4000, &folder, &|_| (), &mut tally).unwrap();
    for line in tally.unexplained.iter().take(20) {
        println!("{}", line.text);
    }
    println!("{tally}");
    std::fs::remove_dir_all(&folder).unwrap();
}
