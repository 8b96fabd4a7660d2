//! Rules for traces as TOML (docs/catlab/mutate.md).

use super::values::{TransportShares, parse_edns, parse_id, parse_server, parse_transports, seconds_to_ns};
use crate::limits::RULES_BYTES_MAX;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use toml::Value;
use trace::Prefix;
use trace::mutate::{
    Action, Changes, ClientChange, DrawPer, EdnsChange, NameChange, OptionToAdd, Plan, Rule, Template, When,
    option_code,
};
use wire::name::Name;

/// The network of clients if only their number is given.
pub(crate) const CLIENTS: &str = "10.0.0.0/8";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    speed: Option<f64>,
    /// In seconds.
    shift: Option<f64>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    #[serde(default)]
    when: WhenText,
    share: Option<f64>,
    by: Option<String>,
    #[serde(default)]
    drop: bool,
    #[serde(default)]
    keep: bool,
    transport: Option<Value>,
    client: Option<Value>,
    server: Option<String>,
    suffix: Option<SuffixText>,
    name: Option<String>,
    #[serde(rename = "type")]
    qtype: Option<String>,
    class: Option<String>,
    rd: Option<bool>,
    ad: Option<bool>,
    cd: Option<bool>,
    #[serde(rename = "do")]
    dnssec_ok: Option<Value>,
    edns: Option<Value>,
    #[serde(default)]
    remove_options: Vec<Value>,
    #[serde(default)]
    add_options: Vec<String>,
    id: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuffixText {
    from: String,
    to: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WhenText {
    kind: Option<String>,
    transport: OneOrMany,
    client: OneOrMany,
    server: OneOrMany,
    name: OneOrMany,
    #[serde(rename = "type")]
    qtype: OneOrMany,
    opcode: OneOrMany,
    rcode: OneOrMany,
    edns: Option<bool>,
    #[serde(rename = "do")]
    dnssec_ok: Option<bool>,
    from: Option<f64>,
    until: Option<f64>,
}

/// One item or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    fn read<T>(&self, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
        let items = match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        };
        items.iter().map(|item| parse(item).ok_or_else(|| format!("{item} is not a valid {what}"))).collect()
    }
}

/// Reads a file of rules.
///
/// # Errors
/// Says what is wrong, and where.
pub fn read_rules(path: &Path) -> Result<Plan, String> {
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| in_file(&error))?;
    file.take(RULES_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| in_file(&error))?;
    if text.len() as u64 > RULES_BYTES_MAX {
        return Err(in_file(&"more than 4 MiB"));
    }
    parse_rules(&text).map_err(|error| in_file(&error))
}

/// Parses rules.
///
/// # Errors
/// Says what is wrong, and where.
pub fn parse_rules(text: &str) -> Result<Plan, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let rules = file.rule.iter().enumerate();
    let rules = rules.map(|(index, rule)| rule.read().map_err(|error| format!("rule {}: {error}", index + 1)));
    let plan = Plan {
        seed: file.seed.unwrap_or(1),
        speed: file.speed.unwrap_or(1.0),
        shift_ns: seconds_to_ns(file.shift.unwrap_or_default())?,
        rules: rules.collect::<Result<_, _>>()?,
    };
    trace::mutate::Mutator::new(plan.clone()).map_err(|error| error.to_string())?;
    Ok(plan)
}

impl RuleText {
    fn read(&self) -> Result<Rule, String> {
        let by = match self.by.as_deref() {
            None | Some("client") => DrawPer::Client,
            Some("query") => DrawPer::Query,
            Some(other) => return Err(format!("by = \"{other}\": write client or query")),
        };
        let changes = self.changes()?;
        let has_changes = changes != Changes::default();
        let action = match (self.drop, self.keep, has_changes) {
            (true, false, false) => Action::Drop,
            (false, true, false) => Action::Keep,
            (false, false, true) => Action::Change(Box::new(changes)),
            (false, false, false) => return Err("it does nothing; write drop, keep or a change".into()),
            _ => return Err("write drop, keep and changes in separate rules".into()),
        };
        Ok(Rule { when: self.when.read()?, share: self.share.unwrap_or(1.0), by, action })
    }

    fn changes(&self) -> Result<Changes, String> {
        let name = match (&self.name, &self.suffix) {
            (Some(_), Some(_)) => return Err("write name and suffix in separate rules".into()),
            (Some(pattern), None) => {
                let template = pattern.parse::<Template>().map_err(|error| format!("name = \"{pattern}\": {error}"))?;
                Some(NameChange::Template(template))
            }
            (None, Some(SuffixText { from, to })) => Some(NameChange::Suffix { from: name(from)?, to: name(to)? }),
            (None, None) => None,
        };
        let server = self.server.as_deref().map(parse_server).transpose()?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let qtype = self.qtype.as_deref().map(trace::rtype);
        let qclass = self.class.as_deref().map(trace::class);
        let add_options = self.add_options.iter();
        Ok(Changes {
            transports: self.transport.as_ref().map(transports).transpose()?.unwrap_or_default(),
            client: self.client.as_ref().map(client).transpose()?,
            server,
            name,
            qtype: qtype.map(|qtype| qtype.ok_or(format!("{} is not a type", text(&self.qtype)))).transpose()?,
            qclass: qclass.map(|qclass| qclass.ok_or(format!("{} is not a class", text(&self.class)))).transpose()?,
            recursion_desired: self.rd,
            authentic_data: self.ad,
            checking_disabled: self.cd,
            dnssec_ok: self.dnssec_ok.as_ref().map(share).transpose()?,
            edns: self.edns.as_ref().map(edns).transpose()?,
            remove_options: self.remove_options.iter().map(code).collect::<Result<_, _>>()?,
            add_options: add_options
                .map(|option| option.parse::<OptionToAdd>().map_err(|error| format!("{option}: {error}")))
                .collect::<Result<_, _>>()?,
            id: self.id.as_ref().map(|id| parse_id(&text_of(id))).transpose()?,
        })
    }
}

impl WhenText {
    fn read(&self) -> Result<When, String> {
        let responses = match self.kind.as_deref() {
            None => None,
            Some("query") => Some(false),
            Some("response") => Some(true),
            Some(other) => return Err(format!("kind = \"{other}\": write query or response")),
        };
        let time = |seconds: Option<f64>| {
            let ns = seconds.map(seconds_to_ns).transpose()?;
            ns.map(|ns| u64::try_from(ns).map_err(|_| "the trace begins at 0".to_owned())).transpose()
        };
        let prefix = |text: &str| text.parse::<Prefix>().ok();
        Ok(When {
            responses,
            transports: self.transport.read("transport", |text| text.parse().ok())?,
            clients: self.client.read("prefix", prefix)?,
            servers: self.server.read("prefix", prefix)?,
            names: self.name.read("name", |text| text.parse().ok())?,
            qtypes: self.qtype.read("type", trace::rtype)?,
            opcodes: self.opcode.read("opcode", trace::opcode)?,
            rcodes: self.rcode.read("RCODE", trace::rcode)?,
            edns: self.edns,
            dnssec_ok: self.dnssec_ok,
            from_ns: time(self.from)?.unwrap_or_default(),
            until_ns: time(self.until)?,
        })
    }
}

/// A value as text. A string is not quoted.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error| format!("{text} is not a name: {error}"))
}

/// Parses `"tcp"` or `{ tcp = 0.3, dot = 0.2 }`.
fn transports(value: &Value) -> Result<TransportShares, String> {
    let Some(table) = value.as_table() else { return parse_transports(&text_of(value)) };
    let shares: BTreeMap<_, _> = table.iter().collect();
    let items: Vec<String> = shares.iter().map(|(transport, share)| format!("{transport}={share}")).collect();
    parse_transports(&items.join(","))
}

/// Parses `"10.0.0.0/8"`, `1000`, or both as `{ prefix = .., count = .. }`.
fn client(value: &Value) -> Result<ClientChange, String> {
    let right = "\"10.0.0.0/8\", 1000, or { prefix = \"10.0.0.0/8\", count = 1000 }";
    let invalid = || format!("client = {value}: write {right}");
    let prefix = |text: &str| text.parse::<Prefix>().map_err(|()| invalid());
    let count = |value: &Value| value.as_integer().and_then(|count| u64::try_from(count).ok()).ok_or_else(invalid);
    match value {
        Value::String(text) => Ok(ClientChange { prefix: prefix(text)?, count: None }),
        Value::Integer(_) => Ok(ClientChange { prefix: prefix(CLIENTS)?, count: Some(count(value)?) }),
        Value::Table(table) if table.keys().all(|key| key == "prefix" || key == "count") => {
            let text = table.get("prefix").map_or(Some(CLIENTS), Value::as_str).ok_or_else(invalid)?;
            Ok(ClientChange { prefix: prefix(text)?, count: table.get("count").map(count).transpose()? })
        }
        _ => Err(invalid()),
    }
}

/// Parses `true`, `false` or a share.
fn share(value: &Value) -> Result<f64, String> {
    match value {
        Value::Boolean(is_set) => Ok(f64::from(u8::from(*is_set))),
        Value::Float(share) => Ok(*share),
        Value::Integer(share @ 0..=1) => Ok(*share as f64),
        _ => Err(format!("do = {value}: write true, false or a share of 0 to 1")),
    }
}

fn edns(value: &Value) -> Result<EdnsChange, String> {
    parse_edns(&text_of(value))
}

fn code(value: &Value) -> Result<u16, String> {
    let text = text_of(value);
    let known = "nsid, ecs, cookie, keepalive, padding or a code";
    option_code(&text).ok_or_else(|| format!("{text} is not an option; write {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Transport;
    use trace::mutate::IdChange;
    use wire::number::{Class, Rtype};

    /// The examples in the document are valid rules.
    #[test]
    fn documented_examples_are_read() {
        let document = include_str!("../../../../docs/catlab/mutate.md");
        let blocks = document.split("```toml\n").skip(1);
        let examples: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
        assert!(examples.len() >= 2);
        for example in examples {
            let plan = parse_rules(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
            assert!(!plan.rules.is_empty());
        }
    }

    #[test]
    fn every_key_maps_to_its_rule() {
        let plan = parse_rules(
            r#"
            seed = 7
            speed = 2
            shift = -1.5
            [[rule]]
            when = { kind = "query", client = ["192.0.2.0/24", "2001:db8::/32"], type = "A", from = 1, until = 2.5 }
            share = 0.5
            by = "query"
            drop = true
            [[rule]]
            transport = { tcp = 0.25, dot = 0.5 }
            client = { count = 1000 }
            server = "[2001:db8::53]:5300"
            suffix = { from = "example.com", to = "lab.test" }
            type = "AAAA"
            class = "CH"
            rd = false
            do = 0.75
            edns = 4096
            remove_options = ["cookie", 65001]
            add_options = ["nsid", "65002=ff"]
            id = "count"
            [[rule]]
            when.rcode = ["NXDOMAIN", "RCODE23"]
            keep = true
            "#,
        )
        .unwrap();
        assert_eq!((plan.seed, plan.speed, plan.shift_ns), (7, 2.0, -1_500_000_000));
        let [dropped, changed, kept] = plan.rules.as_slice() else { panic!("{plan:?}") };
        assert_eq!((dropped.share, dropped.by, &dropped.action), (0.5, DrawPer::Query, &Action::Drop));
        assert_eq!((dropped.when.responses, dropped.when.clients.len()), (Some(false), 2));
        assert_eq!((dropped.when.from_ns, dropped.when.until_ns), (1_000_000_000, Some(2_500_000_000)));
        assert_eq!((kept.when.rcodes.len(), &kept.action), (2, &Action::Keep));
        let expected = Changes {
            transports: vec![(Transport::Dot, 0.5), (Transport::Tcp, 0.25)],
            client: Some(ClientChange { prefix: CLIENTS.parse().unwrap(), count: Some(1_000) }),
            server: Some(("2001:db8::53".parse().unwrap(), Some(5_300))),
            name: Some(NameChange::Suffix { from: "example.com".parse().unwrap(), to: "lab.test".parse().unwrap() }),
            qtype: Some(Rtype::AAAA),
            qclass: Some(Class::CH),
            recursion_desired: Some(false),
            dnssec_ok: Some(0.75),
            edns: Some(EdnsChange::Payload(4_096)),
            remove_options: vec![10, 65_001],
            add_options: vec![OptionToAdd::Nsid, OptionToAdd::Other { code: 65_002, bytes: vec![0xFF] }],
            id: Some(IdChange::Count),
            ..Changes::default()
        };
        assert_eq!(changed.action, Action::Change(Box::new(expected)));
    }

    #[test]
    fn errors_name_the_rule() {
        for (text, expected) in [
            ("[[rule]]\nrd = true\n[[rule]]\ntype = \"NOSUCH\"", "rule 2: NOSUCH is not a type"),
            ("[[rule]]", "rule 1: it does nothing"),
            ("[[rule]]\ndrop = true\nrd = true", "in separate rules"),
            ("[[rule]]\nshare = 2.0\ndrop = true", "rule 1: a share must be 0 to 1"),
            ("[[rule]]\nwhen.client = \"localhost\"\ndrop = true", "localhost is not a valid prefix"),
            ("[[rule]]\nname = \"x{name}\"", "{name} stands for whole labels"),
            ("[[rule]]\nclient = { prefx = \"10.0.0.0/8\" }", "write \"10.0.0.0/8\""),
            ("[[rule]]\nclient = 0", "no clients, or more"),
            ("[[rule]]\nedns = \"big\"", "write none or a size"),
            ("[[rule]]\nwen = {}", "unknown field `wen`"),
            ("speed = 0\n[[rule]]\nrd = true", "the speed must be above 0"),
        ] {
            let error = parse_rules(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
