//! Zones that change or are transferred, and nodes that join, while loads run.

use super::{LOAD, ROOT_ZONE, assert_failed, only_cell};
use experiment::results::{CellResult, Outcome};

/// An event that changes this many zones.
fn change(seconds: f64, action: &str, zones: u32) -> String {
    format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\naction = '{action}'\nzones = {zones}\n")
}

/// Runs a cell whose events all happen. `None` if the server is not installed.
fn measured(kind: &str, text: &str) -> Option<CellResult> {
    let result = only_cell(&format!("{ROOT_ZONE}{text}"));
    match &result.outcome {
        Outcome::NotMeasured(reasons) if reasons[0].contains("is not installed") => {
            skip::peer(kind);
            return None;
        }
        outcome => assert_eq!(*outcome, Outcome::Measured, "{kind}"),
    }
    assert!(!result.events.is_empty() && result.events.iter().all(|event| event.happened), "{:?}", result.events);
    Some(result)
}

#[test]
fn zones_are_removed_and_added_again() {
    let load = LOAD.replace("dns.address", "dns.last").replace("--duration 1s", "--duration 9s");
    let events = change(0.5, "remove-zones", 4) + &change(4.5, "add-zones", 4);
    for (kind, nodes) in [("catamaran", 1), ("bind", 2), ("knot", 2)] {
        let server = format!(
            "[[server]]\nname = 'dns'\nkind = '{kind}'\nnodes = {nodes}\nthreads = 1\nkey = true\n\
             catalog = 'catalog.invalid.'\nhierarchy = 'tree'\n"
        );
        let result = measured(kind, &format!("{server}{load}{events}"));
        assert!(result.is_none_or(|result| result.figures["answered"] == 1_800.0), "{kind}");
    }
}

#[test]
fn a_node_joins_reloads_and_transfers_zones() {
    let (load, check) = (LOAD.replace("--duration 1s", "--duration 15s"), LOAD.replace("dns.address", "dns.last"));
    let load = load.replace("[[load]]", "[[load]]\nname = 'queries'");
    let check = check.replace("[[load]]", "[[load]]\nname = 'check'\nat_end = true");
    let at = |seconds: f64, event: &str| format!("[[at]]\nseconds = {seconds}\nserver = 'dns'\n{event}\n");
    // A node of a cluster joins although another one is gone. A secondary needs its primary.
    let kill = at(0.2, "node = 'follower'\naction = 'kill'");
    for (kind, nodes, fault) in [("catamaran", 4, kill.as_str()), ("bind", 2, ""), ("knot", 2, "")] {
        let events = [
            fault.to_owned(),
            at(0.5, "action = 'join'"),
            at(1.0, &format!("node = {nodes}\naction = 'reload'")),
            change(1.5, "transfer-zones", 9),
        ];
        let events = events.concat();
        let server = format!(
            "[[server]]\nname = 'dns'\nkind = '{kind}'\nnodes = {nodes}\njoining = 1\nthreads = 1\nkey = true\n\
             hierarchy = 'tree'\n"
        );
        let result = measured(kind, &format!("{server}{load}{check}{events}"));
        // The node that joined answers: the check asks the last one.
        assert!(result.is_none_or(|result| result.figures["check.answered"] == 200.0), "{kind}");
    }
}

#[test]
fn zones_that_a_server_does_not_have_cannot_be_removed() {
    if testbed::Kind::Catamaran.program().is_none() {
        return skip::peer("catamaran");
    }
    let server = "[[server]]\nname = 'dns'\nkind = 'catamaran'\nthreads = 1\nhierarchy = 'tree'\n";
    let result = only_cell(&format!("{ROOT_ZONE}{server}{LOAD}{}", change(0.2, "remove-zones", 10)));
    assert_failed(&result, "only 9 zones of its hierarchy are left, so 10 cannot be removed");
    let result = only_cell(&format!("{ROOT_ZONE}{server}{LOAD}{}", change(0.2, "add-zones", 1)));
    assert_failed(&result, "0 zones were removed, so 1 cannot be added again");
    let server = server.replace("threads = 1", "key = true");
    let result = only_cell(&format!("{ROOT_ZONE}{server}{LOAD}{}", change(0.2, "transfer-zones", 10)));
    assert_failed(&result, "it serves fewer than 10 zones of its hierarchy");
}
