//! Which options are forwarded to agents: only those that name no file and no local address.

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory};
use fleet::Kind;
use lab::limits::ORDER_ARGS_MAX;

/// Options of both plans.
const COMMON: &[&str] = &[
    "server",
    "transport",
    "timeout",
    "workers",
    "sockets",
    "lag-limit",
    "busy-queries",
    "pipeline",
    "queries-per-connection",
    "idle-timeout",
    "handshake-timeout",
    "tls-name",
    "insecure",
    "resumption",
    "early-data",
    "doh-path",
    "doh-get",
];
/// Options of a load.
const LOAD: &[&str] = &[
    "connections",
    "expect-rcode",
    "rate",
    "poisson",
    "closed-loop",
    "in-flight",
    "duration",
    "dialect",
    "binary",
    "strict",
    "once",
    "name",
    "names",
    "names-each",
    "popularity",
    "types",
    "nxdomain",
    "edns",
    "dnssec-ok",
    "cookie",
    "subnet",
    "edns-option",
    "padding",
    "no-recurse",
    "update-zone",
    "seed",
];
/// Options of a replay.
const REPLAY: &[&str] = &["ports", "sources", "fast", "late", "late-limit", "wait-for-answer"];
/// Options that the controller handles itself, or sends as a file.
const LOCAL: &[&str] = &[
    "nats",
    "agents",
    "agents-wait",
    "agent-silence",
    "nats-ca",
    "nats-creds",
    "out",
    "rtt",
    "force",
    "quiet",
    "i-own-this-target",
    "ca",
];
/// Local options of a load.
const LOCAL_OF_LOAD: &[&str] = &["queries", "updates", "population", "tsig", "dnsperf-text"];
/// Local options of a replay: they apply before the trace is divided.
const LOCAL_OF_REPLAY: &[&str] = &[
    "trace",
    "speed",
    "rules",
    "filter-command",
    "limit",
    "from",
    "until",
    "format",
    "trace-port",
    "dnstap-type",
    "only-type",
    "only-client",
    "only-server",
    "only-name",
    "only-transport",
    "sample",
    "clients",
    "client-prefix",
    "suffix",
    "name",
    "unique",
    "type",
    "class",
    "rd",
    "ad",
    "cd",
    "do",
    "edns",
    "remove-option",
    "add-option",
    "by",
    "seed",
];

fn is_for_agents(kind: Kind, option: &str) -> bool {
    let own = if kind == Kind::Load { LOAD } else { REPLAY };
    COMMON.contains(&option) || own.contains(&option)
}

/// The options of this process's command line that are forwarded to agents.
///
/// # Errors
/// If an option does not work with agents.
pub(crate) fn forwarded_args(kind: Kind) -> Result<Vec<String>, String> {
    args_of(kind, std::env::args_os())
}

fn args_of<I: IntoIterator<Item = T>, T: Into<std::ffi::OsString> + Clone>(
    kind: Kind,
    line: I,
) -> Result<Vec<String>, String> {
    let command = crate::Cli::command();
    let matches = command.clone().try_get_matches_from(line).map_err(|error| error.to_string())?;
    let (name, given) = matches.subcommand().ok_or("no plan")?;
    let plan = command.find_subcommand(name).ok_or("no plan")?;
    let local = if kind == Kind::Load { LOCAL_OF_LOAD } else { LOCAL_OF_REPLAY };
    let mut args = Vec::new();
    for argument in plan.get_arguments() {
        let id = argument.get_id().as_str();
        let option = argument.get_long().unwrap_or(id);
        let is_given = given.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given || LOCAL.contains(&option) || local.contains(&option) {
            continue;
        }
        if !is_for_agents(kind, option) {
            return Err(format!(
                "--{option} does not go with --nats: it is about this machine alone (docs/catlab/agents.md)"
            ));
        }
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            args.push(format!("--{option}"));
            continue;
        }
        for value in given.get_raw(id).into_iter().flatten() {
            let value = value.to_str().ok_or_else(|| format!("--{option}: no text"))?;
            args.push(format!("--{option}={value}"));
        }
    }
    Ok(args)
}

/// Checks that an agent accepts these arguments.
///
/// # Errors
/// Names the first argument that is not accepted.
pub(crate) fn check_args(kind: Kind, args: &[String]) -> Result<(), String> {
    if args.len() > ORDER_ARGS_MAX {
        return Err(format!("{} words are too many", args.len()));
    }
    let is_right = |arg: &String| {
        let option = arg.strip_prefix("--").map(|arg| arg.split_once('=').map_or(arg, |(option, _)| option));
        option.is_some_and(|option| is_for_agents(kind, option))
    };
    match args.iter().find(|arg| !is_right(arg)) {
        Some(arg) => Err(format!("{arg} is not an option that agents accept")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(kind: Kind, line: &str) -> Result<Vec<String>, String> {
        args_of(kind, line.split(' '))
    }

    #[test]
    fn agents_get_options_but_no_file_names() {
        let line = "catlab load --server 10.0.0.1,10.0.0.2:5300 --queries q.txt --rate 100,200 --poisson --nats x://h \
                    --agents 3 --out run --i-own-this-target -q";
        let args = forwarded(Kind::Load, line).unwrap();
        let mut sorted = args.clone();
        sorted.sort();
        assert_eq!(sorted, ["--poisson", "--rate=100,200", "--server=10.0.0.1", "--server=10.0.0.2:5300"]);
        check_args(Kind::Load, &args).unwrap();
        // The contents of files are sent as files.
        let line = "catlab load --server 10.0.0.1 --population p.toml --queries q.txt --tsig k:c2VjcmV0 --ca f.pem \
                    --nats tls://h --nats-creds lab.creds";
        assert_eq!(forwarded(Kind::Load, line).unwrap(), ["--server=10.0.0.1"]);
        let line = "catlab load --server 10.0.0.1 --updates u.txt --nats nats://h";
        assert_eq!(forwarded(Kind::Load, line).unwrap(), ["--server=10.0.0.1"]);
        let line = "catlab load --server 10.0.0.1 --update-zone z --name {n}.z --nats nats://h";
        check_args(Kind::Load, &forwarded(Kind::Load, line).unwrap()).unwrap();
        let line =
            "catlab replay t.pcap --server 10.0.0.1 --speed 2 --limit 9 --late stop --wait-for-answer --nats nats://h";
        let args = forwarded(Kind::Replay, line).unwrap();
        check_args(Kind::Replay, &args).unwrap();
        let mut sorted = args.clone();
        sorted.sort();
        assert_eq!(sorted, ["--late=stop", "--server=10.0.0.1", "--wait-for-answer"]);
        // Changes apply before the trace is divided.
        let line = "catlab replay t.pcap --server 10.0.0.1 --unique --suffix a=b --do 1 --only-type A --clients 9 \
                    --edns none --sample 0.5 --by query --seed 3 --rd on --type AAAA --nats nats://h";
        assert_eq!(forwarded(Kind::Replay, line).unwrap(), ["--server=10.0.0.1"]);
    }

    #[test]
    fn local_only_options_are_rejected() {
        for option in ["--record-answers a.jsonl", "--source 10.0.0.1", "--monitor pid:1 --out x", "--self-check"] {
            let line = format!("catlab load --server 10.0.0.1 --name x{{n}} --nats nats://h {option}");
            let refused = forwarded(Kind::Load, &line).unwrap_err();
            assert!(refused.contains("does not go with --nats"), "{refused}");
        }
        let refused = forwarded(Kind::Replay, "catlab replay t --server 10.0.0.1 --nats nats://h --out r --parquet");
        assert!(refused.unwrap_err().starts_with("--parquet does not go"));
    }

    #[test]
    fn an_agent_rejects_all_other_arguments() {
        let refused = [
            "--i-own-this-target",
            "--out=/etc",
            "--queries=/etc/passwd",
            "--record-answers=/x",
            "--nats=nats://h",
            "--nats-creds=/root/lab.creds",
            "--population=/etc/passwd",
            "--tsig=/etc/bind/rndc.key",
            "--updates=/etc/passwd",
            "--ca=/etc/passwd",
            "-q",
            "/etc/passwd",
            "",
            "--",
            "--rate x",
        ];
        for arg in refused {
            assert!(check_args(Kind::Load, &[arg.to_owned()]).is_err(), "{arg}");
        }
        assert!(check_args(Kind::Replay, &["--rate=5".to_owned()]).is_err());
        assert!(check_args(Kind::Load, &vec!["--poisson".to_owned(); ORDER_ARGS_MAX + 1]).is_err());
    }

    #[test]
    fn every_forwarded_option_exists() {
        let command = crate::Cli::command();
        for (name, kind, own) in [("load", Kind::Load, LOAD), ("replay", Kind::Replay, REPLAY)] {
            let plan = command.find_subcommand(name).unwrap();
            let known: Vec<_> = plan.get_arguments().filter_map(clap::Arg::get_long).collect();
            for option in COMMON.iter().chain(own) {
                assert!(known.contains(option) && is_for_agents(kind, option), "{name} --{option}");
            }
        }
    }
}
