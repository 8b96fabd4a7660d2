//! The configuration: a zone, its servers, the key and the names.

mod error;
mod keys;
mod text;

pub use error::ConfigError;

use crate::address::{Family, PerFamily};
use crate::limits::{CONFIG_BYTES_MAX, INTERFACES_MAX, NAMES_MAX, PROBES_MAX, SERVERS_MAX, TTL_MAX};
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use text::{NameText, ProbeText, PublicAddressText, SandboxText, SourceText, Text};
use toml::Spanned;
use toml_keys::line_at;
use wire::Name;
use wire::number::{Class, Rtype};

/// The configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The zone's apex.
    pub zone: Name,
    /// Servers that accept updates, in the order in which they are tried.
    pub servers: Vec<Endpoint>,
    /// The TSIG key, as `nsupdate -k` reads it.
    pub key_file: PathBuf,
    /// The state file.
    pub state_file: PathBuf,
    /// File of metrics for node_exporter's textfile collector.
    pub metrics_file: Option<PathBuf>,
    /// Address of metrics over HTTP.
    pub metrics_listen: Option<SocketAddr>,
    /// Interval of checks of the published records; 0 means never.
    pub check_period_s: u64,
    /// Whether the process drops privileges that it does not need.
    pub sandbox: bool,
    /// The names.
    pub names: Vec<NameConfig>,
    /// Discovery of the public address.
    pub public_address: PublicAddressConfig,
}

/// One name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameConfig {
    /// The owner.
    pub name: Name,
    /// TTL of its records.
    pub ttl: u32,
    /// Sources of its A and AAAA records.
    pub sources: PerFamily<Source>,
    /// Interfaces of its addresses; empty means all. A `*` at the end matches any suffix.
    pub interfaces: Vec<String>,
    /// Publish private addresses of interfaces too.
    pub private: bool,
    /// Publish temporary addresses too (RFC 8981).
    pub temporary: bool,
    /// Time without an address of a family after which its records are removed.
    pub withdraw_after_s: u64,
}

/// Where addresses come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The RRset is not managed.
    Off,
    /// Interfaces of this machine.
    Interface,
    /// The public address, as probes report it.
    Public,
}

/// Discovery of the public address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicAddressConfig {
    /// Number of probes that must agree.
    pub agree: usize,
    /// Interval between rounds of probes.
    pub period_s: u64,
    /// Accept private addresses too.
    pub private: bool,
    /// CA certificates for probes over HTTPS, PEM.
    pub authorities_file: PathBuf,
    /// The probes, in the order in which they are queried.
    pub probes: Vec<Probe>,
}

/// A service that reports the address of its client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// A DNS server that answers with the address of the client.
    Dns {
        /// The server.
        server: Endpoint,
        /// The query name.
        qname: Name,
        /// A, AAAA or TXT; `None`: A over IPv4 and AAAA over IPv6.
        qtype: Option<Rtype>,
        /// IN or CH.
        qclass: Class,
    },
    /// A web page that contains the address.
    Http(String),
    /// A STUN server (RFC 8489).
    Stun(Endpoint),
}

impl Probe {
    /// Its kind, for metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Dns { .. } => "dns",
            Self::Http(_) => "http",
            Self::Stun(_) => "stun",
        }
    }
}

/// A host, by name or address, and its port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// An error in a value, with its position.
type ValueError = (Range<usize>, String);

impl Config {
    /// Reads `file`. Relative paths start at its directory. Paths of written files start at `writable`, if it is given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(file: &Path, writable: Option<&Path>) -> Result<Self, ConfigError> {
        let without_line = |what: String| ConfigError { line: None, what, hint: None };
        let bytes =
            crate::files::read_bounded(file, CONFIG_BYTES_MAX).map_err(|error| without_line(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| without_line("the file is not UTF-8".into()))?;
        let mut config = Self::parse(&text)?;
        let base = file.parent().unwrap_or_else(|| Path::new("."));
        let writable = writable.unwrap_or(base);
        config.key_file = base.join(&config.key_file);
        config.public_address.authorities_file = base.join(&config.public_address.authorities_file);
        config.state_file = writable.join(&config.state_file);
        config.metrics_file = config.metrics_file.map(|file| writable.join(file));
        Ok(config)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let at = |span: Option<Range<usize>>, what: String| {
            let line = span.filter(|span| span.end > 0).map(|span| line_at(text, span.start));
            ConfigError { line, what, hint: None }
        };
        let table = toml::de::DeTable::parse(text).map_err(|error| at(error.span(), error.message().to_owned()))?;
        if let Some(unknown) = keys::KNOWN.first_unknown(table.get_ref()) {
            let line = Some(line_at(text, unknown.span.start));
            return Err(ConfigError { line, what: unknown.what, hint: Some(unknown.hint) });
        }
        let read: Text = toml::from_str(text).map_err(|error| at(error.span(), error.message().to_owned()))?;
        Self::validate(read).map_err(|(span, what)| at(Some(span), what))
    }

    fn validate(text: Text) -> Result<Self, ValueError> {
        let zone = parse_name(&text.zone)?;
        let servers = &text.servers;
        if servers.get_ref().is_empty() || servers.get_ref().len() > SERVERS_MAX {
            return Err((servers.span(), format!("`servers` needs 1 to {SERVERS_MAX} servers")));
        }
        let servers = servers
            .get_ref()
            .iter()
            .map(|server| parse_endpoint(server.get_ref(), 53).map_err(|why| (server.span(), why)));
        let servers = servers.collect::<Result<_, _>>()?;
        let check_period_s = *text.check_period_s.get_ref();
        if (1..60).contains(&check_period_s) || check_period_s > 1 << 31 {
            return Err((text.check_period_s.span(), "`check_period_s` must be 60 or more, or 0 for never".into()));
        }
        if text.name.get_ref().is_empty() || text.name.get_ref().len() > NAMES_MAX {
            return Err((text.name.span(), format!("the file needs 1 to {NAMES_MAX} [[name]] tables")));
        }
        let mut names: Vec<NameConfig> = Vec::new();
        for read in text.name.get_ref() {
            let name = validate_name(read, &zone, &text.public_address)?;
            if names.iter().any(|other| other.name == name.name) {
                return Err((read.name.span(), format!("`{}` is configured twice", name.name)));
            }
            names.push(name);
        }
        Ok(Self {
            zone,
            servers,
            key_file: text.key_file,
            state_file: text.state_file,
            metrics_file: text.metrics_file,
            metrics_listen: text.metrics_listen,
            check_period_s,
            sandbox: text.sandbox == SandboxText::On,
            names,
            public_address: validate_public_address(text.public_address)?,
        })
    }
}

fn validate_name(text: &NameText, zone: &Name, public_address: &PublicAddressText) -> Result<NameConfig, ValueError> {
    let name = parse_name(&text.name)?;
    if !name.as_ref().is_at_or_below(zone.as_ref()) {
        return Err((text.name.span(), format!("`{name}` is not in the zone {zone}")));
    }
    let ttl = *text.ttl.get_ref();
    if !(1..=TTL_MAX).contains(&ttl) {
        return Err((text.ttl.span(), format!("`ttl` must be 1 to {TTL_MAX}")));
    }
    let source = |source: &Spanned<SourceText>| match source.get_ref() {
        SourceText::Off => Ok(Source::Off),
        SourceText::Interface => Ok(Source::Interface),
        SourceText::Public if public_address.probe.is_empty() => {
            Err((source.span(), "`public` needs a [[public_address.probe]]".to_owned()))
        }
        SourceText::Public => Ok(Source::Public),
    };
    let sources = PerFamily { ipv4: source(&text.ipv4)?, ipv6: source(&text.ipv6)? };
    if Family::ALL.iter().all(|family| sources[*family] == Source::Off) {
        return Err((text.name.span(), format!("both families of `{name}` are off, so there is nothing to update")));
    }
    let interfaces = text.interfaces.get_ref();
    if interfaces.len() > INTERFACES_MAX {
        return Err((text.interfaces.span(), format!("`interfaces` takes at most {INTERFACES_MAX} names")));
    }
    // Linux' IFNAMSIZ is 16, the last byte is zero.
    if let Some(invalid) = interfaces.iter().find(|name| name.is_empty() || name.len() > 16) {
        return Err((text.interfaces.span(), format!("`{invalid}` is not an interface name")));
    }
    Ok(NameConfig {
        name,
        ttl,
        sources,
        interfaces: interfaces.clone(),
        private: text.private,
        temporary: text.temporary,
        withdraw_after_s: *text.withdraw_after_s.get_ref(),
    })
}

/// CA certificates on Debian and many other systems.
const AUTHORITIES_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";

fn validate_public_address(text: PublicAddressText) -> Result<PublicAddressConfig, ValueError> {
    if text.probe.len() > PROBES_MAX {
        return Err((
            text.probe[PROBES_MAX].span(),
            format!("at most {PROBES_MAX} [[public_address.probe]] tables are allowed"),
        ));
    }
    let probes: Vec<Probe> = text.probe.iter().map(validate_probe).collect::<Result<_, _>>()?;
    let agree = *text.agree.get_ref();
    if agree == 0 || (agree > probes.len() && !probes.is_empty()) {
        return Err((text.agree.span(), format!("`agree` must be 1 to {}, the number of probes", probes.len())));
    }
    let period_s = *text.period_s.get_ref();
    if !(30..=86_400).contains(&period_s) {
        return Err((text.period_s.span(), "`period_s` must be 30 to 86400".into()));
    }
    let authorities_file = text.authorities_file.unwrap_or_else(|| AUTHORITIES_FILE.into());
    Ok(PublicAddressConfig { agree, period_s, private: text.private, authorities_file, probes })
}

fn validate_probe(text: &Spanned<ProbeText>) -> Result<Probe, ValueError> {
    let wrong = |why: &str| (text.span(), why.to_owned());
    let probe = text.get_ref();
    let has_question = probe.name.is_some() || probe.rtype.is_some() || probe.class.is_some();
    match (&probe.dns, &probe.http, &probe.stun) {
        (Some(server), None, None) => {
            let server = parse_endpoint(server, 53).map_err(|why| wrong(&why))?;
            let qname = probe.name.as_deref().ok_or_else(|| wrong("a probe with `dns` needs the `name` to ask for"))?;
            let qname = qname.parse().map_err(|error| wrong(&format!("`{qname}` is not a domain name: {error}")))?;
            let qtype = match probe.rtype.as_deref() {
                None => None,
                Some("A") => Some(Rtype::A),
                Some("AAAA") => Some(Rtype::AAAA),
                Some("TXT") => Some(Rtype::TXT),
                Some(other) => return Err(wrong(&format!("`type` is \"A\", \"AAAA\" or \"TXT\", not \"{other}\""))),
            };
            let qclass = match probe.class.as_deref() {
                None | Some("IN") => Class::IN,
                Some("CH") => Class::CH,
                Some(other) => return Err(wrong(&format!("`class` is \"IN\" or \"CH\", not \"{other}\""))),
            };
            Ok(Probe::Dns { server, qname, qtype, qclass })
        }
        _ if has_question => Err(wrong("`name`, `type` and `class` are for probes with `dns`")),
        (None, Some(url), None) if url.starts_with("http://") || url.starts_with("https://") => {
            Ok(Probe::Http(url.clone()))
        }
        (None, Some(_), None) => Err(wrong("`http` needs a URL that starts with http:// or https://")),
        // RFC 8489 18.6: the port of STUN.
        (None, None, Some(server)) => Ok(Probe::Stun(parse_endpoint(server, 3_478).map_err(|why| wrong(&why))?)),
        _ => Err(wrong("a probe needs exactly one of `dns`, `http` and `stun`")),
    }
}

fn parse_name(text: &Spanned<String>) -> Result<Name, ValueError> {
    text.get_ref().parse().map_err(|error| (text.span(), format!("`{}` is not a domain name: {error}", text.get_ref())))
}

/// Reads `host`, `host:port`, an IPv6 address, or one in brackets with a port.
fn parse_endpoint(text: &str, port: u16) -> Result<Endpoint, String> {
    let wrong = || format!("`{text}` is not a host name or address, with or without a port");
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(Endpoint { host: address.to_string(), port });
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            let host: Ipv6Addr = host.parse().map_err(|_| wrong())?;
            let port = rest.strip_prefix(':').map_or(Ok(port), str::parse).map_err(|_| wrong())?;
            (host.to_string(), port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().map_err(|_| wrong())?),
            None => (text.to_owned(), port),
        },
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(is_host) || port == 0 {
        return Err(wrong());
    }
    Ok(Endpoint { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"zone = "example.test"
servers = ["192.0.2.1", "[2001:db8::1]:5353", "ns.example.test"]
key_file = "home.key"
state_file = "s.json"
metrics_file = "m.prom"
metrics_listen = "127.0.0.1:9153"
check_period_s = 600
sandbox = "off"
[[name]]
name = "home.example.test"
ttl = 120
ipv4 = "public"
ipv6 = "interface"
interfaces = ["eth0", "ppp*"]
private = true
temporary = true
withdraw_after_s = 0

[public_address]
agree = 2
period_s = 60
private = true
authorities_file = "ca.pem"
[[public_address.probe]]
dns = "192.0.2.9:5300"
name = "whoami.example"
type = "TXT"
class = "CH"
[[public_address.probe]]
http = "https://ip.example/"
[[public_address.probe]]
stun = "stun.example"
"#;

    /// A minimal configuration.
    const SHORT: &str =
        "zone = \"example.test\"\nservers = [\"192.0.2.1\"]\nkey_file = \"k\"\n[[name]]\nname = \"a.example.test\"\n";

    #[test]
    fn every_key_is_read() {
        let config = Config::parse(GOOD).unwrap();
        assert_eq!(config.servers[0], Endpoint { host: "192.0.2.1".into(), port: 53 });
        assert_eq!(config.servers[1].to_string(), "[2001:db8::1]:5353");
        assert_eq!(config.servers[2].to_string(), "ns.example.test:53");
        let name = &config.names[0];
        assert_eq!((name.ttl, name.private, name.temporary, name.withdraw_after_s), (120, true, true, 0));
        assert_eq!((name.sources.ipv4, name.sources.ipv6), (Source::Public, Source::Interface));
        assert_eq!(config.public_address.probes.len(), 3);
        assert_eq!(config.public_address.probes[2], Probe::Stun(Endpoint { host: "stun.example".into(), port: 3_478 }));
        let Probe::Dns { qtype, qclass, .. } = &config.public_address.probes[0] else { panic!() };
        assert_eq!((*qtype, *qclass), (Some(Rtype::TXT), Class::CH));
        // Every key of every table is in the text above.
        for (table, keys) in keys::TABLES {
            for key in *keys {
                let is_there = GOOD.lines().any(|line| {
                    let line = line.trim_start_matches('[').trim_end_matches(']');
                    line == *key || line == format!("{table}.{key}") || line.starts_with(&format!("{key} = "))
                });
                assert!(is_there, "{table}.{key}");
            }
        }
    }

    #[test]
    fn a_minimal_configuration_is_accepted() {
        let config = Config::parse(SHORT).unwrap();
        let name = &config.names[0];
        assert_eq!((name.ttl, name.private, name.temporary, name.withdraw_after_s), (60, false, false, 60));
        assert_eq!(name.sources, PerFamily { ipv4: Source::Interface, ipv6: Source::Interface });
        assert_eq!((config.check_period_s, config.state_file.to_str()), (3_600, Some("state.json")));
        assert!(config.sandbox && !Config::parse(GOOD).unwrap().sandbox);
    }

    #[test]
    fn old_names_of_settings_are_read() {
        let old = GOOD.replace("[public_address]", "[outside]").replace("[[public_address.", "[[outside.");
        let old = old.replace("\"public\"", "\"outside\"");
        assert!(old != GOOD && Config::parse(&old).unwrap() == Config::parse(GOOD).unwrap());
    }

    #[test]
    fn errors_have_the_line_and_a_suggestion() {
        for (from, to, line, what, hint) in [
            ("servers", "server", 2, "unknown key `server`", Some("`servers`")),
            ("interfaces", "interface", 14, "in [name]", Some("`interfaces`")),
            ("stun = ", "sturn = ", 32, "in [public_address.probe]", Some("`stun`")),
            ("ttl", "certificate", 11, "unknown key `certificate`", Some("known keys here: name, ttl")),
            ("= 600", "= \"600\"", 7, "invalid type", None),
            ("= 600", "= 5", 7, "60 or more", None),
            ("\"home.example.test\"", "\"home.example.org\"", 10, "not in the zone", None),
            ("\"home.example.test\"", "\"home..test\"", 10, "is not a domain name", None),
            ("= 120", "= 0", 11, "`ttl` must be", None),
            ("= \"public\"", "= \"inside\"", 12, "unknown variant", None),
            ("agree = 2", "agree = 4", 20, "`agree` must be 1 to 3", None),
            ("period_s = 60\n", "period_s = 5\n", 21, "30 to 86400", None),
            ("\"192.0.2.1\"", "\"192.0.2.1:x\"", 2, "is not a host name or address", None),
            ("\"CH\"", "\"HS\"", 24, "\"IN\" or \"CH\"", None),
            ("https://", "ftp://", 29, "http:// or https://", None),
            ("[public_address]", "[public_address", 19, "", None),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = Config::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.line, Some(line), "{from} -> {to}: {error:?}");
            assert!(error.what.contains(what), "{from} -> {to}: {error:?}");
            assert_eq!(hint.is_some(), error.hint.is_some(), "{error:?}");
            assert!(error.hint.unwrap_or_default().contains(hint.unwrap_or_default()));
        }
    }

    #[test]
    fn invalid_configurations_are_refused() {
        for (text, what) in [
            (SHORT.replace("[\"192.0.2.1\"]", "[]"), "1 to 16 servers"),
            (format!("{SHORT}ipv4 = \"public\"\n"), "[[public_address.probe]]"),
            (format!("{SHORT}ipv4 = \"off\"\nipv6 = \"off\"\n"), "nothing to update"),
            (format!("{SHORT}[[name]]\nname = \"A.example.test.\"\n"), "twice"),
            (SHORT.split("[[name]]").next().unwrap().to_owned(), "missing field `name`"),
            (format!("{SHORT}[[public_address.probe]]\nstun = \"a\"\nhttp = \"http://b\"\n"), "exactly one of"),
            (format!("{SHORT}[[public_address.probe]]\nstun = \"a\"\ntype = \"A\"\n"), "are for probes with `dns`"),
            (format!("{SHORT}[[public_address.probe]]\ndns = \"a\"\n"), "needs the `name`"),
        ] {
            let error = Config::parse(&text).unwrap_err();
            assert!(error.what.contains(what), "{text}: {error:?}");
        }
    }
}
