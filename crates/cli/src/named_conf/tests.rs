//! Import of `named.conf`, and its errors.

use super::parse::parse;
use super::{Located, Sources, ZonePolicy};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Files in memory.
struct Texts(BTreeMap<&'static str, String>);

impl Sources for Texts {
    fn text(&mut self, file: &Path) -> Result<String, String> {
        self.0.get(file.to_str().unwrap_or_default()).cloned().ok_or_else(|| "there is no such file".to_owned())
    }
}

fn read(files: &[(&'static str, &str)]) -> Located<Vec<ZonePolicy>> {
    let texts = files.iter().map(|(file, text)| (*file, (*text).to_owned())).collect();
    parse(Path::new("etc/named.conf"), &mut Texts(texts))
}

/// Each zone with its rules or errors.
fn shown(text: &str) -> Vec<String> {
    let zones = read(&[("etc/named.conf", text)]).unwrap();
    zones
        .iter()
        .map(|zone| match &zone.rules {
            Ok(rules) => format!("{} {}", zone.zone, rules.to_string().trim_end().replace('\n', " ")),
            Err(faults) => {
                let faults: Vec<_> = faults.iter().map(|(position, why)| format!("{position} {why}")).collect();
                format!("{} {}", zone.zone, faults.join(" | "))
            }
        })
        .collect()
}

#[test]
fn zones_are_imported_with_their_rules_and_the_rest_is_skipped() {
    let text = r#"
        // what Debian ships, and more
        acl "trusted" { 10.0.0.0/8; !192.0.2.1; { ::1; }; };
        options { directory "/var/cache/bind"; listen-on-v6 { any; }; };
        key "dhcp.key" { algorithm hmac-sha256; secret "AAEC/w=="; };
        zone "example.org" IN {
            type primary; file "/var/lib/bind/db.example;org";
            update-policy {
                deny host1.example.org. name WWW.example.org;
                grant * self * A(1) AAAA;   # each its own
                grant dhcp.key zonesub DHCID;
            };
            also-notify { 192.0.2.1 port 53 key k; };
        };
        zone "allowed.example" { type master; allow-update { key "a."; key b; }; };
        zone "silent.example" { type primary; };
        zone "version.bind" CH { type primary; allow-update { key a; }; };
        zone "second.example" { type secondary; allow-update-forwarding { any; }; allow-update { key a; }; };
    "#;
    assert_eq!(
        shown(text),
        [
            "example.org. deny \"host1.example.org.\" name \"www.example.org.\"; grant \"*.\" self . A(1) AAAA; \
             grant \"dhcp.key.\" zonesub DHCID;",
            "allowed.example. grant \"a.\" zonesub ANY; grant \"b.\" zonesub ANY;",
        ]
    );
}

#[test]
fn includes_in_a_zone_are_read_and_templates_are_refused() {
    let text = "options { allow-update { key all; }; };\n\
                zone a { type primary; include \"a.rules\"; };\n\
                zone b { type primary; template t; };\n\
                zone c { template t; update-policy { grant k name c A; }; };\n";
    let rules = "update-policy { grant k name x.a A; };\ninclude \"more\";";
    let files = [("etc/named.conf", text), ("etc/a.rules", rules), ("etc/more", "file \"x\"; type primary;")];
    let zones = read(&files).unwrap();
    assert_eq!(zones[0].rules.as_ref().unwrap().to_string().trim_end(), "grant \"k.\" name \"x.a.\" A;");
    let (position, why) = &zones[1].rules.as_ref().unwrap_err()[0];
    assert!(position == "etc/named.conf:3:24" && why.starts_with("templates are not supported"), "{position} {why}");
    assert_eq!(zones[2].rules.as_ref().unwrap().to_string().trim_end(), "grant \"k.\" name \"c.\" A;");
    let (position, why) = read(&files[..1]).unwrap_err();
    assert_eq!((position.as_str(), why.as_str()), ("etc/a.rules", "there is no such file"));
    let endless = [("etc/named.conf", "zone a { include \"z\"; };"), ("etc/z", "include \"z\";")];
    assert!(read(&endless).unwrap_err().1.contains("too deep"));
    let open = [("etc/named.conf", "zone a { include \"z\"; };"), ("etc/z", "file x; }")];
    assert!(read(&open).unwrap_err().1.starts_with("expected a statement, found `}`"));
}

#[test]
fn zones_of_other_views_and_classes_are_skipped() {
    let text = "options { allow-update { none; }; };\n\
                view a { zone o { type primary; update-policy { grant k name x.o A; }; }; };\n\
                view b { allow-update { key k; }; zone o { in-view a; }; };\n\
                view c CH { zone o { type primary; update-policy { grant k zonesub A; }; }; };\n\
                view d IN { zone p { allow-update { key k; }; }; zone q CHAOS { allow-update { key k; }; }; };\n";
    assert_eq!(shown(text), ["o. grant \"k.\" name \"x.o.\" A;", "p. grant \"k.\" zonesub ANY;"]);
}

#[test]
fn a_rule_that_cannot_be_imported_is_an_error_with_line_and_column() {
    let text = "zone a { update-policy local; };\n\
                zone b { allow-update { 192.0.2.1; key k; }; };\n\
                zone c { update-policy {\n  grant k zonesub;\n  grant * external local:x A;\n grant k zonesub X;\
                }; };\n\
                zone d { allow-update { { key a; }; }; };\n\
                zone e { update-policy { grant k zonesub; }; };\n\
                zone f { update-policy { grant \"local:/run/auth.sock\" external * CNAME; }; };\n\
                zone g { update-policy {\n grant k zonesub A;\n grant k zonesub DNSKEY; }; };\n\
                zone h { update-policy { deny k subdomain @ A; }; };\n\
                zone i { update-policy { deny k zonesub DNSKEY; }; };\n";
    let shown = shown(text);
    let starts = [
        "a. etc/named.conf:1:10 `update-policy local`",
        "b. etc/named.conf:2:25 `192.0.2.1` cannot be imported",
        "c. etc/named.conf:5:9 `external` needs `local:`",
        "d. grant \"a.\" zonesub ANY;",
        "e. grant \"k.\" zonesub;",
        "f. grant \"local:/run/auth.sock\" external * CNAME;",
        "g. etc/named.conf:12:2 no rule can grant DNSKEY",
        "h. etc/named.conf:13:43 `@` is not allowed here",
        "i. deny \"k.\" zonesub DNSKEY;",
    ];
    assert_eq!(shown.len(), starts.len());
    for (shown, start) in shown.iter().zip(starts) {
        assert!(shown.starts_with(start), "{shown}");
    }
}

#[test]
fn all_errors_of_all_zones_are_shown_at_once() {
    let text = "zone a { update-policy {\n grant k nonsense a A;\n grant k zonesub A;\n deny k name @ A;\n}; };\n\
                zone b { allow-update { 192.0.2.1; !key k; key a..b; any; }; };\n";
    let shown = shown(text);
    let positions = |shown: &str| -> Vec<String> {
        shown.split_whitespace().filter_map(|word| word.strip_prefix("etc/named.conf:").map(str::to_owned)).collect()
    };
    assert_eq!(positions(&shown[0]), ["2:10", "4:14"], "{}", shown[0]);
    assert_eq!(positions(&shown[1]), ["6:25", "6:36", "6:48", "6:54"], "{}", shown[1]);
    assert!(shown[1].contains("`a..b` is not a domain name: it has an empty label"), "{}", shown[1]);
}

#[test]
fn an_acl_of_keys_is_resolved() {
    let text = "zone a { allow-update { Updaters; key c; }; };\n\
                acl updaters { key a; more; off; More; };\n\
                acl \"more\" { { key b; }; { none; }; key a; }; acl off { none; };\n\
                zone b { allow-update { mixed; }; };\n\
                acl mixed { key a; 192.0.2.0/24; };\n\
                options { allow-update { updaters; }; };\n\
                zone c { };\n\
                zone d { allow-update { nowhere; }; };\n";
    let keys = |names: &str| names.chars().map(|name| format!(" grant \"{name}.\" zonesub ANY;")).collect::<String>();
    let shown = shown(text);
    assert_eq!(shown[0], format!("a.{}", keys("abc")));
    assert!(shown[1].starts_with("b. etc/named.conf:5:20 `192.0.2.0/24` cannot be imported"), "{}", shown[1]);
    assert_eq!(shown[2], format!("c.{}", keys("ab")));
    assert!(shown[3].starts_with("d. etc/named.conf:8:25 `nowhere` cannot be imported"), "{}", shown[3]);
}

#[test]
fn none_beside_other_elements_and_a_loop_are_refused() {
    let text = "zone a { allow-update { none; key k; }; };\n\
                zone b { allow-update { key k; none; }; };\n\
                zone c { allow-update { off; }; };\n\
                zone d { allow-update { { none; key k; }; }; };\n\
                zone e { allow-update { one; }; };\n\
                zone f { allow-update { none; }; };\n\
                acl off { NONE; key k; };\n\
                acl one { key k; two; }; acl two { { ONE; }; };\n";
    let shown = shown(text);
    for (shown, position) in shown.iter().zip([
        "a. etc/named.conf:1:25",
        "b. etc/named.conf:2:32",
        "c. etc/named.conf:7:11",
        "d. etc/named.conf:4:27",
    ]) {
        assert!(shown.starts_with(&format!("{position} `none` cannot be imported beside other elements")), "{shown}");
    }
    assert_eq!(shown[4], "e. etc/named.conf:8:38 `acl one` contains itself");
    assert_eq!(shown[5].trim_end(), "f.");
}

#[test]
fn views_options_and_included_files_are_read() {
    let zones = read(&[
        ("etc/named.conf", "include \"more/a.conf\"; options { allow-update { key all; }; };"),
        ("etc/more/a.conf", "view v { match-clients { any; }; zone x { }; include \"b.conf\"; };"),
        ("etc/more/b.conf", "zone y { update-policy { grant k zonesub A; }; }; zone x { allow-update { none; }; };"),
    ]);
    let zones = zones.unwrap();
    let shown: Vec<_> =
        zones.iter().map(|zone| (zone.position.as_str(), zone.rules.as_ref().map(ToString::to_string))).collect();
    assert_eq!(shown[1], ("etc/more/b.conf:1:6", Ok("grant \"k.\" zonesub A;\n".to_owned())));
    // The same zone twice.
    let (position, why) = &zones[0].rules.as_ref().unwrap_err()[0];
    assert_eq!(position, "etc/more/b.conf:1:56");
    assert!(why.contains("etc/more/a.conf:1:39"), "{why}");
}

#[test]
fn allow_update_in_a_view_applies_to_its_own_zones() {
    let views = "view in { zone a { }; allow-update { key k; }; zone b { allow-update { none; }; }; }; \
                 view out { match-clients { any; }; zone c { }; }; view shut { allow-update { none; }; zone d { }; };";
    let shown = |text: &str| -> Vec<_> {
        let zones = read(&[("etc/named.conf", text)]).unwrap();
        zones.iter().map(|zone| (zone.zone.to_string(), zone.rules.as_ref().unwrap().to_string())).collect()
    };
    let grant = |key: &str| format!("grant \"{key}.\" zonesub ANY;\n");
    let zone = |name: &str, rules: String| (format!("{name}."), rules);
    // A view without `allow-update` grants nothing.
    let alone = [zone("a", grant("k")), zone("b", String::new()), zone("d", String::new())];
    assert_eq!(shown(views), alone);
    // The `options` apply only to that view, wherever they are.
    let all = "options { allow-update { key all; }; };";
    let with_all = [&alone[..2], &[zone("c", grant("all"))], &alone[2..]].concat();
    assert_eq!(shown(&format!("{all} {views}")), with_all);
    assert_eq!(shown(&format!("{views} {all}")), with_all);
}

#[test]
fn syntax_errors_name_file_line_and_column() {
    for (text, position, why) in [
        ("zone a { update-policy { grant k zonesub; ", "etc/named.conf:1:43", "found the end"),
        ("options {\n", "etc/named.conf:2:1", "not closed"),
        ("}", "etc/named.conf:1:1", "found `}`"),
        ("zone a..b {};", "etc/named.conf:1:6", "is not a domain name: it has an empty label"),
        ("key k { secret \"x; };", "etc/named.conf:1:16", "not closed"),
        ("acl Any { key k; };", "etc/named.conf:1:5", "`any` is a list of BIND itself"),
        ("acl \"localnets\" { none; };", "etc/named.conf:1:5", "`localnets` is a list of BIND itself"),
        ("acl a { key k; };\nacl A { none; };", "etc/named.conf:2:5", "defined a second time"),
        ("include \"none\";", "etc/none", "no such file"),
        ("include \"named.conf\";", "etc/named.conf:1:1", "too deep"),
    ] {
        let error = read(&[("etc/named.conf", text)]).unwrap_err();
        assert!(error.0 == position && error.1.contains(why), "{text}: {error:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(words in prop::collection::vec(prop::sample::select(&[
        "zone", "a", "{", "}", ";", "update-policy", "allow-update", "grant", "deny", "key", "zonesub", "view",
        "options", "include", "\"named.conf\"", "local", "acl", "!", "none", "A(3)", "type", "primary",
    ][..]), 0..40)) {
        let _ = read(&[("etc/named.conf", &words.join(" "))]);
    }
}
