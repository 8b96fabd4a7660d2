//! The public address, as reported by probes of each kind. The test's servers on our end of the link see the address of
//! the other end.

use super::{AT_ONCE, Running, addresses, can_test, run, server, start, wait_on, write_config};
use crate::support::cluster::Scratch;
use crate::support::netns::Namespace;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{FirstQuestion, Header, Section};

/// Answers each datagram with the result of `respond` for its bytes and its source address.
fn udp(on: IpAddr, respond: impl Fn(&[u8], IpAddr) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((on, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    // The thread ends with the process.
    std::thread::spawn(move || {
        let mut bytes = [0; 1_500];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            if let Some(response) = respond(&bytes[..len], from.ip()) {
                let _ = socket.send_to(&response, from);
            }
        }
    });
    address
}

/// RFC 8489: the request, with the client's address XORed with the cookie and the bytes that follow it.
fn stun(request: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let mut response = request.get(..20)?.to_vec();
    let (family, bytes) = match from {
        IpAddr::V4(from) => (1, from.octets().to_vec()),
        IpAddr::V6(from) => (2, from.octets().to_vec()),
    };
    let len = 4 + bytes.len() as u8;
    response[..4].copy_from_slice(&[1, 1, 0, 4 + len]);
    response.extend([0, 0x20, 0, len, 0, family, 0, 0]);
    response.extend(bytes.iter().zip(&request[4..20]).map(|(byte, mask)| byte ^ mask));
    Some(response)
}

fn dns(query: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let question = FirstQuestion::read(query).ok()?;
    let header = Header { qr: true, ..Header::parse(query)? };
    let text = from.to_string();
    let rdata = match (question.qtype, from) {
        (Rtype::A, IpAddr::V4(from)) => from.octets().to_vec(),
        (Rtype::AAAA, IpAddr::V6(from)) => from.octets().to_vec(),
        (Rtype::TXT, _) => [&[text.len() as u8], text.as_bytes()].concat(),
        _ => return None,
    };
    let message = MessageBuilder::new(header).question(question.qname, question.qtype, question.qclass);
    Some(message.record(Section::Answer, question.qname, question.qtype, question.qclass, 0, &rdata).build())
}

fn http(on: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((on, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                request.push(byte[0]);
            }
            let page = format!("{{\"ip\": \"{}\"}}", from.ip());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    address
}

/// An address family, and the namespace's address as seen from outside.
struct Seen {
    rtype: &'static str,
    /// The configuration of this family, and of the other, for a name.
    sources: &'static str,
    /// Our end of the link, where the probes are.
    here: IpAddr,
    /// The other end.
    there: IpAddr,
    /// The address that a lying probe reports.
    stranger: IpAddr,
}

#[test]
fn all_kinds_of_probes_find_the_public_address() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let seen = Seen {
        rtype: "A",
        sources: "ipv4 = \"public\"\nipv6 = \"off\"",
        here: namespace.here.into(),
        there: namespace.there.into(),
        stranger: Ipv4Addr::new(198, 51, 100, 66).into(),
    };
    each_kind_of_probe_and_one_that_lies("ddns-outside", &namespace, &seen);
}

#[test]
fn all_kinds_of_probes_find_the_public_ipv6_address() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let Some((here, there)) = namespace.add_ipv6() else { return };
    let seen = Seen {
        rtype: "AAAA",
        sources: "ipv4 = \"off\"\nipv6 = \"public\"",
        here: here.into(),
        there: there.into(),
        stranger: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x66).into(),
    };
    each_kind_of_probe_and_one_that_lies("ddns-outside-6", &namespace, &seen);
}

#[test]
fn a_change_of_the_public_address_is_published() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("ddns-outside-runs");
    let (cluster, _nodes) = start("ddns-outside-runs", 1, &namespace);
    namespace.add_interface("wan");
    // As behind a router: the machine's addresses do not change when the router gets another address.
    let seen = Arc::new(Mutex::new(Ipv4Addr::new(198, 51, 100, 1)));
    let query_count = Arc::<AtomicU64>::default();
    let (says, counts) = (seen.clone(), query_count.clone());
    let probe = udp(namespace.here.into(), move |query, _| {
        counts.fetch_add(1, Ordering::Relaxed);
        dns(query, (*says.lock().unwrap()).into())
    });
    let more = format!(
        "ipv4 = \"public\"\nipv6 = \"off\"\n[public_address]\nprivate = true\nperiod_s = 60\n[[public_address.probe]]\n\
         dns = \"{probe}\"\nname = \"whoami.test\"\n"
    );
    let file = write_config(&cluster, &scratch, &[server(&cluster, &namespace, 1)], &more);
    let ddns = Running::start(&namespace, &file);
    wait_on(&cluster, &[1], "A", &["198.51.100.1"]);
    ddns.wait_until_settled();
    let before = query_count.load(Ordering::Relaxed);
    *seen.lock().unwrap() = Ipv4Addr::new(198, 51, 100, 2);
    let took = wait_on(&cluster, &[1], "A", &["198.51.100.2"]);
    assert!(took < Duration::from_secs(100), "{took:?}: the probe is queried every 60 s");
    assert!(query_count.load(Ordering::Relaxed) > before);
    // When an address of the machine changes, the network may be another one. The probe is queried at once.
    *seen.lock().unwrap() = Ipv4Addr::new(198, 51, 100, 3);
    namespace.ip("addr add 203.0.113.7/24 dev wan");
    let took = wait_on(&cluster, &[1], "A", &["198.51.100.3"]);
    assert!(took < AT_ONCE, "{took:?}");
}

fn each_kind_of_probe_and_one_that_lies(test: &str, namespace: &Namespace, seen: &Seen) {
    let &Seen { rtype, sources, here, there, stranger } = seen;
    let scratch = Scratch::new(test);
    let (cluster, _nodes) = start(test, 1, namespace);
    let servers = [server(&cluster, namespace, 1)];
    let probe = |text: String| format!("[[public_address.probe]]\n{text}\n");
    let dns = udp(here, dns);
    let kinds = [
        probe(format!("stun = \"{}\"", udp(here, stun))),
        probe(format!("http = \"http://{}/ip\"", http(here))),
        probe(format!("dns = \"{dns}\"\nname = \"whoami.test\"")),
        probe(format!("dns = \"{dns}\"\nname = \"whoami.test\"\ntype = \"TXT\"\nclass = \"CH\"")),
    ];
    // A probe with a wrong answer, and one without an answer.
    let liar = probe(format!(
        "dns = \"{}\"\nname = \"x.test\"",
        udp(here, move |query, _| { super::probes::dns(query, stranger) })
    ));
    let silent = probe(format!("stun = \"{}\"", udp(here, |_, _| None)));
    let outside = |options: &str, probes: &[&str]| {
        let head = format!("{sources}\n[public_address]\nprivate = true\n{options}");
        write_config(&cluster, &scratch, &servers, &(head + &probes.concat()))
    };
    let there = there.to_string();
    for kind in &kinds {
        let _ = std::fs::remove_file(scratch.path().join("state.json"));
        let printed = run(namespace, &outside("", &[kind]), &["--once", "--take-over"]);
        assert_eq!(printed.status.code(), Some(0), "{kind}: {}", String::from_utf8_lossy(&printed.stderr));
        assert_eq!(addresses(&cluster, 1, rtype), [there.as_str()], "{kind}");
        // The next kind starts from another address.
        let printed = run(namespace, &outside("", &[&liar]), &["--once"]);
        assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
        assert_eq!(addresses(&cluster, 1, rtype), [stranger.to_string()]);
    }
    // Two probes must agree. The liar is outvoted. With only the liar and the silent probe, there is no result.
    let printed = run(namespace, &outside("agree = 2\n", &[&liar, &silent, &kinds[0], &kinds[1]]), &["--once"]);
    assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(addresses(&cluster, 1, rtype), [there.as_str()]);
    let printed = run(namespace, &outside("agree = 2\n", &[&liar, &silent]), &["--once"]);
    assert_eq!(printed.status.code(), Some(4), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(addresses(&cluster, 1, rtype), [there.as_str()]);
    // This is not a public address. Without `private` it is refused.
    let text = std::fs::read_to_string(outside("", &[&kinds[0]])).unwrap();
    let file = scratch.file("public.toml", &text.replace("private = true\n[[", "[["));
    let printed = run(namespace, file.as_ref(), &["--once"]);
    assert_eq!(printed.status.code(), Some(4), "{}", String::from_utf8_lossy(&printed.stderr));
}
