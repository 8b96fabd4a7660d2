//! `ddns` in a network namespace whose addresses really change, against a cluster on the other end of a link.

mod peers;
mod probes;

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, kill, wait_for};
use crate::support::http;
use crate::support::netns::Namespace;
use crate::support::nodes::{Nodes, config};
use crate::support::tools::{dig, has, nsupdate};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "home.example.test.";

/// A cluster that the namespace can reach.
pub(crate) fn start(test: &str, nodes: u64, namespace: &Namespace) -> (Cluster, Nodes) {
    let mut cluster = Cluster::start(test, nodes, &[]);
    cluster.end("TERM");
    let mut running = Nodes::default();
    for id in cluster.ids() {
        let file = config(&cluster, id);
        let text = std::fs::read_to_string(&file).unwrap();
        let listen = format!("listen = [\"{}\", ", server(&cluster, namespace, id));
        std::fs::write(&file, text.replacen("listen = [", &listen, 1)).unwrap();
        running.start(&cluster, id);
    }
    cluster.settle();
    (cluster, running)
}

/// The address of a node from the namespace.
fn server(cluster: &Cluster, namespace: &Namespace, id: u64) -> String {
    format!("{}:{}", namespace.here, cluster.port + id as u16)
}

/// Writes a configuration of one name with the addresses of the interface `wan`, unless `more` says otherwise.
pub(crate) fn write_config(cluster: &Cluster, scratch: &Scratch, servers: &[String], more: &str) -> PathBuf {
    write_config_for(&cluster.update_key(), scratch, servers, more)
}

fn write_config_for(key: &Path, scratch: &Scratch, servers: &[String], more: &str) -> PathBuf {
    let servers: Vec<String> = servers.iter().map(|server| format!("{server:?}")).collect();
    let text = format!(
        "zone = \"example.test\"\nservers = [{}]\nkey_file = {key:?}\nmetrics_file = \"metrics\"\n\
         [[name]]\nname = \"{NAME}\"\nttl = 30\nprivate = true\ninterfaces = [\"wan\"]\nwithdraw_after_s = 0\n{more}",
        servers.join(", "),
    );
    PathBuf::from(scratch.file("ddns.toml", &text))
}

/// The sum of a metric on a page.
fn sum(page: &str, name: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with(&format!("catamaran_ddns_{name}")));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Runs `ddns` to its end.
pub(crate) fn run(namespace: &Namespace, config: &Path, arguments: &[&str]) -> Output {
    namespace.command(CATAMARAN).arg("ddns").arg("--config").arg(config).args(arguments).output().unwrap()
}

/// A `ddns` process in the background.
struct Running {
    child: Child,
    metrics: PathBuf,
}

impl Running {
    fn start(namespace: &Namespace, config: &Path) -> Self {
        let metrics = config.with_file_name("metrics");
        let _ = std::fs::remove_file(&metrics);
        let mut command = namespace.command(CATAMARAN);
        command.arg("ddns").arg("--config").arg(config).stdout(Stdio::null()).stderr(Stdio::inherit());
        Self { child: command.spawn().unwrap(), metrics }
    }

    /// The sum of a metric, once there is one.
    fn metric(&self, name: &str) -> Option<u64> {
        Some(sum(&std::fs::read_to_string(&self.metrics).ok()?, name))
    }

    fn wait_until_settled(&self) {
        wait_for("the name to be right", || self.metric("settled").filter(|settled| *settled == 1));
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        kill(signal, self.child.id());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The addresses that a node has for the name, sorted.
pub(crate) fn addresses(cluster: &Cluster, id: u64, rtype: &str) -> Vec<String> {
    let printed = dig(cluster.dns(id), &["+short", NAME, rtype]);
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Maximum time from a change of an address until every node answers with it. `ddns` polls interfaces once a minute, so
/// only a notification of the kernel can be this fast.
const AT_ONCE: Duration = Duration::from_secs(40);

/// Waits until all these nodes have exactly these addresses. Returns the time that it took.
fn wait_on(cluster: &Cluster, ids: &[u64], rtype: &str, expected: &[&str]) -> Duration {
    let start = Instant::now();
    for &id in ids {
        wait_for(&format!("{rtype} {expected:?} on node {id}"), || {
            (addresses(cluster, id, rtype) == expected).then_some(())
        });
    }
    println!("{rtype} {expected:?} on nodes {ids:?} after {} ms", start.elapsed().as_millis());
    start.elapsed()
}

fn serial(cluster: &Cluster) -> u64 {
    let printed = dig(cluster.dns(1), &["+short", "example.test.", "SOA"]);
    printed.split(' ').nth(2).unwrap().parse().unwrap()
}

fn can_test() -> bool {
    has("dig") && has("nsupdate")
}

#[test]
fn addresses_that_change_are_on_every_node_at_once_also_across_a_kill_of_the_leader() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("ddns");
    let (cluster, mut nodes) = start("ddns", 3, &namespace);
    namespace.add_interface("wan");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    // Nothing listens at the first server's address.
    let mut servers = vec![format!("{}:9", namespace.here)];
    let leader = nodes.leader(&cluster);
    servers.push(server(&cluster, &namespace, leader));
    servers.extend(cluster.ids().filter(|id| *id != leader).map(|id| server(&cluster, &namespace, id)));
    let file = write_config(&cluster, &scratch, &servers, "");
    let all: Vec<u64> = cluster.ids().collect();

    let before = serial(&cluster);
    let ddns = Running::start(&namespace, &file);
    wait_on(&cluster, &all, "A", &["198.51.100.1"]);
    namespace.ip("addr add 2001:db8:1::1/64 dev wan nodad");
    let took = wait_on(&cluster, &all, "AAAA", &["2001:db8:1::1"]);
    assert!(took < AT_ONCE, "{took:?}");
    // Several addresses, then one is removed. The address of the link to the cluster is not among them.
    namespace.ip("addr add 198.51.100.2/24 dev wan");
    let took = wait_on(&cluster, &all, "A", &["198.51.100.1", "198.51.100.2"]);
    assert!(took < AT_ONCE, "{took:?}");
    ddns.wait_until_settled();
    namespace.ip("addr del 2001:db8:1::1/64 dev wan");
    let took = wait_on(&cluster, &all, "AAAA", &[]);
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(serial(&cluster) - before, 4, "one step for each change");
    assert!(ddns.metric("server_failures_total").unwrap() >= 1);

    // The leader, which is also the last server used, dies.
    nodes.kill(leader);
    namespace.ip("addr del 198.51.100.2/24 dev wan");
    namespace.ip("addr del 198.51.100.1/24 dev wan");
    namespace.ip("addr add 198.51.100.3/24 dev wan");
    let rest: Vec<u64> = cluster.ids().filter(|id| *id != leader).collect();
    wait_on(&cluster, &rest, "A", &["198.51.100.3"]);
    nodes.start(&cluster, leader);
    wait_on(&cluster, &all, "A", &["198.51.100.3"]);
    ddns.wait_until_settled();

    // After a kill and a restart, nothing has changed, so nothing is sent.
    assert_eq!(ddns.end("KILL"), None);
    let before = serial(&cluster);
    let ddns = Running::start(&namespace, &file);
    ddns.wait_until_settled();
    assert_eq!((ddns.metric("updates_total"), serial(&cluster)), (Some(0), before));
    // A change while it was down is found at the next start.
    assert_eq!(ddns.end("TERM"), Some(0));
    // In another network: when the kernel removes the first address of a network, it removes the others too.
    namespace.ip("addr add 203.0.113.4/24 dev wan");
    namespace.ip("addr del 198.51.100.3/24 dev wan");
    let _ddns = Running::start(&namespace, &file);
    wait_on(&cluster, &all, "A", &["203.0.113.4"]);
}

#[test]
fn an_address_that_flaps_gives_few_updates() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("ddns-flaps");
    let (cluster, _nodes) = start("ddns-flaps", 1, &namespace);
    namespace.add_interface("wan");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    let file = write_config(&cluster, &scratch, &[server(&cluster, &namespace, 1)], "");
    let ddns = Running::start(&namespace, &file);
    wait_on(&cluster, &[1], "A", &["198.51.100.1"]);
    let (start, before) = (Instant::now(), serial(&cluster));
    for _ in 0..100 {
        namespace.ip("addr add 203.0.113.1/24 dev wan");
        namespace.ip("addr del 203.0.113.1/24 dev wan");
    }
    namespace.ip("addr add 203.0.113.2/24 dev wan");
    wait_on(&cluster, &[1], "A", &["198.51.100.1", "203.0.113.2"]);
    // A burst of four updates, then one in five seconds.
    let updates = serial(&cluster) - before;
    assert!((1..=5 + start.elapsed().as_secs() / 5).contains(&updates), "{updates} in {:?}", start.elapsed());
    drop(ddns);
}

#[test]
fn metrics_are_served_where_the_configuration_says() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("ddns-metrics");
    let (cluster, _nodes) = start("ddns-metrics", 1, &namespace);
    namespace.add_interface("wan");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    let file = write_config(&cluster, &scratch, &[server(&cluster, &namespace, 1)], "");
    let metrics_address = SocketAddr::from((namespace.there, 9_153));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("metrics_listen = \"{metrics_address}\"\n{text}")).unwrap();
    let ddns = Running::start(&namespace, &file);
    ddns.wait_until_settled();
    let answer = http::get(metrics_address, "/metrics").unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    assert_eq!(sum(&answer.text(), "updates_total"), 1, "{}", answer.text());
    assert_eq!(ddns.metric("updates_total"), Some(1), "the metrics file differs from the page");
    assert_eq!(http::get(metrics_address, "/updates").unwrap().status, 404);
    // The count continues.
    namespace.ip("addr add 198.51.100.2/24 dev wan");
    wait_on(&cluster, &[1], "A", &["198.51.100.1", "198.51.100.2"]);
    let page = || Some(http::get(metrics_address, "/metrics").ok()?.text());
    wait_for("the count", || (sum(&page()?, "updates_total") == 2).then_some(()));
    // A second process with the same port prints an error, and exits before it sends anything.
    let second = format!("metrics_listen = \"{metrics_address}\"\nstate_file = \"second.json\"\n{text}");
    let second = scratch.file("second.toml", &second.replace("metrics_file = \"metrics\"\n", ""));
    let ended = run(&namespace, Path::new(&second), &[]);
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && printed.contains("cannot serve metrics"), "{printed}");
}

#[test]
fn the_record_of_another_is_left_alone_and_taken_over_on_command() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("ddns-another");
    let (cluster, mut nodes) = start("ddns-another", 1, &namespace);
    namespace.add_interface("wan");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    let file = write_config(&cluster, &scratch, &[server(&cluster, &namespace, 1)], "");
    let theirs = format!("zone example.test\nupdate add {NAME} 60 A 192.0.2.99");
    nsupdate(cluster.dns(1), &cluster.update_key(), &theirs).unwrap();

    let before = serial(&cluster);
    let refused = run(&namespace, &file, &["--once"]);
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{printed}");
    assert!(printed.contains("foreign records: 192.0.2.99") && printed.contains("--take-over"), "{printed}");
    assert_eq!((addresses(&cluster, 1, "A"), serial(&cluster)), (vec!["192.0.2.99".to_owned()], before));

    // Without state and without queries, it can only print what it would try.
    let _ = std::fs::remove_file(scratch.path().join("state.json"));
    let dry = run(&namespace, &file, &["--dry-run"]);
    let printed = String::from_utf8_lossy(&dry.stdout);
    assert!(dry.status.success() && printed.contains("A from none to 198.51.100.1, TTL 30"), "{printed}");
    assert!(!scratch.path().join("state.json").exists());
    assert_eq!((addresses(&cluster, 1, "A"), serial(&cluster)), (vec!["192.0.2.99".to_owned()], before));

    assert_eq!(run(&namespace, &file, &["--once", "--take-over"]).status.code(), Some(0));
    assert_eq!((addresses(&cluster, 1, "A"), serial(&cluster)), (vec!["198.51.100.1".to_owned()], before + 1));
    // At the second run, there is nothing to do.
    assert_eq!(run(&namespace, &file, &["--once"]).status.code(), Some(0));
    assert_eq!(serial(&cluster), before + 1);

    // One process keeps the names. A second one exits with an error.
    let ddns = Running::start(&namespace, &file);
    ddns.wait_until_settled();
    let second = run(&namespace, &file, &["--once"]);
    assert_eq!(second.status.code(), Some(6), "{}", String::from_utf8_lossy(&second.stderr));
    assert_eq!(ddns.end("TERM"), Some(0));

    // Another key of the same name: the server cannot sign, so `ddns` does not trust its response.
    let key = std::fs::read_to_string(cluster.update_key()).unwrap();
    let secret = key.split('"').nth(3).unwrap();
    let wrong = scratch.secret("wrong.key", &key.replace(secret, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="));
    let text = std::fs::read_to_string(&file).unwrap();
    let other = scratch.file("wrong.toml", &text.replace(cluster.update_key().to_str().unwrap(), &wrong));
    namespace.ip("addr add 198.51.100.5/24 dev wan");
    let refused = run(&namespace, Path::new(&other), &["--once"]);
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("BADSIG"));
    nodes.kill(1);
    let unreachable = run(&namespace, &file, &["--once"]);
    assert_eq!(unreachable.status.code(), Some(4), "{}", String::from_utf8_lossy(&unreachable.stderr));
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_line() {
    let scratch = Scratch::new("ddns-config");
    let text = "zone = \"example.test\"\nserver = [\"192.0.2.1\"]\n";
    let file = scratch.file("ddns.toml", text);
    let output = Command::new(CATAMARAN).args(["ddns", "--config", &file]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("ddns.toml:2") && printed.contains("did you mean `servers`?"), "{printed}");
}
