//! Rate limit and cookies, tested from a network namespace: loopback is exempt.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::message::{name, now_s, sign};
use crate::support::netns::Namespace;
use crate::support::nodes::{Nodes, config};
use crate::support::tools::{dig, has};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Argument of `dig`, which sends each query once here: how long it waits for a response, in seconds.
pub(crate) const LATE: &str = "+time=20";

/// Counts the responses in the output of `dig` that have this text in their header or flags.
fn count(printed: &str, part: &str) -> usize {
    printed.lines().filter(|line| line.starts_with(";;") && line.contains(part)).count()
}

/// Starts a node with one worker and other limits that also listens on `here`, such as our end of a namespace's link.
pub(crate) fn start(
    test: &str,
    here: impl Into<IpAddr>,
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
    let server = SocketAddr::new(here.into(), cluster.port + 9);
    let text = text.replacen("listen = [", &format!("udp_workers = 1\nlisten = [\"{server}\", "), 1);
    let text = text.replacen("udp_workers = 0\n", "", 1);
    std::fs::write(&file, text).unwrap();
    limits.iter().for_each(|(from, to)| cluster.configure(1, &format!("\n{from}\n"), &format!("\n{to}\n")));
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 1);
    wait_for("the node to serve", || cluster.status(1).filter(|status| status["serving"] == "yes"));
    (cluster, nodes, server)
}

/// Writes a file of two hundred questions.
fn questions(cluster: &Cluster, name: &str, line: impl Fn(usize) -> String) -> PathBuf {
    let file = cluster.dir.join(name);
    std::fs::write(&file, (0..200).map(line).collect::<String>()).unwrap();
    file
}

#[test]
fn queries_for_many_names_share_the_limit_of_their_network() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("guards-all");
    let mut zone = "$ORIGIN many.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n".to_owned();
    (0..200).for_each(|number| zone += &format!("n{number} A 192.0.2.1\n"));
    let zone = format!("many.test={}", scratch.file("many", &zone));
    let limits = [("all_per_second = 1600", "all_per_second = 1"), ("all_burst = 4000", "all_burst = 20")];
    let (cluster, _nodes, server) = start("guards-all", namespace.here, &["--zone", &zone], &limits);
    let different = questions(&cluster, "different", |number| format!("n{number}.many.test. A\n"));

    // Without a cookie: twenty responses at once, then one a second, although no two responses are alike.
    let printed = namespace.dig(server, &[LATE, "+nocookie", "+ignore"], &different);
    let short = count(&printed, " tc");
    assert_eq!(count(&printed, "status: NOERROR"), 200, "{printed}");
    assert!((150..=180).contains(&short), "{short} of 200 are short");
    let limited = "catamaran_rate_limited_total{transport=\"udp\",instead=\"truncated\"}";
    assert_eq!(cluster.metric(1, limited), short as u64);
    // A client that has proved its address is not limited. Neither is loopback.
    let printed = namespace.dig(server, &[LATE, "+cookie=0123456789abcdef", "+notcp"], &different);
    assert_eq!((count(&printed, "ANSWER: 1"), count(&printed, " tc")), (200, 0), "{printed}");
    let loopback = dig(cluster.dns(1), &["+nocookie", "+ignore", "-f", different.to_str().unwrap()]);
    assert_eq!((count(&loopback, "ANSWER: 1"), count(&loopback, " tc")), (200, 0));
}

#[test]
fn limited_clients_get_truncated_responses_or_cookies() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let limits = [("per_second = 50", "per_second = 1"), ("burst = 125", "burst = 20")];
    let (cluster, _nodes, server) = start("guards", namespace.here, &[], &limits);
    let same = questions(&cluster, "same", |_| "example.test. SOA\n".into());
    let made_up = questions(&cluster, "made-up", |number| format!("x{number}.example.test. A\n"));
    let limited = |instead: &str| {
        cluster.metric(1, &format!("catamaran_rate_limited_total{{transport=\"udp\",instead=\"{instead}\"}}"))
    };

    // Without a cookie, and with TC ignored: twenty responses at once, then one a second.
    let printed = namespace.dig(server, &[LATE, "+nocookie", "+ignore"], &same);
    let short = count(&printed, " tc");
    assert_eq!(count(&printed, "status: NOERROR"), 200, "{printed}");
    assert!((150..=180).contains(&short), "{short} of 200 are short");
    assert_eq!(limited("truncated"), short as u64);
    // Negative responses for different names count as the same response.
    let printed = namespace.dig(server, &[LATE, "+nocookie", "+ignore"], &made_up);
    assert!((20..=50).contains(&count(&printed, "status: NXDOMAIN")), "{printed}");
    // A real client retries over TCP and gets every answer.
    let printed = namespace.dig(server, &[LATE, "+nocookie"], &same);
    assert_eq!(
        (count(&printed, "status: NOERROR"), count(&printed, " tc"), count(&printed, "ANSWER: 1")),
        (200, 0, 200),
        "{printed}"
    );

    // With only a client cookie: BADCOOKIE, which cannot be used for amplification.
    let printed = namespace.dig(server, &[LATE, "+cookie=0123456789abcdef", "+nobadcookie", "+ignore"], &same);
    let bad = count(&printed, "status: BADCOOKIE");
    assert!(bad >= 150, "{bad} of 200");
    assert_eq!(
        (limited("badcookie"), count(&printed, "; ANSWER: 0, AUTHORITY: 0") + count(&printed, "ANSWER: 0")),
        (bad as u64, bad)
    );
    // A client that returns its server cookie is not limited.
    let printed = namespace.dig(server, &[LATE, "+cookie=0123456789abcdef", "+notcp"], &same);
    assert_eq!((count(&printed, "ANSWER: 1"), count(&printed, " tc")), (200, 0), "{printed}");

    // Loopback is exempt.
    let loopback = dig(cluster.dns(1), &["+nocookie", "+ignore", "-f", same.to_str().unwrap()]);
    assert_eq!((count(&loopback, "ANSWER: 1"), count(&loopback, " tc")), (200, 0));
    assert_eq!(limited("dropped"), 0);
}

#[test]
fn an_ipv6_prefix_of_one_client_has_one_limit() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let Some((here, there)) = namespace.add_ipv6() else { return };
    let limits = [("per_second = 50", "per_second = 1"), ("burst = 125", "burst = 20")];
    let (cluster, _nodes, server) = start("guards-ipv6", here, &[], &limits);
    let same = questions(&cluster, "same", |_| "example.test. SOA\n".into());
    // Another /64 of the same /56, and another /56.
    let [a, b, c, d, ..] = there.segments();
    let (beside, apart) = (Ipv6Addr::new(a, b, c, d ^ 1, 0, 0, 0, 9), Ipv6Addr::new(a, b, c, d ^ 0x100, 0, 0, 0, 9));
    [beside, apart].iter().for_each(|address| namespace.add_far_address(*address));
    let whole = |from: Ipv6Addr| {
        let printed = namespace.dig(server, &[LATE, "-b", &from.to_string(), "+nocookie", "+ignore"], &same);
        assert_eq!(count(&printed, "status: NOERROR"), 200, "{from}: {printed}");
        200 - count(&printed, " tc")
    };
    let counts = [there, beside, apart].map(whole);
    assert!((20..=50).contains(&counts[0]), "{counts:?}");
    assert!(counts[1] <= 30, "addresses of one /56 do not share a limit: {counts:?}");
    assert!((20..=50).contains(&counts[2]), "{counts:?}");
    let limited = "catamaran_rate_limited_total{transport=\"udp\",instead=\"truncated\"}";
    assert_eq!(cluster.metric(1, limited), 600 - counts.iter().sum::<usize>() as u64);
}

/// Messages that are sent at once, so that no buffer overflows.
const BATCH: usize = 20;

/// Sends this many messages from one address, and returns the number of responses. `limited` is the number of messages
/// that the node has dropped so far. After each batch, waits until each message has a response or is counted there.
fn responses(
    from: Ipv4Addr,
    to: SocketAddr,
    count: usize,
    message: impl Fn(usize) -> Vec<u8>,
    limited: &dyn Fn() -> u64,
) -> usize {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let (before, mut heard, mut buffer) = (limited(), 0, [0; 1_232]);
    for number in 0..count {
        socket.send_to(&message(number), to).unwrap();
        let sent = number + 1;
        if sent.is_multiple_of(BATCH) || sent == count {
            wait_for("a response to each message, or its drop", || {
                while heard < sent && socket.recv(&mut buffer).is_ok() {
                    heard += 1;
                }
                (heard as u64 + limited() - before == sent as u64).then_some(())
            });
        }
    }
    heard
}

#[test]
fn unverified_requests_are_limited_and_signed_updates_are_not() {
    let Some(namespace) = Namespace::make() else { return };
    let limits = [("per_second = 50", "per_second = 1"), ("burst = 125", "burst = 20")];
    let (cluster, _nodes, server) = start("guards-signed", namespace.here, &[], &limits);
    let limited = || cluster.metric(1, "catamaran_rate_limited_total{transport=\"udp\",instead=\"dropped\"}");
    let unsigned = |number: usize| {
        let owner = name(&format!("n{number}.example.test."));
        MessageBuilder::update(number as u16, name("example.test.").as_ref()).add(
            owner.as_ref(),
            Rtype::A,
            60,
            &[192, 0, 2, 1],
        )
    };
    let stranger = ClientKey::new(name("stranger.").as_ref(), KeyAlgorithm::HmacSha256, b"nobody knows it").unwrap();
    let query = |number: usize| {
        let query = MessageBuilder::query(number as u16, name("example.test.").as_ref(), Rtype::SOA).build();
        sign(&stranger, query, 0)
    };
    // The address of our end of the link is not a loopback address. Both kinds of message share its burst, so the
    // second may get no response.
    let mut heard_in_all = 0;
    for message in [&(|number| unsigned(number).build()) as &dyn Fn(usize) -> Vec<u8>, &query] {
        let before = limited();
        let heard = responses(namespace.here, server, 300, message, &limited);
        assert!(heard <= 40, "{heard} responses to 300");
        heard_in_all += heard;
        assert_eq!(limited() - before, 300 - heard as u64);
        let before = limited();
        let heard = responses(Ipv4Addr::LOCALHOST, cluster.dns(1), 100, message, &limited);
        assert_eq!(heard, 100, "loopback is exempt");
        assert_eq!(limited(), before);
    }
    assert!(heard_in_all > 0, "no response to the messages of the first burst");
    // This address is far above its rate. Every signed update is still executed and acknowledged.
    let (key, before) = (cluster.client_key(), limited());
    let signed = |number| key.sign(unsigned(number).build(), now_s()).unwrap();
    assert_eq!(responses(namespace.here, server, 300, signed, &limited), 300);
    assert_eq!(cluster.metric(1, "catamaran_updates_total{end=\"done\"}"), 300);
    assert_eq!(limited(), before);
}
