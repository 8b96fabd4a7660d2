//! Command lines, and the examples that their help shows.

use super::*;
use clap::CommandFactory;

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
fn defaults_are_those_of_the_contract() {
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

/// Adds the help of a command and of all commands below it to the page.
fn add_help(command: &clap::Command, page: &mut String) {
    let path = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let help = command.clone().render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {path}\n\n```text\n{}\n```\n", help.join("\n")));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        add_help(below, page);
    }
}

#[test]
fn the_reference_page_is_what_help_prints() {
    let mut command = Cli::command();
    command.build();
    let mut page = "# catamaran commands\n\n\
        This page is what `--help` prints for each command. A test writes it: edit the help texts in\n\
        `crates/server/src/cli`.\n"
        .to_owned();
    add_help(&command, &mut page);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    if std::env::var_os("CATAMARAN_WRITE").is_some() {
        std::fs::write(file, page).unwrap();
        return;
    }
    let old = std::fs::read_to_string(file).unwrap_or_default();
    let (mut old_lines, mut lines) = (old.lines(), page.lines());
    let (mut line_number, mut pair) = (1, (old_lines.next(), lines.next()));
    while pair.0 == pair.1 && pair.0.is_some() {
        line_number += 1;
        pair = (old_lines.next(), lines.next());
    }
    assert!(
        old == page,
        "docs/reference/cli.md, line {line_number}:\n  the page has      {:?}\n  `--help` prints   {:?}\n\
         To rewrite the page: CATAMARAN_WRITE=1 cargo test -p catamaran-server --bin catamaran the_reference_page",
        pair.0.unwrap_or("nothing more"),
        pair.1.unwrap_or("nothing more")
    );
}
