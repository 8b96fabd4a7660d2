//! Domain names on the command line.

use process::problem::{Exit, Problem};
use wire::Name;

/// Parses a name. `example.org` and `example.org.` are the same.
pub(crate) fn domain_name(text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error| {
        Problem::new(Exit::Usage, format!("`{text}` is not a domain name"), error)
            .hint("write it as in www.example.org")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused_with_the_reason() {
        assert_eq!(domain_name("example.org").unwrap().to_string(), "example.org.");
        let label = "x".repeat(64);
        for (text, why) in
            [("foo..bar", "empty label"), (&label, "more than 63 bytes"), (&"a.".repeat(128), "255 bytes")]
        {
            let problem = domain_name(text).unwrap_err();
            assert!(problem.what.contains(text) && problem.why.contains(why), "{problem}");
        }
    }
}
