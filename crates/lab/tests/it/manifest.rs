//! The Kubernetes manifest for agents: its command line must be one that catlab accepts.

use crate::support::program::CATLAB;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/catlab-agents.yaml");

/// Parses all documents of a YAML file with PyYAML; `None` if that is not installed.
fn documents(text: &str) -> Option<Vec<Value>> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = Command::new("python3");
    python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = python.spawn().ok()?;
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("ModuleNotFoundError") {
        return None;
    }
    assert!(output.status.success(), "{error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn words(of: &Value) -> Vec<String> {
    of.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_job_is_indexed_and_catlab_accepts_its_command_line() {
    let Some(all) = documents(&std::fs::read_to_string(MANIFEST).unwrap()) else {
        return skip::peer("python3 with yaml");
    };
    let find = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let job = find("Job");
    assert_eq!((&job["apiVersion"], &job["spec"]["completionMode"]), (&"batch/v1".into(), &"Indexed".into()));
    // A run uses all agents at once.
    assert!(job["spec"]["completions"].as_u64().unwrap() > 1);
    assert_eq!(job["spec"]["completions"], job["spec"]["parallelism"]);
    let pod = &job["spec"]["template"];
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    let container = &pod["spec"]["containers"][0];
    let line = [words(&container["command"]), words(&container["args"])].concat();
    assert_eq!(line[..2], ["catlab", "agent"]);

    // Variables in the command line must be in the environment.
    let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for variable in line.iter().flat_map(|word| word.split("$(").skip(1)).map(|rest| rest.split(')').next().unwrap()) {
        assert!(names.contains(&variable), "{variable} is not set: {names:?}");
    }
    assert!(line.iter().any(|word| word.contains("$(JOB_COMPLETION_INDEX)")), "{line:?}");
    // The folder that is written to must be mounted.
    let spool = line.iter().position(|word| word == "--spool").map(|at| &line[at + 1]).unwrap();
    let mount = container["volumeMounts"].as_array().unwrap().iter().find(|mount| mount["mountPath"] == spool[..]);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["name"] == mount.unwrap()["name"]), "{volumes:?}");

    let output = Command::new(CATLAB).args(["agent", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for option in line.iter().filter(|word| word.starts_with("--")) {
        let is_listed = |line: &str| line.trim_start().split([' ', '=']).next() == Some(option);
        assert!(help.lines().any(is_listed), "{option} is not in:\n{help}");
    }

    // The agents find the server by the name of the service. The service leads to the pods of the deployment, and the
    // network policy lets them connect.
    let (service, server, policy) = (find("Service"), find("Deployment"), find("NetworkPolicy"));
    let port = &service["spec"]["ports"][0]["port"];
    let address = format!("@{}:{port}", service["metadata"]["name"].as_str().unwrap());
    assert!(line.last().unwrap().ends_with(&address), "{line:?} {address}");
    let labels = &server["spec"]["template"]["metadata"]["labels"];
    assert_eq!((&service["spec"]["selector"], &policy["spec"]["podSelector"]["matchLabels"]), (labels, labels));
    let from = policy["spec"]["ingress"][0]["from"].as_array().unwrap();
    let labels = &pod["metadata"]["labels"];
    assert!(from.iter().any(|from| from["podSelector"]["matchLabels"] == *labels), "{from:?}");
}
