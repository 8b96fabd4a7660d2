//! Each installed peer starts, answers, and stops.
use testbed::{Kind, ServedZone, Setup, start};

#[test]
fn each_peer_that_is_installed_answers() {
    let folder = std::env::temp_dir().join(format!("catlab-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("zone");
    std::fs::write(
        &file,
        "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5\n\
        example. 60 IN NS ns.example.\nns.example. 60 IN A 192.0.2.1\n",
    )
    .unwrap();
    for kind in [Kind::Nsd, Kind::Knot, Kind::Bind, Kind::Unbound] {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        let address = testbed::free_address().unwrap();
        let zones = vec![ServedZone::new("example.", &file)];
        let setup = Setup::new(folder.join(kind.label()), address, zones);
        let mut peer = start(kind, &setup).unwrap();
        assert!(peer.is_running());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
