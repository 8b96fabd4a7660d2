//! Who takes updates, each started for its turn and ended after it.

use super::Options;
use super::bare::Bare;
use super::catamaran_server::CatamaranServer;
use super::lost::count_lost;
use super::machine::{self, family};
use super::rivals;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Child;

/// The zone that is updated.
pub(crate) const APEX: &str = "write.test.";

/// One server, or cluster of servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    /// Ours, with so many nodes.
    Catamaran(u64),
    /// What no replication to three logs can leave out ([`Bare`]): a limit, not a server.
    Bare,
    /// BIND, a primary with its journal.
    Bind,
    /// Knot DNS, a primary with its journal.
    Knot,
    /// PowerDNS over SQLite: its LMDB takes no updates before 5.0.
    PowerDns,
}

impl Side {
    pub(crate) const ALL: [Self; 7] = [
        Self::Catamaran(1),
        Self::Catamaran(3),
        Self::Catamaran(5),
        Self::Bare,
        Self::Bind,
        Self::Knot,
        Self::PowerDns,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Catamaran(1) => "catamaran-1",
            Self::Catamaran(3) => "catamaran-3",
            Self::Catamaran(_) => "catamaran-5",
            Self::Bare => "bare-3",
            Self::Bind => "bind",
            Self::Knot => "knot",
            Self::PowerDns => "powerdns",
        }
    }
}

/// A side that runs.
pub(crate) struct Running {
    /// Where each of its nodes answers.
    pub(crate) nodes: Vec<SocketAddr>,
    /// A file in the format of `dig -k`.
    pub(crate) key: PathBuf,
    process: Process,
}

enum Process {
    CatamaranServer(CatamaranServer),
    Bare(Bare),
    Rival(Child),
}

impl Running {
    /// Starts it with a zone of its own; `None` where the program is not installed.
    pub(crate) fn start(side: Side, options: &Options) -> Result<Option<Self>, String> {
        let folder = options.folder.join(side.name());
        // What the turn before left.
        let _removed = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let zone = make_zone(&folder, options.names)?;
        if side == Side::Bare {
            let bare = Bare::start(&folder)?;
            let key = rivals::make_key(&folder)?;
            return Ok(Some(Self { nodes: bare.addresses.clone(), key, process: Process::Bare(bare) }));
        }
        let Side::Catamaran(count) = side else {
            let rival = rivals::start(side, &folder, &zone)?;
            return Ok(rival.map(|(child, address, key)| Self {
                nodes: vec![address],
                key,
                process: Process::Rival(child),
            }));
        };
        let own = CatamaranServer::start_nodes(&folder, &[(APEX, &zone)], count)?;
        let nodes = (1..=count).map(|node| own.dns_of(node)).collect();
        Ok(Some(Self { nodes, key: own.cluster().join("update.key"), process: Process::CatamaranServer(own) }))
    }

    /// Where its nodes answer, as the tool takes them.
    pub(crate) fn servers(&self) -> String {
        self.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// How many updates that were acknowledged are not there: each had a name of its own that begins so.
    pub(crate) fn count_lost(&self, prefix: &str, acknowledged: u64, unanswered: u64) -> Result<u64, String> {
        match &self.process {
            Process::Bare(bare) => bare.count_lost(acknowledged),
            Process::CatamaranServer(_) | Process::Rival(_) => count_lost(self, prefix, acknowledged, unanswered),
        }
    }

    /// Its processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::CatamaranServer(own) => own.pids(),
            Process::Bare(bare) => bare.pids(),
            Process::Rival(child) => family(child.id()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Process::Rival(child) = &mut self.process {
            machine::end(child);
        }
    }
}

/// A zone file with so many names.
pub(crate) fn make_zone(folder: &Path, names: u64) -> Result<PathBuf, String> {
    let file = folder.join("zone");
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = BufWriter::new(File::create(&file).map_err(wrong)?);
    let soa = format!("{APEX} 300 IN SOA ns.{APEX} host.{APEX} 1 7200 900 99999 300");
    writeln!(out, "{soa}\n{APEX} 300 IN NS ns.{APEX}\nns.{APEX} 300 IN A 192.0.2.1").map_err(wrong)?;
    for number in 0..names {
        let address = Ipv4Addr::from(0x0A00_0000 | (number as u32 & 0x00FF_FFFF));
        writeln!(out, "q{number}.{APEX} 300 IN A {address}").map_err(wrong)?;
    }
    out.flush().map_err(wrong)?;
    Ok(file)
}
