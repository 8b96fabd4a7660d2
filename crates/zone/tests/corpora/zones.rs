//! Every zone file of the data folder: loaded or refused, beside what `named-checkzone`, `kzonecheck` and
//! `nsd-checkzone` say.
//!
//! `docs/reference/zone-files.md` holds the table. `CATAMARAN_WRITE=1` writes it anew, peers included, when they are
//! installed;
//! otherwise our column is compared with it, and those of the peers that are installed in the version that its head
//! names: another version words, finds and refuses other things.

use super::support::{data, read, read_tar, scan};
use catamaran_zone::check::{Findings, check};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A zone file.
pub(crate) struct Zone {
    /// As the table has it.
    pub(crate) name: String,
    /// Its bytes, unpacked.
    pub(crate) bytes: Vec<u8>,
    /// Its apex, where the file does not say so itself.
    pub(crate) origin: Option<&'static str>,
    /// Its apex.
    apex: String,
}

/// The files that stand alone, and the apex of each.
const ALONE: [(&str, &str); 10] = [
    ("bind-tsig-example.db", "example.nil."),
    ("dnspython-example", "example."),
    ("ldns-zonereader.inputzone.xz", "jelte.nlnetlabs.nl."),
    ("named.root", "."),
    ("nsd-rr-test.zone", "blaat.nl."),
    ("pdns-example.com.zone.xz", "example.com."),
    ("root-20050112.zone", "."),
    ("root-20170821.zone.xz", "."),
    ("root-20210519-zonemd.zone.xz", "."),
    ("roothistory-base.zone.xz", "."),
];

/// Every zone file there is, in a fixed order.
pub(crate) fn all(folder: &Path) -> Vec<Zone> {
    let zone = |name: &str, bytes, apex: &str, origin| {
        let name = name.trim_end_matches(".xz").to_owned();
        Zone { name, bytes, origin, apex: apex.to_owned() }
    };
    let mut zones: Vec<Zone> = ALONE
        .iter()
        .map(|&(name, apex)| {
            let has_origin = matches!(name, "bind-tsig-example.db" | "named.root" | "pdns-example.com.zone.xz");
            zone(name, read(folder, name), apex, has_origin.then_some(apex))
        })
        .collect();
    zones.push(zone("rr-types-text.ldnsrr.2", read(folder, "rr-types-text.ldnsrr.2.xz"), "nlnetlabs.nl.", None));
    let mut names: Vec<String> = std::fs::read_dir(folder.join("pdns"))
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").file_name().into_string().expect("ASCII"))
        .collect();
    names.sort();
    for name in names {
        let apex = if name == "test.dyndns.orig" { "test.dyndns.".into() } else { format!("{name}.") };
        let origin = Box::leak(apex.clone().into_boxed_str());
        zones.push(zone(&format!("pdns/{name}"), read(folder, &format!("pdns/{name}")), &apex, Some(origin)));
    }
    for archive in ["zonemd-cases-01-25", "ixfr-cases-00-06"] {
        for (name, bytes) in read_tar(folder, &format!("{archive}.tar.xz")) {
            if name.contains(".zone") {
                let apex = if name.contains("example.com.zone") { "example.com." } else { "example." };
                zones.push(zone(&format!("{archive}/{name}"), bytes, apex, Some(apex)));
            }
        }
    }
    zones
}

fn ours(zone: &Zone) -> String {
    let shorten = |text: String| text.replace("zone:", "");
    match scan(&zone.bytes, zone.origin) {
        Err(errors) => format!("refused: line {}", shorten(errors.to_string())),
        Ok(loaded) => match check(loaded) {
            Ok(checked) => {
                let warnings = checked.findings.counts().1;
                format!("{} records{}", checked.records.len(), with_first(warnings, &checked.findings))
            }
            Err(findings) => {
                let first = &findings.errors()[0];
                let line = first.location.map_or(String::new(), |location| format!("line {}: ", location.line));
                format!("refused: {line}{first}")
            }
        },
    }
}

fn with_first(count: usize, findings: &Findings) -> String {
    let Some(first) = findings.warnings().first() else { return String::new() };
    let line = first.location.map_or(String::new(), |location| format!("line {}: ", location.line));
    format!(", {count} warned of: {line}{first}")
}

/// Which peer says what.
#[derive(Clone, Copy)]
enum Peer {
    Bind,
    Knot,
    Nsd,
}

impl Peer {
    const ALL: [Self; 3] = [Self::Bind, Self::Knot, Self::Nsd];

    const fn program(self) -> &'static str {
        match self {
            Self::Bind => "named-checkzone",
            Self::Knot => "kzonecheck",
            Self::Nsd => "nsd-checkzone",
        }
    }

    /// Whether it can be run.
    fn is_installed(self) -> bool {
        path().split(':').any(|folder| Path::new(folder).join(self.program()).is_file())
    }

    /// Its version, such as `9.18.49`; none where it does not say so.
    fn version(self) -> Option<String> {
        let flag = match self {
            Self::Bind => "-v",
            Self::Knot => "--version",
            // It has no flag of its own for that, and says it below its usage.
            Self::Nsd => "-h",
        };
        let output = Command::new(self.program()).arg(flag).env("PATH", path()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        version_in(&text)
    }

    fn command(self, apex: &str) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Bind => command.args(["-k", "warn", "-i", "local", apex, "zone"]),
            Self::Knot => command.args(["-v", "-o", apex, "zone"]),
            Self::Nsd => command.args([apex, "zone"]),
        };
        command
    }

    /// What the peer says of the file `zone` in the folder.
    fn run(self, folder: &Path, apex: &str) -> Option<String> {
        let output = self.command(apex).current_dir(folder).env("PATH", path()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let mut lines: Vec<&str> = text.lines().map(message).filter(|line| !is_noise(line)).collect();
        lines.dedup();
        let first_error = lines.iter().find(|line| line.starts_with("error: "));
        let first = first_error.or(lines.first()).map(|line| line.trim_start_matches("error: ").to_owned());
        // kzonecheck ends with an error for every finding, but serves all but the serious ones.
        let is_refused = match self {
            Self::Knot => {
                text.contains("Serious semantic error")
                    || text.contains("failed to run")
                    || text.contains("failed to load")
            }
            _ => !output.status.success(),
        };
        Some(match (is_refused, first) {
            (true, first) => format!("refused: {}", first.unwrap_or_default()),
            (false, None) => "ok".into(),
            (false, Some(first)) => format!("ok, {} lines of warnings: {first}", lines.len()),
        })
    }
}

/// The first word that begins with numbers between dots, as far as they go.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| &word[..word.find(|byte: char| !byte.is_ascii_digit() && byte != '.').unwrap_or(word.len())])
        .map(|version| version.trim_end_matches('.'))
        .find(|version| version.trim_start_matches('.').contains('.'))
        .map(str::to_owned)
}

/// A line without the time and the program that nsd-checkzone puts before, and the zone and stage that kzonecheck does.
/// At which of the signatures that have expired kzonecheck ends is a race of its threads.
fn message(line: &str) -> &str {
    const EXPIRED: &str = "no valid signature for a record";
    if line.contains(EXPIRED) {
        return EXPIRED;
    }
    let line = line.split_once("]: ").map_or(line, |(_, rest)| rest).trim();
    line.split_once("zone loader, ").map_or(line, |(_, rest)| rest)
}

/// Lines that only say how it ended.
fn is_noise(line: &str) -> bool {
    let noise = [
        "loaded serial",
        "OK",
        "is ok",
        "No semantic error",
        "Error summary",
        "Serious semantic",
        "not loaded due",
        "loading from",
        "failed to run",
        "failed to load",
        "errors",
        "fatal error in zone, file 'zone', line 0",
    ];
    line.is_empty() || noise.iter().any(|word| line.contains(word)) || line.as_bytes()[0].is_ascii_digit()
}

/// Debian keeps some of the peers where only root looks.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// One cell of a table.
fn cell(text: &str) -> String {
    let mut text = text.replace('|', "\\|").replace('<', "&lt;");
    if let Some((at, _)) = text.char_indices().nth(150) {
        text.truncate(at);
        text.push('…');
    }
    text
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/zone-files.md")
}

const BEGIN: &str = "<!-- table: written by a test, see above -->\n";
const END: &str = "<!-- end of table -->\n";

#[test]
fn zones_are_loaded_or_refused_as_listed() {
    let Some(folder) = data() else { return };
    let zones = all(&folder);
    let text = std::fs::read_to_string(document()).expect("docs/reference/zone-files.md is there");
    let (head, rest) = text.split_once(BEGIN).expect("the table begins");
    let (table, tail) = rest.split_once(END).expect("the table ends");
    if std::env::var_os("CATAMARAN_WRITE").is_some() {
        let table = write_table(&zones);
        std::fs::write(document(), format!("{head}{BEGIN}{table}{END}{tail}"))
            .expect("docs/reference/zone-files.md can be written");
        return;
    }
    let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|row| row.split(" | ").collect()).collect();
    assert_eq!(rows.len(), zones.len(), "the table has a line for each file");
    for (row, zone) in rows.iter().zip(&zones) {
        assert_eq!(row[0].trim_start_matches("| "), zone.name);
        assert_eq!(row[1], cell(&ours(zone)), "{}", zone.name);
    }
}

#[test]
fn versions_are_read_from_the_output_of_other_servers() {
    assert_eq!(version_in("9.18.49-1~deb12u3-Debian\n").as_deref(), Some("9.18.49"));
    assert_eq!(version_in("kzonecheck (Knot DNS), version 3.2.6\n").as_deref(), Some("3.2.6"));
    assert_eq!(version_in("default 5.\n\t-s <size>\nVersion 4.6.1. Report bugs to").as_deref(), Some("4.6.1"));
    assert_eq!(version_in("kzonecheck (Knot DNS), version 3.4.dev0\n").as_deref(), Some("3.4"));
    assert_eq!(version_in("usage: nothing ..."), None);
}

#[test]
fn other_servers_judge_each_zone_as_listed() {
    let Some(data) = data() else { return };
    if std::env::var_os("CATAMARAN_WRITE").is_some() {
        return;
    }
    let text = std::fs::read_to_string(document()).expect("docs/reference/zone-files.md is there");
    let table = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).expect("the table is there").0;
    let mut rows = table.lines().map(|row| row.trim_end_matches(" |").split(" | ").collect::<Vec<&str>>());
    let head = rows.next().expect("the table has a head");
    let rows: Vec<Vec<&str>> = rows.skip(1).collect();
    let zones = all(&data);
    let folder = std::env::temp_dir().join(format!("catamaran-zones-of-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let mut differences = String::new();
    for (peer, column) in Peer::ALL.into_iter().zip(2..) {
        if !peer.is_installed() {
            skip::peer(peer.program());
            continue;
        }
        let (program, wanted) = head[column].split_once(' ').expect("the head names a program and its version");
        assert_eq!(program, peer.program());
        let version = peer.version().unwrap_or_else(|| "of an unknown version".into());
        if version != wanted {
            skip::platform(format!("{program} {wanted}, the version of the table, not {version}"));
            continue;
        }
        for (row, zone) in rows.iter().zip(&zones) {
            std::fs::write(folder.join("zone"), &zone.bytes).expect("a temporary file");
            let output = cell(&peer.run(&folder, &zone.apex).expect("it is installed"));
            if row[column] != output {
                let (name, program, table) = (&zone.name, peer.program(), row[column]);
                writeln!(differences, "{name}: {program} says\n  {output}\nand in the table\n  {table}")
                    .expect("memory");
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    assert!(differences.is_empty(), "rows that differ, of the versions that the table names:\n{differences}");
}

fn write_table(zones: &[Zone]) -> String {
    let folder = std::env::temp_dir().join(format!("catamaran-zones-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let mut table = String::from("| file | catamaran");
    for peer in Peer::ALL {
        let version = peer.version().expect("the peer is installed and says its version");
        write!(table, " | {} {version}", peer.program()).expect("memory");
    }
    table.push_str(" |\n|---|---|---|---|---|\n");
    for zone in zones {
        std::fs::write(folder.join("zone"), &zone.bytes).expect("a temporary file");
        write!(table, "| {} | {}", zone.name, cell(&ours(zone))).expect("memory");
        for peer in Peer::ALL {
            let output = peer.run(&folder, &zone.apex).expect("the peer is installed");
            write!(table, " | {}", cell(&output)).expect("memory");
        }
        table.push_str(" |\n");
    }
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    table
}
