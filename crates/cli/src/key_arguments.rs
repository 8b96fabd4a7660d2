//! The command line of `key` and `policy`.

use crate::target::Target;
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const KEY_EXAMPLES: &str = "\
Examples:
  catamaran key add dhcp --update --zone example.org --out dhcp.key
  catamaran key list
  catamaran key remove dhcp";

pub(super) const POLICY_EXAMPLES: &str = "\
Examples:
  catamaran policy set example.org rules
  catamaran policy show
  catamaran policy check dhcp www.example.org AAAA
  catamaran policy import /etc/bind/named.conf";

const POLICY_SET_EXAMPLES: &str = "\
Examples:
  catamaran policy set example.org rules
  catamaran policy set --all-zones rules
  catamaran policy set example.org -             read standard input; empty input removes all rules
  catamaran policy set example.org rules --expect 0f3ab5c27d9e6418
                                                 fail if the rules changed since `policy show`

Rules are written as in BIND's update-policy. The first rule that matches decides:
  grant dhcp zonesub A(4) AAAA(4) TXT DHCID;     at most four addresses of each type at a name
  grant acme.example.org name _acme-challenge.www.example.org TXT(8);
  grant *.hosts.example.org self . A AAAA SSHFP; each host updates the name of its own key
  deny * name www.example.org;
  grant \"local:/run/auth.sock\" external * A AAAA; a daemon on the node that gets the update decides
Limits apply to all updates with a key:
  limit dhcp update-records 200 update-bytes 16000 name-records 12 zone-records 100000;
The rules of the zone apply first, then the rules for all zones, then the grants of `key add --update`. An update that
no rule and no grant allows is refused. A rule without types covers all types but SOA, NS and RRSIG.";
const POLICY_SHOW_EXAMPLES: &str = "\
Examples:
  catamaran policy show
  catamaran policy show example.org";
const POLICY_CHECK_EXAMPLES: &str = "\
Examples:
  catamaran policy check dhcp www.example.org AAAA
  catamaran policy check dhcp 7.2.0.192.in-addr.arpa PTR --source 192.0.2.7 --tcp

Prints whether the key may write the name and type, the rule that decides, and the limits of the key. A daemon
(external) is not queried: the output says that it decides.";
const POLICY_IMPORT_EXAMPLES: &str = "\
Examples:
  catamaran policy import /etc/bind/named.conf --dry-run
  catamaran policy import /etc/bind/named.conf --zone example.org

Imports `update-policy`, and `allow-update` with keys, of the primary zones that this cluster serves. If a rule cannot
be imported, prints its file, line and column, and changes nothing.";
const KEY_ADD_EXAMPLES: &str = "\
Examples:
  catamaran key add dhcp --update --zone example.org --out dhcp.key
  catamaran key add backup --transfer
  catamaran key add --file old.key --update --transfer
  catamaran key add --file printer.key --allow-weak hmac-md5 --update

Prints the new key in the format of `nsupdate -k`, or writes it to --out. Without --zone, the grants cover all zones.";
const KEY_LIST_EXAMPLES: &str = "\
Examples:
  catamaran key list";
const KEY_SHOW_EXAMPLES: &str = "\
Examples:
  catamaran key show dhcp --secret --out dhcp.key";
const KEY_ROLL_EXAMPLES: &str = "\
Examples:
  catamaran key roll dhcp --out dhcp.key
  catamaran key roll --file new.key

Prints the key with the new secret, or writes it to --out. The old secret stays valid until `catamaran key retire`.";
const KEY_GRANT_EXAMPLES: &str = "\
Examples:
  catamaran key grant secondary --transfer --zone example.org";
const KEY_REVOKE_EXAMPLES: &str = "\
Examples:
  catamaran key revoke dhcp --update
  catamaran key revoke secondary --transfer --zone example.org

Takes effect at once on all nodes. Without --zone, revokes the grant for all zones; grants for single zones stay.";
const KEY_RETIRE_EXAMPLES: &str = "\
Examples:
  catamaran key retire dhcp";
const KEY_REMOVE_EXAMPLES: &str = "\
Examples:
  catamaran key remove dhcp";

/// A key, and the zones of a grant.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["update", "update_apex", "transfer"])))]
pub(crate) struct GrantArgs {
    /// Name of the key.
    pub(crate) name: String,
    /// Zone of the grant. Can be given several times [default: all zones].
    #[arg(long = "zone")]
    pub(crate) zones: Vec<String>,
    #[command(flatten)]
    pub(crate) rights: RightArgs,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The granted rights.
#[derive(Args, Debug)]
pub(crate) struct RightArgs {
    /// Allow updates, except of SOA and NS at the apex. To allow less, use `policy set`.
    #[arg(long)]
    pub(crate) update: bool,
    /// Allow updates of SOA and NS at the apex.
    #[arg(long)]
    pub(crate) update_apex: bool,
    /// Allow zone transfers.
    #[arg(long)]
    pub(crate) transfer: bool,
}

impl RightArgs {
    /// The names of the rights in the API.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = [(self.update, "update"), (self.update_apex, "update-apex"), (self.transfer, "transfer")];
        all.into_iter().filter_map(|(is_wanted, name)| is_wanted.then_some(name))
    }
}

/// Where to write a secret.
#[derive(Args, Debug)]
pub(crate) struct OutArgs {
    /// Write the key to this file (mode 0600), in the format of `nsupdate -k`, instead of the terminal.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// The new secret of a key.
#[derive(Args, Debug)]
pub(crate) struct NewSecretArgs {
    #[command(flatten)]
    pub(crate) out: OutArgs,
    /// Accept a secret of less than 16 bytes, which can be guessed.
    #[arg(long, requires = "file")]
    pub(crate) allow_short_secret: bool,
}

/// `key ...`
#[derive(Subcommand, Debug)]
pub(crate) enum KeyCommand {
    /// Create a TSIG key, or import one from a key file, and grant it rights.
    #[command(after_help = KEY_ADD_EXAMPLES)]
    Add {
        /// Name of the key.
        #[arg(required_unless_present = "file")]
        name: Option<String>,
        /// Import the key from this file instead of creating one.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
        /// Algorithm of the new key: hmac-sha256, hmac-sha384 or hmac-sha512.
        #[arg(long, default_value = "hmac-sha256")]
        algorithm: String,
        /// Accept this weak algorithm in the key file, for clients that support nothing else.
        #[arg(long, value_name = "ALGORITHM", requires = "file")]
        #[arg(value_parser = ["hmac-md5", "hmac-sha1", "hmac-sha224"])]
        allow_weak: Option<String>,
        /// Zone of the grants. Can be given several times [default: all zones].
        #[arg(long = "zone")]
        zones: Vec<String>,
        #[command(flatten)]
        rights: RightArgs,
        #[command(flatten)]
        secret: NewSecretArgs,
        #[command(flatten)]
        target: Target,
    },
    /// List keys and their grants, without secrets.
    #[command(after_help = KEY_LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Give a key a second secret. Both secrets are valid until `key retire`.
    #[command(after_help = KEY_ROLL_EXAMPLES)]
    Roll {
        /// Name of the key.
        #[arg(required_unless_present = "file")]
        name: Option<String>,
        /// Import the new secret from this file instead of creating one.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
        #[command(flatten)]
        secret: NewSecretArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Print a key with its secret. The request is recorded in the audit log.
    #[command(after_help = KEY_SHOW_EXAMPLES)]
    Show {
        /// Name of the key.
        name: String,
        /// Confirm that the secret may be printed.
        #[arg(long, required = true)]
        secret: bool,
        #[command(flatten)]
        out: OutArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Grant a key more rights.
    #[command(after_help = KEY_GRANT_EXAMPLES)]
    Grant(GrantArgs),
    /// Revoke rights of a key.
    #[command(after_help = KEY_REVOKE_EXAMPLES)]
    Revoke(GrantArgs),
    /// Invalidate the older of a key's two secrets.
    #[command(after_help = KEY_RETIRE_EXAMPLES)]
    Retire {
        /// Name of the key.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a key and its grants.
    #[command(after_help = KEY_REMOVE_EXAMPLES)]
    Remove {
        /// Name of the key.
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

/// `policy ...`
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Replace the rules of a zone, or the rules for all zones.
    #[command(after_help = POLICY_SET_EXAMPLES, allow_missing_positional = true)]
    Set {
        /// Name of the zone.
        #[arg(required_unless_present = "all_zones")]
        zone: Option<String>,
        /// Set the rules for all zones. They apply after the rules of the zone.
        #[arg(long, conflicts_with = "zone")]
        all_zones: bool,
        /// File with the rules; `-` for standard input.
        #[arg(required = true)]
        file: PathBuf,
        /// Fail unless the current rules have this revision, as printed by `policy show`.
        #[arg(long, value_name = "REVISION")]
        expect: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Print rules in the format of `policy set`.
    #[command(after_help = POLICY_SHOW_EXAMPLES)]
    Show {
        /// Name of the zone [default: all rules].
        zone: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Explain whether a key may write a name and type.
    #[command(after_help = POLICY_CHECK_EXAMPLES)]
    Check {
        /// Name of the key.
        key: String,
        /// Name of the record.
        name: String,
        /// Type of the record, such as AAAA.
        #[arg(value_name = "TYPE")]
        rtype: String,
        /// Source address of the update, for tcp-self rules.
        #[arg(long, value_name = "ADDRESS")]
        source: Option<std::net::IpAddr>,
        /// Assume that the update is sent over TCP.
        #[arg(long)]
        tcp: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Import update rules from a BIND configuration.
    #[command(after_help = POLICY_IMPORT_EXAMPLES)]
    Import {
        /// Path of `named.conf`. Relative includes are read from its directory.
        file: PathBuf,
        /// Import only this zone. Can be given several times.
        #[arg(long = "zone")]
        zones: Vec<String>,
        /// Print the rules, but change nothing. Needs no cluster.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        target: Target,
    },
}
