//! The recorded queries are read whole.
use lab::trace::{Transport, read_dnsperf, read_pcap, read_rpl_raw};
use std::path::PathBuf;

fn data(path: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    Some(folder.join(path)).filter(|path| path.exists())
}

#[test]
fn the_root_capture_has_its_8267_queries() {
    let Some(path) = data("captures/lroot-20161006-1354-knot-live.pcap.xz") else {
        return println!("skipped: the capture is not there");
    };
    let queries = read_pcap(&path).unwrap();
    let tcp = queries.iter().filter(|query| query.transport == Transport::Tcp).count();
    assert_eq!((queries.len(), tcp), (8267, 93));
}

#[test]
fn the_query_file_has_its_24869_queries() {
    let Some(path) = data("queries/root-queries-20011009-a.dnsperf.xz") else {
        return println!("skipped: the query file is not there");
    };
    assert_eq!(read_dnsperf(&path).unwrap().len(), 24869);
}

#[test]
fn the_garbage_is_read() {
    let Some(path) = data("rpl/iter_badraw.rpl") else { return println!("skipped: the scenario is not there") };
    assert!(read_rpl_raw(&path).unwrap().len() > 100);
}
