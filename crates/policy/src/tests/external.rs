//! External rules: which daemons are asked, and the effect of their answers.

use super::{name, policy, with_evaluator};
use crate::limits::EXTERNAL_QUESTIONS_MAX;
use crate::update::{Step, ZoneRead};
use crate::{DaemonAnswers, Decision, Denied, Policy, Question, RuleList, RuleRef, SocketPath};
use core::ops::ControlFlow;
use wire::name::NameRef;
use wire::number::Rtype;
use zone::RecordRef;
use zone::codec::{Decoder, Encoder};

const RULES: &str = "\
deny k name no.example.;
grant \"local:/one\" external * A TXT;
deny \"local:/two\" external *;
grant k zonesub;
";

const fn by(number: usize) -> RuleRef {
    RuleRef { list: RuleList::Zone, number }
}

fn question(path: &str, owner: &str, rtype: Rtype) -> Question {
    Question { socket: SocketPath::new(path).unwrap(), owner: name(owner), rtype }
}

fn answers_of(answers: &[(&str, &str, Rtype, bool)]) -> DaemonAnswers {
    let mut external = DaemonAnswers::default();
    for &(path, owner, rtype, is_granted) in answers {
        external.insert(question(path, owner, rtype), is_granted);
    }
    external
}

fn decide(external: &DaemonAnswers, owner: &str, rtype: Rtype) -> Decision {
    let rules = policy(RULES);
    let (apex, key, owner) = (name("example."), name("k."), name(owner));
    let rules =
        crate::Rules { apex: apex.as_ref(), zone: Some(&rules), all_zones: None, grant: crate::UpdateGrant::None };
    let requestor = crate::Requestor { key: key.as_ref(), source: super::source("192.0.2.1"), is_connected: false };
    rules.evaluator(requestor).with_external(external).decide(owner.as_ref(), rtype)
}

#[test]
fn an_unanswered_external_rule_stops_evaluation() {
    let (one, two, www) = ("/one", "/two", "www.example.");
    let granted = |number| Decision::Granted { by: by(number), records_max: None };
    let none = DaemonAnswers::default();
    // Earlier rules decide first, and an external rule applies only to its own types.
    assert_eq!(decide(&none, "no.example.", Rtype::A), Decision::Denied { by: by(1) });
    assert_eq!(decide(&none, www, Rtype::A), Decision::Unanswered { by: by(2) });
    assert_eq!(decide(&none, www, Rtype::AAAA), Decision::Unanswered { by: by(3) });
    assert_eq!(decide(&none, www, Rtype::SOA), Decision::Unmatched);
    // After "yes" the rule takes effect; after "no" the next rule is evaluated.
    assert_eq!(decide(&answers_of(&[(one, www, Rtype::A, true)]), "WWW.example.", Rtype::A), granted(2));
    assert_eq!(decide(&answers_of(&[(one, www, Rtype::A, false)]), www, Rtype::A), Decision::Unanswered { by: by(3) });
    let answers = [(one, www, Rtype::A, false), (two, www, Rtype::A, false)];
    assert_eq!(decide(&answers_of(&answers), www, Rtype::A), granted(4));
    let answers = [(one, www, Rtype::A, false), (two, www, Rtype::A, true)];
    assert_eq!(decide(&answers_of(&answers), www, Rtype::A), Decision::Denied { by: by(3) });
    // Answers about another name or type, or from another daemon, have no effect.
    for other in [(one, "w.example.", Rtype::A), (one, www, Rtype::TXT), ("/other", www, Rtype::A)] {
        let other = answers_of(&[(other.0, other.1, other.2, true)]);
        assert_eq!(decide(&other, www, Rtype::A), Decision::Unanswered { by: by(2) });
    }
    // No daemon can grant DNSSEC types.
    assert_eq!(decide(&answers_of(&[(two, www, Rtype::RRSIG, false)]), www, Rtype::RRSIG), Decision::Never);
}

/// A zone in which every name has an A, a TXT and an RRSIG.
struct Full(wire::name::Name);

impl ZoneRead for Full {
    fn apex(&self) -> NameRef<'_> {
        self.0.as_ref()
    }

    fn is_presigned(&self) -> bool {
        false
    }

    fn record_count(&self) -> u64 {
        3
    }

    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) {
        for rtype in [Rtype::A, Rtype::TXT, Rtype::RRSIG] {
            if visit(RecordRef { owner, rtype, ttl: 0, rdata: &[] }).is_break() {
                return;
            }
        }
    }
}

#[test]
fn each_daemon_is_asked_once_and_in_order_of_rules() {
    let apex = name("example.");
    let zone = Full(apex);
    let (www, no, gone) = (name("www.example."), name("no.example."), name("gone.example."));
    let add = |owner| Step::Add { owner, rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, 1].into() };
    let steps = [add(www), add(name("WWW.example.")), Step::DeleteRrset(no, Rtype::AAAA), Step::DeleteName(gone)];
    let policy: Policy = policy(RULES);
    let first: Vec<_> =
        with_evaluator(&policy, "k.", |evaluator| evaluator.questions(&steps, &zone)).into_iter().collect();
    let expected = [
        question("/one", "gone.example.", Rtype::A),
        question("/one", "gone.example.", Rtype::TXT),
        question("/one", "www.example.", Rtype::A),
    ];
    assert_eq!(first.len(), expected.len(), "{first:?}");
    assert!(expected.iter().all(|question| first.contains(question)), "{first:?}");
    // Without answers the update is refused.
    let denied = with_evaluator(&policy, "k.", |evaluator| evaluator.permit(&steps, 100, Some(&zone)));
    assert!(matches!(denied, Err(Denied::Record { decision: Decision::Unanswered { .. }, .. })), "{denied:?}");
}

#[test]
fn answers_survive_encoding_and_are_bounded() {
    let external = answers_of(&[("/a", "x.example.", Rtype::A, true), ("/b.c", ".", Rtype(65_280), false)]);
    let mut out = Encoder::new();
    external.encode(&mut out);
    let bytes = out.finish();
    let decoded = |bytes: &[u8]| {
        let mut from = Decoder::new(bytes);
        DaemonAnswers::decode(&mut from).and_then(|external| from.finish().map(|()| external))
    };
    assert_eq!(decoded(&bytes), Ok(external));
    for cut in 0..bytes.len() {
        assert!(decoded(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        for byte in [0, 1, b'A', 255] {
            let mut altered = bytes.clone();
            altered[at] = byte;
            if let Ok(external) = decoded(&altered) {
                let mut out = Encoder::new();
                external.encode(&mut out);
                assert_eq!(out.finish(), altered, "{at} {byte}");
            }
        }
    }
    let mut many = DaemonAnswers::default();
    for number in 0..=EXTERNAL_QUESTIONS_MAX as u16 {
        many.insert(question("/a", "x.example.", Rtype(number)), true);
    }
    assert_eq!(many.len(), EXTERNAL_QUESTIONS_MAX);
    for wrong in ["", "relative", "/with space", "/with\"quote", "/\u{e9}", &format!("/{}", "x".repeat(107))] {
        assert_eq!(SocketPath::new(wrong), None, "{wrong}");
    }
    assert!(SocketPath::new(&format!("/{}", "x".repeat(106))).is_some());
}
