//! The values of `--monitor`.

use super::cgroup::Cgroup;
use super::process::Process;
use super::prometheus::Endpoint;
use super::reading::Reading;
use std::fmt;
use std::io;
use std::str::FromStr;

/// A monitored source.
#[derive(Debug)]
pub enum Source {
    /// A process, by its ID.
    Process(Box<Process>),
    /// A control group, version 1 or 2, by its folder.
    Cgroup(Cgroup),
    /// A Prometheus endpoint.
    Prometheus(Endpoint),
}

/// Why a value cannot be monitored.
#[derive(Debug)]
pub enum SourceError {
    /// The value has none of the three forms.
    Form(String),
    /// The source cannot be read.
    Unreadable(String, io::Error),
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if text.starts_with("http://") {
            return Endpoint::new(text).map(Self::Prometheus).ok_or_else(|| SourceError::Form(text.to_owned()));
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("pid", text));
        let unreadable = |error| SourceError::Unreadable(text.to_owned(), error);
        match (kind, rest.parse()) {
            ("pid", Ok(pid)) => Process::new(pid).map(Box::new).map(Self::Process).map_err(unreadable),
            ("cgroup", _) => Cgroup::new(rest).map(Self::Cgroup).map_err(unreadable),
            _ => Err(SourceError::Form(text.to_owned())),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => {
                write!(
                    f,
                    "{text} is nothing to watch; write pid:4711, cgroup:/system.slice/nsd.service, \
                     or http://127.0.0.1:8054/metrics"
                )
            }
            Self::Unreadable(text, error) => write!(f, "{text} cannot be watched: {error}"),
        }
    }
}

impl std::error::Error for SourceError {}

impl Source {
    /// Reads the source once.
    ///
    /// # Errors
    /// If it no longer exists, or does not answer in time.
    pub fn read(&mut self) -> io::Result<Reading> {
        match self {
            Self::Process(process) => process.read(),
            Self::Cgroup(cgroup) => cgroup.read(),
            Self::Prometheus(endpoint) => endpoint.read(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => process.fmt(f),
            Self::Cgroup(cgroup) => cgroup.fmt(f),
            Self::Prometheus(endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitor_sources_are_parsed() {
        let own = std::process::id();
        assert_eq!(format!("pid:{own}").parse::<Source>().unwrap().to_string(), format!("pid {own}"));
        assert_eq!(own.to_string().parse::<Source>().unwrap().to_string(), format!("pid {own}"));
        let endpoint = "http://127.0.0.1:8054/metrics".parse::<Source>().unwrap();
        assert_eq!(endpoint.to_string(), "http://127.0.0.1:8054/metrics");
        assert!(matches!("http://nowhere".parse::<Source>(), Err(SourceError::Form(_))));
        assert!(matches!("disk:sda".parse::<Source>(), Err(SourceError::Form(_))));
        assert!(matches!("pid:4294967295".parse::<Source>(), Err(SourceError::Unreadable(..))));
        assert!(matches!("cgroup:/no/such/group".parse::<Source>(), Err(SourceError::Unreadable(..))));
    }
}
