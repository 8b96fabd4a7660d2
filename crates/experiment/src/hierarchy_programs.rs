//! The programs that `hierarchy run` starts: a resolver, and servers that answer instead of `catlab`.

use crate::definition::command::{HIERARCHY, option, own_words};
use crate::results::ServerResult;
use testbed::resolver::Resolver;
use testbed::{Kind, Programs};

/// A program that a load starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HierarchyProgram {
    /// The resolver that is asked.
    Resolver(Resolver),
    /// The servers of the hierarchy.
    Backend(Kind),
}

impl HierarchyProgram {
    /// The programs that this load starts. None if it is no `hierarchy run`.
    pub(crate) fn of_load(words: &[String]) -> Vec<Self> {
        let words = own_words(words);
        if words.first().is_none_or(|word| word != HIERARCHY) {
            return Vec::new();
        }
        let resolver = option(words, "--resolver").and_then(Resolver::named).map(Self::Resolver);
        let backend = option(words, "--backend").and_then(Kind::named).map(Self::Backend);
        resolver.into_iter().chain(backend).collect()
    }

    /// The name in the option.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Resolver(resolver) => resolver.label(),
            Self::Backend(kind) => kind.label(),
        }
    }

    /// The kind of server with the same program.
    pub(crate) const fn kind(self) -> Option<Kind> {
        match self {
            Self::Resolver(Resolver::Unbound) => Some(Kind::Unbound),
            Self::Resolver(Resolver::Bind) => Some(Kind::Bind),
            Self::Resolver(Resolver::Knot) => Some(Kind::KnotResolver),
            Self::Resolver(Resolver::Pdns) => None,
            Self::Backend(kind) => Some(kind),
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        match self {
            Self::Resolver(resolver) => testbed::installed(resolver.program()).is_some(),
            Self::Backend(kind) => Programs::default().find(kind).is_some(),
        }
    }

    /// How to install it.
    pub(crate) const fn how_to_install(self) -> &'static str {
        match self {
            Self::Resolver(resolver) => resolver.how_to_install(),
            Self::Backend(kind) => kind.how_to_install(),
        }
    }

    /// What the page says about it. Its configuration is in the run folder of the load.
    pub(crate) fn result(self) -> ServerResult {
        let (role, version) = match self {
            Self::Resolver(resolver) => ("resolver", resolver.version()),
            Self::Backend(kind) => {
                let program = Programs::default().find(kind);
                ("hierarchy", program.map(|program| kind.version(&program)).unwrap_or_default())
            }
        };
        ServerResult { name: role.into(), kind: self.label().into(), version, configuration: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::command::words;

    #[test]
    fn a_load_starts_the_programs_in_its_options() {
        let labels = |line: &str| {
            let programs = HierarchyProgram::of_load(&words(line).unwrap());
            programs.into_iter().map(|program| (program.label(), program.result().name)).collect::<Vec<_>>()
        };
        let both = labels("hierarchy run tree --resolver unbound --backend=nsd --ask q -- true");
        assert_eq!(both, [("unbound", "resolver".to_owned()), ("nsd", "hierarchy".to_owned())]);
        assert_eq!(labels("hierarchy run tree -- own --resolver bind"), []);
        assert_eq!(labels("load --resolver bind"), []);
    }
}
