//! DNS cookies across three nodes (RFC 9018): a cookie from one node is valid at each, also while the secret changes.

use crate::data_key::rotate_data_key;
use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::message::name;
use std::cell::Cell;
use std::fmt::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::{Rcode, Rtype};
use wire::parse::Message;

/// Names of the zone. Each check of a cookie queries a name without previous queries, so its rate limit is unused.
const NAMES: usize = 1_000;
/// The limit of a name is one response a second. Responses within this time are beyond the limit.
const REFILL: Duration = Duration::from_millis(900);
const COOKIE: u16 = 10;
/// Secrets in the form that an operator writes.
const SECRETS: [&str; 3] =
    ["e5e973e5a6b2a43f48e7dc849e37bfcf", "445536bcd2513298075a5d379663c962", "dd3bdf9344b678b185a6f5cb60fca715"];
const READ_AGAIN: &str = "reloaded the secrets of DNS cookies";

/// Three nodes whose rate limit also applies to loopback.
struct Nodes {
    cluster: Cluster,
    _zone: Scratch,
    queried: Cell<usize>,
}

/// The reaction of a node to a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CookieVerdict {
    /// The cookie is valid, and the response repeats it.
    Kept,
    /// The cookie is valid, and the response contains a new one.
    Renewed,
    /// The cookie is not valid: BADCOOKIE.
    Bad,
}

impl Nodes {
    /// Starts the nodes with these edits of each configuration.
    fn start(test: &str, edits: &[(&str, &str)], prepare: impl Fn(&Cluster, u64)) -> Self {
        let scratch = Scratch::new(test);
        let mut zone =
            "$ORIGIN many.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\nns A 192.0.2.2\n"
                .to_owned();
        (0..NAMES).for_each(|number| writeln!(zone, "n{number} A 192.0.2.1").unwrap());
        let zone = format!("many.test={}", scratch.file("many", &zone));
        let mut cluster = Cluster::start(test, 3, &["--zone", &zone]);
        assert_eq!(cluster.end("TERM"), Some(0));
        let limits = [
            ("\"127.0.0.0/8\"", "\"192.0.2.0/24\""),
            ("\nper_second = 50\n", "\nper_second = 1\n"),
            ("\nburst = 125\n", "\nburst = 1\n"),
            ("\nudp_workers = 0\n", "\nudp_workers = 1\n"),
        ];
        for id in cluster.ids() {
            limits.iter().chain(edits).for_each(|(from, to)| cluster.configure(id, from, to));
            prepare(&cluster, id);
        }
        cluster.resume(&[]);
        cluster.settle();
        Self { cluster, _zone: scratch, queried: Cell::new(0) }
    }

    fn restart(&mut self) {
        assert_eq!(self.cluster.end("TERM"), Some(0));
        self.cluster.resume(&[]);
        self.cluster.settle();
    }

    /// A name without previous queries.
    fn fresh(&self) -> String {
        let number = self.queried.replace(self.queried.get() + 1);
        assert!(number < NAMES, "the zone has no more names");
        format!("n{number}.many.test.")
    }

    /// Queries a node from a loopback address. Returns the RCODE, TC, the number of answers, and the cookie in the
    /// response.
    fn ask(&self, id: u64, from: Ipv4Addr, qname: &str, cookie: Option<&[u8]>) -> (Rcode, bool, u16, Vec<u8>) {
        let query = MessageBuilder::query(7, name(qname).as_ref(), Rtype::A).edns(1232, false);
        let query = cookie.into_iter().fold(query, |query, cookie| query.option(COOKIE, cookie)).build();
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(&query, self.cluster.dns(id)).unwrap();
        let mut bytes = [0; 2_048];
        let len = socket.recv(&mut bytes).unwrap();
        let message = Message::parse(&bytes[..len]).unwrap();
        let mut options = message.edns().unwrap().options();
        let given = options.find(|(code, _)| *code == COOKIE).map(|(_, data)| data.to_vec()).unwrap_or_default();
        (message.rcode(), message.header().tc, message.header().counts[1], given)
    }

    /// The cookie that a node gives to a client without one.
    fn given_by(&self, id: u64, client: u8) -> Vec<u8> {
        let (rcode, _, answers, cookie) = self.ask(id, Ipv4Addr::LOCALHOST, &self.fresh(), Some(&[client; 8]));
        assert_eq!((rcode, answers, cookie.len()), (Rcode::NOERROR, 1, 24));
        assert_eq!(cookie[..8], [client; 8]);
        cookie
    }

    /// Beyond the limit, a valid cookie gets an answer, any other gets BADCOOKIE.
    fn cookie_verdict(&self, id: u64, from: Ipv4Addr, cookie: &[u8]) -> CookieVerdict {
        loop {
            let (qname, begin) = (self.fresh(), Instant::now());
            let [first, second] = [(); 2].map(|()| self.ask(id, from, &qname, None));
            let (rcode, tc, answers, given) = self.ask(id, from, &qname, Some(cookie));
            if begin.elapsed() > REFILL {
                // On a busy machine, the limit may have allowed a response again.
                continue;
            }
            assert_eq!((first.1, first.2, second.1, second.2), (false, 1, true, 0), "one response, and no more");
            assert!(!tc && given.len() == 24);
            return match (rcode, answers, given == cookie) {
                (Rcode::NOERROR, 1, true) => CookieVerdict::Kept,
                (Rcode::NOERROR, 1, false) => CookieVerdict::Renewed,
                (Rcode::BADCOOKIE, 0, false) => CookieVerdict::Bad,
                other => panic!("{other:?}"),
            };
        }
    }

    /// The verdict of each node.
    fn all_cookie_verdicts(&self, cookie: &[u8]) -> Vec<CookieVerdict> {
        self.cluster.ids().map(|id| self.cookie_verdict(id, Ipv4Addr::LOCALHOST, cookie)).collect()
    }

    /// Writes a file of these secrets for each node, and waits until the node has read it.
    fn tell(&self, ids: impl Iterator<Item = u64>, secrets: &[usize]) {
        let read_again = |id: u64| {
            let log = std::fs::read_to_string(self.cluster.dir.join(format!("node-{id}/node.log"))).unwrap();
            log.lines().filter(|line| line.contains(READ_AGAIN)).count()
        };
        let before: Vec<(u64, usize)> = ids.map(|id| (id, read_again(id))).collect();
        before.iter().for_each(|(id, _)| write_secrets(&self.cluster, *id, secrets));
        let is_read = || before.iter().all(|(id, count)| read_again(*id) > *count).then_some(());
        wait_for("the file to be read again", is_read);
    }
}

fn write_secrets(cluster: &Cluster, id: u64, secrets: &[usize]) {
    let text: String = secrets.iter().map(|which| format!("{}\n", SECRETS[*which])).collect();
    std::fs::write(cluster.dir.join(format!("node-{id}/cookies")), text).unwrap();
}

#[test]
fn a_cookie_of_one_node_is_valid_on_all_nodes() {
    let mut nodes = Nodes::start("cookies", &[], |_, _| {});
    let cookies: Vec<Vec<u8>> = nodes.cluster.ids().map(|id| nodes.given_by(id, id as u8)).collect();
    for cookie in &cookies {
        assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Kept; 3]);
        // A cookie depends on the client's part, the time, the hash, and the address.
        for at in [0, 15, 23] {
            let mut other = cookie.clone();
            other[at] ^= 1;
            assert_eq!(nodes.all_cookie_verdicts(&other), [CookieVerdict::Bad; 3], "byte {at}");
        }
        assert_eq!(nodes.cookie_verdict(1, Ipv4Addr::new(127, 0, 0, 2), cookie), CookieVerdict::Bad);
    }
    // A restart of the nodes invalidates no cookie.
    nodes.restart();
    for cookie in &cookies {
        assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Kept; 3]);
    }
    // A new data key invalidates all cookies once the old key is retired everywhere. A party that knows the old key can
    // then make no valid cookie.
    rotate_data_key(&nodes.cluster, 2);
    for cookie in &cookies {
        assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Bad; 3]);
    }
    let cookies: Vec<Vec<u8>> = nodes.cluster.ids().map(|id| nodes.given_by(id, id as u8)).collect();
    nodes.restart();
    for (id, cookie) in nodes.cluster.ids().zip(&cookies) {
        assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Kept; 3]);
        assert_eq!(nodes.all_cookie_verdicts(&nodes.given_by(id, 9)), [CookieVerdict::Kept; 3]);
    }
}

#[test]
fn a_new_secret_is_accepted_everywhere_before_it_is_used() {
    let with_file = [("\nudp_workers = 1\n", "\nudp_workers = 1\ncookie_secrets_file = \"cookies\"\n")];
    let nodes = Nodes::start("cookie-secrets", &with_file, |cluster, id| write_secrets(cluster, id, &[0]));
    let ids = || nodes.cluster.ids();
    let old: Vec<Vec<u8>> = ids().map(|id| nodes.given_by(id, id as u8)).collect();
    old.iter().for_each(|cookie| assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Kept; 3]));

    // If an operator skips the first step, other nodes refuse the cookies.
    nodes.tell(1..=1, &[2, 0]);
    assert_eq!(
        nodes.all_cookie_verdicts(&nodes.given_by(1, 7)),
        [CookieVerdict::Kept, CookieVerdict::Bad, CookieVerdict::Bad]
    );
    nodes.tell(1..=1, &[0]);

    // RFC 9018 5: all nodes accept the new secret, and none uses it yet.
    nodes.tell(ids(), &[0, 1]);
    for id in ids() {
        assert_eq!(nodes.all_cookie_verdicts(&nodes.given_by(id, 4)), [CookieVerdict::Kept; 3]);
        assert_eq!(nodes.all_cookie_verdicts(&old[id as usize - 1]), [CookieVerdict::Kept; 3]);
    }
    // The nodes switch to the new secret one by one. The other nodes accept it, and all accept the old one.
    for changed in ids() {
        nodes.tell(changed..=changed, &[1, 0]);
        // A node keeps cookies made with its current secret, and renews the others.
        let good = |is_new: bool| -> Vec<CookieVerdict> {
            ids()
                .map(|id| if (id <= changed) == is_new { CookieVerdict::Kept } else { CookieVerdict::Renewed })
                .collect()
        };
        for (id, old) in ids().zip(&old) {
            let given = nodes.given_by(id, 5);
            assert_eq!(
                nodes.all_cookie_verdicts(&given),
                good(id <= changed),
                "given by {id} when {changed} had changed"
            );
            assert_eq!(nodes.all_cookie_verdicts(old), good(false), "of {id}, when {changed} had changed");
        }
    }
    // Once no client has an old cookie, the old secret is removed.
    let new: Vec<Vec<u8>> = ids().map(|id| nodes.given_by(id, 6)).collect();
    nodes.tell(ids(), &[1]);
    new.iter().for_each(|cookie| assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Kept; 3]));
    old.iter().for_each(|cookie| assert_eq!(nodes.all_cookie_verdicts(cookie), [CookieVerdict::Bad; 3]));
}
