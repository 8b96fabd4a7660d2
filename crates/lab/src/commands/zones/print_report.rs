//! Prints the report of a build.

use hierarchy::construct::{Conflict, Findings, Report, ZoneReport};
use std::collections::BTreeMap;

/// Lines printed of each kind. `report.json` has more.
const SHOWN_COUNT: usize = 10;
/// Zones printed.
const ZONES_SHOWN_COUNT: usize = 40;

/// Prints the report, with message counts if there were messages.
pub(super) fn print(report: &Report, has_messages: bool) {
    if has_messages {
        print_messages(report);
    }
    print_zones(&report.zones);
    by_reason("synthesized", &report.made, |made| (&made.why, format!("{} (zone {})", made.rrset, made.zone)));
    by_reason("left out", &report.dropped, |dropped| {
        (dropped.why, format!("{} (zone {})", dropped.rrset, dropped.zone))
    });
    by_reason("conflicting answers", &report.conflicts, |conflict| {
        let what = match conflict.what {
            "ttl" => "the TTL differs; the first is kept",
            "exists" => "a denial and records; the records are kept",
            _ => "the records differ; the first are kept",
        };
        let other = conflict.others.first().map(|other| format!(", first {}", other.records.join(", ")));
        let Conflict { rrset, zone, messages, .. } = conflict;
        (what, format!("{rrset} (zone {zone}), {messages} times{}", other.unwrap_or_default()))
    });
}

fn print_messages(report: &Report) {
    let Report { messages, used, truncated, left_out, malformed_records, over_bound, .. } = report;
    println!("{messages} messages, {used} of them responses with zone data ({truncated} truncated)");
    for (why, count) in left_out {
        println!("  left out: {count} {}", why.meaning());
    }
    if *malformed_records > 0 {
        println!("  left out: {malformed_records} records with malformed data");
    }
    if *over_bound > 0 {
        println!("  left out: {over_bound} names, records or servers beyond the limits; build from parts of the trace");
    }
}

fn print_zones(zones: &[ZoneReport]) {
    println!("{} zones", zones.len());
    for zone in zones.iter().take(ZONES_SHOWN_COUNT) {
        let mut line = format!("  {}: {} records, {} servers", zone.name, zone.records, zone.servers.len());
        for (is_so, what) in [(zone.is_signed, "signed"), (zone.is_made, "not named in any response")] {
            if is_so {
                line = line + ", " + what;
            }
        }
        for (count, what) in [(zone.missing_proofs, "proofs"), (zone.missing_glue, "delegations' glue")] {
            if count > 0 {
                line += &format!(", {count} {what} never seen");
            }
        }
        println!("{line}");
    }
    more(zones.len() as u64, ZONES_SHOWN_COUNT);
    let hold = || zones.iter().filter_map(|zone| zone.signatures_hold.as_ref());
    let (from, until) = (hold().map(|[from, _]| from).max(), hold().map(|[_, until]| until).min());
    if let (Some(from), Some(until)) = (from, until) {
        let note = if from <= until { "" } else { ", but never all at once" };
        println!("  signatures are valid from {from} until {until} (UTC){note}");
    }
}

/// Prints the first findings by reason.
fn by_reason<F>(head: &str, findings: &Findings<F>, describe: impl Fn(&F) -> (&str, String)) {
    if findings.count == 0 {
        return;
    }
    println!("{head}: {}", findings.count);
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in &findings.first {
        let (why, what) = describe(finding);
        reasons.entry(why).or_default().push(what);
    }
    for (why, all) in reasons {
        println!("  {why}: {}", all.len());
        all.iter().take(SHOWN_COUNT).for_each(|what| println!("    {what}"));
        more(all.len() as u64, SHOWN_COUNT);
    }
}

fn more(count: u64, shown: usize) {
    let left = count.saturating_sub(shown as u64);
    if left > 0 {
        println!("    and {left} more, in report.json");
    }
}
