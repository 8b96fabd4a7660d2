//! Recorded queries are read completely; `catlab trace` as a program.
use compare::recorded::{read_dnsperf, read_pcap, read_rpl_raw};
use lzma_rust2::{XzOptions, XzWriter};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use trace::Transport;

/// A temporary folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catlab-trace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_catlab")).arg("trace").args(arguments).output().unwrap()
}

/// Runs it and checks that it succeeds.
fn trace(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn info(file: &str) -> Value {
    serde_json::from_str(&trace(&["info", "--json", file])).unwrap()
}

/// An IPv4 packet without options as a record of a raw-IP capture.
fn record(identification: u16, fragment_offset: u16, protocol: u8, client: u32, payload: &[u8]) -> Vec<u8> {
    let bytes = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    for word in [bytes, identification, fragment_offset, u16::from_be_bytes([64, protocol]), 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend((0x0A00_0000 | client).to_be_bytes());
    packet.extend([192, 0, 2, 53]);
    packet.extend(payload);
    // Seconds, microseconds, captured length, packet length.
    [[1, 0, packet.len() as u32, packet.len() as u32].map(u32::to_le_bytes).concat(), packet].concat()
}

/// A TCP segment to port 53.
fn segment(sequence: u32, flags: u8, bytes: usize) -> Vec<u8> {
    let mut segment = vec![0; 20 + bytes];
    segment[..4].copy_from_slice(&[16, 0, 0, 53]);
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    (segment[12], segment[13]) = (5 << 4, flags);
    segment
}

/// Feeds `first` and then the output of `next`, at least `bytes` bytes in total, to the program. Returns its peak
/// memory in KiB and its output.
fn fed(arguments: &[&str], first: &[u8], bytes: usize, mut next: impl FnMut(u32) -> Vec<u8>) -> (u64, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.arg("trace").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (mut sent, mut number) = (first.len(), 0);
    let mut goes_on = stdin.write_all(first).is_ok();
    while goes_on && sent < bytes {
        let bytes = next(number);
        goes_on = stdin.write_all(&bytes).is_ok();
        (sent, number) = (sent + bytes.len(), number + 1);
    }
    // The program has read all but what is in the pipe.
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    // A program that has exited has no memory figure.
    (line.map_or(0, |line| line.split_whitespace().next().unwrap().parse().unwrap()), text)
}

/// Endless captures in which something is always missing, and one endless line: 512 MiB of each, and 1 GiB with
/// `--full`. The memory must stay below both.
#[test]
fn memory_is_bounded_for_endless_hostile_traces() {
    const MOST_KIB: u64 = 400 << 10;
    let bytes = if skip::is_full_run() { 1 << 30 } else { 1 << 29 };
    let head = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    // Each stream has one segment that arrives too early.
    let streams = |number: u32| {
        let (begun, early) = (segment(0, 2, 0), segment(1_000, 0, 60_000));
        [record(0, 0, 6, number, &begun), record(0, 0, 6, number, &early)].concat()
    };
    let (kib, text) = fed(&["info", "-"], &head, bytes, streams);
    println!("streams: {kib} KiB");
    assert!((1..MOST_KIB).contains(&kib), "{kib} KiB: {text}");
    // 60 fragments of each packet overlap, and the last one is missing (RFC 791 3.2: offset in units of 8 bytes, more
    // fragments).
    let part = vec![0; 60_000];
    let fragments = |number: u32| record((number / 60) as u16, 1 << 13 | (number % 60) as u16, 17, 1, &part);
    let (kib, text) = fed(&["info", "-"], &head, bytes, fragments);
    println!("fragments: {kib} KiB");
    assert!((1..MOST_KIB).contains(&kib), "{kib} KiB: {text}");
    let line = vec![b'x'; 1 << 20];
    let (kib, text) = fed(&["info", "--format", "text", "-"], b"", bytes, |_| line.clone());
    assert!(kib < MOST_KIB && text.contains("longer than 256 KiB"), "{kib} KiB: {text}");
}

/// A small file that unpacks to 1 GiB is never in memory as a whole.
#[test]
fn memory_is_bounded_for_xz_files_of_any_size() {
    const MOST_KIB: u64 = 64 << 10;
    const PACKED_BYTES: usize = 560 << 10;
    let head = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap();
    xz.write_all(&head).unwrap();
    let payload = [0; 4_000];
    let (mut packets, mut unpacked) = (0, 0);
    let (kib, text) = fed(&["info", "-"], b"", PACKED_BYTES, |_| {
        while xz.inner().is_empty() {
            let packet = record(0, 0, 6, packets, &payload);
            xz.write_all(&packet).unwrap();
            (packets, unpacked) = (packets + 1, unpacked + packet.len());
        }
        std::mem::take(xz.inner_mut())
    });
    println!("xz: {kib} KiB for {unpacked} bytes unpacked: {text}");
    assert!(unpacked > 1 << 30, "{unpacked} bytes are too few for this test");
    assert!((1..MOST_KIB).contains(&kib), "{kib} KiB: {text}");
    // The file is cut off; this is reported after the part that was read.
    assert!(text.contains("packed and damaged"), "{text}");
}

#[test]
fn a_synthetic_trace_is_the_same_in_every_format_and_after_cuts() {
    let folder = Folder::new("synth");
    let (all, text) = (folder.file("all.catrace"), folder.file("all.txt"));
    let even = ["synth", "--interval", "100us", "--count", "50000", "--clients", "1000", "--name", "n{n}.example.org"];
    trace(&[&even[..], &["--out", &all]].concat());
    trace(&[&even[..], &["--out", &text]].concat());
    let info_json = info(&all);
    assert!(
        info_json["format"] == "binary" && info_json["queries"] == 50_000 && info_json["clients"] == 1_000,
        "{info_json}"
    );
    assert_eq!(info_json["seconds"], 4.9999);
    let interval = |name: &str| info_json[name].as_f64().unwrap();
    assert!((interval("interval_mean_seconds") - 1e-4).abs() < 1e-12, "{info_json}");
    assert!(interval("interval_deviation_seconds") < 1e-12, "{info_json}");
    let shown = trace(&["info", &all]);
    assert!(shown.contains("  between queries: mean 0.000100 s, standard deviation 0.000000 s\n"), "{shown}");
    let read = |file: &str| std::fs::read(file).unwrap();
    assert!(read(&all).len() * 4 < read(&text).len());
    // Convert both and compare.
    trace(&["convert", &all, "--out", &folder.file("back.txt")]);
    trace(&["convert", &text, "--out", &folder.file("back.catrace")]);
    assert!(read(&folder.file("back.txt")) == read(&text) && read(&folder.file("back.catrace")) == read(&all));
    // Cut the same part by the index and line by line.
    let part = |from: &str, out: &str| {
        let out = folder.file(out);
        trace(&["cut", from, "--from", "3.9", "--until", "4.1", "--out", &out]);
        read(&out)
    };
    let (by_index, by_line) = (part(&all, "index.txt"), part(&text, "line.txt"));
    assert!(by_index == by_line && by_index.windows(7).any(|bytes| bytes == b"n39000."));
    assert_eq!(info(&folder.file("index.txt"))["queries"], 2_000);
    // Both halves merged are the whole again.
    trace(&["cut", &all, "--until", "2.5", "--out", &folder.file("one.catrace")]);
    trace(&["cut", &all, "--from", "2.5", "--out", &folder.file("two.catrace")]);
    trace(&["merge", &folder.file("two.catrace"), &folder.file("one.catrace"), "--out", &folder.file("both.txt")]);
    assert!(read(&folder.file("both.txt")) == read(&text));
}

#[test]
fn a_truncated_binary_trace_is_read_and_reported() {
    let folder = Folder::new("cut-off");
    let (whole, cut) = (folder.file("whole.catrace"), folder.file("cut.catrace"));
    trace(&["synth", "--interval", "1ms", "--count", "10000", "--out", &whole]);
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 20]).unwrap();
    let output = run(&["info", "--json", &cut]);
    let info_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && info_json["queries"] == 10_000 && info_json["whole"] == false,
        "{info_json}"
    );
    assert!(error.contains("binary: at ") && error.contains("10000 messages before that are kept"), "{error}");
}

#[test]
fn synthetic_traces_match_their_profiles() {
    let folder = Folder::new("profiles");
    let (root, again, own) = (folder.file("root.catrace"), folder.file("again.catrace"), folder.file("own.catrace"));
    trace(&["synth", "--like", "b-root", "--duration", "1s", "--out", &root]);
    trace(&["synth", "--like", "b-root", "--duration", "1s", "--out", &again]);
    assert!(std::fs::read(&root).unwrap() == std::fs::read(&again).unwrap());
    let info_json = info(&root);
    let count = |value: &Value| value.as_f64().unwrap();
    let queries = count(&info_json["queries"]);
    assert!((36_000.0..40_000.0).contains(&queries), "{info_json}");
    assert!((0.02..0.04).contains(&(count(&info_json["transports"]["tcp"]) / queries)), "{info_json}");
    assert!((0.70..0.74).contains(&(count(&info_json["dnssec_ok_queries"]) / queries)), "{info_json}");
    let profile = folder.file("own.toml");
    let rate = "rate = { distribution = \"constant\", mean = 5.0 }";
    let text = format!("[[clients]]\ncount = 20\ntransports = {{ doq = 1.0 }}\n{rate}\n");
    let pattern = "[queries]\npattern = \"q{n}.example.com\"\nnames = 10\n";
    std::fs::write(&profile, format!("{pattern}{text}")).unwrap();
    trace(&["synth", "--like", &profile, "--count", "500", "--prefix", "2001:db8::/64", "--out", &own]);
    let info_json = info(&own);
    assert!(info_json["queries"] == 500 && info_json["transports"]["doq"] == 500, "{info_json}");
    assert!(info_json["clients"] == 20 && info_json["ipv6_queries"] == 500, "{info_json}");
}

#[test]
fn synthetic_queries_take_their_names_from_a_file() {
    let folder = Folder::new("names");
    let (names, out) = (folder.file("names.txt"), folder.file("named.txt"));
    std::fs::write(&names, "one.example\n# not this one\ntwo.example AAAA\n").unwrap();
    let arguments = ["synth", "--interval", "1ms", "--count", "5", "--types", "MX", "--names-file", &names];
    trace(&[&arguments[..], &["--out", &out]].concat());
    let text = std::fs::read_to_string(&out).unwrap();
    let asked = |name: &str| text.lines().filter(|line| line.contains(name) && line.contains(" MX")).count();
    assert_eq!((asked("one.example"), asked("two.example")), (3, 2), "{text}");
    // A profile asks for the first name most often.
    let like = ["synth", "--like", "b-root", "--count", "2000", "--force", "--names-file", &names, "--out", &out];
    trace(&like);
    let text = std::fs::read_to_string(&out).unwrap();
    let count = |name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert!(count("one.example") > count("two.example") && count("two.example") > 300, "{}", count("two.example"));
    assert_eq!(count("one.example") + count("two.example"), 2_000);
    // An input is not overwritten, and a file without names is refused.
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let onto = refused(&[&arguments[..], &["--out", &names, "--to", "text", "--force"]].concat());
    assert!(onto.contains("is the file that is read"), "{onto}");
    std::fs::write(&names, "; nothing\n").unwrap();
    assert!(refused(&[&arguments[..], &["--out", &out, "--force"]].concat()).contains("it has no name"));
}

#[test]
fn a_closed_output_pipe_ends_the_program_quietly() {
    let folder = Folder::new("enough");
    let file = folder.file("even.catrace");
    trace(&["synth", "--interval", "1ms", "--count", "100000", "--out", &file]);
    for arguments in [&["info", &file][..], &["convert", &file, "--to", "text", "--out", "-"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
        command.arg("trace").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The reader closes the pipe at once.
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*stderr), (Some(0), ""), "{arguments:?}");
    }
}

/// The output file is written even if nobody reads standard error.
#[test]
fn a_closed_standard_error_changes_nothing() {
    let folder = Folder::new("deaf");
    let [file, heard, unheard] = ["even.txt", "heard.txt", "unheard.txt"].map(|name| folder.file(name));
    trace(&["synth", "--interval", "1ms", "--count", "1000", "--out", &file]);
    for (out, is_heard) in [(&heard, true), (&unheard, false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
        command.args(["trace", "mutate", &file, "--do", "1", "--out", out]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        if !is_heard {
            drop(child.stderr.take());
        }
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{is_heard}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr).contains("1000 of 1000 messages kept"), is_heard);
    }
    assert_eq!(std::fs::read(heard).unwrap(), std::fs::read(unheard).unwrap());
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_catlab"));
    let mut child = wrong.args(["trace", "info", "/nowhere.pcap"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn invalid_times_of_a_cut_are_refused() {
    let folder = Folder::new("no-time");
    let (file, out) = (folder.file("even.txt"), folder.file("part.txt"));
    trace(&["synth", "--interval", "1s", "--count", "20", "--out", &file]);
    for (options, why) in [
        (&["--from", "nan"][..], "nan is not a number of seconds"),
        (&["--until", "nan"], "nan is not a number of seconds"),
        (&["--until", "inf"], "inf is not a number of seconds"),
        (&["--from=-1"], "-1 is not a number of seconds"),
        (&["--from", "10", "--until", "5"], "cannot cut: --until 5 must be later than --from 10"),
        (&["--from", "5", "--until", "5"], "must be later"),
    ] {
        let output = run(&[&["cut", &file, "--out", &out], options].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(why), "{options:?}: {error}");
        assert!(!Path::new(&out).exists(), "{options:?}");
    }
    trace(&["cut", &file, "--from", "5", "--until", "10", "--out", &out]);
    assert_eq!(info(&out)["messages"], 5);
}

#[test]
fn plans_that_give_no_trace_are_refused_with_a_reason() {
    let folder = Folder::new("refused");
    let out = folder.file("none.catrace");
    let profile = folder.file("only-who.toml");
    let rate = "rate = { distribution = \"constant\", mean = 5.0 }";
    std::fs::write(&profile, format!("[[clients]]\ncount = 1\ntransports = {{ udp = 1.0 }}\n{rate}\n")).unwrap();
    for (options, why) in [
        (&["--interval", "1ms"][..], "needs an end"),
        (&["--interval", "0s", "--duration", "1s"], "needs a count"),
        (&["--interval", "1ms", "--count", "5", "--clients", "0"], "at least one client"),
        (&["--interval", "1ms", "--count", "5", "--prefix", "192.0.2.0/24"], "room for 255 clients"),
        (&["--interval", "1ms", "--count", "5", "--name", "a..b"], "gives no name"),
        (&["--interval", "1h", "--duration", "200000000h"], "longer than 100 years"),
        (&["--interval", "1000h", "--count", "1000000"], "longer than 100 years"),
        (&["--like", "b-root", "--duration", "200000000h"], "longer than 100 years"),
        (&["--like", "c-root", "--count", "5"], "b-root"),
        (&["--like", "b-root"], "needs an end"),
        (&["--like", &profile, "--count", "5"], "has no [queries]"),
        (&["--count", "5"], "--interval"),
    ] {
        let output = run(&[&["synth"][..], options, &["--out", &out]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(why), "{options:?}: {error}");
        assert!(!Path::new(&out).exists(), "{options:?}");
    }
}

/// Given by its name, a symbolic link, a hard link, or as standard input.
#[test]
fn no_trace_is_overwritten_while_it_is_read() {
    let folder = Folder::new("same");
    let [day, other, key, rules] = ["day.pcap", "other.pcap", "trace.key", "rules.toml"].map(|name| folder.file(name));
    let [link, twin] = ["link.pcap", "twin.pcap"].map(|name| folder.file(name));
    for file in [&day, &other] {
        trace(&["synth", "--interval", "1ms", "--count", "100", "--out", file]);
    }
    trace(&["anonymize", &day, "--key", &key, "--out", &folder.file("shown.pcap")]);
    std::fs::write(&rules, "speed = 2.0\n").unwrap();
    std::os::unix::fs::symlink(&day, &link).unwrap();
    std::fs::hard_link(&day, &twin).unwrap();
    let files = [&day, &other, &key, &rules].map(|file| (file, std::fs::read(file).unwrap()));
    let refused = |arguments: &[&str], out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
        command.arg("trace").args(arguments).args(["--to", "pcap", "--out", out]);
        let output = command.stdin(std::fs::File::open(&day).unwrap()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2), "{arguments:?} {out}: {error}");
        assert!(error.contains("is the file that is read") && error.contains("rename"), "{arguments:?}: {error}");
        for (file, bytes) in &files {
            assert!(std::fs::read(file).unwrap() == *bytes, "{arguments:?} {out}: {file} was changed");
        }
    };
    for out in [&day, &link, &twin] {
        refused(&["convert", &day], out);
        refused(&["convert", "-"], out);
        refused(&["cut", &day, "--until", "0.05"], out);
        refused(&["merge", &other, &day], out);
        refused(&["mutate", &day, "--do", "1"], out);
        refused(&["anonymize", &day, "--key", &key], out);
    }
    refused(&["anonymize", &day, "--key", &key], &key);
    refused(&["mutate", &day, "--rules", &rules], &rules);
    // --force replaces a file that is not an input.
    trace(&["convert", &day, "--force", "--out", &other]);
}

fn data(path: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    Some(folder.join(path)).filter(|path| path.exists())
}

#[test]
fn the_root_capture_has_its_8267_queries() {
    let Some(path) = data("captures/lroot-20161006-1354-knot-live.pcap.xz") else {
        return;
    };
    let queries = read_pcap(&path).unwrap();
    let tcp = queries.iter().filter(|query| query.transport == Transport::Tcp).count();
    assert_eq!((queries.len(), tcp), (8267, 93));
}

#[test]
fn the_query_file_has_its_24869_queries() {
    let Some(path) = data("queries/root-queries-20011009-a.dnsperf.xz") else {
        return;
    };
    assert_eq!(read_dnsperf(&path).unwrap().len(), 24869);
}

#[test]
fn the_garbage_is_read() {
    let Some(path) = data("rpl/iter_badraw.rpl") else { return };
    assert!(read_rpl_raw(&path).unwrap().len() > 100);
}
