//! What runs leave behind when they end or are killed, and which runs are refused.

use super::{can_make_namespaces, catlab, ended, has_namespace, synthesized, until};
use crate::support::Folder;
use hierarchy::synth::SynthPlan;
use std::process::Command;

#[test]
fn a_killed_run_is_cleaned_up_and_an_interrupted_one_cleans_up_itself() {
    if !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("hierarchy-killed");
    let tree = synthesized(&folder, SynthPlan { zone_count: 5, ..SynthPlan::default() });
    let records = folder.path().join("nets");
    // A separate record folder, so that other tests that clean up do not interfere.
    let own = |arguments: &[&str]| {
        let mut command = catlab(arguments);
        command.env("CATLAB_RUN_DIR", &records);
        command
    };
    for signal in ["-KILL", "-TERM"] {
        let mark = folder.path().join(signal);
        let script = format!("touch {}; exec sleep 600", mark.display());
        let mut child = own(&["hierarchy", "run", tree.to_str().unwrap(), "--", "sh", "-c", &script]).spawn().unwrap();
        until("the program runs", || mark.exists());
        let listed = ended(&own(&["net", "list"]).output().unwrap()).1;
        let names: Vec<_> =
            listed.split_whitespace().filter(|reason| reason.contains('.')).map(str::to_owned).collect();
        assert_eq!(names.len(), 2, "{listed}");
        assert!(names.iter().all(|name| has_namespace(name)), "{listed}");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        if signal == "-TERM" {
            assert_eq!(status.code(), Some(130));
        } else {
            assert!(names.iter().all(|name| has_namespace(name)), "it had no time to remove them");
            assert_eq!(ended(&own(&["net", "clean"]).output().unwrap()).0, 0);
        }
        assert!(!names.iter().any(|name| has_namespace(name)), "{names:?}");
        assert_eq!(ended(&own(&["net", "list"]).output().unwrap()).1, "");
    }
}

#[test]
fn runs_that_cannot_be_done_are_refused_with_a_reason() {
    let folder = Folder::new("hierarchy-refused");
    let tree = synthesized(&folder, SynthPlan { zone_count: 2, ..SynthPlan::default() });
    let piped = folder.path().join("piped");
    SynthPlan { zone_count: 2, ..SynthPlan::default() }.write(&piped).unwrap();
    let pipe = piped.join("zones/root.zone");
    std::fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (tree, missing) = (tree.to_str().unwrap(), folder.path().join("missing"));
    let (piped, missing) = (piped.to_str().unwrap(), missing.to_str().unwrap());
    for (arguments, reason) in [
        (&["hierarchy", "run", tree][..], "COMMAND"),
        (&["hierarchy", "run", tree, "--ask", "x", "--", "true"], "--resolver"),
        (&["hierarchy", "run", tree, "--own-hints", "--", "true"], "without a resolver: add --resolver"),
        (&["hierarchy", "run", tree, "--threads", "0", "--", "true"], "1 to"),
        (&["hierarchy", "run", missing, "--", "true"], "missing/hierarchy.json"),
        (&["hierarchy", "run", tree, "--", "nosuchprogram"], "nosuchprogram: no such program"),
        (
            &["hierarchy", "run", tree, "--", "/etc/passwd"],
            "cannot run /etc/passwd: no such program, or not executable",
        ),
        // Nobody writes to the pipe, and the command does not wait for it.
        (&["hierarchy", "run", piped, "--", "true"], "root.zone: it is read more than once"),
        (&["hierarchy", "run", tree, "--resolver", "bind", "--ask", missing], "missing"),
        (&["hierarchy", "run", tree, "--resolver", "djbdns", "--", "true"], "djbdns"),
        (&["hierarchy", "profile", "bind", "--minimisation", "maybe", "--out", missing], "write on or off"),
        (&["zones", "synth", "--zones", "1", "--out", missing], "zones: 2 to"),
        (&["zones", "synth", "--zones", "9", "--servers", "99", "--out", missing], "servers of a zone"),
    ] {
        let (code, _, error) = ended(&catlab(arguments).output().unwrap());
        assert!(code == 2 && error.contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn a_profile_says_how_the_resolver_is_started() {
    let folder = Folder::new("hierarchy-profile");
    for (resolver, program) in [("unbound", "unbound"), ("bind", "named"), ("pdns", "pdns_recursor"), ("knot", "kresd")]
    {
        let out = folder.path().join(resolver);
        let output = catlab(&["hierarchy", "profile", resolver, "--out"]).arg(&out).output().unwrap();
        let (code, text, error) = ended(&output);
        assert!(code == 0 && text.starts_with(program) && text.contains(out.to_str().unwrap()), "{text}{error}");
    }
}
