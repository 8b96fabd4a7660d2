//! `policy`: set, show, check, import.

use super::PolicyCommand;
use super::client::{Answer, Client, query};
use super::named_conf::{self, ZonePolicy};
use super::output::print;
use crate::limits::NAMED_CONF_ERRORS_MAX;
use crate::target::Target;
use config::api_types::{DecisionJson, DoneJson, KeyJson, ZoneJson};
use config::files::read_bounded;
use config::limits::API_POLICY_BYTES_MAX;
use policy::text::parse_policy;
use policy::{Effect, Identity};
use process::log::say;
use process::problem::{Exit, Problem};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use wire::Name;

pub(crate) fn run(command: &PolicyCommand) -> Result<(), Problem> {
    match command {
        PolicyCommand::Set { zone, file, expect, target, .. } => set(zone.as_deref(), file, expect.as_deref(), target),
        PolicyCommand::Show { zone, target } => show(zone.as_deref(), target),
        PolicyCommand::Check { key, name, rtype, source, tcp, target } => {
            check([key, name, rtype], source.as_ref(), *tcp, target)
        }
        PolicyCommand::Import { file, zones, dry_run, target } => import(file, zones, *dry_run, target),
    }
}

fn set(zone: Option<&str>, file: &Path, expect: Option<&str>, target: &Target) -> Result<(), Problem> {
    let zone = zone.map(parse_name).transpose()?;
    let text = read(file)?;
    // Checked before the request, so that errors name the file.
    let policy = parse_policy(&text).map_err(|error| {
        let (line, column) = (error.line, error.column);
        Problem::new(Exit::Input, "cannot read the rules", error.what)
            .at(format!("{}:{line}:{column}", file.display()))
            .hint("see `catamaran policy set --help`")
    })?;
    for (rule, rtype) in policy.rules().iter().filter_map(|rule| Some((rule, rule.ineffective_grant()?))) {
        say(format_args!(
            "warning: `{rule}` does not grant {rtype}: only the signer of the zone may write DNSSEC records"
        ));
    }
    let changed = put(&Client::find(target)?, zone.as_ref(), expect, &text)?;
    print(&set_line(zone.as_ref(), changed))
}

/// The result of `set`.
fn set_line(zone: Option<&Name>, changed: bool) -> String {
    if changed { format!("replaced {}", of(zone)) } else { format!("{} did not change", of(zone)) }
}

fn read(file: &Path) -> Result<String, Problem> {
    let cannot = |why: String| Problem::new(Exit::Input, "cannot read the rules", why).at(file.display());
    let max = API_POLICY_BYTES_MAX as u64;
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(max + 1).read_to_end(&mut bytes);
        read.map_err(|error| cannot(error.to_string()))?;
        bytes
    } else {
        read_bounded(file, max).map_err(|error| cannot(error.to_string()))?
    };
    String::from_utf8(bytes).map_err(|_| cannot("they are not UTF-8".to_owned()))
}

/// `expect` is the revision of the rules that the new rules are based on.
fn put(client: &Client, zone: Option<&Name>, expect: Option<&str>, text: &str) -> Result<bool, Problem> {
    let mark = if zone.is_some() { '&' } else { '?' };
    let expect = expect.map(|revision| format!("{mark}{}", query("expect", revision))).unwrap_or_default();
    let answer = client
        .change("PUT", &(path(zone) + &expect), text.as_bytes())
        .map_err(|problem| problem.of(format!("cannot set {}", of(zone))))?;
    let done: DoneJson = answer.json()?;
    Ok(done.changed)
}

fn path(zone: Option<&Name>) -> String {
    zone.map_or_else(|| "/v1/policy".to_owned(), |zone| format!("/v1/policy?{}", query("zone", &zone.to_string())))
}

fn of(zone: Option<&Name>) -> String {
    zone.map_or_else(|| "the rules for all zones".to_owned(), |zone| format!("the rules of zone {zone}"))
}

fn show(zone: Option<&str>, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let zones: Vec<Option<Name>> = match zone {
        Some(zone) => vec![Some(parse_name(zone)?)],
        None => {
            let zones: Vec<ZoneJson> = client.get_json("/v1/zones")?;
            let named: Result<Vec<_>, _> = zones.iter().map(|zone| parse_name(&zone.zone).map(Some)).collect();
            [named?, vec![None]].concat()
        }
    };
    let mut shown = false;
    for zone in &zones {
        let Answer { body, version, .. } = client.get(&path(zone.as_ref()))?;
        let text = String::from_utf8_lossy(&body);
        shown |= !text.is_empty();
        if !text.is_empty() || zones.len() == 1 {
            let revision = version.map(|revision| format!(", revision {revision}")).unwrap_or_default();
            print(format!("# {}{revision}\n{text}", of(zone.as_ref())).trim_end())?;
        }
    }
    if shown { Ok(()) } else { print("# there are no rules; only the grants in `key list` apply") }
}

fn check(checked: [&String; 3], source: Option<&IpAddr>, tcp: bool, target: &Target) -> Result<(), Problem> {
    let mut parts = vec![query("key", checked[0]), query("name", checked[1]), query("type", checked[2])];
    parts.extend(source.map(|source| query("source", &source.to_string())));
    parts.extend(tcp.then(|| query("tcp", "1")));
    let decision: DecisionJson = Client::find(target)?.get_json(&format!("/v1/policy/check?{}", parts.join("&")))?;
    print(&explanation(&decision))
}

/// The decision, its rule, and the limits of the key.
fn explanation(decision: &DecisionJson) -> String {
    let mut lines = vec![decision.why.clone(), format!("zone: {}", decision.zone)];
    lines.extend(decision.rule.as_ref().map(|rule| format!("rule: {rule}")));
    if decision.granted {
        let limits: Vec<_> = decision.limits.iter().map(|(word, max)| format!("{word} {max}")).collect();
        lines.extend((!limits.is_empty()).then(|| format!("limits of the key: {}", limits.join(", "))));
    }
    if !decision.key_known {
        lines.push("the cluster has no key with this name, so updates signed with it are refused".to_owned());
    }
    lines.join("\n")
}

fn import(file: &Path, only: &[String], dry_run: bool, target: &Target) -> Result<(), Problem> {
    let only = only.iter().map(|zone| parse_name(zone)).collect::<Result<Vec<_>, _>>()?;
    let read = named_conf::read(file).map_err(|(position, why)| {
        Problem::new(Exit::Input, "cannot read the policies; nothing was changed", why)
            .at(position)
            .hint("`named-checkconf` checks the syntax of a named.conf")
    });
    let policies: Vec<ZonePolicy> = read?;
    let is_wanted = |policy: &&ZonePolicy| only.is_empty() || only.contains(&policy.zone);
    let wanted: Vec<_> = policies.iter().filter(is_wanted).collect();
    let texts = all_texts(&wanted)?;
    let missing: Vec<_> = only.iter().filter(|zone| !wanted.iter().any(|policy| policy.zone == **zone)).collect();
    if !missing.is_empty() {
        let zones: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let what = format!("cannot import a policy for {}; nothing was changed", zones.join(", "));
        return Err(Problem::new(Exit::Input, what, "the file has no policy for it").at(file.display()));
    }
    if wanted.is_empty() {
        let file = file.display();
        say(format_args!("warning: {file} grants no updates of a primary zone of class IN; nothing was changed"));
    }
    if dry_run {
        for (policy, text) in wanted.iter().zip(&texts) {
            print(&format!("# {}, from {}\n{}", of(Some(&policy.zone)), policy.position, text.trim_end()))?;
        }
        return Ok(());
    }
    let client = Client::find(target)?;
    let served: Vec<ZoneJson> = client.get_json("/v1/zones")?;
    warn_of_unknown_keys(&wanted, &client)?;
    let mut set: Vec<String> = Vec::new();
    for (policy, text) in wanted.iter().zip(&texts) {
        if !served.iter().any(|zone| zone.zone.eq_ignore_ascii_case(&policy.zone.to_string())) {
            let (place, zone) = (&policy.position, &policy.zone);
            say(format_args!("warning: {place}: skipped zone {zone}, which this cluster does not serve"));
            continue;
        }
        // Each policy is a separate change.
        let changed = put(&client, Some(&policy.zone), None, text).map_err(|problem| {
            let before = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
            let what = format!("cannot set the policy of {}; already set: {before}", policy.zone);
            let place = format!("the policy of {}; already set: {before}", policy.zone);
            if problem.is_unknown { problem.at(place) } else { problem.of(what) }
        })?;
        set.push(policy.zone.to_string());
        print(&set_line(Some(&policy.zone), changed))?;
    }
    Ok(())
}

/// The rules of all zones as text, or all errors of all zones, so that the user sees them before the first change.
fn all_texts(policies: &[&ZonePolicy]) -> Result<Vec<String>, Problem> {
    let (mut texts, mut errors, mut zones) = (Vec::new(), Vec::new(), 0);
    for policy in policies {
        match &policy.rules {
            Ok(rules) => texts.push(rules.to_string()),
            Err(faults) => {
                zones += 1;
                errors.extend(faults.iter().map(|(position, why)| format!("{position}: zone {}: {why}", policy.zone)));
            }
        }
    }
    if errors.is_empty() {
        return Ok(texts);
    }
    let more = errors.len().saturating_sub(NAMED_CONF_ERRORS_MAX);
    errors.truncate(NAMED_CONF_ERRORS_MAX);
    errors.extend((more > 0).then(|| format!("and {more} more errors")));
    let what = match zones {
        1 => "cannot import the policy of one zone; nothing was changed".to_owned(),
        _ => format!("cannot import the policies of {zones} zones; nothing was changed"),
    };
    let hint = "rewrite these rules, or choose the zones to import with --zone";
    Err(Problem::new(Exit::Input, what, errors.join("\n         ")).hint(hint))
}

/// Keys are not imported: until `key add --file`, rules about them grant nothing.
fn warn_of_unknown_keys(policies: &[&ZonePolicy], client: &Client) -> Result<(), Problem> {
    let known: Vec<KeyJson> = client.get_json("/v1/keys")?;
    let rules = policies.iter().filter_map(|policy| policy.rules.as_ref().ok()).flat_map(|policy| policy.rules());
    let of_keys = rules.filter(|rule| rule.effect == Effect::Grant && !rule.scope.is_of_address());
    let exact = of_keys.filter_map(|rule| if let Identity::Exact(name) = &rule.identity { Some(name) } else { None });
    let named: BTreeSet<String> = exact.map(ToString::to_string).collect();
    for name in named.iter().filter(|name| !known.iter().any(|key| key.name.eq_ignore_ascii_case(name))) {
        say(format_args!("warning: there is no key {name} yet: add it with `catamaran key add --file FILE`"));
    }
    Ok(())
}

fn parse_name(text: &str) -> Result<Name, Problem> {
    super::domain_name::domain_name(text).map(|name| name.as_ref().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_rule_and_limits() {
        let mut decision = DecisionJson {
            zone: "example.".to_owned(),
            granted: true,
            why: "granted by rule 2 of the zone, up to 4 records".to_owned(),
            rule: Some("grant \"k.\" zonesub A(4);".to_owned()),
            list: Some("zone".to_owned()),
            number: Some(2),
            records_max: Some(4),
            limits: [("update-records".to_owned(), 10)].into(),
            key_known: true,
        };
        let shown = "granted by rule 2 of the zone, up to 4 records\nzone: example.\nrule: grant \"k.\" zonesub A(4);\n\
                     limits of the key: update-records 10";
        assert_eq!(explanation(&decision), shown);
        (decision.granted, decision.rule, decision.key_known) = (false, None, false);
        assert_eq!(
            explanation(&decision).lines().next_back(),
            Some("the cluster has no key with this name, so updates signed with it are refused")
        );
    }
}
