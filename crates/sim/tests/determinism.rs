//! The same seed gives the same run, in this process and in others.

use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_catamaran-sim")).args(arguments).output().expect("the simulator starts")
}

/// The last lines, except the line with the run time, and lines of progress that a slow machine prints.
fn closing(output: &Output) -> (Vec<String>, String) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines = text.lines().filter(|line| !line.contains("virtual hours") && !line.starts_with("... "));
    let traces = text.split("traces ").nth(1).unwrap().split_whitespace().next().unwrap();
    (lines.map(str::to_owned).collect(), traces.to_owned())
}

#[test]
fn two_processes_give_the_trace_that_this_one_gives() {
    let [one, other] = [(); 2].map(|()| sim(&["--first-seed", "3", "--seeds", "2"]));
    assert!(one.status.success(), "{one:?}");
    assert_eq!(closing(&one), closing(&other));
    let hash = |seed, members| catamaran_sim::run::run(seed, members, false).unwrap().trace_hash;
    let both = hash(3, 3).rotate_left(1) ^ hash(4, 5);
    assert_eq!(closing(&one).1, format!("{both:032x}"));
    let another = sim(&["--first-seed", "5", "--seeds", "2"]);
    assert_ne!(closing(&one).1, closing(&another).1);
}

#[test]
fn a_trace_is_printed_and_does_not_change_the_run() {
    let printed = sim(&["--first-seed", "3", "--seeds", "1", "--members", "5", "--trace"]);
    let silent = sim(&["--first-seed", "3", "--seeds", "1", "--members", "5"]);
    assert_eq!(closing(&printed).1, closing(&silent).1);
    let lines = printed.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!(lines > 5_000, "{lines} lines");
}

#[test]
fn a_wrong_command_line_is_no_failed_seed() {
    assert_eq!(sim(&["--members", "4"]).status.code(), Some(2));
    assert_eq!(sim(&["--seeds", "1", "--seconds", "1"]).status.code(), Some(2));
    let help = String::from_utf8(sim(&["--help"]).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("--first-seed"));
}
