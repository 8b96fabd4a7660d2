//! Rate limit and cookies, from a network of its own: loopback is exempt.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::netns::Namespace;
use crate::support::nodes::{Nodes, config};
use crate::support::tools::{dig, has};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How many of the responses that `dig` printed have this in a line of their header or flags.
fn count(said: &str, part: &str) -> usize {
    said.lines().filter(|line| line.starts_with(";;") && line.contains(part)).count()
}

/// A node that listens to the namespace too, with one worker and other limits.
fn start(
    test: &str,
    namespace: &Namespace,
    arguments: &[&str],
    limits: &[(&str, &str)],
) -> (Cluster, Nodes, SocketAddr) {
    let mut cluster = Cluster::start(test, 1, arguments);
    cluster.end("TERM");
    let file = config(&cluster, 1);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("[dns.rate_limit]") && text.contains("\"127.0.0.0/8\""),
        "the default is there to see: {text}"
    );
    let server = SocketAddr::from((namespace.here, cluster.port + 9));
    let text = text.replacen("listen = [", &format!("udp_workers = 1\nlisten = [\"{server}\", "), 1);
    let text = text.replacen("udp_workers = 0\n", "", 1);
    std::fs::write(&file, text).unwrap();
    limits.iter().for_each(|(from, to)| cluster.configure(1, &format!("\n{from}\n"), &format!("\n{to}\n")));
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 1);
    wait_for("the node to serve", || cluster.status(1).filter(|status| status["serving"] == "yes"));
    (cluster, nodes, server)
}

/// A file of two hundred questions.
fn questions(cluster: &Cluster, name: &str, line: impl Fn(usize) -> String) -> PathBuf {
    let file = cluster.dir.join(name);
    std::fs::write(&file, (0..200).map(line).collect::<String>()).unwrap();
    file
}

#[test]
fn who_goes_round_many_names_gets_no_more_than_its_network_may() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("guards-all");
    let mut zone = "$ORIGIN many.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n".to_owned();
    (0..200).for_each(|number| zone += &format!("n{number} A 192.0.2.1\n"));
    let zone = format!("many.test={}", scratch.file("many", &zone));
    let limits = [("all_per_second = 1600", "all_per_second = 1"), ("all_burst = 4000", "all_burst = 20")];
    let (cluster, _nodes, server) = start("guards-all", &namespace, &["--zone", &zone], &limits);
    let different = questions(&cluster, "different", |number| format!("n{number}.many.test. A\n"));

    // Without a cookie: twenty at once, then one a second, though no two responses are alike.
    let said = namespace.dig(server, &["+nocookie", "+ignore"], &different);
    let short = count(&said, " tc");
    assert_eq!(count(&said, "status: NOERROR"), 200, "{said}");
    assert!((150..=180).contains(&short), "{short} of 200 are short");
    let limited = "catamaran_rate_limited_total{transport=\"udp\",instead=\"truncated\"}";
    assert_eq!(cluster.metric(1, limited), short as u64);
    // A client that shows that its address is its own is not limited; neither is loopback.
    let said = namespace.dig(server, &["+cookie=0123456789abcdef", "+notcp"], &different);
    assert_eq!((count(&said, "ANSWER: 1"), count(&said, " tc")), (200, 0), "{said}");
    let loopback = dig(cluster.dns(1), &["+nocookie", "+ignore", "-f", different.to_str().unwrap()]);
    assert_eq!((count(&loopback, "ANSWER: 1"), count(&loopback, " tc")), (200, 0));
}

#[test]
fn who_asks_the_same_too_often_gets_what_a_real_client_can_act_on() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let limits = [("per_second = 50", "per_second = 1"), ("burst = 125", "burst = 20")];
    let (cluster, _nodes, server) = start("guards", &namespace, &[], &limits);
    let same = questions(&cluster, "same", |_| "example.test. SOA\n".into());
    let made_up = questions(&cluster, "made-up", |number| format!("x{number}.example.test. A\n"));
    let limited = |instead: &str| {
        cluster.metric(1, &format!("catamaran_rate_limited_total{{transport=\"udp\",instead=\"{instead}\"}}"))
    };

    // Without a cookie, and without a look at TC: twenty at once, then one a second.
    let said = namespace.dig(server, &["+nocookie", "+ignore"], &same);
    let short = count(&said, " tc");
    assert_eq!(count(&said, "status: NOERROR"), 200, "{said}");
    assert!((150..=180).contains(&short), "{short} of 200 are short");
    assert_eq!(limited("truncated"), short as u64);
    // Names that do not exist are all alike.
    let said = namespace.dig(server, &["+nocookie", "+ignore"], &made_up);
    assert!((20..=50).contains(&count(&said, "status: NXDOMAIN")), "{said}");
    // A real client comes over TCP, and misses nothing.
    let said = namespace.dig(server, &["+nocookie"], &same);
    assert_eq!(
        (count(&said, "status: NOERROR"), count(&said, " tc"), count(&said, "ANSWER: 1")),
        (200, 0, 200),
        "{said}"
    );

    // With a cookie of its own only: BADCOOKIE, and nothing to amplify.
    let said = namespace.dig(server, &["+cookie=0123456789abcdef", "+nobadcookie", "+ignore"], &same);
    let bad = count(&said, "status: BADCOOKIE");
    assert!(bad >= 150, "{bad} of 200");
    assert_eq!(
        (limited("badcookie"), count(&said, "; ANSWER: 0, AUTHORITY: 0") + count(&said, "ANSWER: 0")),
        (bad as u64, bad)
    );
    // A client that sends back what it was given is not limited.
    let said = namespace.dig(server, &["+cookie=0123456789abcdef", "+notcp"], &same);
    assert_eq!((count(&said, "ANSWER: 1"), count(&said, " tc")), (200, 0), "{said}");

    // Loopback is exempt.
    let loopback = dig(cluster.dns(1), &["+nocookie", "+ignore", "-f", same.to_str().unwrap()]);
    assert_eq!((count(&loopback, "ANSWER: 1"), count(&loopback, " tc")), (200, 0));
    assert_eq!(limited("dropped"), 0);
}
