//! Tables of transports and of their connections.

use super::figure::escape;
use super::table::{END, append, grouped, head, share, time};
use crate::{ConnectionSummary, Quantiles, Run, TransportSummary};

/// Each transport of each run, if there are several.
pub(super) fn tables(runs: &[Run]) -> String {
    // A population with TCP fallback may never have used TCP.
    let is_used = |all: &TransportSummary| all.sent > 0 || all.connections.is_some();
    let has_several = |run: &Run| {
        run.summary.as_ref().is_some_and(|summary| summary.transports.values().filter(|&all| is_used(all)).count() > 1)
    };
    let has_connections = |run: &Run| {
        run.summary.as_ref().is_some_and(|summary| summary.transports.values().any(|all| all.connections.is_some()))
    };
    if !runs.iter().any(|run| has_several(run) || has_connections(run)) {
        return String::new();
    }
    let columns =
        ["run", "transport", "sent", "answered", "timed out", "lost with connection", "p50", "p99", "p99.9", "max"];
    let mut out = String::from("<h2 id=\"transports\">Transports</h2>\n") + &head("lines", &columns);
    for run in runs {
        let all = run.summary.iter().flat_map(|summary| &summary.transports);
        for (transport, all) in all.filter(|(_, all)| is_used(all)) {
            let at = |value: fn(&Quantiles) -> f64| time(&all.latency_us, value);
            let cells = [
                escape(&run.label),
                transport.to_string(),
                grouped(all.sent),
                share(all.answered, all.sent),
                share(all.timed_out, all.sent),
                grouped(all.connection_lost),
                at(|q| q.p50),
                at(|q| q.p99),
                at(|q| q.p99_9),
                at(|q| q.max),
            ];
            append(&mut out, &line(&cells));
        }
    }
    out.push_str(END);
    out + &connections(runs)
}

/// Connection counts and times, with a column for each transport with connections of each run.
fn connections(runs: &[Run]) -> String {
    let mut all = Vec::new();
    for run in runs {
        for (transport, figures) in run.summary.iter().flat_map(|summary| &summary.transports) {
            let name = if runs.len() > 1 { format!("{} {transport}", run.label) } else { transport.to_string() };
            all.extend(figures.connections.as_ref().map(|connections| (escape(&name), connections)));
        }
    }
    if all.is_empty() {
        return String::new();
    }
    type Cell = fn(&ConnectionSummary) -> String;
    let rows: [(&str, Cell); 16] = [
        ("opened", |connections| grouped(connections.opened)),
        ("failed", |connections| grouped(connections.failed)),
        ("resumed", |connections| grouped(connections.resumed)),
        ("0-RTT", |connections| grouped(connections.early_data)),
        ("most open", |connections| grouped(connections.open_max)),
        ("TCP connect, p50", |connections| time(&connections.tcp_connect_us, |q| q.p50)),
        ("handshake, p50", |connections| time(&connections.handshake_us, |q| q.p50)),
        ("handshake, p99", |connections| time(&connections.handshake_us, |q| q.p99)),
        ("latency of first queries, p50", |connections| time(&connections.first_query_us, |q| q.p50)),
        ("latency of first queries, p99", |connections| time(&connections.first_query_us, |q| q.p99)),
        ("queries that reused one", |connections| grouped(connections.reused_queries)),
        ("latency of queries that reused one, p50", |connections| time(&connections.reused_query_us, |q| q.p50)),
        ("latency of queries that reused one, p99", |connections| time(&connections.reused_query_us, |q| q.p99)),
        ("closed by the tool", |connections| grouped(connections.closed_by_us)),
        ("closed by the server", |connections| grouped(connections.closed_by_peer)),
        ("open for, p50", |connections| time(&connections.lifetime_us, |q| q.p50)),
    ];
    let names: Vec<&str> = std::iter::once("").chain(all.iter().map(|(name, _)| name.as_str())).collect();
    let mut out = String::from("<h2 id=\"connections-of-runs\">Connections</h2>\n") + &head("lines", &names);
    for (what, value) in rows {
        let cells: String = all.iter().map(|(_, connections)| format!("<td>{}</td>", value(connections))).collect();
        append(&mut out, &format!("<tr><th scope=\"row\">{what}</th>{cells}</tr>\n"));
    }
    out + END
        + "<p>The handshake counts from the first packet, including the TCP connect. The first query of a connection \
           may have waited for the handshake, so its latency is shown separately.</p>\n"
}

fn line(cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, LimitSide, Recording, Summary, Validity};
    use measure::Transport;
    use std::collections::BTreeMap;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn reused_connections_are_counted_and_timed_separately() {
        let at = |us: f64| Quantiles { p50: us, p99: us, n: 9, ..Quantiles::default() };
        let connections = ConnectionSummary {
            opened: 7,
            reused_queries: 93,
            tcp_connect_us: at(111.0),
            lifetime_us: at(2_220_000.0),
            first_query_us: at(3_330.0),
            reused_query_us: at(44.4),
            ..ConnectionSummary::default()
        };
        let dot = TransportSummary { sent: 100, connections: Some(connections), ..TransportSummary::default() };
        let summary = Summary {
            schema_version: 1,
            transports: BTreeMap::from([(Transport::Dot, dot.clone())]),
            total: dot,
            replay: None,
            offered_rate: 1.0,
            achieved_rate: 1.0,
            duration_seconds: 1.0,
            validity: Validity { valid: true, reasons: Vec::new() },
            limit: Limit { side: LimitSide::Server, evidence: Vec::new() },
            wrong_answers: Vec::new(),
            hosts: Vec::new(),
            agents: Vec::new(),
            seconds: crate::SecondFigures::default(),
            monitor: BTreeMap::new(),
            rtt: None,
            client_latency: None,
            partial: false,
            per_query: None,
        };
        let recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        let run = Run { label, origin, summary: Some(summary), manifest: None, total, recording, notes: Vec::new() };
        let html = tables(&[run]);
        let (_, table) = html.split_once("<h2 id=\"connections-of-runs\">").unwrap();
        let of = |name: &str| -> &str {
            let (_, row) = table.split_once(&format!("<th scope=\"row\">{name}</th><td>")).unwrap();
            row.split('<').next().unwrap()
        };
        assert_eq!((of("opened"), of("queries that reused one"), of("TCP connect, p50")), ("7", "93", "111 us"));
        let (first, reused) = (of("latency of first queries, p50"), of("latency of queries that reused one, p50"));
        assert_eq!((first, reused, of("open for, p50")), ("3.33 ms", "44.4 us", "2.22 s"));
    }
}
