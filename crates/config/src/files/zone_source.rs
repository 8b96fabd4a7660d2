//! The zone file arguments of commands.

use process::problem::{Exit, Problem};
use std::path::PathBuf;
use wire::name::Name;

/// A `--zone` argument: `FILE` or `ORIGIN=FILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneArgument {
    /// Name of the zone, if it is given.
    pub origin: Option<Name>,
    /// The zone file.
    pub file: PathBuf,
}

impl ZoneArgument {
    /// Parses the argument. If a file with the whole text as its name exists, the text is a file name.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let plain = Self { origin: None, file: PathBuf::from(text) };
        let Some((origin, file)) = text.split_once('=').filter(|_| !plain.file.exists()) else { return Ok(plain) };
        let origin: Name = origin.parse().map_err(|error| {
            Problem::new(Exit::Usage, format!("`{origin}` is not a domain name"), error)
                .hint("write ORIGIN=FILE as in `example.org=db.example`")
        })?;
        Ok(Self { origin: Some(origin), file: PathBuf::from(file) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn arguments_have_a_file_and_an_optional_origin() {
        let argument = ZoneArgument::parse("example.org=some/db").unwrap();
        assert_eq!(argument.origin.unwrap().to_string(), "example.org.");
        assert_eq!(argument.file, Path::new("some/db"));
        assert_eq!(ZoneArgument::parse("db").unwrap(), ZoneArgument { origin: None, file: "db".into() });
        assert_eq!(ZoneArgument::parse(".=root").unwrap().origin, Some(Name::root()));
        assert!(ZoneArgument::parse("a..b=db").unwrap_err().to_string().contains("a..b"));
        let dir = process::testing::test_dir("zone-argument");
        let odd = dir.path().join("a=b");
        std::fs::write(&odd, "").unwrap();
        assert_eq!(ZoneArgument::parse(odd.to_str().unwrap()).unwrap(), ZoneArgument { origin: None, file: odd });
    }
}
