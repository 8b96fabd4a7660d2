//! Configurations of resolvers: one file for each resolver.

mod bind;
mod knot;
mod powerdns;
mod setup;
mod unbound;

pub use setup::{ADDRESS, PORT, ResolverSetup, RootKey};

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

    /// The program and its arguments. It runs in the foreground and logs to standard error.
    #[must_use]
    pub fn command(self, setup: &ResolverSetup) -> Vec<String> {
        let config = setup.folder.join(self.config_name()).display().to_string();
        let folder = setup.folder.display().to_string();
        let config_dir = format!("--config-dir={folder}");
        let words = match self {
            Self::Unbound => vec!["unbound", "-d", "-c", &config],
            Self::Bind if setup.ipv4_only => vec!["named", "-g", "-4", "-c", &config],
            Self::Bind => vec!["named", "-g", "-c", &config],
            Self::Pdns => vec!["pdns_recursor", &config_dir],
            Self::Knot => vec!["kresd", "-n", "-c", &config, &folder],
        };
        words.into_iter().map(str::to_owned).collect()
    }
}
