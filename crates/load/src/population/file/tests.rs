//! Tests of population files.

use super::*;

const TEXT: &str = r#"
[queries]
pattern = "q{n}.example.com"
names = 1000
popularity = "zipf"
types = { A = 0.7, AAAA = 0.3 }
edns_share = 0.5
dnssec_ok_share = 0.25

[ports]
dot = 5853

[[clients]]
name = "stubs"
count = 100
transports = { udp = 0.5, dot = 0.5 }
rate = { distribution = "lognormal", mean = 0.2, sigma = 1.5, arrivals = "poisson" }
connections = { idle_timeout_s = 10.0, resumption = 0.8 }

[[clients]]
count = 10
transports = { tcp = 1.0 }
servers = { "127.0.0.2:5300" = 1.0 }
think = { distribution = "exponential", mean = 2.0 }
bursts = { on_s = 1.0, off_s = 9.0 }
active = { start_s = 5.0, stop_s = 20.0 }
"#;

#[test]
fn errors_do_not_name_rust_types() {
    let clients = "[[clients]]\ncount = 1\ntransports = { udp = 1.0 }\n";
    let rate = "rate = { distribution = \"constant\", mean = 1.0 }\n";
    for text in [
        format!("{clients}rate = 5\n"),
        format!("{clients}think = 5\n"),
        format!("{clients}rate = {{ mean = 5 }}\n"),
        format!("{clients}rate = {{ distribution = \"none\", mean = 5 }}\n"),
        format!("{clients}rate = {{ distribution = \"constant\", mean = 1.0, arrivals = 5 }}\n"),
        format!("{clients}{rate}connections = 5\n"),
        format!("{clients}{rate}bursts = 5\n"),
        format!("{clients}{rate}active = 5\n"),
        format!("queries = 5\n{clients}{rate}"),
        format!("ports = 5\n{clients}{rate}"),
        format!("[queries]\npopularity = 5\n{clients}{rate}"),
        format!("[queries]\ntypes = 5\n{clients}{rate}"),
        "clients = 5\n".to_owned(),
        "[[clients]]\ncount = 1\ntransports = 5\n".to_owned(),
        "[[clients]]\ncount = \"x\"\n".to_owned(),
    ] {
        let error = Population::parse(&text).unwrap_err().to_string();
        println!("{error}");
        let leaks = ["struct ", "enum ", "variant", "usize", "f64", "u64", "a map", "sequence"]
            .iter()
            .any(|word| error.contains(word));
        assert!(!leaks, "{text}: {error}");
    }
}

#[test]
fn a_written_population_parses_to_itself() {
    let population = Population::parse(TEXT).unwrap();
    assert_eq!(Population::parse(&population.to_text()).unwrap(), population);
    assert_eq!(population.transports(), [Transport::Udp, Transport::Tcp, Transport::Dot]);
    let members = population.members(&["127.0.0.1".parse().unwrap()], 1).unwrap();
    let dot = members.iter().filter(|(_, endpoint, _)| endpoint.transport == Transport::Dot);
    assert!(dot.clone().all(|(_, endpoint, _)| endpoint.server.port() == 5_853));
    assert_eq!(dot.count(), 50);
    assert!(population.generator(Extras::default(), 1).unwrap().is_some());
}

#[test]
fn an_unknown_key_suggests_the_nearest() {
    let error = |from: &str, to: &str| Population::parse(&TEXT.replace(from, to)).unwrap_err();
    let message = error("idle_timeout_s", "idle_time_s");
    assert!(message.contains("line 18: unknown key `idle_time_s` in [clients.connections]"), "{message}");
    assert!(message.contains("did you mean `idle_timeout_s`?"), "{message}");
    assert!(error("sigma", "sgima").contains("did you mean `sigma`?"));
    assert!(error("[ports]", "[prots]").contains("did you mean `ports`?"));
    assert!(error("[ports]", "[xyzzy]").contains("known keys here"));
}

#[test]
fn the_default_query_type_is_a() {
    let population = Population::parse(&TEXT.replace("types = { A = 0.7, AAAA = 0.3 }\n", "")).unwrap();
    assert_eq!(population.queries.as_ref().unwrap().types, BTreeMap::from([("A".to_owned(), 1.0)]));
    assert!(population.generator(Extras::default(), 1).unwrap().is_some());
}

#[test]
fn invalid_values_are_rejected() {
    let error = |from: &str, to: &str| Population::parse(&TEXT.replace(from, to)).unwrap_err();
    assert!(error("resumption = 0.8", "resumption = 1.8").contains("group stubs"));
    assert!(error("mean = 0.2", "mean = -0.2").contains("rate: "));
    assert!(error("count = 100\n", "count = 99999999\n").contains("100000009 clients"));
    assert!(error("dot = 0.5", "dat = 0.5").contains("dat"));
}

#[test]
fn every_written_key_is_a_known_key() {
    let text = Population::parse(TEXT).unwrap().to_text();
    assert!(Population::parse(&text).is_ok(), "{text}");
}
