//! Labels with a leading underscore that show the purpose of a name (RFC 8552 and its registry; service names of RFC
//! 6335 in wide use). They are the same everywhere and identify nobody.

/// Without the underscore.
const REGISTERED: &[&str] = &[
    "443",
    "acme-challenge",
    "adsp",
    "afpovertcp",
    "airplay",
    "amt",
    "aaplcache",
    "atps",
    "autodiscover",
    "caldav",
    "caldavs",
    "carddav",
    "carddavs",
    "collab-edge",
    "dane",
    "dccp",
    "dmarc",
    "dns",
    "dns-sd",
    "dns-update",
    "domainkey",
    "dsboot",
    "dsync",
    "esni",
    "finger",
    "ftp",
    "gc",
    "h323cs",
    "h323ls",
    "http",
    "https",
    "im",
    "imap",
    "imaps",
    "iax",
    "ipp",
    "ipps",
    "ipv6",
    "jabber",
    "kerberos",
    "kerberos-adm",
    "kerberos-master",
    "kpasswd",
    "ldap",
    "ldaps",
    "matrix",
    "matrix-fed",
    "minecraft",
    "mongodb",
    "msdcs",
    "mta-sts",
    "nfs",
    "nicname",
    "ntp",
    "pdl-datastream",
    "pdc",
    "pgpkey-http",
    "pop3",
    "pop3s",
    "pres",
    "printer",
    "raop",
    "report",
    "rfb",
    "rvp",
    "sctp",
    "services",
    "sftp-ssh",
    "signal",
    "sip",
    "sipfederationtls",
    "sipinternal",
    "sipinternaltls",
    "sips",
    "sites",
    "smb",
    "smimecert",
    "smtp",
    "soap",
    "spf",
    "ssh",
    "stun",
    "stuns",
    "sub",
    "submission",
    "submissions",
    "svcb",
    "ta",
    "tcp",
    "telnet",
    "tftp",
    "tls",
    "tlsa",
    "tunnel",
    "turn",
    "turns",
    "udp",
    "validation-contactemail",
    "vlmcs",
    "workstation",
    "www",
    "www-http",
    "xmpp",
    "xmpp-client",
    "xmpp-server",
    "xmlrpc-beep",
];

/// Whether a label in lower case is registered.
pub(super) fn is_registered(label: &[u8]) -> bool {
    label.strip_prefix(b"_").is_some_and(|service| REGISTERED.iter().any(|known| known.as_bytes() == service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_and_others_are_not() {
        for known in ["_tcp", "_udp", "_dmarc", "_domainkey", "_ldap", "_acme-challenge", "_dns-sd"] {
            assert!(is_registered(known.as_bytes()), "{known}");
        }
        for other in ["tcp", "_", "__tcp", "_mycompany", ""] {
            assert!(!is_registered(other.as_bytes()), "{other}");
        }
        let mut labels = REGISTERED.to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), REGISTERED.len());
    }
}
