//! Rate limit and cookies, from a network of its own: loopback is exempt.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::nodes::{Nodes, config};
use crate::support::tools::has;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

/// A namespace with a link to this one; both go with it.
struct Namespace {
    name: String,
    here: Ipv4Addr,
}

impl Namespace {
    /// `None`, said plainly, where nobody may make one.
    fn make() -> Option<Self> {
        let id = std::process::id();
        let (name, near, far) = (format!("catamaran-{id}"), format!("cata{id}"), format!("catb{id}"));
        // A /30 of the benchmarking network (RFC 2544), another for each process.
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (id % 0x4000) * 4;
        let (here, there) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        let namespace = Self { name: name.clone(), here };
        let made = ip(&["netns", "add", &name])
            && ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name])
            && ip(&["addr", "add", &format!("{here}/30"), "dev", &near])
            && ip(&["link", "set", &near, "up"])
            && ip(&["-n", &name, "addr", "add", &format!("{there}/30"), "dev", &far])
            && ip(&["-n", &name, "link", "set", &far, "up"]);
        if !made {
            println!("skipped: a network namespace cannot be made here; it takes root and iproute2");
            return None;
        }
        Some(namespace)
    }

    /// Asks in the namespace, once for each line; gives what `dig` said.
    fn dig(&self, server: SocketAddr, arguments: &[&str], questions: &Path) -> String {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.name, "dig", &format!("@{}", server.ip()), "-p", &server.port().to_string()])
            .args(["+tries=1", "+time=2"])
            .args(arguments)
            .arg("-f")
            .arg(questions)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its end of the link goes with it, and so does the other.
        let _gone = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// How many of the responses that `dig` printed have this in a line of their header or flags.
fn count(said: &str, part: &str) -> usize {
    said.lines().filter(|line| line.starts_with(";;") && line.contains(part)).count()
}

#[test]
fn who_asks_the_same_too_often_gets_what_a_real_client_can_act_on() {
    if !has("dig") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let mut cluster = Cluster::start("guards", 1, &[]);
    cluster.end("TERM");
    let file = config(&cluster, 1);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("[dns.rate_limit]") && text.contains("\"127.0.0.0/8\""),
        "the default is there to see: {text}"
    );
    let server = SocketAddr::from((namespace.here, cluster.port + 9));
    let text = text.replacen("listen = [", &format!("udp_workers = 1\nlisten = [\"{server}\", "), 1);
    let text = text.replacen("udp_workers = 0\n", "", 1).replacen("per_second = 50", "per_second = 1", 1);
    std::fs::write(&file, text.replacen("burst = 125", "burst = 20", 1)).unwrap();
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 1);
    wait_for("the node to serve", || cluster.status(1).filter(|status| status["serving"] == "yes"));

    let questions = |name: &str, line: &dyn Fn(usize) -> String| {
        let file = cluster.dir.join(name);
        std::fs::write(&file, (0..200).map(line).collect::<String>()).unwrap();
        file
    };
    let same = questions("same", &|_| "example.test. SOA\n".into());
    let made_up = questions("made-up", &|number| format!("x{number}.example.test. A\n"));
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
    let loopback = super::support::tools::dig(cluster.dns(1), &["+nocookie", "+ignore", "-f", same.to_str().unwrap()]);
    assert_eq!((count(&loopback, "ANSWER: 1"), count(&loopback, " tc")), (200, 0));
    assert_eq!(limited("dropped"), 0);
}
