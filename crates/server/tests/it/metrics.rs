//! The metrics page, as Prometheus parses it, and its documentation.

use crate::support::cluster::Cluster;
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::name;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// The metric families of a page: their kind, and their series with values. Panics if the page violates the format
/// (version 0.0.4) or Prometheus' naming rules.
fn families(page: &str) -> BTreeMap<String, (String, Vec<(String, f64)>)> {
    let mut families: BTreeMap<String, (String, Vec<(String, f64)>)> = BTreeMap::new();
    let mut helped = String::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.') && !help.contains('\\'), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "TYPE follows HELP");
            assert!(
                name.starts_with("catamaran_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{name}"
            );
            assert_eq!(kind == "counter", name.ends_with("_total"), "counters, and they alone, end in _total: {name}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            for unit in ["_ms", "_us", "_seconds_total", "_bytes_total"] {
                assert!(!name.ends_with(unit), "base units, and no unit behind a count: {name}");
            }
            assert!(families.insert(name.to_owned(), (kind.to_owned(), Vec::new())).is_none(), "{name} twice");
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let (kind, all) = families.get_mut(&current).unwrap();
            let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line} under {current}"));
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            assert!(seen.insert(series.to_owned()), "{series} twice");
            all.push((series.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}"))));
        }
    }
    assert!(families.values().all(|(_, series)| !series.is_empty()), "a family without a series");
    families
}

#[test]
fn the_metrics_page_is_valid_and_counts_each_message_once() {
    let cluster = Cluster::start("metrics", 1, &[]);
    let sum = |family: &str| -> f64 {
        let page = http::get(cluster.api(1), "/metrics").unwrap();
        assert!(page.head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"), "{}", page.head);
        families(&page.text())[family].1.iter().map(|(_, value)| value).sum()
    };
    let before = (sum("catamaran_requests_total"), sum("catamaran_responses_total"));
    let query = MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A).build();
    let update = MessageBuilder::update(2, name("example.test.").as_ref())
        .add(name("m.example.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
        .build();
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let signed = cluster.client_key().sign(update.clone(), now_s).unwrap();
    for transport in [Transport::Udp, Transport::Tcp] {
        for message in [&query, &update, &signed] {
            exchange(transport, cluster.dns(1), message, Duration::from_secs(5)).unwrap();
        }
    }
    // A message answered by the update threads counts once. A repeat of the same bytes counts again.
    assert_eq!(sum("catamaran_requests_total") - before.0, 6.0);
    assert_eq!(sum("catamaran_responses_total") - before.1, 6.0);
}

#[test]
fn the_reference_names_every_metric_and_none_that_does_not_exist() {
    let cluster = Cluster::start("guide", 3, &[]);
    let metrics = include_str!("../../../../docs/reference/metrics.md");
    let guide = [
        metrics,
        include_str!("../../../../docs/reference/configuration.md"),
        include_str!("../../../../docs/reference/messages.md"),
        include_str!("../../../../docs/reference/policy.md"),
    ]
    .concat();
    let page = families(&http::get(cluster.api(1), "/metrics").unwrap().text());
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut count = 0;
    for (at, _) in guide.match_indices("catamaran_") {
        let name: String = guide[at..].chars().take_while(|letter| is_of_name(*letter)).collect();
        let family = name.strip_suffix("_bucket").unwrap_or(&name);
        assert!(page.contains_key(family), "{name} is not on the page");
        // Label values that an alert selects.
        if let Some(labels) = guide[at + name.len()..].strip_prefix('{') {
            let (_, values) = labels.split('}').next().unwrap().split_once('"').unwrap();
            for value in values.trim_end_matches('"').split("\\|") {
                let is_there = page[family].1.iter().any(|(series, _)| series.contains(&format!("\"{value}\"")));
                assert!(is_there, "{name} has no {value}");
            }
        }
        count += 1;
    }
    assert!(count >= 10, "the guide names metrics: {count}");
    for (name, (kind, _)) in &page {
        assert!(
            metrics.contains(&format!("\n| `{name}` | {kind} |")),
            "docs/reference/metrics.md lacks {name}, a {kind}"
        );
    }
}
