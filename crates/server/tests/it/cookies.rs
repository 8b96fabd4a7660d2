//! DNS cookies across three nodes (RFC 9018): what one node gave is good at each, also while the secret is changed.

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

/// Names of the zone: whether a cookie is good is asked about one that nobody has asked for, whose limit is whole.
const NAMES: usize = 1_000;
/// The limit of a name is one response a second: what is told in less than that was beyond it.
const REFILL: Duration = Duration::from_millis(900);
const COOKIE: u16 = 10;
/// Secrets, as an operator writes them down.
const SECRETS: [&str; 3] =
    ["e5e973e5a6b2a43f48e7dc849e37bfcf", "445536bcd2513298075a5d379663c962", "dd3bdf9344b678b185a6f5cb60fca715"];
const READ_AGAIN: &str = "reloaded the secrets of DNS cookies";

/// Three nodes, whose limit holds for loopback too.
struct Nodes {
    cluster: Cluster,
    _zone: Scratch,
    asked: Cell<usize>,
}

/// What a node says to a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// It is good, and goes back as it came.
    Kept,
    /// It is good, and there is another for it.
    Renewed,
    /// It shows nothing: BADCOOKIE.
    Bad,
}

impl Nodes {
    /// With these edits of each configuration.
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
        Self { cluster, _zone: scratch, asked: Cell::new(0) }
    }

    fn restart(&mut self) {
        assert_eq!(self.cluster.end("TERM"), Some(0));
        self.cluster.resume(&[]);
        self.cluster.settle();
    }

    /// A name that nobody has asked for.
    fn fresh(&self) -> String {
        let number = self.asked.replace(self.asked.get() + 1);
        assert!(number < NAMES, "the zone has no more names");
        format!("n{number}.many.test.")
    }

    /// Asks a node from an address of loopback: RCODE, TC, how many answers, and the cookie in the response.
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

    /// The cookie that a node gives to a client that has none.
    fn given_by(&self, id: u64, client: u8) -> Vec<u8> {
        let (rcode, _, answers, cookie) = self.ask(id, Ipv4Addr::LOCALHOST, &self.fresh(), Some(&[client; 8]));
        assert_eq!((rcode, answers, cookie.len()), (Rcode::NOERROR, 1, 24));
        assert_eq!(cookie[..8], [client; 8]);
        cookie
    }

    /// Beyond the limit a good cookie gets an answer, any other BADCOOKIE.
    fn said_to(&self, id: u64, from: Ipv4Addr, cookie: &[u8]) -> Said {
        loop {
            let (qname, begin) = (self.fresh(), Instant::now());
            let [first, second] = [(); 2].map(|()| self.ask(id, from, &qname, None));
            let (rcode, tc, answers, given) = self.ask(id, from, &qname, Some(cookie));
            if begin.elapsed() > REFILL {
                // On a busy machine: the limit may have had room again.
                continue;
            }
            assert_eq!((first.1, first.2, second.1, second.2), (false, 1, true, 0), "one response, and no more");
            assert!(!tc && given.len() == 24);
            return match (rcode, answers, given == cookie) {
                (Rcode::NOERROR, 1, true) => Said::Kept,
                (Rcode::NOERROR, 1, false) => Said::Renewed,
                (Rcode::BADCOOKIE, 0, false) => Said::Bad,
                other => panic!("{other:?}"),
            };
        }
    }

    /// What each node says.
    fn all_said_to(&self, cookie: &[u8]) -> Vec<Said> {
        self.cluster.ids().map(|id| self.said_to(id, Ipv4Addr::LOCALHOST, cookie)).collect()
    }

    /// Gives a node a file of these secrets, and waits until it has read it.
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
        assert_eq!(nodes.all_said_to(cookie), [Said::Kept; 3]);
        // It is bound to the client's part, the time, the hash, and the address.
        for at in [0, 15, 23] {
            let mut other = cookie.clone();
            other[at] ^= 1;
            assert_eq!(nodes.all_said_to(&other), [Said::Bad; 3], "byte {at}");
        }
        assert_eq!(nodes.said_to(1, Ipv4Addr::new(127, 0, 0, 2), cookie), Said::Bad);
    }
    // A start of the nodes makes no client's cookie bad.
    nodes.restart();
    for cookie in &cookies {
        assert_eq!(nodes.all_said_to(cookie), [Said::Kept; 3]);
    }
    // A new data key does, once the old one is retired everywhere: who knows the old one can make none that is good.
    rotate_data_key(&nodes.cluster, 2);
    for cookie in &cookies {
        assert_eq!(nodes.all_said_to(cookie), [Said::Bad; 3]);
    }
    let cookies: Vec<Vec<u8>> = nodes.cluster.ids().map(|id| nodes.given_by(id, id as u8)).collect();
    nodes.restart();
    for (id, cookie) in nodes.cluster.ids().zip(&cookies) {
        assert_eq!(nodes.all_said_to(cookie), [Said::Kept; 3]);
        assert_eq!(nodes.all_said_to(&nodes.given_by(id, 9)), [Said::Kept; 3]);
    }
}

#[test]
fn a_new_secret_is_accepted_everywhere_before_it_is_used() {
    let with_file = [("\nudp_workers = 1\n", "\nudp_workers = 1\ncookie_secrets_file = \"cookies\"\n")];
    let nodes = Nodes::start("cookie-secrets", &with_file, |cluster, id| write_secrets(cluster, id, &[0]));
    let ids = || nodes.cluster.ids();
    let old: Vec<Vec<u8>> = ids().map(|id| nodes.given_by(id, id as u8)).collect();
    old.iter().for_each(|cookie| assert_eq!(nodes.all_said_to(cookie), [Said::Kept; 3]));

    // Who skips the first step makes cookies that are bad elsewhere.
    nodes.tell(1..=1, &[2, 0]);
    assert_eq!(nodes.all_said_to(&nodes.given_by(1, 7)), [Said::Kept, Said::Bad, Said::Bad]);
    nodes.tell(1..=1, &[0]);

    // RFC 9018 5: all accept the new one, which nobody uses.
    nodes.tell(ids(), &[0, 1]);
    for id in ids() {
        assert_eq!(nodes.all_said_to(&nodes.given_by(id, 4)), [Said::Kept; 3]);
        assert_eq!(nodes.all_said_to(&old[id as usize - 1]), [Said::Kept; 3]);
    }
    // One after the other uses it; the others, which do not yet, accept it, and all accept the old one.
    for changed in ids() {
        nodes.tell(changed..=changed, &[1, 0]);
        // A node keeps the cookies of the secret that it makes them with, and renews the others.
        let good = |is_new: bool| -> Vec<Said> {
            ids().map(|id| if (id <= changed) == is_new { Said::Kept } else { Said::Renewed }).collect()
        };
        for (id, old) in ids().zip(&old) {
            let given = nodes.given_by(id, 5);
            assert_eq!(nodes.all_said_to(&given), good(id <= changed), "given by {id} when {changed} had changed");
            assert_eq!(nodes.all_said_to(old), good(false), "of {id}, when {changed} had changed");
        }
    }
    // Once nobody has an old one any more it is taken out.
    let new: Vec<Vec<u8>> = ids().map(|id| nodes.given_by(id, 6)).collect();
    nodes.tell(ids(), &[1]);
    new.iter().for_each(|cookie| assert_eq!(nodes.all_said_to(cookie), [Said::Kept; 3]));
    old.iter().for_each(|cookie| assert_eq!(nodes.all_said_to(cookie), [Said::Bad; 3]));
}
