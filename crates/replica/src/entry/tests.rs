//! The encoding of entries is fixed, and the decoder accepts any bytes without a panic.

use super::*;
use crate::io::{AckOption, CredentialProgress, Right, SerialPolicyOption, StaleOption, ZoneLimits, ZoneOptions};
use crate::secrets::Sealed;
use policy::Policy;
use policy::text::parse_policy;
use proptest::prelude::*;
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::name::Name;
use wire::number::{Rcode, Rtype, Serial};
use zone::{Changeset, Record, ZoneId};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn zone() -> ZoneId {
    ZoneId { view: 0, apex: name("example.test.") }
}

fn record(owner: &str, rtype: Rtype, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, ttl: 300, rdata: rdata.into() }
}

fn change() -> ZoneChange {
    ZoneChange {
        zone: zone(),
        base_hash: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        changeset: Changeset {
            serial_from: Some(Serial(7)),
            serial_to: Serial(8),
            deleted: vec![record("example.test.", Rtype::SOA, b"old")],
            added: vec![
                record("example.test.", Rtype::SOA, b"new"),
                record("WWW.example.test.", Rtype::A, &[192, 0, 2, 1]),
            ],
        },
    }
}

/// A policy with one rule of each kind, and a limit.
fn policy() -> Policy {
    let text = "grant dhcp. name www.example.test. A(4) TXT;\ndeny * subdomain example.test.;\n\
                grant *.hosts. self . ANY;\ngrant k selfsub .;\ngrant k selfwild .;\ngrant k zonesub;\n\
                grant k wildcard *.example.test. TYPE65280;\ngrant * tcp-self . PTR(1);\ndeny * 6to4-self .;\n\
                limit dhcp. update-records 1 update-bytes 2 name-records 3 zone-records 4;";
    parse_policy(text).unwrap()
}

fn settings(change: SettingsChange) -> Body {
    Body::Settings(SettingsEntry { epoch: 41, change })
}

/// One entry of each kind, with its name in `testdata/entries.txt`.
fn samples() -> Vec<(&'static str, Body)> {
    let stage = StageId([5; 16]);
    let options = ZoneOptions {
        serial_policy: SerialPolicyOption::UnixTime,
        stale: StaleOption::Expire,
        ack: AckOption::Majority,
        limits: ZoneLimits::NONE,
    };
    let update = UpdateEntry {
        identity: [1; 16],
        key_name: name("key."),
        key_generation: 3,
        policy_epoch: 41,
        source: [2; 16],
        time_signed: 1_700_000_000,
        rcode: Rcode::NOERROR,
        change: Some(change()),
    };
    let failed = UpdateEntry { rcode: Rcode::NXRRSET, change: None, ..update.clone() };
    vec![("update", Body::Update(update)), ("update_failed", Body::Update(failed))]
        .into_iter()
        .chain(import_samples(stage, options))
        .chain(settings_samples(options))
        .chain([("change", Body::Change(change()))])
        .collect()
}

fn import_samples(stage: StageId, options: ZoneOptions) -> Vec<(&'static str, Body)> {
    vec![
        (
            "import_begin_create",
            Body::ImportBegin(ImportBegin {
                stage,
                zone: zone(),
                purpose: ImportPurpose::Create { options },
                chunk_count: 2,
            }),
        ),
        (
            "import_begin_replace",
            Body::ImportBegin(ImportBegin {
                stage,
                zone: zone(),
                purpose: ImportPurpose::Replace { base_hash: 6 },
                chunk_count: 2,
            }),
        ),
        (
            "import_chunk",
            Body::ImportChunk(ImportChunk {
                stage,
                chunk_index: 1,
                records: vec![record("a.example.test.", Rtype::TXT, b"\x01x")].into(),
            }),
        ),
        ("import_commit", Body::ImportCommit(ImportCommit { stage, digest: 99, policy_epoch: 41 })),
        ("import_abandon", Body::ImportAbandon(stage)),
    ]
}

fn settings_samples(options: ZoneOptions) -> Vec<(&'static str, Body)> {
    vec![
        ("zone_options", settings(SettingsChange::ZoneOptions { zone: zone(), options })),
        (
            "zone_options_date_limits",
            settings(SettingsChange::ZoneOptions {
                zone: zone(),
                options: ZoneOptions {
                    serial_policy: SerialPolicyOption::Date,
                    limits: ZoneLimits { ttl_max_s: 86_400, rrset_records_max: 0, records_max: 1_000 },
                    ..options
                },
            }),
        ),
        ("zone_remove", settings(SettingsChange::ZoneRemove { zone: zone() })),
        (
            "key_add",
            settings(SettingsChange::KeyAdd {
                name: name("key."),
                algorithm: KeyAlgorithm::HmacSha384,
                secret: Sealed { data_key_number: 1, nonce: [3; 12], bytes: vec![4; 20] },
            }),
        ),
        ("key_remove", settings(SettingsChange::KeyRemove { name: name("key.") })),
        ("grant_all", settings(SettingsChange::Grant { key: name("key."), zone: None, right: Right::Update })),
        (
            "revoke_zone",
            settings(SettingsChange::Revoke { key: name("key."), zone: Some(zone()), right: Right::Transfer }),
        ),
        (
            "member_add",
            settings(SettingsChange::MemberAdd { id: 4, address: "[::1]:7004".to_owned(), token: Some([6; 32]) }),
        ),
        ("member_remove", settings(SettingsChange::MemberRemove { id: 4 })),
        ("token_add", settings(SettingsChange::TokenAdd { digest: [7; 32], expires_wall_ms: 12 })),
        ("feature_level", settings(SettingsChange::FeatureLevel { level: 2 })),
        ("member_role", settings(SettingsChange::MemberRole { id: 4, votes: true })),
        ("learner_token_add", settings(SettingsChange::LearnerTokenAdd { digest: [8; 32], expires_wall_ms: 13 })),
        ("member_replace", settings(SettingsChange::MemberReplace { gone: 2, new: 4 })),
        ("grant_apex", settings(SettingsChange::Grant { key: name("key."), zone: None, right: Right::UpdateApex })),
        ("policy_zone", settings(SettingsChange::PolicySet { zone: Some(zone()), policy: Arc::new(policy()) })),
        ("policy_none", settings(SettingsChange::PolicySet { zone: None, policy: Arc::default() })),
        (
            "key_roll",
            settings(SettingsChange::KeyRoll {
                name: name("key."),
                secret: Sealed { data_key_number: 1, nonce: [3; 12], bytes: vec![4; 20] },
            }),
        ),
        ("key_retire", settings(SettingsChange::KeyRetire { name: name("key.") })),
        (
            "zone_options_all_live",
            settings(SettingsChange::ZoneOptions {
                zone: zone(),
                options: ZoneOptions { ack: AckOption::AllLive, ..options },
            }),
        ),
        ("rotation_in", settings(SettingsChange::RotationIn { ids: vec![1, 4] })),
        ("rotation_out", settings(SettingsChange::RotationOut { ids: vec![4] })),
        ("member_move", settings(SettingsChange::MemberMove { id: 4, address: "ns4.example.:7004".to_owned() })),
        ("token_for", settings(SettingsChange::TokenFor { digest: [7; 32], life_ms: 12, is_learner: true })),
        ("clock_back", settings(SettingsChange::ClockBack { by_ms: 9_000 })),
        ("all_live_known", settings(SettingsChange::AllLiveKnown { index: 77 })),
    ]
    .into_iter()
    .chain(trust_samples())
    .collect()
}

fn trust_samples() -> Vec<(&'static str, Body)> {
    let key = Sealed { data_key_number: 1, nonce: [3; 12], bytes: vec![4; 20] };
    let progress = CredentialProgress { accepts: 2, issued_by: 1, renewal: 3, expires_s: 1_800_000_000, data_key: 1 };
    let id = SecretId::PreviousOfKey(name("key."));
    let resealed = Resealed { id, was: [1; 12], secret: key.clone() };
    let of_ca = Resealed { id: SecretId::Ca(2), ..resealed.clone() };
    let changes = vec![
        ("ca_add", TrustChange::CaAdd { number: 2, certificate: vec![0x30; 8], key }),
        ("ca_use", TrustChange::CaUse { number: 2 }),
        ("ca_remove", TrustChange::CaRemove { number: 1 }),
        ("renew", TrustChange::Renew { number: 3 }),
        ("data_key_begin", TrustChange::DataKey(DataKeyChange::Begin { number: 2, digest: [9; 32] })),
        ("data_key_use", TrustChange::DataKey(DataKeyChange::Use { number: 2 })),
        ("reseal", TrustChange::DataKey(DataKeyChange::Reseal { secrets: vec![resealed, of_ca] })),
        ("standing", TrustChange::Credentials { id: 4, progress }),
        ("pin_add", TrustChange::Pin { id: 4, change: PinChange::Add([6; 32]) }),
        ("pin_only", TrustChange::Pin { id: 4, change: PinChange::Only([7; 32]) }),
        ("pin_seen", TrustChange::Pin { id: 4, change: PinChange::Seen(3) }),
    ];
    changes.into_iter().map(|(label, change)| (label, settings(SettingsChange::Trust(change)))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Other versions of this software read this encoding. A difference here needs a new kind or version, never a new
/// golden file.
#[test]
fn encoding_is_golden() {
    let golden = include_str!("../../testdata/entries.txt");
    let mut lines = golden.lines().filter(|line| !line.starts_with('#'));
    for (label, body) in samples() {
        let entry = Entry { group: 0, time_ms: 1_700_000_000_123, body };
        let bytes = entry.encode();
        let line = format!("{label} {}", hex(&bytes));
        assert_eq!(lines.next(), Some(line.as_str()));
        assert_eq!(Entry::decode(&bytes).unwrap(), entry);
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..cut]).is_err(), "{label} cut at {cut}");
        }
    }
    assert_eq!(lines.next(), None);
}

/// Prints the lines of `testdata/entries.txt`, for a new kind.
#[test]
#[ignore = "prints the golden lines instead of checking them"]
fn print_golden() {
    for (label, body) in samples() {
        println!("golden {label} {}", hex(&Entry { group: 0, time_ms: 1_700_000_000_123, body }.encode()));
    }
}

#[test]
fn unknown_versions_and_kinds_are_distinguished() {
    let entry = Entry { group: 0, time_ms: 0, body: Body::ImportAbandon(StageId([0; 16])) };
    let mut bytes = entry.encode();
    bytes[1] = KIND_DERIVED;
    assert_eq!(Entry::decode(&bytes), Err(DecodeError::Unknown));
    bytes[0] = 2;
    assert_eq!(Entry::decode(&bytes), Err(DecodeError::Version(2)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u8..10) {
        let mut framed = vec![ENTRY_VERSION, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        framed.extend_from_slice(&bytes);
        if let Ok(entry) = Entry::decode(&framed) {
            prop_assert_eq!(entry.encode(), framed);
        }
        let _ = Entry::decode(&bytes);
    }

    #[test]
    fn altered_entries_never_panic(sample in 0usize..41, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (_, body) = samples().swap_remove(sample);
        let mut bytes = Entry { group: 0, time_ms: 9, body }.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), bytes);
        }
    }
}
