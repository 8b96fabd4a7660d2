//! Tests of machines: traffic between them and from clients, cuts, and cleanup.

use links::delay::Shape;
use links::plan::{GroupPlan, Mechanism, NetPlan};
use links::{Cut, Namespace, Net, RecordedNet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Allows for a busy machine. Only failures wait this long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for packets that must not arrive.
const SILENCE: Duration = Duration::from_millis(300);
/// Names the net that the started test program makes and holds.
const HELD_NET: &str = "LINKS_TEST_HELD_NET";

fn plan(name: String, groups: Vec<GroupPlan>) -> NetPlan {
    NetPlan { name, seed: 1, mechanism: Mechanism::Relay, spin: Duration::ZERO, groups }
}

/// The letter makes the name unique in this process. The last 6 digits of a process ID are unique among running tests.
fn name_of(letter: char, pid: u32) -> String {
    format!("{letter}{:06}", pid % 1_000_000)
}

/// A net with two machines. If this computer does not allow it, the test is skipped.
fn net_with_machines(name: String, groups: Vec<GroupPlan>) -> Option<Net> {
    let mut net = match Net::make(&plan(name, groups)) {
        Ok(net) => net,
        Err(error) => {
            skip::permission(format!("making a net: {error}"));
            return None;
        }
    };
    for (name, address) in [("one", "10.53.0.11"), ("two", "10.53.0.12")] {
        let machine = net.add_machine(name).unwrap();
        assert_eq!((machine.name(), machine.address().to_string().as_str()), (name, address));
    }
    Some(net)
}

fn datagrams(namespace: &Namespace, address: impl Into<SocketAddr>) -> UdpSocket {
    let address = address.into();
    let socket = namespace.inside(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Whether a datagram arrives. Sending must not fail, also during a cut.
fn arrives(from: &UdpSocket, to: &UdpSocket, at_most: Duration) -> bool {
    from.send_to(b"datagram", to.local_addr().unwrap()).unwrap();
    to.set_read_timeout(Some(at_most)).unwrap();
    match to.recv(&mut [0; 16]) {
        Ok(count) => count == 8,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        Err(error) => panic!("{error}"),
    }
}

/// A connection from one namespace to a listener in another.
fn connection(from: &Namespace, to: &Namespace, address: impl Into<SocketAddr>) -> (TcpStream, TcpStream, Duration) {
    let address = address.into();
    let listener = to.inside(|| TcpListener::bind(address)).unwrap();
    let target = listener.local_addr().unwrap();
    let begin = Instant::now();
    let near = from.inside(|| TcpStream::connect_timeout(&target, TIMEOUT)).unwrap();
    let took = begin.elapsed();
    let far = listener.accept().unwrap().0;
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    }
    (near, far, took)
}

#[test]
fn machines_reach_each_other_in_both_families() {
    let Some(net) = net_with_machines(name_of('m', std::process::id()), Vec::new()) else { return };
    let [one, two] = net.machines() else { panic!("two machines") };
    for (from, to) in one.addresses().into_iter().zip(two.addresses()) {
        if from.is_ipv6() && !Path::new("/proc/sys/net/ipv6").exists() {
            skip::platform("IPv6");
            continue;
        }
        let (near, far) = (datagrams(one.namespace(), (from, 0)), datagrams(two.namespace(), (to, 53)));
        assert!(arrives(&near, &far, TIMEOUT) && arrives(&far, &near, TIMEOUT), "{to}");
        let (mut near, mut far, _) = connection(one.namespace(), two.namespace(), (to, 53));
        assert_eq!(far.peer_addr().unwrap().ip(), from);
        near.write_all(b"request").unwrap();
        let mut bytes = [0; 7];
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"request");
    }
    assert_eq!((one.observed_cut().unwrap(), two.observed_cut().unwrap()), (None, None));
}

#[test]
fn clients_reach_machines_through_their_link() {
    let shape = Shape::constant(Duration::from_millis(20));
    let group = GroupPlan { name: "clients".into(), shape, networks: Vec::new() };
    let Some(net) = net_with_machines(name_of('g', std::process::id()), vec![group]) else { return };
    let clients = &net.groups()[0];
    // The only group of a net has every address. 198.51.100.7 is on none of its interfaces.
    for (machine, source) in net.machines().iter().zip(["0.0.0.0:0", "198.51.100.7:0"]) {
        let far = datagrams(machine.namespace(), (machine.address(), 53));
        let near = datagrams(clients, source.parse::<SocketAddr>().unwrap());
        let mut bytes = [0; 16];
        let round_trip = || {
            let begin = Instant::now();
            near.send_to(b"up", far.local_addr().unwrap()).unwrap();
            let (_, client) = far.recv_from(&mut bytes).unwrap();
            far.send_to(b"down", client).unwrap();
            near.recv(&mut bytes).unwrap();
            begin.elapsed()
        };
        let mut udp: Vec<Duration> = std::iter::repeat_with(round_trip).take(30).collect();
        let tcp = |_| connection(clients, machine.namespace(), (machine.address(), 0)).2;
        let mut tcp: Vec<Duration> = (0..10).map(tcp).collect();
        for rtts in [&mut udp, &mut tcp] {
            rtts.sort_unstable();
            // Other tests run meanwhile, so only the shortest is near the plan.
            println!("{source}: {:?} to {:?}", rtts[0], rtts[rtts.len() - 1]);
            assert!((Duration::from_millis(20)..Duration::from_millis(30)).contains(&rtts[0]), "{rtts:?}");
        }
    }
    let links = net.finish().unwrap();
    assert!(links[0].up.counts.delivered > 60, "{}", links[0]);
}

/// Every client keeps its round trip for all machines.
#[test]
fn clients_with_lognormal_round_trips_keep_them_for_every_machine() {
    let rtt = links::units::read_rtt("lognormal:20ms:0.5").unwrap();
    let shape = Shape { rtt: rtt.clone(), ..Shape::constant(Duration::ZERO) };
    let group = GroupPlan { name: "clients".into(), shape, networks: Vec::new() };
    let Some(net) = net_with_machines(name_of('l', std::process::id()), vec![group]) else { return };
    for number in [1, 2] {
        let source = links::plan::address_of(0, number)[0];
        let planned = rtt.of(source, net.plan().seed_of(0));
        for machine in net.machines() {
            let near = datagrams(&net.groups()[0], (source, 0));
            let far = datagrams(machine.namespace(), (machine.address(), 53));
            let send = |_| {
                let begin = Instant::now();
                assert!(arrives(&near, &far, TIMEOUT));
                begin.elapsed()
            };
            let one_way = (0..10).map(send).min().unwrap();
            println!("{source}: planned {planned:?}, one way {one_way:?}");
            assert!(
                (planned / 2..planned / 2 + Duration::from_millis(5)).contains(&one_way),
                "{one_way:?} of {planned:?}"
            );
        }
    }
}

#[test]
fn a_cut_drops_packets_of_its_direction_without_errors() {
    let shape = Shape::constant(Duration::from_millis(1));
    let group = GroupPlan { name: "clients".into(), shape, networks: Vec::new() };
    let Some(net) = net_with_machines(name_of('u', std::process::id()), vec![group]) else { return };
    let [one, two] = net.machines() else { panic!("two machines") };
    let cut_off = datagrams(one.namespace(), (one.address(), 53));
    let others = [
        datagrams(two.namespace(), (two.address(), 53)),
        datagrams(&net.groups()[0], ([10, 100, 0, 1], 53)),
        datagrams(net.hub(), ([10, 53, 0, 1], 53)),
    ];
    // Each state follows another one.
    for cut in [None, Some(Cut::Both), Some(Cut::In), Some(Cut::Out), None, Some(Cut::Out), Some(Cut::Both), None] {
        match cut {
            Some(cut) => one.cut(cut).unwrap(),
            None => one.heal().unwrap(),
        }
        assert_eq!((one.observed_cut().unwrap(), two.observed_cut().unwrap()), (cut, None));
        let (is_in_open, is_out_open) =
            (!matches!(cut, Some(Cut::Both | Cut::In)), !matches!(cut, Some(Cut::Both | Cut::Out)));
        for other in &others {
            let wait = |is_open| if is_open { TIMEOUT } else { SILENCE };
            assert_eq!(arrives(other, &cut_off, wait(is_in_open)), is_in_open, "{cut:?} from {other:?}");
            assert_eq!(arrives(&cut_off, other, wait(is_out_open)), is_out_open, "{cut:?} to {other:?}");
        }
        assert!(arrives(&others[0], &others[1], TIMEOUT), "the other machine is not cut off");
        let itself = datagrams(one.namespace(), (one.address(), 0));
        assert!(arrives(&itself, &cut_off, TIMEOUT), "nor is the machine from itself");
    }
}

#[test]
fn a_connection_survives_a_short_cut() {
    let Some(net) = net_with_machines(name_of('t', std::process::id()), Vec::new()) else { return };
    let [one, two] = net.machines() else { panic!("two machines") };
    let (mut near, mut far, _) = connection(one.namespace(), two.namespace(), (two.address(), 53));
    let mut bytes = [0; 6];
    near.write_all(b"before").unwrap();
    far.read_exact(&mut bytes).unwrap();
    two.cut(Cut::Both).unwrap();
    near.write_all(b"during").unwrap();
    far.set_read_timeout(Some(SILENCE)).unwrap();
    let error = far.read(&mut bytes).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    let refused = one.namespace().inside(|| TcpStream::connect_timeout(&(two.address(), 54).into(), SILENCE));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut, "a cut does not refuse connections");
    two.heal().unwrap();
    far.set_read_timeout(Some(TIMEOUT)).unwrap();
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"during");
    let refused = one.namespace().inside(|| TcpStream::connect_timeout(&(two.address(), 54).into(), TIMEOUT));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn machines_are_recorded_and_removed() {
    let name = name_of('r', std::process::id());
    let Some(mut net) = net_with_machines(name.clone(), Vec::new()) else { return };
    let namespaces = ["hub", "one", "two"].map(|end| format!("{name}.{end}"));
    let found = RecordedNet::find(&name).unwrap().unwrap();
    assert!(found.is_ready);
    assert_eq!(found.namespaces, namespaces);
    for (name, expected) in
        [("one", "already exists"), ("hub", "used twice"), ("muchtoolong", "is not a name for"), ("a.b", "is not")]
    {
        let error = net.add_machine(name).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
    assert_eq!(net.machines().len(), 2);
    assert!(namespaces.iter().all(|name| Namespace::open(name).is_ok()));
    drop(net);
    assert!(!namespaces.iter().any(|name| Namespace::open(name).is_ok()));
    assert_eq!(RecordedNet::find(&name).unwrap(), None);
}

/// Starts itself as the owner of a net, and kills that process.
#[test]
fn machines_of_a_killed_owner_are_cleaned() {
    if let Ok(name) = std::env::var(HELD_NET) {
        let Some(net) = net_with_machines(name, Vec::new()) else { return };
        let mut program = net.machines()[0].namespace().command("sleep").arg("60").spawn().unwrap();
        net.machines()[1].cut(Cut::In).unwrap();
        println!("held");
        program.wait().unwrap();
        return;
    }
    let name = name_of('k', std::process::id());
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "machines_of_a_killed_owner_are_cleaned"])
        .env(HELD_NET, &name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    let mut bytes = [0; 256];
    while !output.contains("held") && !output.contains("skipped [") {
        let count = owner.stdout.as_mut().unwrap().read(&mut bytes).unwrap();
        assert!(count > 0, "{output}");
        output += &String::from_utf8_lossy(&bytes[..count]);
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    if output.contains("skipped [") {
        return skip::permission("making a net");
    }
    let namespaces = ["hub", "one", "two"].map(|end| format!("{name}.{end}"));
    assert!(namespaces.iter().all(|name| Namespace::open(name).is_ok()));
    // Another test may have cleaned before.
    links::clean().unwrap();
    assert!(!namespaces.iter().any(|name| Namespace::open(name).is_ok()));
    assert_eq!(RecordedNet::find(&name).unwrap(), None);
}
