//! Tests of reading plans, and of the errors for wrong ones.

use super::*;
use crate::delay::{Loss, Rate};

fn parse(text: &str) -> Result<NetPlan, String> {
    NetPlan::parse(text, &std::env::temp_dir())
}

#[test]
fn all_settings_are_read() {
    let plan = parse(
        r#"
        name = "lab"
        seed = 9
        mechanism = "relay"
        spin = "60us"
        [[group]]
        name = "near"
        rtt = "20ms"
        jitter = "1ms"
        loss = "0.1%"
        burst = 4.0
        rate = "100mbit"
        queue_bytes = 100000
        reorder = true
        networks = ["10.0.0.0/8", "2001:db8::/32"]
        [[group]]
        name = "far"
        rtt = { lognormal = { median = "80ms", sigma = 0.5 } }
        [[group]]
        name = "list"
        rtt = ["10ms", "200ms"]
        "#,
    )
    .unwrap();
    assert_eq!((plan.name.as_str(), plan.seed, plan.mechanism), ("lab", 9, Mechanism::Relay));
    let near = &plan.groups[0];
    assert_eq!(near.shape.loss, Loss { share: 0.001, burst: 4.0 });
    assert_eq!(near.shape.rate, Some(Rate { bits: 100_000_000, queue_bytes: 100_000 }));
    assert!(near.shape.reorder && near.networks.len() == 2);
    assert_eq!(plan.groups[1].shape.rtt, Rtt::Lognormal { median: Duration::from_millis(80), sigma: 0.5 });
    assert_eq!(plan.groups[1].shape.loss, Loss::NONE);
    assert_eq!(plan.groups[2].shape.rtt, Rtt::List(vec![Duration::from_millis(10), Duration::from_millis(200)]));
    assert_eq!((plan.hub(), plan.namespace_of(near)), ("lab.hub".into(), "lab.near".into()));
}

#[test]
fn round_trips_of_experiments_make_a_net_with_one_group() {
    for text in ["0ms", "20ms", "40ms", "80ms", "120ms", "160ms", "lognormal:80ms:0.5"] {
        let plan = parse(&format!("name = 'lab'\n[[group]]\nname = 'a'\nrtt = '{text}'\n")).unwrap();
        assert_eq!(plan.groups[0].shape.rtt, crate::units::read_rtt(text).unwrap());
    }
    let table = "rtt = { lognormal = { median = '80ms', sigma = 0.5 } }";
    let plan = parse(&format!("name = 'lab'\n[[group]]\nname = 'a'\n{table}\n")).unwrap();
    assert_eq!(plan.groups[0].shape.rtt, crate::units::read_rtt("lognormal:80ms:0.5").unwrap());
    assert!(parse("name = 'lab'\n[[group]]\nname = 'a'\nrtt = 'lognormal:80ms:9'\n").unwrap_err().contains("sigma"));
}

#[test]
fn a_single_group_has_all_addresses_by_default() {
    let group = |name: &str, more: &str| format!("[[group]]\nname = '{name}'\nrtt = '1ms'\n{more}\n");
    let networks = |groups: &str| {
        let plan = parse(&format!("name = 'lab'\n{groups}")).unwrap();
        let text = |(address, length): (IpAddr, u8)| format!("{address}/{length}");
        plan.networks_of(0).into_iter().map(text).collect::<Vec<_>>()
    };
    let own = ["10.100.0.0/16", "fd53:ca7:1::/64"];
    assert_eq!(networks(&group("a", "")), [&own[..], &["0.0.0.0/0", "::/0"]].concat());
    assert_eq!(networks(&group("a", "networks = ['192.0.2.0/24']")), [&own[..], &["192.0.2.0/24"]].concat());
    assert_eq!(networks(&(group("a", "") + &group("b", ""))), own);
}

#[test]
fn samples_are_read_from_a_file_in_the_same_folder() {
    let path = std::env::temp_dir().join(format!("links-samples-{}", std::process::id()));
    let name = path.file_name().unwrap().to_str().unwrap();
    std::fs::write(&path, "# measured\n10ms\n\n 30ms\n").unwrap();
    let text = format!("name = 'lab'\n[[group]]\nname = 'a'\nrtt = {{ file = '{name}' }}\n");
    let rtt = parse(&text).unwrap().groups.remove(0).shape.rtt;
    assert_eq!(rtt, Rtt::List(vec![Duration::from_millis(10), Duration::from_millis(30)]));
    std::fs::write(&path, "10ms\nsoon\n").unwrap();
    assert!(parse(&text).unwrap_err().contains(":2: \"soon\""), "{:?}", parse(&text));
    std::fs::remove_file(&path).unwrap();
    assert!(parse(&text).unwrap_err().contains(name));
}

#[test]
fn impossible_plans_are_refused() {
    let group = |more: &str| format!("name = 'lab'\n[[group]]\nname = 'a'\nrtt = '1ms'\n{more}\n");
    for (text, expected) in [
        (group("los = '1%'"), "unknown field"),
        (group("loss = 'much'"), "much"),
        (group("burst = 0.5"), "burst"),
        (group("queue_bytes = 5"), "without a rate"),
        (group("rate = '1mbit'\nqueue_bytes = 1000000000"), "queue_bytes"),
        (group("networks = ['10.100.0.0/16']"), "two groups"),
        (group("[[group]]\nname = 'a'\nrtt = '1ms'"), "used twice"),
        (group("[[group]]\nname = 'hub'\nrtt = '1ms'"), "used twice"),
        (group("[[group]]\nname = 'muchtoolong'\nrtt = '1ms'"), "is not a name for"),
        (group("[[group]]\nname = 'b'\nrtt = []"), "round trips"),
        (group("[[group]]\nname = 'b'\nrtt = { pareto = { least = '1ms', shape = 0.0 } }"), "pareto"),
        (group("").replace("lab", "../x"), "is not a name for"),
        ("name = 'lab'\ngroup = []".into(), "groups"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
