//! The reference page of the command line.

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
    let mut command = cli::definition("");
    command.build();
    let mut page = "# catamaran commands\n\n\
        This page is what `--help` prints for each command. A test writes it: edit the help texts in\n\
        `crates/cli/src`.\n"
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
