//! `catlab experiment` as a program: exit codes, kept cells, servers of the user, and output.

use crate::support::Folder;
use crate::support::program::CATLAB;
use measure::Transport;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use testbed::echo::{Echo, EchoPlan};

/// Uses only an echo server, so it runs without other programs.
const DEFINITION: &str = r#"title = "An echo"
source = "none"
question = "Does it answer?"
repeats = 1
[matrix]
in_flight = [1, 4]
[[server]]
name = "dns"
kind = "echo"
[[load]]
run = """
load --server {dns.address} --name 'q{{n}}.example' --closed-loop --in-flight {in_flight} \
--workers 1 --lag-limit 10s --duration 500ms --quiet"""
[[claim]]
text = "It answers"
value = "answered[in_flight=1] + answered[in_flight=4]"
want = ">= 2"
"#;

/// A picture over time.
const PICTURE: &str = r#"[[picture]]
title = "Share of answers"
figure = "share"
by = "time"
lines = "in_flight"
"#;

/// A claim about the process of the server.
const CPU_CLAIM: &str = r#"[[claim]]
text = "It takes CPU time"
value = "dns.cpu_us[in_flight=1]"
want = ">= 0"
"#;

/// Exit code, standard output and standard error.
fn experiment(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(CATLAB).current_dir(folder).arg("experiment").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_experiment_runs_continues_and_is_judged() {
    let folder = Folder::new("experiment");
    let write = |text: &str| std::fs::write(folder.path().join("echo.toml"), text).unwrap();
    // A picture over time needs a whole second.
    let definition = DEFINITION.replace("500ms", "1500ms") + PICTURE;
    write(&definition);
    let (code, out, error) = experiment(folder.path(), &["run", "echo.toml", "--only", "in_flight=1"]);
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("1 claim about cells that are not part of this run"), "{out}{error}");
    assert!(error.contains("1/1  in_flight=1 repeat 1: "), "{error}");
    let (code, out, error) = experiment(folder.path(), &["run", "echo.toml"]);
    assert_eq!(code, 0, "{out}{error}");
    assert!(error.contains("1/2  in_flight=1 repeat 1: already measured"), "{error}");
    assert!(out.contains("holds          It answers") && out.contains("experiments/echo/index.html\n"), "{out}");
    assert!(out.ends_with("\n\necho.toml  1 claim: 1 holds; cells: 2 measured\n"), "{out}");
    let (code, out, error) = experiment(folder.path(), &["report", "experiments/echo", "--publish", "docs"]);
    assert!(code == 0 && out.ends_with("docs/echo.md\n"), "{out}{error}");
    let page = std::fs::read_to_string(folder.path().join("docs/echo.md")).unwrap();
    assert!(page.contains("catlab experiment run echo.toml\n"), "{page}");
    assert!(page.lines().all(|line| !line.contains("PNG")), "{page}");
    assert!(page.contains("![Share of answers](echo-1.svg)"), "{page}");
    let picture = std::fs::read_to_string(folder.path().join("docs/echo-1.svg")).unwrap();
    // The points of both lines: each run has one whole second.
    let missing = picture.contains("Not all repeats are drawn");
    assert!(!missing && picture.matches("<circle").count() == 2 && picture.contains("time in the run"), "{picture}");
    // Cells do not depend on claims.
    write(&definition.replace(">= 2", ">= 1000000000"));
    let (code, out, error) = experiment(folder.path(), &["run", "echo.toml"]);
    assert!(error.contains("2/2  in_flight=4 repeat 1: already measured"), "{error}");
    assert_eq!(code, 1, "{out}{error}");
    assert!(out.contains("differs        It answers"), "{out}");
}

#[test]
fn what_cannot_run_is_refused_before_the_first_cell() {
    let folder = Folder::new("experiment-refused");
    for (from, to, expected) in [
        ("kind =", "kinds =", "echo.toml:9: unknown key `kinds`; did you mean `kind`?"),
        ("\"echo\"", "\"ecko\"", "echo.toml:9: there is no kind of server `ecko`; did you mean `echo`?"),
        ("[in_flight=1]", "", "echo.toml:16: column 1: answered: selects more than one cell"),
        (">= 2", "about 2", "echo.toml:17: `about 2` is not a range"),
    ] {
        std::fs::write(folder.path().join("echo.toml"), DEFINITION.replacen(from, to, 1)).unwrap();
        let (code, out, error) = experiment(folder.path(), &["run", "echo.toml"]);
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.starts_with("catlab experiment: ") && error.contains(expected), "{error}");
    }
    let (code, _, error) = experiment(folder.path(), &["report", "."]);
    assert!(code == 2 && error.contains("name the folder of one experiment"), "{error}");
    assert!(!folder.path().join("experiments").exists());
}

#[test]
fn a_running_server_of_the_user_is_measured() {
    let folder = Folder::new("experiment-server");
    std::fs::write(folder.path().join("echo.toml"), format!("{DEFINITION}{CPU_CLAIM}")).unwrap();
    let server = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let option = format!("dns={}", server.address(Transport::Udp));
    let run = ["run", "echo.toml", "--server", &option];
    let (code, out, error) = experiment(folder.path(), &run);
    assert_eq!(code, 0, "{out}{error}");
    let reason = format!("because dns is a server at {}, not started by this run", server.address(Transport::Udp));
    assert!(out.contains("holds          It answers") && out.contains("not measured   It takes CPU time"), "{out}");
    assert!(out.contains(&format!("has no figure `dns.cpu_us`, {reason}")), "{out}");
    assert!(out.ends_with("echo.toml  2 claims: 1 holds, 1 not measured; cells: 2 measured\n"), "{out}");
    let page = std::fs::read_to_string(folder.path().join("experiments/echo/index.html")).unwrap();
    assert!(page.contains("dns, external, a server at 127.0.0.1:"), "{page}");
    let readme = std::fs::read_to_string(folder.path().join("experiments/echo/README.md")).unwrap();
    assert_eq!(readme.matches("- dns, external, a server at ").count(), 1, "{readme}");
    // An echo has no zone, so it cannot take the place of a server that has one.
    let with_zone = DEFINITION.replace("kind = \"echo\"", "kind = \"nsd\"\nzones = { \"a.\" = \"a.zone\" }");
    std::fs::write(folder.path().join("zone.toml"), with_zone).unwrap();
    let (code, out, error) = experiment(folder.path(), &["run", "zone.toml", "--server", &option]);
    assert!(code == 1 && error.contains("does not answer for the zone `a.`; load the zones"), "{out}{error}");
    // Results of other servers stay apart.
    assert_eq!(experiment(folder.path(), &run).0, 0);
    let (code, _, error) = experiment(folder.path(), &["run", "echo.toml"]);
    assert!(code == 2 && error.contains("other values of --server and --program; use another --dir"), "{error}");
}

#[test]
fn servers_and_programs_that_cannot_be_used_are_refused() {
    let folder = Folder::new("experiment-user-servers");
    let event = "[[at]]\nseconds = 0.1\nserver = 'dns'\naction = 'pause'\n";
    std::fs::write(folder.path().join("event.toml"), format!("{DEFINITION}{event}")).unwrap();
    std::fs::write(folder.path().join("echo.toml"), DEFINITION).unwrap();
    for (definition, option, value, expected) in [
        ("echo.toml", "--server", "dsn=127.0.0.1", "the experiment has no server `dsn`; did you mean `dns`?"),
        ("echo.toml", "--server", "dns=localhost", "`localhost` is not an address"),
        ("event.toml", "--server", "dns=127.0.0.1", "the experiment has the event `pause` for it"),
        ("echo.toml", "--program", "nsd=missing/nsd", "cannot use missing/nsd as nsd: No such file"),
        ("echo.toml", "--program", "nsd=echo.toml", "cannot use echo.toml as nsd: it is not executable"),
        ("echo.toml", "--program", "nsd=/bin/sh", "no selected cell starts a server of the kind nsd"),
        ("echo.toml", "--program", "nsdd=/bin/sh", "did you mean `nsd`?"),
    ] {
        for command in ["run", "show"] {
            let (code, out, error) = experiment(folder.path(), &[command, definition, option, value]);
            assert_eq!((code, out.as_str()), (2, ""), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }
    assert!(!folder.path().join("experiments").exists());
}

#[test]
fn another_build_of_a_server_is_started() {
    let folder = Folder::new("experiment-program");
    // It understands the command line of NSD.
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -v ] && {{ echo 'NSD of a test, 9.9'; exit; }}\n\
         port=$(sed -n 's/.*ip-address: .*@//p' \"$3\")\n\
         exec '{CATLAB}' echo --ports udp=$port,tcp=$port --threads 1\n"
    );
    let program = folder.path().join("nsd");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("nsd.toml"), DEFINITION.replace("\"echo\"", "\"nsd\"")).unwrap();
    let (code, out, error) = experiment(folder.path(), &["run", "nsd.toml", "--program", "nsd=nsd"]);
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("holds          It answers") && !error.contains("not installed"), "{out}{error}");
    let page = std::fs::read_to_string(folder.path().join("experiments/nsd/index.html")).unwrap();
    assert!(page.contains("dns, nsd, NSD of a test, 9.9"), "{page}");
}

#[test]
fn several_experiments_have_one_summary() {
    let folder = Folder::new("experiment-several");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("good.toml", DEFINITION);
    write("other.toml", &DEFINITION.replace("repeats = 1", "repeats = 1\nprepare = ['zones synth --nonsense']"));
    let (code, out, error) = experiment(folder.path(), &["run", "other.toml", "good.toml"]);
    assert_eq!(code, 2, "{out}{error}");
    assert!(error.contains("catlab experiment: other.toml: cannot make input files"), "{error}");
    assert!(out.contains("\nother.toml  did not run: cannot make input files"), "{out}");
    assert!(out.contains("\ngood.toml   1 claim: 1 holds; cells: 2 measured\n"), "{out}");
    assert!(out.ends_with("\n1 of 2 experiments ran; 1 claim: 1 holds\n"), "{out}");
    // A cell that fails changes the exit code, also without a claim.
    let (first, _) = DEFINITION.split_once("[[claim]]").unwrap();
    write("failing.toml", &first.replace("--quiet", "--nonsense"));
    let (code, out, error) = experiment(folder.path(), &["run", "failing.toml", "good.toml"]);
    assert_eq!(code, 1, "{out}{error}");
    assert!(out.contains("\nfailing.toml  no claims; cells: 2 failed (the load failed with exit status: 2"), "{out}");
    let (code, _, error) = experiment(folder.path(), &["run", "all", "--set", "nonsense=1"]);
    assert!(code == 2 && error.contains("no built-in experiment can use these options"), "{error}");
    let (code, _, error) = experiment(folder.path(), &["run", "good.toml", "./good.toml"]);
    assert!(code == 2 && error.contains("both write to experiments/good"), "{error}");
}

#[test]
fn two_runs_are_compared() {
    let folder = Folder::new("experiment-compare");
    let write = |text: &str| std::fs::write(folder.path().join("echo.toml"), text).unwrap();
    write(&DEFINITION.replace("repeats = 1", "repeats = 2").replace("500ms", "300ms"));
    for dir in ["one", "two"] {
        let (code, out, error) = experiment(folder.path(), &["run", "echo.toml", "--dir", dir]);
        assert_eq!(code, 0, "{out}{error}");
    }
    let compare = ["compare", "one/echo", "two/echo", "--json", "comparison.json"];
    let (code, out, error) = experiment(folder.path(), &compare);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    for part in [
        "\nWarning: the runs are not interleaved: all of A was measured first",
        "  dns  echo  A, B  catlab",
        "  holds      holds  ",
        "  in_flight=1  rate ",
        "  in_flight=4  p99_us ",
        "range of 2 repeats",
        " of 1 claims, ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let json = std::fs::read(folder.path().join("comparison.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["experiment"], &json["is_interleaved"]), (&"An echo".into(), &false.into()));
    assert_eq!(json["cells"].as_array().map(Vec::len), Some(2));
    let (code, out, _) = experiment(folder.path(), &["compare", "one/echo", "two/echo", "--json", "-"]);
    assert!(code == 0 && out.starts_with("{\n  \"experiment\": \"An echo\""), "{out}");
    write(&DEFINITION.replace("An echo", "Another echo"));
    assert_eq!(experiment(folder.path(), &["run", "echo.toml", "--only", "in_flight=1"]).0, 0);
    for (other, expected) in
        [("experiments/echo", "different experiments"), ("one", "name the folder of one experiment")]
    {
        let (code, out, error) = experiment(folder.path(), &["compare", "one/echo", other]);
        assert!((code, out.as_str()) == (2, "") && error.contains(expected), "{out}{error}");
    }
}
