//! The configuration as TOML: values with their positions, not yet validated.

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub(super) zone: Spanned<String>,
    pub(super) servers: Spanned<Vec<Spanned<String>>>,
    pub(super) key_file: PathBuf,
    #[serde(default = "state_file")]
    pub(super) state_file: PathBuf,
    pub(super) metrics_file: Option<PathBuf>,
    pub(super) metrics_listen: Option<SocketAddr>,
    #[serde(default = "an_hour")]
    pub(super) check_period_s: Spanned<u64>,
    #[serde(default)]
    pub(super) sandbox: SandboxText,
    pub(super) name: Spanned<Vec<NameText>>,
    #[serde(default, alias = "outside")]
    pub(super) public_address: PublicAddressText,
}

/// Whether the process drops privileges that it does not need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SandboxText {
    #[default]
    On,
    Off,
}

/// A `[[name]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NameText {
    pub(super) name: Spanned<String>,
    #[serde(default = "a_minute")]
    pub(super) ttl: Spanned<u32>,
    #[serde(default = "no_span")]
    pub(super) ipv4: Spanned<SourceText>,
    #[serde(default = "no_span")]
    pub(super) ipv6: Spanned<SourceText>,
    #[serde(default = "no_span")]
    pub(super) interfaces: Spanned<Vec<String>>,
    #[serde(default)]
    pub(super) private: bool,
    #[serde(default)]
    pub(super) temporary: bool,
    #[serde(default = "withdraw_after")]
    pub(super) withdraw_after_s: Spanned<u64>,
}

/// Where addresses come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SourceText {
    Off,
    #[default]
    Interface,
    #[serde(alias = "outside")]
    Public,
}

/// The `[public_address]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PublicAddressText {
    pub(super) agree: Spanned<usize>,
    pub(super) period_s: Spanned<u64>,
    pub(super) private: bool,
    pub(super) authorities_file: Option<PathBuf>,
    pub(super) probe: Vec<Spanned<ProbeText>>,
}

impl Default for PublicAddressText {
    fn default() -> Self {
        Self {
            agree: Spanned::new(0..0, 1),
            period_s: Spanned::new(0..0, 300),
            private: false,
            authorities_file: None,
            probe: Vec::new(),
        }
    }
}

/// A `[[public_address.probe]]`: one of `dns`, `http` and `stun`, and the rest for `dns`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeText {
    pub(super) dns: Option<String>,
    pub(super) name: Option<String>,
    #[serde(rename = "type")]
    pub(super) rtype: Option<String>,
    pub(super) class: Option<String>,
    pub(super) http: Option<String>,
    pub(super) stun: Option<String>,
}

/// A default value, without a position.
fn no_span<T: Default>() -> Spanned<T> {
    Spanned::new(0..0, T::default())
}

fn state_file() -> PathBuf {
    PathBuf::from("state.json")
}

fn an_hour() -> Spanned<u64> {
    Spanned::new(0..0, 3_600)
}

fn a_minute() -> Spanned<u32> {
    Spanned::new(0..0, 60)
}

fn withdraw_after() -> Spanned<u64> {
    Spanned::new(0..0, 60)
}
