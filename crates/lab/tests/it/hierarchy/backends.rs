//! A hierarchy whose addresses are answered by servers under test.

use super::{can_make_namespaces, catlab, ended, has_program, leaf, synthesized, until};
use crate::support::Folder;
use hierarchy::synth::SynthPlan;
use serde_json::Value;
use std::process::Stdio;
use testbed::Kind;

/// A resolver resolves names through servers with one level of the hierarchy each. Referrals, answers and TCP come from
/// these servers.
fn walks(kind: Kind) {
    if !can_make_namespaces() || !has_program("unbound") || !has_program("dig") {
        return;
    }
    if kind.program().is_none() {
        return skip::peer(kind.label());
    }
    let folder = Folder::new(&format!("hierarchy-behind-{}", kind.label()));
    let tree = synthesized(&folder, SynthPlan { zone_count: 20, depth: 4, ..SynthPlan::default() });
    let (leaf, parent, address) = leaf(&tree);
    let script = format!(
        "dig +short @127.0.0.1 www.{leaf} A; dig +noall +comments @127.0.0.1 none.{leaf} A;
         dig +tcp +noall +authority @198.41.0.4 www.{leaf} A; dig +noall +comments @192.0.2.99 x.example TXT"
    );
    let output = catlab(&["hierarchy", "run", tree.to_str().unwrap(), "--resolver", "unbound"])
        .args(["--backend", kind.label(), "--json", folder.path().join("report.json").to_str().unwrap()])
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    let (code, text, error) = ended(&output);
    assert_eq!(code, 0, "{text}{error}");
    let top = parent.rsplit('.').nth(1).unwrap_or(&parent).to_owned() + ".";
    assert!(text.starts_with(&format!("{address}\n")), "{text}{error}");
    assert!(text.contains("status: NXDOMAIN") && text.contains("status: REFUSED"), "{text}{error}");
    assert!(text.lines().any(|line| line.starts_with(&top) && line.contains("NS")), "{top}: {text}");
    assert!(error.contains(&format!("servers under test: {}", kind.label())), "{error}");
    let report: Value = serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    let upstream = &report["upstream"];
    assert_eq!(upstream["unanswered_by_backend"], 0, "{report:#}");
    assert_eq!(upstream["to_unnamed_addresses"], 1, "{report:#}");
    assert!(upstream["answers"]["referral"].as_u64().unwrap() >= 3, "{report:#}");
    assert!(upstream["over_tcp"].as_u64().unwrap() >= 1, "{report:#}");
}

#[test]
fn nsd_serves_a_whole_hierarchy() {
    walks(Kind::Nsd);
}

#[test]
fn knot_serves_a_whole_hierarchy() {
    walks(Kind::Knot);
}

#[test]
fn bind_serves_a_whole_hierarchy() {
    walks(Kind::Bind);
}

#[test]
fn catamaran_serves_a_whole_hierarchy() {
    walks(Kind::Catamaran);
}

#[test]
fn net_clean_stops_servers_left_by_a_killed_run() {
    if !can_make_namespaces() || !has_program("nsd") {
        return;
    }
    let folder = Folder::new("hierarchy-backend-killed");
    let tree = synthesized(&folder, SynthPlan { zone_count: 8, ..SynthPlan::default() });
    let out = folder.path().join("out");
    let records = folder.path().join("records");
    let mut run = catlab(&["hierarchy", "run", tree.to_str().unwrap(), "--backend", "nsd", "--out"])
        .arg(&out)
        .args(["--", "sleep", "100"])
        .env("CATLAB_RUN_DIR", &records)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid_file = out.join("backend/level-0/nsd.pid");
    until("NSD has written its PID file", || std::fs::read_to_string(&pid_file).is_ok_and(|text| text.contains('\n')));
    let pid: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let is_there = || std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|text| text.contains("nsd"));
    assert!(is_there());
    run.kill().unwrap();
    run.wait().unwrap();
    let output = catlab(&["net", "clean"]).env("CATLAB_RUN_DIR", &records).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    until("NSD has ended", || !is_there());
}
