//! Tests of the resolver configurations.

use super::*;

fn profile(name: &str, resolver: ResolverArgument, settings: &Settings) -> (Profile, PathBuf) {
    let folder = std::env::temp_dir().join(format!("catlab-profile-{name}-{}", std::process::id()));
    let profile = Profile::new(resolver, settings, &folder).unwrap();
    profile.write().unwrap();
    (profile, folder.canonicalize().unwrap())
}

fn settings() -> Settings {
    Settings { anchor: None, expired: false, minimisation: None, ipv4_only: false, own_hints: false }
}

#[test]
fn each_resolver_gets_its_own_configuration() {
    let anchor = std::env::temp_dir().join(format!("catlab-anchor-{}", std::process::id()));
    let digest = "00FF".repeat(10);
    let records = format!(". IN DS 20326 8 1 {digest}\nother. IN DS 1 8 1 {digest}\n. 60 IN DNSKEY 257 3 8 AAEC\n");
    fs::write(&anchor, records).unwrap();
    for (resolver, file, expected) in [
        (
            ResolverArgument::Unbound,
            "unbound.conf",
            &["validator iterator", "qname-minimisation: no", "do-ip6: no", "\". DS 20326 8 1 00FF"][..],
        ),
        (
            ResolverArgument::Bind,
            "named.conf",
            &["dnssec-validation yes", "qname-minimization off", "static-ds 20326 8 1 \"00FF", "static-key 257 3 8"],
        ),
        (ResolverArgument::Pdns, "recursor.conf", &["dnssec=validate", "qname-minimization=no", "address=0.0.0.0\n"]),
        (ResolverArgument::Pdns, "recursor.lua", &["addTA('.', \"20326 8 1 00FF"]),
        (ResolverArgument::Knot, "kresd.conf", &["NO_MINIMIZE", "net.ipv6 = false", "'. IN DNSKEY 257 3 8 AAEC'"]),
    ] {
        let chosen =
            Settings { anchor: Some(anchor.clone()), minimisation: Some(false), ipv4_only: true, ..settings() };
        let (_, folder) = profile(file, resolver, &chosen);
        let text = fs::read_to_string(folder.join(file)).unwrap();
        for words in expected {
            assert!(text.to_lowercase().contains(&words.to_lowercase()), "{words}: {text}");
        }
        assert!(!text.contains("other"), "{text}");
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::remove_file(&anchor).unwrap();
}

#[test]
fn hints_have_all_letters_in_both_families_or_are_left_to_the_resolver() {
    for own_hints in [false, true] {
        let (profile, folder) = profile("hints", ResolverArgument::Bind, &Settings { own_hints, ..settings() });
        let config = fs::read_to_string(folder.join("named.conf")).unwrap();
        assert_eq!(config.contains("type hint"), !own_hints);
        let hints = fs::read_to_string(folder.join(HINTS)).unwrap_or_default();
        assert_eq!(hints.lines().count(), if own_hints { 0 } else { 3 * 13 });
        assert_eq!(profile.command()[..3], ["named", "-g", "-c"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn signatures_out_of_time_are_taken_by_those_that_can_be_told_so() {
    for (resolver, file, words) in [
        (ResolverArgument::Unbound, "unbound.conf", "val-override-date: -1"),
        (ResolverArgument::Bind, "named.conf", "dnssec-accept-expired yes"),
    ] {
        let (_, folder) = profile(words, resolver, &Settings { expired: true, ..settings() });
        assert!(fs::read_to_string(folder.join(file)).unwrap().contains(words));
        fs::remove_dir_all(&folder).unwrap();
    }
    let folder = std::env::temp_dir().join("catlab-profile-never");
    for resolver in [ResolverArgument::Pdns, ResolverArgument::Knot] {
        let error = Profile::new(resolver, &Settings { expired: true, ..settings() }, &folder).err().unwrap();
        assert!(error.to_string().contains("--expired"), "{error}");
        assert!(!folder.exists(), "nothing is written for a profile that is refused");
    }
}

#[test]
fn an_anchor_without_a_key_of_the_root_is_refused() {
    let path = std::env::temp_dir().join(format!("catlab-no-anchor-{}", std::process::id()));
    for (text, wrong) in
        [("other. IN DNSKEY 257 3 8 AAEC\n", "no DS or DNSKEY"), (". IN DS x\n", "line"), ("", "no DS")]
    {
        fs::write(&path, text).unwrap();
        let error = read_anchor(&path).err().unwrap().to_string();
        assert!(error.contains(wrong) || error.contains(":1:"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    assert!(read_anchor(&path).is_err());
}
