//! Configurations of resolvers: one file for each resolver.

mod bind;
mod knot;
mod powerdns;
mod setup;
mod unbound;

pub use setup::{ADDRESS, PORT, ResolverSetup, RootKey};

use crate::Kind;

/// The kind of resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolver {
    /// Unbound.
    Unbound,
    /// BIND.
    Bind,
    /// PowerDNS Recursor.
    Pdns,
    /// Knot Resolver.
    Knot,
}

impl Resolver {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Unbound, Self::Bind, Self::Pdns, Self::Knot];

    /// The name in options.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Bind => "bind",
            Self::Pdns => "pdns",
            Self::Knot => "knot",
        }
    }

    /// The resolver with this name in options.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.label() == name)
    }

    /// The name of its program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Bind => "named",
            Self::Pdns => "pdns_recursor",
            Self::Knot => "kresd",
        }
    }

    /// How to install its program.
    #[must_use]
    pub const fn how_to_install(self) -> &'static str {
        match self {
            Self::Unbound => Kind::Unbound.how_to_install(),
            Self::Bind => Kind::Bind.how_to_install(),
            Self::Pdns => "apt install pdns-recursor",
            Self::Knot => Kind::KnotResolver.how_to_install(),
        }
    }

    /// The first line that its program prints as its version. Empty if it does not run.
    #[must_use]
    pub fn version(self) -> String {
        let option = if self == Self::Pdns { "--version" } else { "-V" };
        crate::installed(self.program()).map(|program| crate::version(&program, option)).unwrap_or_default()
    }

    /// The name of its configuration file.
    #[must_use]
    pub const fn config_name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound.conf",
            Self::Bind => "named.conf",
            Self::Pdns => "recursor.conf",
            Self::Knot => "kresd.conf",
        }
    }

    /// Its configuration: names and contents of the files in its folder.
    #[must_use]
    pub fn files(self, setup: &ResolverSetup) -> Vec<(&'static str, String)> {
        let text = match self {
            Self::Unbound => unbound::config(setup),
            Self::Bind => bind::config(setup),
            Self::Pdns => powerdns::config(setup),
            Self::Knot => knot::config(setup),
        };
        let lua = (self == Self::Pdns).then(|| (powerdns::LUA, powerdns::lua(setup)));
        [(self.config_name(), text)].into_iter().chain(lua).collect()
    }

    /// The name of its program, and its arguments. It runs in the foreground and logs to standard error.
    #[must_use]
    pub fn command(self, setup: &ResolverSetup) -> Vec<String> {
        let config = setup.folder.join(self.config_name()).display().to_string();
        let folder = setup.folder.display().to_string();
        let config_dir = format!("--config-dir={folder}");
        let options = match self {
            Self::Unbound => vec!["-d", "-c", &config],
            Self::Bind if setup.ipv4_only => vec!["-g", "-4", "-c", &config],
            Self::Bind => vec!["-g", "-c", &config],
            Self::Pdns => vec![&*config_dir],
            Self::Knot => vec!["-n", "-c", &config, &folder],
        };
        std::iter::once(self.program()).chain(options).map(str::to_owned).collect()
    }
}
