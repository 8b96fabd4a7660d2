//! TSIG with common tools: `nsupdate` and `dig` of BIND, `knsupdate` and `kdig` of Knot, over loopback. Missing tools
//! are reported and skipped.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "real tools need sockets and the real time")]
#![expect(clippy::unwrap_used, reason = "an unexpected value fails the test")]

mod support;

use catamaran_replica::io::SerialPolicyOption;
use catamaran_replica::update::{evaluate, prescan};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::name;
use support::test_zone::TestZone;
use tsig::{Authenticated, KeyAlgorithm, KeyTable, SequenceSigner, Signer, TsigKey, authenticate};
use wire::number::{Opcode, Rcode, Rtype};
use wire::parse::{Parsed, Request, parse_request};
use zone::Record;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const SECRET_TEXT: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const WRONG_SECRET_TEXT: &str = "d3JvbmcgMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWE=";

/// Maximum number of ports to try.
const PORT_ATTEMPTS_MAX: usize = 100;

/// A minimal server for updates and queries.
struct Server {
    port: u16,
    zone: Arc<Mutex<TestZone>>,
    clock_off_s: Arc<AtomicI64>,
    /// Makes MACs wrong, to show that the tools check them.
    spoil: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// UDP and TCP sockets on one port. The kernel picks a free UDP port, which may be in use for TCP.
fn sockets() -> (UdpSocket, TcpListener, u16) {
    for _ in 0..PORT_ATTEMPTS_MAX {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(tcp) => return (udp, tcp, port),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
        }
    }
    panic!("no port that is free for UDP and for TCP");
}

impl Server {
    fn start(algorithm: KeyAlgorithm) -> Self {
        let mut keys = KeyTable::new();
        keys.insert(TsigKey::new(name("key.test").as_ref(), algorithm, &[SECRET]).unwrap()).unwrap();
        let rdata = [b"\x02ns\x07example\x04test\0\x01h\0".as_slice(), &[0, 0, 0, 1], &[0; 16]].concat();
        let soa = Record { owner: name("example.test"), rtype: Rtype::SOA, ttl: 300, rdata: rdata.into() };
        let (udp, tcp, port) = sockets();
        udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let zone = Arc::new(Mutex::new(TestZone { apex: name("example.test"), records: vec![soa] }));
        let (clock_off_s, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let spoil = Arc::new(AtomicBool::new(false));
        let handler = Handler { keys, zone: zone.clone(), clock_off_s: clock_off_s.clone(), spoil: spoil.clone() };
        let (udp_handler, udp_stop, tcp_stop) = (handler.clone(), stop.clone(), stop.clone());
        let threads = vec![
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_535];
                while !udp_stop.load(Ordering::Relaxed) {
                    if let Ok((len, from)) = udp.recv_from(&mut buffer) {
                        for response in udp_handler.handle(&buffer[..len]) {
                            udp.send_to(&response, from).unwrap();
                        }
                    }
                }
            }),
            std::thread::spawn(move || {
                while !tcp_stop.load(Ordering::Relaxed) {
                    match tcp.accept() {
                        Ok((stream, _)) => handler.serve(stream),
                        Err(_) => std::thread::sleep(Duration::from_millis(20)),
                    }
                }
            }),
        ];
        Self { port, zone, clock_off_s, spoil, stop, threads }
    }

    fn has(&self, owner: &str) -> bool {
        self.zone.lock().unwrap().records.iter().any(|record| record.owner == name(owner))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Handler {
    keys: KeyTable,
    zone: Arc<Mutex<TestZone>>,
    clock_off_s: Arc<AtomicI64>,
    spoil: Arc<AtomicBool>,
}

impl Handler {
    fn now_s(&self) -> u64 {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        now_s.checked_add_signed(self.clock_off_s.load(Ordering::Relaxed)).unwrap()
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut len = [0; 2];
        while stream.read_exact(&mut len).is_ok() {
            let mut message = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut message).unwrap();
            for response in self.handle(&message) {
                stream.write_all(&(response.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&response).unwrap();
            }
        }
    }

    fn handle(&self, message: &[u8]) -> Vec<Vec<u8>> {
        let Parsed::Request(request) = parse_request(message) else { return Vec::new() };
        match authenticate(&request, &self.keys, self.now_s()) {
            Authenticated::Unsigned => vec![response(&request, Rcode::REFUSED, &[])],
            Authenticated::Rejected { rcode, signer, .. } => {
                vec![self.sign(&signer.unwrap(), response(&request, rcode, &[]))]
            }
            Authenticated::Verified { signer, .. } => self.answer(&request, signer),
        }
    }

    fn answer(&self, request: &Request<'_>, signer: Signer) -> Vec<Vec<u8>> {
        let mut zone = self.zone.lock().unwrap();
        let question = request.question.as_ref().unwrap();
        if request.header.opcode == Opcode::UPDATE {
            let parsed = prescan(request).unwrap();
            let evaluated = evaluate(&*zone, &parsed, SerialPolicyOption::Increment, 0);
            if let Some(changeset) = &evaluated.changeset {
                zone.apply(changeset);
            }
            return vec![self.sign(&signer, response(request, evaluated.rcode, &[]))];
        }
        if question.qtype != Rtype::AXFR {
            return vec![self.sign(&signer, response(request, Rcode::NOERROR, &zone.records[..1]))];
        }
        // One record per message, for many messages.
        let mut sequence = SequenceSigner::from(signer);
        let records: Vec<Record> = {
            let soa = zone.records.iter().find(|record| record.rtype == Rtype::SOA).unwrap();
            let others = zone.records.iter().filter(|record| record.rtype != Rtype::SOA);
            [soa].into_iter().chain(others).chain([soa]).cloned().collect()
        };
        let sign = |record: Record| {
            let mut buffer = response(request, Rcode::NOERROR, &[record]);
            let len = buffer.len();
            buffer.resize(len + sequence.reserve_bytes(), 0);
            let len = sequence.sign(&mut buffer, len, self.now_s()).unwrap();
            buffer.truncate(len);
            self.spoil(&mut buffer);
            buffer
        };
        records.into_iter().map(sign).collect()
    }

    fn sign(&self, signer: &Signer, mut buffer: Vec<u8>) -> Vec<u8> {
        let len = buffer.len();
        buffer.resize(len + signer.reserve_bytes(), 0);
        let len = signer.sign(&mut buffer, len, self.now_s()).unwrap();
        buffer.truncate(len);
        self.spoil(&mut buffer);
        buffer
    }

    fn spoil(&self, message: &mut [u8]) {
        if self.spoil.load(Ordering::Relaxed) {
            // The last byte of the MAC; Original ID, Error and Other Len follow it.
            let at = message.len() - 7;
            message[at] ^= 1;
        }
    }
}

fn response(request: &Request<'_>, rcode: Rcode, answer: &[Record]) -> Vec<u8> {
    let question_end = request.question.as_ref().unwrap().end();
    let mut bytes = request.bytes[..question_end].to_vec();
    bytes[2] |= 0x84;
    bytes[3] = rcode.0 as u8;
    bytes[4..12].copy_from_slice(&[0, 1, 0, answer.len() as u8, 0, 0, 0, 0]);
    for Record { owner, rtype, ttl, rdata } in answer {
        bytes.extend(owner.as_bytes());
        bytes.extend(rtype.0.to_be_bytes());
        bytes.extend(1u16.to_be_bytes());
        bytes.extend(ttl.to_be_bytes());
        bytes.extend((rdata.len() as u16).to_be_bytes());
        bytes.extend(rdata);
    }
    bytes
}

/// Whether a tool reports an error. Only the beginnings of lines count, because a MAC in base64 may contain any word.
fn complains(output: &str) -> bool {
    let complaints = [";; WARNING", ";; ERROR", ";; Couldn't", "; Transfer failed", ";; error", "; TSIG error"];
    output.lines().any(|line| complaints.iter().any(|complaint| line.starts_with(complaint)))
}

/// Both outputs of a tool; `None` if it is not installed.
fn tool(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        skip::peer(program);
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

const ALGORITHMS: [(KeyAlgorithm, &str); 3] = [
    (KeyAlgorithm::HmacSha256, "hmac-sha256"),
    (KeyAlgorithm::HmacSha384, "hmac-sha384"),
    (KeyAlgorithm::HmacSha512, "hmac-sha512"),
];

#[test]
fn nsupdate_and_knsupdate_update_and_verify_our_responses() {
    for (algorithm, algorithm_text) in ALGORITHMS {
        let server = Server::start(algorithm);
        for program in ["nsupdate", "knsupdate"] {
            let key = |secret| format!("{algorithm_text}:key.test:{secret}");
            let script = |owner| {
                let port = server.port;
                let update = format!("prereq nxdomain {owner}.\nupdate add {owner}. 60 A 192.0.2.1\nsend\n");
                format!("server 127.0.0.1 {port}\nzone example.test.\n{update}")
            };
            let (good, bad) = (format!("{program}.example.test"), format!("{program}-bad.example.test"));
            let Some(output) = tool(program, &["-y", &key(SECRET_TEXT)], &script(&good)) else { continue };
            assert_eq!(output, "", "{program} {algorithm_text}");
            assert!(server.has(&good));
            // The same update again: the prerequisite fails, and the refusal is signed.
            let output = tool(program, &["-y", &key(SECRET_TEXT)], &script(&good)).unwrap();
            assert!(
                output.contains("YXDOMAIN") && !output.contains("verification") && !output.contains("TSIG error"),
                "{program}: {output}"
            );

            let output = tool(program, &["-y", &key(WRONG_SECRET_TEXT)], &script(&bad)).unwrap();
            assert!(output.contains("BADSIG") || output.contains("NOTAUTH"), "{program}: {output}");

            // They accept BADTIME only with a valid MAC.
            for off in [-1000, 1000] {
                server.clock_off_s.store(off, Ordering::Relaxed);
                let output = tool(program, &["-y", &key(SECRET_TEXT)], &script(&bad)).unwrap();
                server.clock_off_s.store(0, Ordering::Relaxed);
                println!("{program}, clock {off} s off: {output}");
                assert!(output.contains("BADTIME") || output.contains("clocks"), "{program}: {output}");
            }
            assert!(!server.has(&bad));
        }
    }
}

#[test]
fn dig_and_kdig_verify_answers_and_transfers_of_many_messages() {
    for (algorithm, algorithm_text) in ALGORITHMS {
        let server = Server::start(algorithm);
        for number in 0..120u8 {
            let record = Record {
                owner: name(&format!("n{number}.example.test")),
                rtype: Rtype::A,
                ttl: 60,
                rdata: Box::new([192, 0, 2, number]),
            };
            server.zone.lock().unwrap().records.push(record);
        }
        let (port, key) = (server.port.to_string(), format!("{algorithm_text}:key.test:{SECRET_TEXT}"));
        for program in ["dig", "kdig"] {
            for transport in ["+notcp", "+tcp"] {
                let arguments = ["@127.0.0.1", "-p", &port, "-y", &key, transport, "+norec", "example.test", "SOA"];
                let Some(output) = tool(program, &arguments, "") else { continue };
                assert!(
                    output.contains("NOERROR") && output.contains("TSIG") && !complains(&output),
                    "{program}: {output}"
                );
                server.spoil.store(true, Ordering::Relaxed);
                let output = tool(program, &arguments, "").unwrap();
                server.spoil.store(false, Ordering::Relaxed);
                assert!(complains(&output), "{program}: {output}");
            }
            let arguments = ["@127.0.0.1", "-p", &port, "-y", &key, "+tcp", "example.test", "AXFR"];
            let Some(output) = tool(program, &arguments, "") else { continue };
            let records = output.lines().filter(|line| line.contains("192.0.2.")).count();
            assert_eq!(records, 120, "{program} {algorithm_text}: {output}");
            assert!(!complains(&output), "{program}: {output}");
            server.spoil.store(true, Ordering::Relaxed);
            let output = tool(program, &arguments, "").unwrap();
            server.spoil.store(false, Ordering::Relaxed);
            assert!(complains(&output), "{program}: {output}");
        }
    }
}
