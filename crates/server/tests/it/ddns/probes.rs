//! The outside address, as probes of each kind say it: servers of the test on our end of the link, which see the
//! address of the other end.

use super::{addresses, can_test, run, server, start, write_config};
use crate::support::cluster::Scratch;
use crate::support::netns::Namespace;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{FirstQuestion, Header, Section};

/// Answers each datagram with what `respond` makes of it and of where it came from.
fn udp(on: Ipv4Addr, respond: impl Fn(&[u8], IpAddr) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((on, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    // It ends with the process.
    std::thread::spawn(move || {
        let mut octets = [0; 1_500];
        while let Ok((len, from)) = socket.recv_from(&mut octets) {
            if let Some(response) = respond(&octets[..len], from.ip()) {
                let _ = socket.send_to(&response, from);
            }
        }
    });
    address
}

/// RFC 8489: what was asked, with the address of the asker XORed with the cookie.
fn stun(request: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let IpAddr::V4(from) = from else { return None };
    let mut response = request.get(..20)?.to_vec();
    response[..4].copy_from_slice(&[1, 1, 0, 12]);
    response.extend([0, 0x20, 0, 8, 0, 1, 0, 0]);
    response.extend(from.octets().iter().zip([0x21, 0x12, 0xa4, 0x42]).map(|(octet, mask)| octet ^ mask));
    Some(response)
}

fn dns(query: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let asked = FirstQuestion::read(query).ok()?;
    let header = Header { qr: true, ..Header::parse(query)? };
    let text = from.to_string();
    let rdata = match (asked.qtype, from) {
        (Rtype::A, IpAddr::V4(from)) => from.octets().to_vec(),
        (Rtype::TXT, _) => [&[text.len() as u8], text.as_bytes()].concat(),
        _ => return None,
    };
    let message = MessageBuilder::new(header).question(asked.qname, asked.qtype, asked.qclass);
    Some(message.record(Section::Answer, asked.qname, asked.qtype, asked.qclass, 0, &rdata).build())
}

fn http(on: Ipv4Addr) -> SocketAddr {
    let listener = TcpListener::bind((on, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            let mut request = Vec::new();
            let mut octet = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut octet).is_ok() {
                request.push(octet[0]);
            }
            let page = format!("{{\"ip\": \"{}\"}}", from.ip());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    address
}

#[test]
fn the_outside_address_is_what_probes_of_each_kind_say() {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make(5) else { return };
    let scratch = Scratch::new("ddns-outside");
    let (cluster, _nodes) = start("ddns-outside", 1, &namespace);
    let servers = [server(&cluster, &namespace, 1)];
    let probe = |text: String| format!("[[outside.probe]]\n{text}\n");
    let dns = udp(namespace.here, dns);
    let kinds = [
        probe(format!("stun = \"{}\"", udp(namespace.here, stun))),
        probe(format!("http = \"http://{}/ip\"", http(namespace.here))),
        probe(format!("dns = \"{dns}\"\nname = \"whoami.test\"")),
        probe(format!("dns = \"{dns}\"\nname = \"whoami.test\"\ntype = \"TXT\"\nclass = \"CH\"")),
    ];
    // One that says something else, and one that says nothing.
    let liar = probe(format!(
        "dns = \"{}\"\nname = \"x.test\"",
        udp(namespace.here, |query, _| { super::probes::dns(query, Ipv4Addr::new(198, 51, 100, 66).into()) })
    ));
    let silent = probe(format!("stun = \"{}\"", udp(namespace.here, |_, _| None)));
    let outside = |options: &str, probes: &[&str]| {
        let head = format!("ipv4 = \"outside\"\nipv6 = \"off\"\n[outside]\nprivate = true\n{options}");
        write_config(&cluster, &scratch, &servers, &(head + &probes.concat()))
    };
    let there = namespace.there.to_string();
    for kind in &kinds {
        let _ = std::fs::remove_file(scratch.path().join("state.json"));
        let said = run(&namespace, &outside("", &[kind]), &["--once", "--take-over"]);
        assert_eq!(said.status.code(), Some(0), "{kind}: {}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(addresses(&cluster, 1, "A"), [there.as_str()], "{kind}");
        // The next kind begins with another address.
        let said = run(&namespace, &outside("", &[&liar]), &["--once"]);
        assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(addresses(&cluster, 1, "A"), ["198.51.100.66"]);
    }
    // Two must agree: the liar is outvoted, and alone with the silent one finds nobody.
    let said = run(&namespace, &outside("agree = 2\n", &[&liar, &silent, &kinds[0], &kinds[1]]), &["--once"]);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(addresses(&cluster, 1, "A"), [there.as_str()]);
    let said = run(&namespace, &outside("agree = 2\n", &[&liar, &silent]), &["--once"]);
    assert_eq!(said.status.code(), Some(4), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(addresses(&cluster, 1, "A"), [there.as_str()]);
    // Such an address is none that the Internet knows: without `private` it is not taken.
    let text = std::fs::read_to_string(outside("", &[&kinds[0]])).unwrap();
    let file = scratch.file("public.toml", &text.replace("private = true\n[[", "[["));
    let said = run(&namespace, file.as_ref(), &["--once"]);
    assert_eq!(said.status.code(), Some(4), "{}", String::from_utf8_lossy(&said.stderr));
}
