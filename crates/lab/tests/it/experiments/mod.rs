//! Runs of experiments: failures are in the results, and no process, control group or record is left.

mod zones;

use crate::support::Folder;
use crate::support::namespaces::can_make_namespaces;
use crate::support::program::{CATLAB, until};
use experiment::definition::Experiment;
use experiment::plan::Plan;
use experiment::results::{CellResult, Outcome};
use experiment::run::{Done, Options, Progress, cell_folder, run};
use experiment::user_servers::UserServers;
use skip::stalls::StallWatch;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The folder and the seconds of a run in a child process.
const CHILD_VARIABLES: [&str; 2] = ["CATLAB_TEST_RUN", "CATLAB_TEST_SECONDS"];
/// The variable in the environment of everything that a run starts.
const MARK: &str = "CATLAB_EXPERIMENT=";

const HEAD: &str = "title = 'A test'\nsource = 'None'\nquestion = 'Does it run?'\nrepeats = 1\n";
const ECHO: &str = "[[server]]\nname = 'dns'\nkind = 'echo'\nthreads = 1\n";
const KINDS: [testbed::Kind; 2] = [testbed::Kind::Catamaran, testbed::Kind::Nsd];
const ROOT_ZONE: &str = "prepare = ['zones synth --zones 9 --depth 2 --root-servers 1 --out {folder}/tree']\n";
const LOAD: &str = "[[load]]\nrun = \"load --server {dns.address} --name 'q{{n}}.example' --names 10 --no-recurse \
                    --workers 1 --lag-limit 10s --rate 200 --duration 1s\"\n";

fn parsed(text: &str) -> Experiment {
    Experiment::parse(&format!("{HEAD}{text}"), "test").unwrap()
}

fn run_in(folder: &Path, experiment: &Experiment, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Done {
    let plan = Plan::new(experiment, &[]).unwrap();
    let (folder, user_servers) = (folder.to_owned(), UserServers::default());
    let options = Options { folder, catlab: CATLAB.into(), command: Vec::new(), user_servers, stop };
    run(experiment, &plan.cells, &options, progress).unwrap()
}

/// Runs an experiment of one cell. Checks that its file has the same outcome, and that nothing is left.
fn only_cell(text: &str) -> CellResult {
    let folder = Folder::new("experiment");
    let experiment = parsed(text);
    let done = run_in(folder.path(), &experiment, &AtomicBool::new(false), &mut |_| {});
    let result = done.results.into_iter().next().unwrap();
    let file = cell_folder(folder.path(), &result.cell).join("cell.json");
    let stored: CellResult = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(stored.outcome, result.outcome);
    assert_nothing_left(folder.path());
    result
}

/// The processes of a run whose standard output is a file in the folder.
fn processes(folder: &Path) -> Vec<u32> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let file = |name: &str| {
            String::from_utf8_lossy(&std::fs::read(entry.path().join(name)).unwrap_or_default()).into_owned()
        };
        let output = std::fs::read_link(entry.path().join("fd/1")).unwrap_or_default();
        if file("environ").contains(MARK) && output.starts_with(folder) {
            found.push(pid);
        }
    }
    found
}

/// The control groups that runs of a process have created.
fn cgroups(pid: u32) -> Vec<PathBuf> {
    let output = Command::new("find").args(["/sys/fs/cgroup", "-name", &format!("catlab-{pid}-*")]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

fn assert_nothing_left(folder: &Path) {
    assert_eq!(processes(folder), Vec::<u32>::new());
    assert!(!folder.join("running.json").exists());
}

fn assert_failed(result: &CellResult, expected: &str) {
    let Outcome::Failed(reasons) = &result.outcome else { panic!("{:?}", result.outcome) };
    assert!(reasons.iter().any(|reason| reason.contains(expected)), "{reasons:?}");
}

#[test]
fn a_cell_has_the_figures_of_its_load_and_server() {
    let result = only_cell(&format!("{ECHO}{LOAD}"));
    assert_eq!(result.outcome, Outcome::Measured);
    let figure = |name: &str| result.figures[name];
    assert_eq!((figure("sent"), figure("answered"), figure("lost")), (200.0, 200.0, 0.0));
    assert!(figure("rate") > 50.0 && figure("mean_us") > 0.0 && figure("p99_us") >= figure("p50_us"));
    assert!((figure("mean_us") >= figure("latency_us.min")) && (figure("mean_us") <= figure("latency_us.max")));
    assert!(figure("dns.memory_bytes") > 1e6 && figure("dns.cpu_seconds") < 1.0, "{:?}", result.figures);
    assert!(result.servers[0].version.starts_with("catlab") && result.commands[1].starts_with("catlab load"));
    assert_eq!(result.runs[""], "load");
}

#[test]
fn measured_cells_are_kept() {
    let folder = Folder::new("experiment");
    let (experiment, stop) = (parsed(&format!("{ECHO}{LOAD}")), AtomicBool::new(false));
    let mut started = 0;
    for _ in 0..2 {
        run_in(folder.path(), &experiment, &stop, &mut |progress| {
            started += usize::from(matches!(progress, Progress::Started(..)));
        });
    }
    assert_eq!(started, 1);
    let other = parsed(&format!("{ECHO}{}", LOAD.replace("200", "300")));
    let options = Options {
        folder: folder.path().to_owned(),
        catlab: CATLAB.into(),
        command: Vec::new(),
        user_servers: UserServers::default(),
        stop: &stop,
    };
    let error = run(&other, &[], &options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("another definition"), "{error}");
}

#[test]
fn input_files_are_made_once() {
    let folder = Folder::new("experiment");
    let prepare = "prepare = ['zones synth --zones 3 --depth 2 --root-servers 1 --out {folder}/input/tree']\n";
    let experiment = parsed(&format!("{prepare}{ECHO}{LOAD}"));
    let mut prepared = 0;
    for _ in 0..2 {
        run_in(folder.path(), &experiment, &AtomicBool::new(false), &mut |progress| {
            prepared += usize::from(matches!(progress, Progress::Preparing(_)));
        });
    }
    assert_eq!(prepared, 1);
    assert!(folder.path().join("input/tree/zones/root.zone").is_file());
}

#[test]
fn a_server_with_limits_has_a_quota_and_a_core() {
    if !Path::new("/sys/fs/cgroup/cpu").exists() {
        return skip::platform("control groups of version 1");
    }
    let limits = "cpu = 0.1\nmemory = '64M'\ncore = 0\n";
    let load = LOAD.replace("--rate 200", "--closed-loop --in-flight 100").replace("--lag-limit 10s ", "");
    let result = only_cell(&format!("{ECHO}{limits}{load}"));
    if let Outcome::NotMeasured(reasons) = &result.outcome {
        return skip::permission(format!("control groups: {reasons:?}"));
    }
    // Without the quota it takes more than half of a core.
    let cpu = result.figures["dns.cpu_seconds"];
    assert!(cpu > 0.0 && cpu < 0.35, "{cpu} s: {:?}", result.outcome);
    let left = cgroups(std::process::id());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_balancer_passes_queries_to_servers_that_started_before() {
    let second = ECHO.replace("'dns'", "'second'");
    let front = "[[server]]\nname = 'front'\nkind = 'dnsdist'\nbackends = '{dns.address}, {second.address}'\n";
    let load = LOAD.replace("dns.address", "front.address");
    let result = only_cell(&format!("{ECHO}{second}{front}{load}"));
    if matches!(result.outcome, Outcome::NotMeasured(_)) {
        return skip::peer("dnsdist");
    }
    assert_eq!(result.outcome, Outcome::Measured);
    assert_eq!((result.figures["sent"], result.figures["answered"]), (200.0, 200.0));
    let front = result.servers.iter().find(|server| server.name == "front").unwrap();
    assert!(front.version.starts_with("dnsdist") && front.configuration.matches("newServer").count() == 2);
}

#[test]
fn servers_that_do_not_start_fail() {
    let unknown = "[[server]]\nname = 'dns'\nkind = 'knot'\nthreads = 1\nlines = 'nonsense'\n";
    let result = only_cell(&format!("{unknown}{LOAD}"));
    if matches!(result.outcome, Outcome::NotMeasured(_)) {
        return skip::peer("knotd");
    }
    assert_failed(&result, "cannot start the server dns");
    // The end of its output.
    assert_failed(&result, "knot.conf', line ");
}

#[test]
fn invalid_loads_are_invalid() {
    let result = only_cell(&format!("{ECHO}{}", LOAD.replace("--lag-limit 10s", "--lag-limit 0us")));
    let Outcome::Invalid(reasons) = &result.outcome else { panic!("{:?}", result.outcome) };
    assert!(!reasons.is_empty() && result.figures["sent"] == 200.0);
}

#[test]
fn events_wait_for_a_load_that_begins_late() {
    // The self-check takes as long as the load, and comes first.
    let load = LOAD.replace("--duration 1s", "--duration 2s --self-check");
    let event = "[[at]]\nseconds = 0.5\nserver = 'dns'\naction = 'pause'\n[[at]]\nseconds = 0.7\nserver = 'dns'\n\
                 action = 'resume'\n";
    let result = only_cell(&format!("{ECHO}{load}{event}"));
    assert!(matches!(result.outcome, Outcome::Measured | Outcome::Invalid(_)), "{:?}", result.outcome);
    assert!(result.figures.contains_key("phase1.first_share"), "{:?}", result.figures);
}

#[test]
fn a_setting_that_a_server_does_not_have_is_not_ignored() {
    for (kind, name, value) in
        [("coredns", "idle", "'5s'"), ("coredns", "connections", "9"), ("unbound", "key", "true")]
    {
        let result = only_cell(&format!("[[server]]\nname = 'dns'\nkind = '{kind}'\n{name} = {value}\n{LOAD}"));
        let Outcome::NotMeasured(reasons) = &result.outcome else { panic!("{:?}", result.outcome) };
        assert_eq!(reasons, &[format!("{kind} does not support the setting {name}")]);
    }
}

#[test]
fn loads_that_do_not_start_fail() {
    let result = only_cell(&format!("{ECHO}{}", LOAD.replace("--names 10", "--nonsense 10")));
    assert_failed(&result, "--nonsense");
}

#[test]
fn events_happen() {
    let events = [(0.2, "pause"), (0.4, "resume"), (2.0, "kill"), (4.0, "restart")];
    let events: String = events
        .iter()
        .map(|(seconds, action)| format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\naction = '{action}'\n"))
        .collect();
    let load = LOAD.replace("--duration 1s", "--duration 10s --timeout 5s");
    let result = only_cell(&format!("{ECHO}{load}{events}"));
    assert_eq!(result.events.len(), 4);
    assert!(result.events.iter().all(|event| event.happened), "{:?}", result.events);
    // The server answers again after its restart, but not all queries.
    assert!(result.figures["answered"] > 200.0 && result.figures["answered"] < 2_000.0, "{:?}", result.figures);
}

#[test]
fn a_leader_is_killed_and_started_again() {
    if testbed::Kind::Catamaran.program().is_none() {
        return skip::peer("catamaran");
    }
    let at = |seconds, node, action| {
        format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\nnode = {node}\naction = '{action}'\n")
    };
    let events = [at(1, "'leader'", "kill"), at(2, "'same'", "restart"), at(4, "'follower'", "pause")].concat();
    let server = "[[server]]\nname = 'dns'\nkind = 'catamaran'\nnodes = 3\nkey = true\n\
                  zones = { '.' = 'tree/zones/root.zone' }\n";
    let updates = "[[load]]\nrun = \"load --server {dns.addresses} --update-zone . --name 'h{{n}}' --names 9 \
                   --tsig {dns.key} --workers 1 --lag-limit 10s --rate 50 --duration 10s --timeout 5s\"\n";
    let result = only_cell(&format!("{ROOT_ZONE}{server}{updates}{events}"));
    assert_eq!(result.outcome, Outcome::Measured);
    let [kill, restart, pause] = &result.events[..] else { panic!("{:?}", result.events) };
    assert!(kill.node == restart.node && kill.node.is_some() && pause.node.is_some());
    assert!(result.figures["answered"] > 50.0, "{:?}", result.figures);
    assert_eq!(result.commands.len(), 4, "{:?}", result.commands);
}

#[test]
fn a_machine_is_cut_off_and_healed() {
    let at =
        |seconds: f64, action| format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\nnode = 1\naction = '{action}'\n");
    for (kind, nodes) in [("catamaran", 3), ("nsd", 2)] {
        if KINDS.iter().any(|known| known.label() == kind && known.program().is_none()) {
            skip::peer(kind);
            continue;
        }
        let server = format!(
            "[links]\nrtt = '20ms'\n[[server]]\nname = 'dns'\nkind = '{kind}'\nnodes = {nodes}\nkey = true\n\
             zones = {{ '.' = 'tree/zones/root.zone' }}\n"
        );
        let load = "[[load]]\nrun = \"load --server {dns.addresses} --name x --rate 300 --duration 5s --workers 1 \
                    --lag-limit 10s --timeout 2s\"\n";
        let events = [at(1.0, "cut"), at(3.0, "heal")].concat();
        let watch = StallWatch::start();
        let result = only_cell(&format!("{ROOT_ZONE}{server}{load}{events}"));
        if let Outcome::NotMeasured(reasons) = &result.outcome
            && reasons[0].contains("cannot make links")
        {
            return skip::permission("making a namespace (root, iproute2)");
        }
        assert_eq!(result.outcome, Outcome::Measured, "{kind}");
        let figure = |name: &str| result.figures[name];
        assert!(figure("p50_us") >= 20_000.0, "{kind}: {:?}", result.figures);
        let has_stalled = watch.stall("the latency and losses of a cut").is_some();
        assert!(has_stalled || figure("p50_us") < 60_000.0, "{kind}: {:?}", result.figures);
        // During the cut, one of the servers gets no query.
        let lost_share = figure("lost") / figure("sent");
        let expected = 0.4 / f64::from(nodes);
        let is_expected = (0.5 * expected..2.0 * expected).contains(&lost_share);
        assert!(lost_share > 0.0 && (has_stalled || is_expected), "{kind}: {lost_share}");
    }
}

#[test]
fn secondaries_have_the_zone_of_their_primary() {
    for kind in ["bind", "knot", "nsd"] {
        let server = format!(
            "[[server]]\nname = 'dns'\nkind = '{kind}'\nnodes = 3\nkey = true\n\
             zones = {{ '.' = 'tree/zones/root.zone' }}\n"
        );
        let load = "[[load]]\nrun = \"load --server {dns.addresses} --name x --rate 300 --duration 1s --workers 1 \
                    --lag-limit 10s --expect-rcode NXDOMAIN\"\n";
        let kill = "[[at]]\nseconds = 0.5\nserver = 'dns'\nnode = 1\naction = 'kill'\n";
        let result = only_cell(&format!("{ROOT_ZONE}{server}{load}{kill}"));
        if let Outcome::NotMeasured(reasons) = &result.outcome
            && reasons[0].contains("is not installed")
        {
            skip::peer(kind);
            continue;
        }
        assert_eq!(result.outcome, Outcome::Measured, "{kind}");
        // Two of three nodes answer to the end. On a busy machine, the load starts late.
        let answered = result.figures["answered"];
        assert!((150.0..300.0).contains(&answered) && result.commands.len() == 4, "{kind}: {answered}");
    }
}

#[test]
fn servers_answer_over_the_transport_of_their_definition() {
    for (kind, transport) in [("echo", "doq"), ("nsd", "dot"), ("bind", "doh"), ("catamaran", "doq"), ("knot", "dot")] {
        let server = format!(
            "[[server]]\nname = 'dns'\nkind = '{kind}'\ntransport = '{transport}'\nidle = '20s'\nconnections = 700\n\
             zones = {{ '.' = 'tree/zones/root.zone' }}\n"
        );
        let load = format!(
            "[[load]]\nrun = \"load --server {{dns.address}} --transport {transport} --ca {{dns.ca}} --name x \
             --rate 100 --duration 1s --workers 1 --lag-limit 10s --connections 2\"\n"
        );
        let result = only_cell(&format!("{ROOT_ZONE}{server}{load}"));
        match &result.outcome {
            Outcome::Measured if kind != "knot" => assert_eq!(result.figures["answered"], 100.0, "{kind}"),
            Outcome::NotMeasured(reasons) if reasons[0].contains("is not installed") => skip::peer(kind),
            Outcome::NotMeasured(reasons) if kind == "knot" => assert!(reasons[0].contains("over dot"), "{reasons:?}"),
            outcome => panic!("{kind}: {outcome:?}"),
        }
    }
}

#[test]
fn a_hierarchy_is_a_load() {
    if !can_make_namespaces() {
        return;
    }
    let result = only_cell(&format!("{ROOT_ZONE}[[load]]\nrun = 'hierarchy run {{folder}}/tree -- true'\n"));
    assert_eq!(result.outcome, Outcome::Measured);
    assert_eq!((result.figures["zone_count"], result.figures["upstream.queries"]), (9.0, 0.0));
}

#[test]
fn events_that_do_not_happen_fail() {
    for (seconds, action) in [(0.3, "restart"), (0.3, "resume"), (30.0, "kill")] {
        let event = format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\naction = '{action}'\n");
        let result = only_cell(&format!("{ECHO}{LOAD}{event}"));
        assert_failed(&result, &format!("the event `{action}` of the server dns"));
        assert!(!result.events[0].happened);
    }
    let pause = |seconds| format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\naction = 'pause'\n");
    let result = only_cell(&format!("{ECHO}{LOAD}{}{}", pause(0.2), pause(0.4)));
    assert_failed(&result, "the event `pause` of the server dns");
    assert_eq!(result.events.iter().map(|event| event.happened).collect::<Vec<_>>(), [true, false]);
    // The reason is the load, not that the event did not happen.
    let wrong = LOAD.replace("--rate", "--nonsense --rate");
    assert_failed(&only_cell(&format!("{ECHO}{wrong}{}", pause(0.5))), "the load failed with");
}

#[test]
fn a_stopped_run_leaves_nothing() {
    let folder = Folder::new("experiment");
    let experiment = parsed(&format!("{ECHO}{}", LOAD.replace("--duration 1s", "--duration 60s")));
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The server and the load are running.
            until("two processes", || processes(folder.path()).len() == 2);
            stop.store(true, Ordering::Relaxed);
        });
        run_in(folder.path(), &experiment, &stop, &mut |_| {})
    });
    assert!(done.is_stopped && began.elapsed() < Duration::from_secs(50));
    assert_failed(&done.results[0], "stopped");
    assert_nothing_left(folder.path());
}

/// Runs the test below in a child process with its own registry of runs, so that other tests do not interfere.
fn child(folder: &Folder, registry: &Folder, seconds: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "experiments::the_next_run_ends_leftovers_of_a_killed_run"]);
    command.env(CHILD_VARIABLES[0], folder.path()).env(CHILD_VARIABLES[1], seconds);
    command.env("CATLAB_RUN_DIR", registry.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn the_next_run_ends_leftovers_of_a_killed_run() {
    if let [Some(folder), Some(seconds)] = CHILD_VARIABLES.map(std::env::var_os) {
        let duration = format!("--duration {}s", seconds.to_str().unwrap());
        let limited = ECHO.replace("threads = 1\n", "threads = 1\ncpu = 1\n");
        let experiment = parsed(&format!("{limited}{}", LOAD.replace("--duration 1s", &duration)));
        let _done = run_in(Path::new(&folder), &experiment, &AtomicBool::new(false), &mut |_| {});
        return;
    }
    for is_folder_removed in [false, true] {
        leftovers_are_ended(is_folder_removed);
    }
}

fn leftovers_are_ended(is_folder_removed: bool) {
    let [folder, next, registry] = ["killed", "next", "registry"].map(Folder::new);
    let mut killed = child(&folder, &registry, "60");
    let mut has_ended = false;
    until("two processes", || {
        has_ended = !matches!(killed.try_wait(), Ok(None));
        has_ended || processes(folder.path()).len() == 2
    });
    if has_ended {
        return skip::permission("control groups of version 1");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(processes(folder.path()).len(), 2);
    assert!(!cgroups(killed.id()).is_empty() && folder.path().join("running.json").exists());
    if is_folder_removed {
        std::fs::remove_dir_all(folder.path()).unwrap();
    }
    assert!(child(&next, &registry, "1").wait().unwrap().success());
    assert_nothing_left(folder.path());
    assert!(cgroups(killed.id()).is_empty());
    let mut entries = std::fs::read_dir(registry.path()).unwrap().flatten();
    assert!(entries.all(|entry| entry.path().extension().is_none()), "an entry of the registry is left");
}

#[test]
fn installed_servers_start_in_their_cells_and_after_a_kill() {
    let folder = Folder::new("experiment");
    let zone = "$TTL 60\n@ SOA ns h 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\n* A 192.0.2.1\n";
    std::fs::write(folder.path().join("example.zone"), zone).unwrap();
    let events: String = [(2.0, "kill"), (4.0, "restart")]
        .iter()
        .map(|(seconds, action)| format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\naction = '{action}'\n"))
        .collect();
    let experiment = parsed(&format!(
        "[matrix]\nserver = ['catamaran', 'bind', 'knot', 'nsd', 'unbound']\n[[server]]\nname = 'dns'\n\
         kind = '{{server}}'\nthreads = 1\nzones = {{ 'example.' = 'example.zone' }}\n{}{events}",
        LOAD.replace("--duration 1s", "--duration 10s --timeout 5s")
    ));
    let done = run_in(folder.path(), &experiment, &AtomicBool::new(false), &mut |_| {});
    assert_eq!(done.results.len(), 5);
    for result in done.results {
        if let Outcome::NotMeasured(_) = result.outcome {
            skip::peer(&result.cell.parameters["server"]);
            continue;
        }
        assert_eq!(result.outcome, Outcome::Measured, "{:?}", result.cell);
        let server = &result.servers[0];
        assert!(server.version.chars().any(|letter| letter.is_ascii_digit()), "{server:?}");
        assert!(server.configuration.contains("127.0.0.1"), "{server:?}");
        assert!(server.kind != "catamaran" || server.configuration.contains("udp_workers = 1\n"), "{server:?}");
        let figure = |name: &str| result.figures[name];
        assert!(figure("answered") > 500.0 && figure("answered") < 2_000.0, "{}: {}", server.kind, figure("answered"));
        assert!(figure("dns.cpu_seconds") > 0.0 && figure("dns.cpu_us") > 0.0, "{}", server.kind);
    }
    assert_nothing_left(folder.path());
}
