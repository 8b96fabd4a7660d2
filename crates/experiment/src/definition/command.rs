//! Command lines of `catlab` in a definition.

/// How long `catlab load` runs without `--duration`, in seconds.
const LOAD_SECONDS_DEFAULT: f64 = 10.0;

/// The load that counts the upstream queries of a resolver.
pub const HIERARCHY: &str = "hierarchy";

/// Splits a command line into words, as a shell does. Variables must be replaced before.
///
/// # Errors
/// A quote is not closed, or there is no word.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    match shlex::split(line) {
        Some(words) if words.is_empty() => {
            Err("the command line is empty; write for example `load --server ...`".into())
        }
        Some(words) => Ok(words),
        None => Err(format!("a quote is not closed in `{line}`")),
    }
}

/// How long a load runs, in seconds, if its command line says so.
#[must_use]
pub fn seconds(words: &[String]) -> Option<f64> {
    let words = own_words(words);
    if has(words, "--fast") {
        return None;
    }
    // A replay begins and ends at these times of its trace.
    if let Some(until) = option(words, "--until") {
        let speed = option(words, "--speed").map_or(Some(1.0), |speed| speed.parse::<f64>().ok());
        let from = report::parse_duration(option(words, "--from").unwrap_or("0s")).ok()?;
        let length = report::parse_duration(until).ok()?.saturating_sub(from);
        return speed.filter(|speed| *speed > 0.0).map(|speed| length.as_secs_f64() / speed);
    }
    if let Some(duration) = option(words, "--duration") {
        return report::parse_duration(duration).ok().map(|length| length.as_secs_f64());
    }
    let has_steps = option(words, "--rate").is_some_and(|rate| rate.contains('@'));
    let is_plain = words.first().is_some_and(|word| word == "load") && !has_steps && !has(words, "--once");
    is_plain.then_some(LOAD_SECONDS_DEFAULT)
}

/// Whether the command line has an option.
#[must_use]
pub fn has(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
}

/// The words before `--`. Those after it are of another program.
pub(crate) fn own_words(words: &[String]) -> &[String] {
    words.split(|word| word == "--").next().unwrap_or_default()
}

/// The value of an option, as `NAME VALUE` or `NAME=VALUE`.
pub(crate) fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(index, word)| {
        let rest = word.strip_prefix(name)?;
        if rest.is_empty() { words.get(index + 1).map(String::as_str) } else { rest.strip_prefix('=') }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_says_how_long_it_takes() {
        for (line, expected) in [
            ("load --duration 30s", Some(30.0)),
            ("load --duration=500ms", Some(0.5)),
            ("replay day.pcap --duration 2m", Some(120.0)),
            ("replay day.pcap --until 20s", Some(20.0)),
            ("replay day.pcap --until 20s --speed 0.5", Some(40.0)),
            ("replay day.pcap --from 1h --until 65m", Some(300.0)),
            ("replay day.pcap --until 20s --fast", None),
            ("load --rate 5 -- program --duration 1h", Some(10.0)),
            ("load --rate 5", Some(10.0)),
            ("load --rate 5@1s,6@2s", None),
            ("load --once --queries file", None),
            ("replay day.pcap", None),
            ("load --duration long", None),
            ("load --duration", Some(10.0)),
        ] {
            assert_eq!(seconds(&words(line).unwrap()), expected, "{line}");
        }
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(words("load --name 'q{n}.a b' --x=\"1\"").unwrap(), ["load", "--name", "q{n}.a b", "--x=1"]);
        assert!(words("load 'open").unwrap_err().contains("not closed"));
        assert!(words("  ").unwrap_err().contains("empty"));
    }
}
