//! Options that change a trace. They build the same plan as a file of rules.

use super::parse::{parse_name, parse_share};
use clap::{Args, ValueEnum};
use load::mutation::{
    TransportShares, parse_edns, parse_id, parse_on_off, parse_server, parse_transports, read_rules, seconds_to_ns,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use trace::mutate::{
    Action, Changes, ClientChange, DrawPer, EdnsChange, IdChange, Mutator, NameChange, OptionToAdd, Plan, Rule,
    Template, When, option_code,
};
use trace::{Prefix, Transport};
use wire::name::Name;
use wire::number::{Class, Rcode, Rtype};

/// clap replaces `{n}` with a line break. An invisible terminal escape in between prevents it.
const NAME_HELP: &str =
    "Change names: a pattern with {\x1b[0mn} for the number of the query and {\x1b[0mname} for its name";
/// The pattern that makes each name unique.
const UNIQUE: &str = "q{n}.{name}";
/// The network of clients if only their number is given.
const CLIENTS: &str = "10.0.0.0/8";

#[derive(Args)]
#[command(next_help_heading = "Filters")]
struct FilterArguments {
    /// Keep only queries of these types.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = parse_type)]
    only_type: Vec<Rtype>,
    /// Keep only messages of clients in this prefix. All filters may be given several times.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', value_parser = parse_prefix)]
    only_client: Vec<Prefix>,
    /// Keep only messages of servers in this prefix.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', value_parser = parse_prefix)]
    only_server: Vec<Prefix>,
    /// Keep only messages for this name and names below it.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_name)]
    only_name: Vec<Name>,
    /// Keep only messages over this transport.
    #[arg(long, value_name = "TRANSPORT", value_delimiter = ',', value_parser = parse_transport)]
    only_transport: Vec<Transport>,
    /// Keep only this share of the remaining clients or queries (see --by), 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    sample: Option<f64>,
}

#[derive(Args)]
#[command(next_help_heading = "Changes")]
struct ChangeArguments {
    /// Maximum number of clients. If there are more, several become one.
    #[arg(long, value_name = "N")]
    clients: Option<u64>,
    /// Move clients to this prefix [default with --clients: 10.0.0.0/8].
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    client_prefix: Option<Prefix>,
    /// Replace the labels at the end of names.
    #[arg(long, value_name = "FROM=TO", value_parser = parse_suffix)]
    suffix: Vec<(Name, Name)>,
    #[arg(long, value_name = "PATTERN", help = NAME_HELP)]
    name: Option<Template>,
    /// Make each name unique: add a label q0, q1 and so on in front.
    #[arg(long, conflicts_with = "name")]
    unique: bool,
    /// Change the query type.
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_type)]
    qtype: Option<Rtype>,
    /// Change the class.
    #[arg(long = "class", value_name = "CLASS", value_parser = parse_class)]
    qclass: Option<Class>,
    /// Set or clear RD.
    #[arg(long, value_name = "ON|OFF", value_parser = parse_on_off)]
    rd: Option<bool>,
    /// Set or clear AD.
    #[arg(long, value_name = "ON|OFF", value_parser = parse_on_off)]
    ad: Option<bool>,
    /// Set or clear CD.
    #[arg(long, value_name = "ON|OFF", value_parser = parse_on_off)]
    cd: Option<bool>,
    /// Set DO for this share of queries, 0 to 1, and clear it for the others.
    #[arg(long = "do", value_name = "SHARE", value_parser = parse_share)]
    dnssec_ok: Option<f64>,
    /// UDP payload size of EDNS, or `none` to remove EDNS.
    #[arg(long, value_name = "BYTES|none", value_parser = parse_edns)]
    edns: Option<EdnsChange>,
    /// Remove an EDNS option: nsid, ecs, cookie, keepalive, padding or a code.
    #[arg(long, value_name = "OPTION", value_delimiter = ',', value_parser = parse_option_code)]
    remove_option: Vec<u16>,
    /// Add an EDNS option: nsid, cookie[=HEX], ecs=client, ecs=PREFIX, padding=BYTES, CODE=HEX.
    #[arg(long, value_name = "OPTION")]
    add_option: Vec<OptionToAdd>,
}

/// What is changed in a trace, whether it is written or sent.
#[derive(Args)]
pub(crate) struct MutationArguments {
    /// TOML file of rules (docs/catlab/mutate.md). They are applied before the options.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    #[command(flatten)]
    filters: FilterArguments,
    #[command(flatten)]
    changes: ChangeArguments,
    /// Whether shares count clients or queries.
    #[arg(long, value_name = "WHAT", default_value = "client")]
    by: ByArgument,
    /// Seed of all random choices [default: that of --rules, or 1].
    #[arg(long)]
    seed: Option<u64>,
}

/// The same, plus changes that only apply to trace files.
#[derive(Args)]
pub(crate) struct FileMutationArguments {
    #[command(flatten)]
    mutation: MutationArguments,
    /// Keep only queries.
    #[arg(long, help_heading = "Filters")]
    queries: bool,
    /// Keep only responses with this RCODE.
    #[arg(long, value_name = "RCODE", value_delimiter = ',', value_parser = parse_rcode,
          help_heading = "Filters")]
    only_rcode: Vec<Rcode>,
    /// Start this many seconds after the first message.
    #[arg(long, value_name = "SECONDS", help_heading = "Filters")]
    from: Option<f64>,
    /// End this many seconds after the first message.
    #[arg(long, value_name = "SECONDS", help_heading = "Filters")]
    until: Option<f64>,
    /// Change the transport: tcp for all, or shares such as tcp=0.3,dot=0.2. Other messages keep theirs.
    #[arg(long, value_name = "SHARES", value_parser = parse_transports, help_heading = "Changes")]
    transport: Option<TransportShares>,
    /// Change the server. OLD=NEW only changes servers in the prefix OLD. May be given several times.
    #[arg(long, value_name = "[OLD=]NEW", value_parser = parse_server_change, help_heading = "Changes")]
    server: Vec<ServerChange>,
    /// Change message IDs: `random`, `count`, or a number for all messages.
    #[arg(long, value_name = "ID", value_parser = parse_id, help_heading = "Changes")]
    id: Option<IdChange>,
    /// Speed factor: 2 halves the time since the first message.
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// Move all messages by this many seconds. Negative values move them earlier.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    shift: Option<f64>,
}

/// Filters and changes that a command adds itself.
#[derive(Default)]
pub(crate) struct CommandChanges {
    /// The messages to keep.
    pub(crate) when: When,
    /// Changes of servers.
    pub(crate) servers: Vec<ServerChange>,
    /// Other changes of the kept messages.
    pub(crate) changes: Changes,
}

#[derive(Clone, Copy, ValueEnum)]
enum ByArgument {
    Client,
    Query,
}

type ServerChange = (Option<Prefix>, (IpAddr, Option<u16>));

pub(crate) fn parse_prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|()| format!("{text} is not a prefix; write 192.0.2.0/24"))
}

fn parse_type(text: &str) -> Result<Rtype, String> {
    trace::rtype(text).ok_or_else(|| format!("{text} is not a type"))
}

fn parse_class(text: &str) -> Result<Class, String> {
    trace::class(text).ok_or_else(|| format!("{text} is not a class"))
}

fn parse_rcode(text: &str) -> Result<Rcode, String> {
    trace::rcode(text).ok_or_else(|| format!("{text} is not an RCODE"))
}

fn parse_transport(text: &str) -> Result<Transport, String> {
    text.parse().map_err(|()| format!("{text} is not a transport; write udp, tcp, dot, doh or doq"))
}

fn parse_option_code(text: &str) -> Result<u16, String> {
    let known = "nsid, ecs, cookie, keepalive, padding or a code";
    option_code(text).ok_or_else(|| format!("{text} is not an option; write {known}"))
}

fn parse_server_change(text: &str) -> Result<ServerChange, String> {
    match text.split_once('=') {
        Some((old, new)) => Ok((Some(parse_prefix(old)?), parse_server(new)?)),
        None => Ok((None, parse_server(text)?)),
    }
}

fn parse_suffix(text: &str) -> Result<(Name, Name), String> {
    let (from, to) = text.split_once('=').ok_or_else(|| format!("{text}: write example.com=lab.test"))?;
    Ok((parse_name(from)?, parse_name(to)?))
}

impl FileMutationArguments {
    /// The path of the rules file.
    pub(crate) fn rules(&self) -> Option<&Path> {
        self.mutation.rules.as_deref()
    }

    /// The mutator for the rules and options.
    ///
    /// # Errors
    /// If the file of rules cannot be read, or the plan is invalid.
    pub(crate) fn mutator(&self) -> Result<Mutator, String> {
        let time = |seconds: Option<f64>| {
            let ns = seconds.map(seconds_to_ns).transpose()?;
            ns.map(|ns| u64::try_from(ns).map_err(|_| "the trace starts at 0; write 0 or more".to_owned())).transpose()
        };
        let when = When {
            responses: self.queries.then_some(false),
            rcodes: self.only_rcode.clone(),
            from_ns: time(self.from)?.unwrap_or_default(),
            until_ns: time(self.until)?,
            ..When::default()
        };
        let transports = self.transport.clone().unwrap_or_default();
        let changes = Changes { transports, id: self.id, ..Changes::default() };
        let mut plan = self.mutation.plan(CommandChanges { when, servers: self.server.clone(), changes })?;
        plan.speed = self.speed.unwrap_or(plan.speed);
        plan.shift_ns = self.shift.map(seconds_to_ns).transpose()?.unwrap_or(plan.shift_ns);
        Mutator::new(plan).map_err(|error| error.to_string())
    }
}

impl MutationArguments {
    /// The plan: the rules of the file, then the filters, then the changes.
    ///
    /// # Errors
    /// If the file of rules cannot be read.
    pub(crate) fn plan(&self, also: CommandChanges) -> Result<Plan, String> {
        let mut plan = self.rules.as_deref().map(read_rules).transpose()?.unwrap_or_default();
        plan.seed = self.seed.unwrap_or(plan.seed);
        let by = match self.by {
            ByArgument::Client => DrawPer::Client,
            ByArgument::Query => DrawPer::Query,
        };
        let when = self.filters.when(also.when);
        if when != When::default() {
            plan.rules.push(Rule { when, action: Action::Keep, ..Rule::default() });
        }
        if let Some(share) = self.filters.sample {
            plan.rules.push(Rule { share, by, action: Action::Keep, ..Rule::default() });
        }
        let change = |when: When, changes: Changes| {
            let action = Action::Change(Box::new(changes));
            Rule { when, by, action, ..Rule::default() }
        };
        for (old, server) in also.servers {
            let when = When { servers: old.into_iter().collect(), ..When::default() };
            plan.rules.push(change(when, Changes { server: Some(server), ..Changes::default() }));
        }
        for (from, to) in self.changes.suffix.clone() {
            let name = Some(NameChange::Suffix { from, to });
            plan.rules.push(change(When::default(), Changes { name, ..Changes::default() }));
        }
        let changes = self.changes.changes(also.changes);
        if changes != Changes::default() {
            plan.rules.push(change(When::default(), changes));
        }
        Ok(plan)
    }
}

impl FilterArguments {
    fn when(&self, also: When) -> When {
        When {
            transports: self.only_transport.clone(),
            clients: self.only_client.clone(),
            servers: self.only_server.clone(),
            names: self.only_name.clone(),
            qtypes: self.only_type.clone(),
            ..also
        }
    }
}

impl ChangeArguments {
    /// All changes except suffixes, which can be given several times.
    fn changes(&self, also: Changes) -> Changes {
        let template = self.name.clone().or_else(|| self.unique.then(|| UNIQUE.parse().expect("a pattern")));
        let client = (self.clients.is_some() || self.client_prefix.is_some()).then(|| ClientChange {
            prefix: self.client_prefix.unwrap_or_else(|| CLIENTS.parse().expect("a prefix")),
            count: self.clients,
        });
        Changes {
            client,
            name: template.map(NameChange::Template),
            qtype: self.qtype,
            qclass: self.qclass,
            recursion_desired: self.rd,
            authentic_data: self.ad,
            checking_disabled: self.cd,
            dnssec_ok: self.dnssec_ok,
            edns: self.edns,
            remove_options: self.remove_option.clone(),
            add_options: self.add_option.clone(),
            ..also
        }
    }
}
