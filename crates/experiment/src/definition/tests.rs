//! Wrong definitions are refused with their line. Good ones become what they say.

use super::*;

/// A small definition that is right.
const GOOD: &str = r#"title = "A"
source = "B"
question = "C"
prepare = ["trace synth --count {count} --out {folder}/q.txt"]
[variables]
count = 7
rate = 100.0
[matrix]
cpu = [0.5, 1]
server = ["nsd", "echo"]
[[server]]
name = "dns"
kind = "{server}"
cpu = "{cpu}"
zones = { "example." = "example.zone" }
[[load]]
run = "load --server {dns.address} --rate {rate} --name 'q{{n}}.example'"
[[at]]
seconds = 1
server = "dns"
action = "kill"
[[claim]]
text = "D"
value = "rate[cpu=1, server=nsd] / rate[cpu=0.25, server=nsd]"
want = ">= 1"
[[picture]]
title = "E"
figure = "rate"
by = "cpu"
lines = "server"
[quick]
repeats = 1
[quick.matrix]
cpu = [0.25, 1]
[paper.variables]
count = 9
"#;

fn error_of(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    Experiment::parse(&text, "a.toml").expect_err(&text).to_string()
}

#[test]
fn a_good_definition_is_read() {
    let experiment = Experiment::parse(GOOD, "a.toml").unwrap();
    assert_eq!((experiment.repeats, experiment.cell_count()), (3, 12));
    let values = experiment.values(&experiment.combinations()[2]);
    let text = variables::substitute("{server} {cpu} {count} {rate}", &values).unwrap();
    assert_eq!(text, "nsd 1 7 100");
}

#[test]
fn a_wrong_key_or_word_is_named_with_its_line() {
    for (from, to, line, expected) in [
        ("title =", "titel =", 1, "unknown key `titel`; did you mean `title`?"),
        ("kind =", "kinds =", 13, "unknown key `kinds`; did you mean `kind`?"),
        ("kind =", "zebra =", 13, "unknown key `zebra`; write one of: name, kind, "),
        ("action = \"kill\"", "action = \"kil\"", 21, "there is no action `kil`; did you mean `kill`?"),
        ("[quick.matrix]", "[quick.matrx]", 33, "unknown key `matrx`; did you mean `matrix`?"),
        ("seconds = 1", "seconds = \"soon\"", 19, "`soon` is not a time"),
        ("count = 7", "count = [7]", 6, "expected a text or a number"),
        ("repeats = 1", "repeats = -1", 32, "expected a whole number"),
        ("cpu = [0.5, 1]", "cpu = 1", 9, "expected a list"),
        ("count = 7", "count = = 7", 6, ""),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(expected), "{to}: {error}");
    }
    let error = error_of("title = \"A\"\n", "");
    assert!(error.contains("the key `title` is missing"), "{error}");
}

#[test]
fn a_name_without_definition_is_found_in_every_text() {
    for (from, to, line, expected) in [
        ("{count}", "{counts}", 4, "{counts} is not defined; did you mean `count`?"),
        ("{count}", "{cpu}", 4, "`prepare` runs once"),
        ("cpu = \"{cpu}\"", "cpu = \"{share}\"", 14, "{share} is not defined"),
        ("kind = \"{server}\"", "kind = \"{dns.pid}\"", 13, "{dns.pid} is not defined"),
        ("{dns.address}", "{dsn.address}", 17, "did you mean `dns.address`?"),
        ("{{n}}", "{n}", 17, "write {{n}}"),
        ("server = \"dns\"\naction", "server = \"dsn\"\naction", 20, "there is no server `dsn`; did you mean `dns`?"),
        ("cpu=0.25", "cpus=0.25", 24, "no parameter `cpus`; did you mean `cpu`?"),
        ("cpu=0.25", "cpu=4", 24, "no value 4; write one of: 0.5, 1, 0.25"),
        ("cpu=0.25", "cpu", 24, "write PARAMETER=VALUE"),
        ("=nsd]\"", "=nsd\"", 24, "the expression ends here; write `]`"),
        ("want = ", "not_comparable = \"F\"\nwant = ", 25, "there is no `paper`"),
        ("by = \"cpu\"", "by = \"cpu\"\nonly = { server = \"x\" }", 30, "no value x"),
        ("by = \"cpu\"", "by = \"cpus\"", 29, "did you mean `cpu`?"),
        ("lines = \"server\"", "lines = \"servers\"", 30, "did you mean `server`?"),
        ("\"rate\"\nby = \"cpu\"", "\"rates\"\nby = \"time\"", 28, "does not exist over time; did you mean `rate`?"),
        ("by = \"cpu\"", "by = \"time\"\npaper = { 1 = 2 }", 30, "has no values of the source"),
        ("[matrix]", "[matrix]\ntime = [1]", 9, "`time` is the axis"),
        ("cpu = [0.25, 1]", "cup = [0.25]", 34, "not in [matrix]; did you mean `cpu`?"),
        ("count = 9", "court = 9", 36, "not in [variables]; did you mean `count`?"),
        ("[variables]", "[by.servers]\nx = { nsd = 1 }\n[variables]", 5, "did you mean `server`?"),
        ("[variables]", "[by.server]\nx = { nds = 1 }\n[variables]", 6, "no value nds; did you mean `nsd`?"),
        ("[variables]", "[by.server]\nx = { nsd = 1 }\n[variables]", 6, "no value for server=echo"),
        ("[variables]", "[by.server]\ncount = { nsd = 1, echo = 2 }\n[variables]", 6, "has another value already"),
        (
            "[variables]",
            "[by.server]\nx = { nsd = \"{y}\", echo = 2 }\ny = { nsd = 1, echo = 2 }\n[variables]",
            6,
            "the value has {y}, which is in a table [by.PARAMETER] too",
        ),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn an_event_is_aimed_at_a_node_that_can_exist() {
    let text = GOOD.replace("\"echo\"]", "\"bind\"]").replace("cpu = \"{cpu}\"", "nodes = 3\nkey = true");
    let parsed = |node: &str| {
        let text = text.replace("action = \"kill\"", &format!("action = \"kill\"\nnode = {node}"));
        Experiment::parse(&text, "a.toml").map(drop).map_err(|error| error.to_string())
    };
    assert_eq!((parsed("3"), parsed("\"leader\"")), (Ok(()), Ok(())));
    for (node, expected) in [("4", "no node 4; the server dns has 3"), ("\"same\"", "an earlier event")] {
        let error = parsed(node).unwrap_err();
        assert!(error.starts_with("a.toml:23: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn names_are_unique() {
    let claim = "[[claim]]\ntext = \"D\"\nvalue = \"1\"\nwant = \">= 1\"\n[[picture]]";
    let second = "[[load]]\nname = \"dns\"\nrun = \"load --server {dns.address} --name a\"\n[[at]]";
    for (from, to, line, expected) in [
        ("cpu = [0.5, 1]", "count = [1]", 9, "a variable and a parameter"),
        ("count = 7", "folder = 7\ncount = 7", 6, "choose another name"),
        ("count = 7", "\"a.b\" = 7\ncount = 7", 6, "is not a name"),
        ("[[at]]", second, 16, "several loads need a `name`"),
        ("[[picture]]", claim, 27, "two claims have the same text"),
        ("run =", "name = \"dns\"\nrun =", 17, "the name `dns`"),
        ("cpu = [0.5, 1]", "cpu = [1, 1.0]", 9, "the value 1 is listed twice"),
        ("cpu = [0.5, 1]", "cpu = []", 9, "at least one value"),
        (
            "[variables]",
            "[by.cpu]\nx = { \"0.5\" = 1, 1 = 2, \"0.25\" = 3 }\n[by.server]\nx = { nsd = 1, echo = 2 }\n[variables]",
            8,
            "`x` is in [by.cpu] too",
        ),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn values_are_checked_in_every_cell_and_size() {
    for (from, to, line, expected) in [
        ("[\"nsd\", \"echo\"]", "[\"nsd\", \"nds\"]", 13, "no kind of server `nds`; did you mean `nsd`?"),
        ("cpu = [0.5, 1]", "cpu = [0.5, 1, 0]", 14, "`0` is not a number of cores"),
        ("cpu = [0.5, 1]", "cpu = [0.5, 1, 0.009]", 14, "write 0.01 or more"),
        ("cpu = [0.25, 1]", "cpu = [0.25, \"x\"]", 14, "`x` is not a number of cores"),
        ("cpu = \"{cpu}\"", "threads = 0", 14, "not a number of threads"),
        ("cpu = \"{cpu}\"", "lines = \"x\"", 14, "echo has no lines"),
        ("cpu = \"{cpu}\"", "nodes = 3", 14, "add `key = true`"),
        ("cpu = \"{cpu}\"", "transport = \"dto\"", 14, "no transport `dto`; did you mean `dot`?"),
        ("cpu = \"{cpu}\"", "idle = \"1.5s\"", 14, "whole seconds"),
        ("cpu = \"{cpu}\"", "connections = 0", 14, "not a number of connections"),
        ("cpu = \"{cpu}\"", "primary = \"{count}\"", 14, "`7` is not an address"),
        ("cpu = \"{cpu}\"", "primary = \"127.0.0.1:5300\"", 14, "add `key = true`"),
        ("{dns.address}", "{dns.key}", 17, "{dns.key} has no value"),
        ("action = \"kill\"", "action = \"cut\"", 21, "add [links]"),
        ("[[server]]", "[links]\nrtt = \"fast\"\n[[server]]", 11, "fast"),
        ("action = \"kill\"", "action = \"kill\"\nnode = \"leader\"", 22, "has no `nodes`"),
        ("cpu = \"{cpu}\"", "backends = \"127.0.0.1:53\"", 14, "nsd asks no other servers"),
        ("cpu = \"{cpu}\"", "backends = \"127.0.0.1\"", 14, "not an address with a port"),
        ("kind = \"{server}\"", "kind = \"dnsdist\"", 13, "dnsdist needs servers behind it"),
        ("cpu = \"{cpu}\"", "memory = \"5 MB\"", 14, "write for example 512M"),
        ("cpu = \"{cpu}\"", "core = -1", 14, "write 0 for the first one"),
        ("\"example.\" =", "\"example\" =", 15, "write `example.`"),
        ("load --server", "laod --server", 17, "did you mean `load`?"),
        ("load --server", "catlab load --server", 17, "remove the word `catlab`"),
        ("load --server", "load --out x --server", 17, "remove --out"),
        ("load --server", "load --duration 11m --server", 17, "shorten it"),
        ("'q{{n}}", "q{{n}}", 17, "quote is not closed"),
        ("[\"trace", "[\"experiment run x\", \"trace", 4, "cannot run another one"),
        ("seconds = 1", "seconds = 601", 19, "not a time within a cell"),
        ("action = \"kill\"", "action = \"kill\"\nzones = 1", 22, "remove `zones`"),
        ("action = \"kill\"", "action = \"add-zones\"", 18, "write for example zones = 100"),
        ("action = \"kill\"", "action = \"add-zones\"\nzones = \"x\"", 22, "not a number of zones"),
        ("action = \"kill\"", "action = \"add-zones\"\nzones = \"\"", 22, "write for example zones = 100"),
        ("action = \"kill\"", "action = \"transfer-zones\"\nzones = 1", 20, "has no `hierarchy`"),
        ("action = \"kill\"", "action = \"join\"", 20, "add `joining = 1`"),
        ("cpu = \"{cpu}\"", "nodes = 2\njoining = 2", 15, "`2` of 2 nodes cannot join later"),
        ("cpu = \"{cpu}\"", "joining = 1", 14, "`1` of 1 nodes cannot join later"),
        ("run =", "at_end = true\nrun =", 17, "remove `at_end`"),
        ("action = \"kill\"", "action = \"add-zones\"\nzones = 1", 20, "has no `hierarchy`"),
        ("want = \">= 1\"", "want = \"about 1\"", 25, "`about 1` is not a range"),
        ("rate[cpu=1, server=nsd]", "rate[cpu=1]", 24, "more than one cell; also name server (nsd, echo)"),
        ("rate[cpu=1, server=nsd]", "rate[cpu=1, server=nsd, cpu=1]", 24, "named twice"),
        ("load --server", "load --ca {dns.ca} --server", 17, "{dns.ca} has no value"),
        ("[[server]]", "[links]\nrtt = \"lognormal:80ms:99\"\n[[server]]", 11, "sigma of lognormal is 0 to 5"),
        ("cpu = \"{cpu}\"", "catalog = \"x.\"", 14, "nsd has no catalog here"),
        ("cpu = \"{cpu}\"", "catalog = \"x\"", 14, "no final dot"),
        ("load --server", "hierarchy profile --server", 17, "write `run` after `hierarchy`"),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(expected), "{to}: {error}");
    }
    // The repeats of [quick]; the definition has no line for its own.
    let error = error_of("repeats = 1", "repeats = 0");
    assert!(error.starts_with("a.toml: 0 repeats measure nothing"), "{error}");
    let values: Vec<_> = (0..5_001).map(|value| value.to_string()).collect();
    let error = error_of("cpu = [0.25, 1]", &format!("cpu = [0.25, {}]", values.join(",")));
    assert!(error.contains("10004 cells"), "{error}");
}

#[test]
fn a_proxy_has_backends_instead_of_zones() {
    let proxy = |kind: &str, keys: &str| {
        let proxy = format!("[[server]]\nname = \"front\"\nkind = \"{kind}\"\n{keys}[[load]]");
        Experiment::parse(&GOOD.replacen("[[load]]", &proxy, 1), "a.toml").map_err(|error| error.to_string())
    };
    for kind in ["dnsdist", "haproxy", "knot-resolver", "unbound"] {
        let experiment = proxy(kind, "backends = \"{dns.address}, 127.0.0.1:53\"\n").unwrap();
        assert_eq!(experiment.servers[1].backends, "{dns.address}, 127.0.0.1:53");
    }
    for (keys, expected) in [
        ("backends = \"{dns.address}\"\nzones = { \"example.\" = \"z\" }\n", "a.toml:20: haproxy serves no zones"),
        ("backends = \"{front.address}\"\n", "a.toml:19: the variable {front.address} is not defined"),
    ] {
        let error = proxy("haproxy", keys).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn sizes_change_what_they_name() {
    let experiment = Experiment::parse(GOOD, "a.toml").unwrap();
    let quick = experiment.clone().size(Size::Quick);
    assert_eq!((quick.repeats, quick.cell_count(), quick.variables["count"].0.as_str()), (1, 4, "7"));
    assert_eq!(quick.matrix["cpu"], [Value("0.25".into()), Value("1".into())]);
    let paper = experiment.clone().size(Size::Paper);
    assert_eq!((paper.repeats, paper.cell_count(), paper.variables["count"].0.as_str()), (3, 12, "9"));
    assert_eq!(experiment.clone().size(Size::Here).cell_count(), experiment.cell_count());
}

#[test]
fn the_user_sets_variables() {
    let mut experiment = Experiment::parse(GOOD, "a.toml").unwrap();
    experiment.set("rate", "5").unwrap();
    assert_eq!(experiment.variables["rate"].0, "5");
    for (name, value, expected) in [
        ("rates", "5", "did you mean `rate`?"),
        ("cpu", "2", "--only cpu=2"),
        ("rate", "5 --out x", "cannot set rate to 5 --out x: the experiment chooses"),
    ] {
        let error = experiment.set(name, value).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(experiment.variables["rate"].0, "5", "a wrong value is not kept");
}

#[test]
fn an_experiment_is_written_and_read_again() {
    let folder = std::env::temp_dir().join(format!("catlab-definition-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("experiment.toml");
    for size in [Size::Here, Size::Quick, Size::Paper] {
        let experiment = Experiment::parse(GOOD, "a.toml").unwrap().size(size);
        std::fs::write(&path, toml::to_string(&experiment).unwrap()).unwrap();
        let again = Experiment::read_measured(&path).unwrap();
        assert_eq!(toml::to_string(&again).unwrap(), toml::to_string(&experiment).unwrap());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let error = Experiment::read(&path).unwrap_err().to_string();
    assert!(error.contains("experiment.toml: cannot read the definition: "), "{error}");
}

#[test]
fn a_definition_has_a_maximum_size() {
    let path = std::env::temp_dir().join(format!("catlab-definition-{}.toml", std::process::id()));
    std::fs::write(&path, "#".repeat(crate::limits::DEFINITION_BYTES_MAX as usize + 1)).unwrap();
    let error = Experiment::read(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn built_in_experiments_are_right_in_all_sizes() {
    assert!(built_in_names().count() >= 2);
    for name in built_in_names() {
        let experiment = built_in(name).unwrap().unwrap();
        assert!(!experiment.claims.is_empty() && !experiment.limits.is_empty(), "{name}");
        for size in [Size::Here, Size::Quick, Size::Paper] {
            let plan = crate::plan::Plan::new(&experiment.clone().size(size), &[]).unwrap();
            // How long a resolver or a replay without pauses takes is not known.
            assert!(plan.is_duration_known || ["hierarchy", "replay-rate"].contains(&name), "{name}");
            let repeats = experiment.clone().size(size).repeats;
            assert!(repeats >= 3, "{name}: {repeats} repeats show no spread");
        }
    }
    assert!(built_in("none").is_none());
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = include_str!("../../../../docs/catlab/experiments.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, rest) = rest.split_once("```").unwrap();
    let experiment = Experiment::parse(example, "mine.toml").unwrap();
    assert_eq!((experiment.cell_count(), experiment.claims.len()), (9, 1));
    let error = Experiment::parse(&example.replace("dns.address", "dsn.address"), "mine.toml").unwrap_err().to_string();
    let shown = rest.lines().find_map(|line| line.strip_prefix("catlab experiment: ")).unwrap();
    assert_eq!(error, shown);
}
