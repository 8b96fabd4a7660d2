//! Command lines, and the examples that their help shows.

use super::*;
use clap::CommandFactory;
use std::path::PathBuf;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_consistent_and_every_command_has_examples() {
    fn look(command: &clap::Command, path: &str) {
        command.get_subcommands().for_each(|below| look(below, &format!("{path} {}", below.get_name())));
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(path == "catamaran" || help.contains("Examples:"), "{path} has no examples");
        // Each example parses as a command line.
        for example in help.lines().filter(|line| line.trim_start().starts_with("catamaran ")) {
            let line = example.trim().split("  ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
    }
    Cli::command().debug_assert();
    look(&Cli::command(), "catamaran");
    assert!(Cli::command().get_after_help().unwrap().to_string().contains("Exit codes"));
}

#[test]
fn defaults_are_the_documented_ones() {
    let Command::Up(up) = parse("catamaran up").unwrap().command else { panic!() };
    assert_eq!((up.nodes, up.port, up.api_port, up.supervise), (None, 5300, 8053, false));
    assert_eq!((up.dot_port, up.doh_port, up.doq_port), (None, None, None));
    assert_eq!(up.dir, PathBuf::from("./catamaran-data"));
    let Command::Up(up) = parse("catamaran up --zone a --zone b=c --nodes 5").unwrap().command else { panic!() };
    assert_eq!((up.zones, up.nodes), (vec!["a".to_owned(), "b=c".to_owned()], Some(5)));
}

#[test]
fn wrong_lines_are_refused() {
    for line in [
        "catamaran",
        "catamaran down",
        "catamaran up --nodes 0",
        "catamaran up --nodes 10",
        "catamaran up --port 70000",
        "catamaran up --dot-port 0",
        "catamaran serve",
        "catamaran key add",
        "catamaran key add a --file b",
        "catamaran join --dir a",
        "catamaran join --dir a --token b",
        "catamaran init --dir a --peer 1.2.3.4:5",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}
