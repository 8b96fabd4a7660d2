//! The command line of `key` and `policy`.

use super::Target;
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
  catamaran policy set example.org -             reads standard input; nothing removes all rules
  catamaran policy set example.org rules --expect 0f3ab5c27d9e6418
                                                 is refused when another has changed them since `policy show`

The rules are those of BIND's update-policy; the first that matches decides:
  grant dhcp zonesub A(4) AAAA(4) TXT DHCID;     up to four addresses of each kind at a name
  grant acme.example.org name _acme-challenge.www.example.org TXT(8);
  grant *.hosts.example.org self . A AAAA SSHFP; each host its own name, by a key of that name
  deny * name www.example.org;
  grant \"local:/run/auth.sock\" external * A AAAA; asks a daemon on the node that takes the update
and numbers that bind a key whatever it is granted:
  limit dhcp update-records 200 update-bytes 16000 name-records 12 zone-records 100000;
The rules of a zone are asked first, then those for all zones, then what `key add --update` granted. Without a rule that
grants it nothing may be written; types are all but SOA, NS and RRSIG where a rule names none.";
const POLICY_SHOW_EXAMPLES: &str = "\
Examples:
  catamaran policy show
  catamaran policy show example.org";
const POLICY_CHECK_EXAMPLES: &str = "\
Examples:
  catamaran policy check dhcp www.example.org AAAA
  catamaran policy check dhcp 7.2.0.192.in-addr.arpa PTR --source 192.0.2.7 --tcp

Says whether the key may write the name and type, which rule decides, and which limits the key has; or that a daemon
decides (external): it is not asked.";
const POLICY_IMPORT_EXAMPLES: &str = "\
Examples:
  catamaran policy import /etc/bind/named.conf --dry-run
  catamaran policy import /etc/bind/named.conf --zone example.org

Takes over `update-policy`, and `allow-update` with keys, of the primary zones that this cluster serves. What cannot be
taken over is named with file, line and column, and then nothing is changed.";
const KEY_ADD_EXAMPLES: &str = "\
Examples:
  catamaran key add dhcp --update --zone example.org --out dhcp.key
  catamaran key add backup --transfer
  catamaran key add --file old.key --update --transfer
  catamaran key add --file printer.key --allow-weak hmac-md5 --update

Prints the key file for `nsupdate -k`, or writes it with --out. Without --zone the key is granted on all zones.";
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

Prints the key file with the new secret, or writes it with --out. The older secret is good until
`catamaran key retire`.";
const KEY_GRANT_EXAMPLES: &str = "\
Examples:
  catamaran key grant secondary --transfer --zone example.org";
const KEY_REVOKE_EXAMPLES: &str = "\
Examples:
  catamaran key revoke dhcp --update
  catamaran key revoke secondary --transfer --zone example.org

A grant is taken back as it was made: one for all zones without --zone.";
const KEY_RETIRE_EXAMPLES: &str = "\
Examples:
  catamaran key retire dhcp";
const KEY_REMOVE_EXAMPLES: &str = "\
Examples:
  catamaran key remove dhcp";

/// A key and the zones of a grant.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["update", "update_apex", "transfer"])))]
pub(crate) struct GrantArgs {
    /// The key's name.
    pub(crate) name: String,
    /// Zone of the grant; may be given several times. All zones when none is named.
    #[arg(long = "zone")]
    pub(crate) zones: Vec<String>,
    #[command(flatten)]
    pub(crate) rights: RightArgs,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// What is granted.
#[derive(Args, Debug)]
pub(crate) struct RightArgs {
    /// Updates, but for the SOA and the NS of the apex; `policy set` grants less.
    #[arg(long)]
    pub(crate) update: bool,
    /// Updates of the SOA and the NS of the apex too.
    #[arg(long)]
    pub(crate) update_apex: bool,
    /// Transfers.
    #[arg(long)]
    pub(crate) transfer: bool,
}

impl RightArgs {
    /// As the API calls them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = [(self.update, "update"), (self.update_apex, "update-apex"), (self.transfer, "transfer")];
        all.into_iter().filter_map(|(is_wanted, name)| is_wanted.then_some(name))
    }
}

/// Where to write a secret.
#[derive(Args, Debug)]
pub(crate) struct OutArgs {
    /// Write the secret to this file (mode 0600) instead of the terminal, as `nsupdate -k` reads it.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// The new secret of a key.
#[derive(Args, Debug)]
pub(crate) struct NewSecretArgs {
    #[command(flatten)]
    pub(crate) out: OutArgs,
    /// Accept a secret of less than 16 bytes, although it can be guessed.
    #[arg(long, requires = "file")]
    pub(crate) allow_short_secret: bool,
}

/// `key ...`
#[derive(Subcommand, Debug)]
pub(crate) enum KeyCommand {
    /// Make a TSIG key, or take one from a key file, and grant it something.
    #[command(
        after_help = KEY_ADD_EXAMPLES
    )]
    Add {
        /// The key's name.
        #[arg(required_unless_present = "file")]
        name: Option<String>,
        /// Take the key from this file instead of making one.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
        /// hmac-sha256, hmac-sha384 or hmac-sha512.
        #[arg(long, default_value = "hmac-sha256")]
        algorithm: String,
        /// Accept a key with this weak algorithm from the file: hmac-md5, hmac-sha1 or hmac-sha224. For clients that
        /// support nothing else.
        #[arg(long, value_name = "ALGORITHM", requires = "file")]
        #[arg(value_parser = ["hmac-md5", "hmac-sha1", "hmac-sha224"])]
        allow_weak: Option<String>,
        /// Zone that it is granted on; may be given several times. All zones when none is named.
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
    /// Give a key a second secret, made or from a key file; requests signed with either are taken until `key retire`.
    #[command(after_help = KEY_ROLL_EXAMPLES)]
    Roll {
        /// The key's name.
        #[arg(required_unless_present = "file")]
        name: Option<String>,
        /// Take the new secret from this file instead of making one.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
        #[command(flatten)]
        secret: NewSecretArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Print a key file with the secret of a key in clear. The audit log records the request.
    #[command(after_help = KEY_SHOW_EXAMPLES)]
    Show {
        /// The key's name.
        name: String,
        /// Confirm that the secret is to be printed.
        #[arg(long, required = true)]
        secret: bool,
        #[command(flatten)]
        out: OutArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Grant something more to a key.
    #[command(after_help = KEY_GRANT_EXAMPLES)]
    Grant(GrantArgs),
    /// Take back what a key was granted, at once on all nodes.
    #[command(after_help = KEY_REVOKE_EXAMPLES)]
    Revoke(GrantArgs),
    /// Make the older of two secrets of a key void.
    #[command(after_help = KEY_RETIRE_EXAMPLES)]
    Retire {
        /// The key's name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a key with its grants.
    #[command(after_help = KEY_REMOVE_EXAMPLES)]
    Remove {
        /// The key's name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

/// `policy ...`
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Set the rules of a zone, or those for all zones; they replace what was there.
    #[command(after_help = POLICY_SET_EXAMPLES, allow_missing_positional = true)]
    Set {
        /// The zone's apex.
        #[arg(required_unless_present = "all_zones")]
        zone: Option<String>,
        /// Set the rules that are asked for every zone, after its own.
        #[arg(long, conflicts_with = "zone")]
        all_zones: bool,
        /// File with the rules; `-` is standard input.
        #[arg(required = true)]
        file: PathBuf,
        /// Set them only if the rules there are those of this revision, which `policy show` prints.
        #[arg(long, value_name = "REVISION")]
        expect: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Print the rules, in the form that `policy set` reads.
    #[command(after_help = POLICY_SHOW_EXAMPLES)]
    Show {
        /// The zone's apex; without it all rules.
        zone: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Explain what the rules say.
    #[command(after_help = POLICY_CHECK_EXAMPLES)]
    Check {
        /// The name of the key.
        key: String,
        /// The name that is written.
        name: String,
        /// The type.
        #[arg(value_name = "TYPE")]
        rtype: String,
        /// The address that the update comes from, for rules of the kind tcp-self.
        #[arg(long, value_name = "ADDRESS")]
        source: Option<std::net::IpAddr>,
        /// The update comes over a connection.
        #[arg(long)]
        tcp: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Import update rules from a BIND configuration.
    #[command(after_help = POLICY_IMPORT_EXAMPLES)]
    Import {
        /// `named.conf`; files that it includes are looked for beside it.
        file: PathBuf,
        /// Import this zone only; may be given several times.
        #[arg(long = "zone")]
        zones: Vec<String>,
        /// Print the rules and change nothing; needs no cluster.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        target: Target,
    },
}
