//! Small zone files that would take very much memory: `$GENERATE`, and files that decompress to a large size.

use super::support::cluster::{CATAMARAN, Cluster, Scratch};
use super::support::http;
use super::support::rss::{Growth, resident_kib};
use lzma_rust2::{XzOptions, XzWriter};
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// The beginning of each zone file here.
const HEAD: &str = "$ORIGIN bomb.test.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

/// Maximum memory of a command while it refuses a zone.
const RESIDENT_KIB_MAX: u64 = 256 << 10;

/// Runs a command to its end. Returns its exit status, its output, and its peak memory.
fn run(arguments: &[&str]) -> (ExitStatus, String, u64) {
    let mut child =
        Command::new(CATAMARAN).args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut peak_kib = 0;
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok());
        peak_kib = peak.unwrap_or(0).max(peak_kib);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    (status, printed, peak_kib)
}

/// Runs a command that must refuse a zone file, with this text in its output.
fn refuses(arguments: &[&str], why: &str) {
    let (status, printed, peak_kib) = run(arguments);
    assert_eq!(status.code(), Some(3), "{arguments:?}: {printed}");
    assert!(printed.contains(why), "{arguments:?}: {printed}");
    assert!(peak_kib < RESIDENT_KIB_MAX, "{arguments:?}: {peak_kib} KiB");
}

#[test]
fn a_line_of_generate_fills_no_memory() {
    let cluster = Cluster::start("bomb-generate", 1, &[]);
    let (api, token) = (cluster.api(1), cluster.token());
    let pid = cluster.status(1).unwrap()["pid"].as_u64().unwrap() as u32;
    let growth = Growth::start(pid);
    let one = format!("{HEAD}$GENERATE 1-9999999 ${{0,60,d}}.${{0,60,d}} TXT \"${{0,120,d}} ${{0,120,d}}\"\n");
    let many = format!("{HEAD}{}", "$GENERATE 1-200000 a$ A 192.0.2.1\n".repeat(20));
    let scratch = Scratch::new("bomb-generate");
    for (name, bomb, line) in [("one", &one, 6), ("many", &many, 7)] {
        let answer = http::request(api, "POST", "/v1/zone?zone=bomb.test.", Some(&token), bomb.as_bytes()).unwrap();
        assert_eq!(answer.status, 422, "{}", answer.text());
        let why = format!(":{line}: $GENERATE: all $GENERATE of a zone file make at most 262144 records");
        assert!(answer.text().contains(&format!("body{why}")), "{}", answer.text());
        let file = scratch.file(name, bomb);
        refuses(&["zone", "check", &file], &format!("{name}{why}"));
        let dir = scratch.path().join("cluster");
        let port = (cluster.port + 25).to_string();
        refuses(&["up", "--dir", dir.to_str().unwrap(), "--port", &port, "--zone", &file], &why);
    }
    // Long records, fewer than the bound.
    let numbers = "${0,120,d}".repeat(500);
    let long = format!("{HEAD}$GENERATE 1-200000 a$ TYPE65400 \"\\# 30000 {numbers}\"\n");
    let answer = http::request(api, "POST", "/v1/zone?zone=bomb.test.", Some(&token), long.as_bytes()).unwrap();
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("body:6: $GENERATE: all $GENERATE of a zone file make at most 16777216 bytes"));
    let grown_kib = growth.peak_kib();
    assert!(grown_kib < RESIDENT_KIB_MAX, "{grown_kib} KiB, {} KiB now", resident_kib(pid));
    let fine = format!("{HEAD}$GENERATE 1-1000 a$ A 192.0.2.1\n");
    let answer = http::request(api, "POST", "/v1/zone?zone=bomb.test.", Some(&token), fine.as_bytes()).unwrap();
    assert_eq!(answer.status, 201, "the node cannot add a normal zone: {}", answer.text());
}

#[test]
fn small_compressed_files_do_not_fill_the_memory() {
    let scratch = Scratch::new("bomb-compressed");
    let line = format!("a 60 A 192.0.2.1 ;{}\n", "-".repeat(237));
    let block = line.repeat((1 << 20) / line.len());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(block.as_bytes()).unwrap();
    let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
    xz.write_all(block.as_bytes()).unwrap();
    let zst = ruzstd::encoding::compress_to_vec(block.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    for (name, packed) in [("b.gz", gz.finish().unwrap()), ("b.xz", xz.finish().unwrap()), ("b.zst", zst)] {
        let mut file = Vec::new();
        // Each format allows several streams in one file, one after the other: 1.5 GiB of text.
        (0..1_536).for_each(|_| file.extend_from_slice(&packed));
        assert!(file.len() < 8 << 20, "{name}: {}", file.len());
        let path = scratch.path().join(name);
        std::fs::write(&path, file).unwrap();
        let argument = format!("bomb.test={}", path.display());
        refuses(&["zone", "check", &argument], "which is unusual for a zone file");
        let dir = scratch.path().join("cluster");
        refuses(&["up", "--dir", dir.to_str().unwrap(), "--zone", &argument], "which is unusual for a zone file");
    }
}
