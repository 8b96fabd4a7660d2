//! The table of latency by class of clients, and in round trips.

use super::figure::escape;
use super::table::{END, append, grouped, head, share, time};
use crate::{ClassLatency, Quantiles, Run};

/// A row for each class of each run, and one for all queries if the round trip is known. Empty without any.
pub(super) fn table(runs: &[Run]) -> String {
    let mut rows = String::new();
    for run in runs {
        let Some(summary) = &run.summary else { continue };
        if let Some(rtt) = &summary.rtt {
            let cells = [escape(&run.label), format!("all; an RTT is {:.1} ms", rtt.rtt_us / 1e3), String::new()];
            let cells = cells.into_iter().chain([grouped(summary.total.sent)]);
            append(&mut rows, &line(cells, &summary.total.latency_us, Some(&rtt.latency_rtts)));
        }
        let Some(classes) = &summary.client_latency else { continue };
        let queries = classes.busy.queries + classes.non_busy.queries;
        for (name, class) in [("busy", &classes.busy), ("non-busy", &classes.non_busy)] {
            let ClassLatency { clients, queries: own, latency_us, latency_rtts, .. } = class;
            let limit = classes.busy_queries;
            let sign = if name == "busy" { "at least" } else { "fewer than" };
            let name = format!("{name}: {sign} {limit} queries");
            let cells = [escape(&run.label), name, grouped(*clients), share(*own, queries)];
            append(&mut rows, &line(cells.into_iter(), latency_us, latency_rtts.as_ref()));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["run", "clients", "number", "queries", "q1", "p50", "q3", "p99", "q1 / p50 / q3 in RTTs"];
    format!("<h2 id=\"clients-of-runs\">Latency by client</h2>\n{}{rows}{END}", head("lines", &columns))
}

fn line(cells: impl Iterator<Item = String>, latency: &Quantiles, rtts: Option<&Quantiles>) -> String {
    let times: [fn(&Quantiles) -> f64; 4] = [|q| q.q1, |q| q.p50, |q| q.q3, |q| q.p99];
    let times = times.into_iter().map(|value| time(latency, value));
    let rtts = rtts.filter(|rtts| rtts.n > 0);
    let rtts = rtts.map_or_else(String::new, |rtts| format!("{:.2} / {:.2} / {:.2}", rtts.q1, rtts.p50, rtts.q3));
    let cells: String = cells.chain(times).chain([rtts]).map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientLatency, Recording, RttLatency, Summary};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn busy_and_other_clients_have_a_row_each() {
        let text = r#"{"schema_version": 1, "transports": {}, "sent": 40, "offered_rate": 1, "achieved_rate": 1,
            "duration_seconds": 1, "validity": {"valid": true, "reasons": []},
            "limit": {"side": "none", "evidence": []}, "hosts": []}"#;
        let mut summary: Summary = serde_json::from_str(text).unwrap();
        let latency = |us: f64| Quantiles { q1: us, p50: us, q3: us, p99: us, n: 9, ..Quantiles::default() };
        let class = |clients, queries, us: f64| ClassLatency {
            clients,
            queries,
            latency_us: latency(us),
            latency_rtts: Some(latency(us / 20_000.0)),
            ..ClassLatency::default()
        };
        summary.rtt = Some(RttLatency { rtt_us: 20_000.0, latency_rtts: latency(1.5) });
        let (busy, non_busy) = (class(2, 30, 20_000.0), class(7, 10, 40_000.0));
        summary.client_latency = Some(ClientLatency { busy_queries: 250, busy, non_busy });
        let recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        let run = Run { label, origin, summary: Some(summary), manifest: None, total, recording, notes: Vec::new() };
        let html = table(&[run]);
        for row in [
            "<td>all; an RTT is 20.0 ms</td>",
            "<td>busy: at least 250 queries</td><td>2</td><td>30 (75.000 %)</td><td>20.0 ms</td>",
            "<td>1.50 / 1.50 / 1.50</td>",
            "<td>non-busy: fewer than 250 queries</td><td>7</td><td>10 (25.000 %)</td><td>40.0 ms</td>",
            "<td>2.00 / 2.00 / 2.00</td>",
        ] {
            assert!(html.contains(row), "{row}\n{html}");
        }
        assert_eq!(table(&[]), "");
    }
}
