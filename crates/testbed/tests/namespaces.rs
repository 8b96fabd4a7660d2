//! Tests of servers in network namespaces.

use links::plan::{Mechanism, NetPlan};
use links::{Cut, Net};
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Kind, Launch, PeerError, ServedZone, Setup, UpdateKey, answers_for};
use wire::name::Name;

const ZONE: &str = "@ 3600 SOA ns1.example. admin.example. 1 60 60 604800 60
@ NS ns1
ns1 A 10.53.0.11
";

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("testbed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        File::create(folder.join("zone")).unwrap().write_all(ZONE.as_bytes()).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A net with two machines. If this computer does not allow it, the test is skipped.
fn net(letter: char) -> Option<Net> {
    let name = format!("{letter}{:06}", std::process::id() % 1_000_000);
    let plan = NetPlan { name, seed: 1, mechanism: Mechanism::Relay, spin: Duration::ZERO, groups: Vec::new() };
    match Net::make(&plan) {
        Ok(mut net) => {
            net.add_machine("one").unwrap();
            net.add_machine("two").unwrap();
            Some(net)
        }
        Err(error) => {
            skip::permission(format!("making a net: {error}"));
            None
        }
    }
}

/// A server on port 53 of a machine.
fn setup(folder: &Folder, net: &Net, machine: usize) -> Setup {
    let machine = &net.machines()[machine];
    let zones = vec![ServedZone::new("example.", folder.0.join("zone"))];
    let launch = Launch { namespace: Some(machine.namespace().name().to_owned()), ..Launch::default() };
    let address = (machine.address(), 53).into();
    Setup { launch, ..Setup::new(folder.0.join(format!("server-{}", machine.name())), address, zones) }
}

fn inode(path: String) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// Whether it becomes true within a time that is enough for a busy machine.
fn eventually(is_true: impl Fn() -> bool) -> bool {
    (0..100).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        is_true()
    })
}

#[test]
fn a_process_starts_in_its_group_on_its_core_in_its_namespace_and_again() {
    let Some(net) = net('p') else { return };
    if Kind::Nsd.program().is_none() {
        return skip::peer("nsd");
    }
    let folder = Folder::new("process");
    let mut setup = setup(&folder, &net, 0);
    // A file stands for the list of a control group.
    setup.launch = Launch { core: Some(0), cgroups: vec![folder.0.clone()], ..setup.launch };
    let namespace = inode(format!("/var/run/netns/{}", net.machines()[0].namespace().name()));
    let mut peer = testbed::start(Kind::Nsd, &setup).unwrap();
    for from in ["hide-version: yes", "hide-identity: yes"] {
        let pid = peer.pid();
        assert_eq!(std::fs::read_to_string(folder.0.join("cgroup.procs")).unwrap(), format!("{pid}\n"));
        assert_eq!(inode(format!("/proc/{pid}/ns/net")), namespace);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        peer = peer.reconfigure(&setup, from, &from.replace("yes", "no")).unwrap();
        assert_ne!(peer.pid(), pid);
    }
}

/// Starts each kind on a machine. Asks it from the other machine.
#[test]
fn servers_on_a_machine_answer_other_machines() {
    let Some(net) = net('s') else { return };
    let folder = Folder::new("machines");
    let apex: Name = "example.".parse().unwrap();
    for kind in [Kind::Nsd, Kind::Knot, Kind::Bind, Kind::Unbound] {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        let setup = Setup { folder: folder.0.join(kind.label()), ..setup(&folder, &net, 0) };
        let mut peer = testbed::start(kind, &setup).unwrap();
        let answers = || net.machines()[1].namespace().inside(|| Ok(answers_for(setup.address, &apex))).unwrap();
        assert!(eventually(answers), "{}", kind.label());
        net.machines()[0].cut(Cut::Both).unwrap();
        assert!(!answers() && peer.is_running(), "{}", kind.label());
        let answers_inside = || setup.launch.inside(|| Ok(answers_for(setup.address, &apex))).unwrap();
        assert!(eventually(answers_inside), "the machine is not cut inside");
        net.machines()[0].heal().unwrap();
        assert!(eventually(answers), "{}", kind.label());
    }
}

#[test]
fn a_secondary_on_another_machine_gets_the_zone() {
    let Some(net) = net('x') else { return };
    let folder = Folder::new("secondary");
    let on_machines = [setup(&folder, &net, 0), setup(&folder, &net, 1)];
    let on_loopback = on_machines.clone().map(|setup| {
        let folder = setup.folder.join("loopback");
        Setup { folder, address: testbed::free_address().unwrap(), launch: Launch::default(), ..setup }
    });
    for kind in [Kind::Nsd, Kind::Knot, Kind::Bind] {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        check_transfer(kind, &on_machines);
        check_transfer(kind, &on_loopback);
    }
}

/// Starts a primary and a secondary. Waits until the secondary has the zone.
fn check_transfer(kind: Kind, setups: &[Setup; 2]) {
    let keys = vec![UpdateKey { name: "key.".into(), secret: vec![7; 32] }];
    let [primary, secondary] = setups.clone().map(|setup| {
        let folder = setup.folder.join(kind.label());
        Setup { folder, keys: keys.clone(), ..setup }
    });
    let _primary = testbed::start(kind, &primary).unwrap();
    let secondary = Setup { primary: Some(primary.address), ..secondary };
    let _secondary = testbed::start(kind, &secondary).unwrap();
    let apex: Name = "example.".parse().unwrap();
    // Asked from the machine of the primary.
    let is_there = || primary.launch.inside(|| Ok(answers_for(secondary.address, &apex))).unwrap();
    assert!(eventually(is_there), "{} at {}", kind.label(), secondary.address);
}

#[test]
fn a_server_in_a_missing_namespace_is_refused() {
    let folder = Folder::new("missing");
    let zones = vec![ServedZone::new("example.", folder.0.join("zone"))];
    let launch = Launch { namespace: Some("no-such-one".into()), ..Launch::default() };
    assert!(launch.inside(|| UdpSocket::bind("127.0.0.1:0")).is_err());
    assert!(launch.command(&std::process::Command::new("true")).spawn().is_err());
    let setup = Setup { launch, ..Setup::new(folder.0.join("server"), ([10, 53, 0, 11], 53).into(), zones) };
    match testbed::start(Kind::Nsd, &setup).map(drop) {
        Err(PeerError::Missing(_)) => skip::peer("nsd"),
        Err(error) => assert_eq!(error.to_string(), "nsd did not start: there is no namespace no-such-one"),
        Ok(()) => panic!("it started"),
    }
}
