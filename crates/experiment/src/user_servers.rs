//! Servers of the user: running ones in place of servers of a definition, and other builds of programs.

use crate::definition::variables::{names, substitute_known};
use crate::definition::{ECHO, Experiment, hint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use testbed::{Kind, Programs};

/// Port of an address without a port.
const PORT: u16 = 53;

/// A running server that replaces a server of the definition: `NAME=ADDRESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    /// The name of the server that it replaces.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
}

impl FromStr for RunningServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) =
            text.split_once('=').ok_or_else(|| format!("`{text}` has no address; write NAME=ADDRESS"))?;
        let address = address.trim();
        let ip = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let found = address.parse().or_else(|_| ip.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT)));
        let address = found.map_err(|_| {
            format!("`{address}` is not an address; write for example 192.168.1.2, 127.0.0.1:5300 or [::1]:5300")
        })?;
        if address.port() == 0 {
            return Err("no server has port 0; write the port of your server".into());
        }
        Ok(Self { name: name.trim().to_owned(), address })
    }
}

/// The program that runs a kind of server: `KIND=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The kind.
    pub kind: Kind,
    /// The program.
    pub path: PathBuf,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').ok_or_else(|| format!("`{text}` has no path; write KIND=PATH"))?;
        let name = name.trim();
        if name == ECHO {
            return Err("the echo is part of catlab; it has no program of its own".into());
        }
        let kind = Kind::named(name).ok_or_else(|| {
            format!("there is no kind of server `{name}`; {}", hint(name, Kind::ALL.into_iter().map(Kind::label)))
        })?;
        Ok(Self { kind, path: path.into() })
    }
}

/// The servers of the user. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserServers {
    /// Addresses of running servers, by the name of the server that each replaces.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// The programs of the other servers.
    pub programs: Programs,
}

/// The contents of the file that stores the servers of a run.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    addresses: BTreeMap<String, SocketAddr>,
    /// By the name of the kind.
    programs: BTreeMap<String, PathBuf>,
}

impl UserServers {
    /// The servers of options.
    ///
    /// # Errors
    /// A name or kind is given twice, or a program cannot run.
    pub fn new(running: &[RunningServer], programs: &[Program]) -> Result<Self, String> {
        let mut servers = Self::default();
        for RunningServer { name, address } in running {
            if servers.addresses.insert(name.clone(), *address).is_some() {
                return Err(format!("cannot use two servers as {name}: give --server {name}=... once"));
            }
        }
        for Program { kind, path } in programs {
            let label = kind.label();
            if servers.programs.overrides().any(|(known, _)| known == *kind) {
                return Err(format!("cannot use two programs as {label}: give --program {label}=... once"));
            }
            let set = servers.programs.set(*kind, path);
            set.map_err(|error| format!("cannot use {} as {label}: {error}", path.display()))?;
        }
        Ok(servers)
    }

    /// Checks that the running servers can replace servers of an experiment.
    ///
    /// # Errors
    /// The experiment has no server of this name, or needs more than its address: for an event, for
    /// links, or for `{NAME.pid}`.
    pub fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let values = experiment.values(&BTreeMap::new());
        for (name, address) in &self.addresses {
            let cannot = |why: String| Err(format!("cannot use {address} as the server {name}: {why}"));
            let known = experiment.servers.iter().map(|server| server.name.as_str());
            if !known.clone().any(|known| known == name) {
                return cannot(format!("the experiment has no server `{name}`; {}", hint(name, known)));
            }
            if let Some(event) = experiment.events.iter().find(|event| event.server == *name) {
                let [action, seconds] = [&event.action, &event.seconds.0].map(|text| substitute_known(text, &values));
                return cannot(format!(
                    "the experiment has the event `{action}` for it after {seconds} s, and only servers that catlab \
                     starts can have events"
                ));
            }
            if experiment.links.is_some() {
                return cannot("the loads run behind links, which do not reach it".into());
            }
            let of_by = experiment.by.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
            let texts = experiment.loads.iter().map(|load| &load.run).chain(of_by.map(|value| &value.0));
            let used = texts.flat_map(|text| names(text));
            let unknown = ["pid", "key", "ca"].map(|variable| format!("{name}.{variable}"));
            if let Some(variable) = used.into_iter().find(|used| unknown.iter().any(|unknown| unknown == used)) {
                return cannot(format!("a load uses the variable {{{variable}}}, which is not known"));
            }
        }
        Ok(())
    }

    /// What the file of a run holds.
    pub(crate) fn stored(&self) -> Stored {
        let programs = self.programs.overrides();
        Stored {
            addresses: self.addresses.clone(),
            programs: programs.map(|(kind, path)| (kind.label().to_owned(), path.to_owned())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = 'A'\nsource = 'B'\nquestion = 'C'\n[[server]]\nname = 'dns'\nkind = 'echo'\n\
                        [[load]]\nrun = 'load --server {dns.address} --duration 1s'\n";

    fn running(text: &str) -> Result<RunningServer, String> {
        text.parse()
    }

    #[test]
    fn addresses_have_port_53_if_none_is_given() {
        for (text, expected) in [
            ("dns=127.0.0.1", "127.0.0.1:53"),
            (" dns = 192.0.2.1:5300", "192.0.2.1:5300"),
            ("dns=::1", "[::1]:53"),
            ("dns=[2001:db8::1]", "[2001:db8::1]:53"),
            ("dns=[::1]:5300", "[::1]:5300"),
        ] {
            let RunningServer { name, address } = running(text).unwrap();
            assert_eq!((name.as_str(), address.to_string().as_str()), ("dns", expected), "{text}");
        }
        for (text, expected) in [
            ("127.0.0.1", "write NAME=ADDRESS"),
            ("dns=ns.example", "`ns.example` is not an address"),
            ("dns=127.0.0.1:x", "is not an address"),
            ("dns=127.0.0.1:0", "port 0"),
        ] {
            let error = running(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn programs_have_a_known_kind() {
        let program = "bind=/opt/named".parse::<Program>().unwrap();
        assert_eq!((program.kind, program.path), (Kind::Bind, "/opt/named".into()));
        for (text, expected) in
            [("bind", "write KIND=PATH"), ("bnid=/x", "did you mean `bind`?"), ("echo=/x", "is part of catlab")]
        {
            let error = text.parse::<Program>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn options_that_cannot_be_used_are_refused() {
        let new = |servers: &[&str], programs: &[&str]| {
            let servers: Vec<_> = servers.iter().map(|text| running(text).unwrap()).collect();
            let programs: Vec<Program> = programs.iter().map(|text| text.parse().unwrap()).collect();
            UserServers::new(&servers, &programs)
        };
        assert!(new(&["a=::1", "b=::1"], &["bind=/bin/sh", "nsd=/bin/sh"]).is_ok());
        assert!(new(&["a=::1", "a=::2"], &[]).unwrap_err().contains("--server a=... once"));
        assert!(new(&[], &["nsd=/bin/sh", "nsd=/bin/sh"]).unwrap_err().contains("--program nsd=... once"));
        let error = new(&[], &["nsd=/missing/nsd"]).unwrap_err();
        assert!(error.starts_with("cannot use /missing/nsd as nsd: No such file"), "{error}");
    }

    #[test]
    fn a_running_server_replaces_one_that_needs_no_process() {
        let check = |text: &str, server: &str| {
            let experiment = Experiment::parse(text, "test").unwrap();
            UserServers::new(&[running(server).unwrap()], &[]).unwrap().check(&experiment)
        };
        assert_eq!(check(TEXT, "dns=::1"), Ok(()));
        let unknown = check(TEXT, "dsn=::1").unwrap_err();
        assert!(unknown.contains("as the server dsn: ") && unknown.contains("did you mean `dns`?"), "{unknown}");
        let event = format!("{TEXT}[[at]]\nseconds = 0.5\nserver = 'dns'\naction = 'kill'\n");
        let refused = check(&event, "dns=::1").unwrap_err();
        assert!(refused.contains("the event `kill` for it after 0.5 s"), "{refused}");
        let pid = TEXT.replace("--duration", "--monitor {dns.pid} --duration");
        assert!(check(&pid, "dns=::1").unwrap_err().contains("the variable {dns.pid}"));
        let by = "[matrix]\nkind = ['echo']\n[by.kind]\nwatched = { echo = '{dns.pid}' }\n[[server]]";
        let by = pid.replace("{dns.pid}", "{watched}").replace("[[server]]", by);
        assert!(check(&by, "dns=::1").unwrap_err().contains("the variable {dns.pid}"));
        let event = format!("{TEXT}[[at]]\nseconds = '{{at}}'\nserver = 'dns'\naction = 'kill'\n");
        let event = event.replace("[[server]]", "[variables]\nat = 2\n[[server]]");
        assert!(check(&event, "dns=::1").unwrap_err().contains("`kill` for it after 2 s"));
    }
}
