//! Runs that cannot be done are refused, by the controller or by an agent.

use super::{CATLAB, catlab, ended};
use crate::support::Folder;
use crate::support::nats::{Agent, Nats, here};
use std::process::Command;

#[test]
fn runs_that_cannot_be_done_are_refused_with_a_reason() {
    let folder = Folder::new("agents-refused");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let out = folder.path().join("run");
    let load = "load --server 127.0.0.1:9 --name q{n}.example --rate 10 --duration 1s";
    let refused = |words: &str, agents: usize| {
        let (code, text, error) = ended(&catlab(words, &url, agents, &out).output().unwrap());
        assert_eq!(code, 2, "{text}{error}");
        error
    };
    let error = refused(&format!("{load} --agents-wait 1s"), 2);
    assert!(error.contains("0 of 2 agents answered within 1 s"), "{error}");
    let error = refused(&format!("{load} --source 127.0.0.1"), 1);
    assert!(error.contains("--source does not go with --nats"), "{error}");
    // `--i-own-this-target` of the controller does not count for the agent.
    let agent = Agent::start(&here, &url, "mine", folder.path(), &[]);
    let stranger = "load --server 192.0.2.1 --name q{n}.example --rate 10 --duration 1s --i-own-this-target";
    let error = refused(stranger, 1);
    assert!(error.contains("agent mine: ") && error.contains("192.0.2.1:53: it is not on loopback"), "{error}");
    let error = refused(&format!("{load} --closed-loop --in-flight 1 --agents-wait 10s").replace("--rate 10 ", ""), 2);
    assert!(error.contains("1 of 2 agents answered within 10 s (mine)"), "{error}");
    // The agent still takes the next run.
    assert!(agent.line().ends_with(": load") && agent.line().contains(" ended: "));
    let server = Command::new(CATLAB)
        .args(load.split(' '))
        .args(["--quiet", "--nats", "nats://127.0.0.1:9", "--agents", "1"])
        .output()
        .unwrap();
    assert_eq!(ended(&server).0, 2);
    assert!(ended(&server).2.contains("NATS at 127.0.0.1:9: "), "{server:?}");
}
