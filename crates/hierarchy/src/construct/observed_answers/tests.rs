//! Compares answers of a resolver with those of servers.

use super::*;
use wire::builder::MessageBuilder;
use wire::number::Class;
use zone::text::scan_rdata_text;

/// A response: AA, RCODE, and records as `section owner type rdata`, where the section is 1 (answer) or 2 (authority).
fn response(name: &str, rtype: Rtype, rcode: Rcode, records: &[(Section, &str, Rtype, &str)]) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    let mut builder = MessageBuilder::query(1, name.as_ref(), rtype).header(|header| {
        (header.qr, header.aa) = (true, true);
    });
    for (section, owner, rtype, rdata) in records {
        let owner: Name = owner.parse().unwrap();
        let rdata = scan_rdata_text(*rtype, rdata.as_bytes(), None).unwrap();
        builder = builder.record(*section, owner.as_ref(), *rtype, Class::IN, 60, &rdata);
    }
    builder.rcode(rcode).build()
}

fn address(name: &str, address: &str) -> Vec<u8> {
    response(name, Rtype::A, Rcode::NOERROR, &[(Section::Answer, name, Rtype::A, address)])
}

fn alias(name: &str, target: &str) -> Vec<u8> {
    response(name, Rtype::A, Rcode::NOERROR, &[(Section::Answer, name, Rtype::CNAME, target)])
}

fn servfail(name: &str) -> Vec<u8> {
    response(name, Rtype::A, Rcode::SERVFAIL, &[])
}

/// Takes the servers' answers, the question and the resolver's answer. Returns the verdict.
fn compared(observed: &[Vec<u8>], name: &str, answer: Option<&[u8]>) -> (Verdict, Fidelity) {
    let mut all = ObservedAnswers::default();
    observed.iter().for_each(|bytes| all.add(bytes));
    let mut fidelity = Fidelity::default();
    let question = Question { name: name.parse().unwrap(), rtype: Rtype::A };
    (fidelity.judge(&all, &question, answer), fidelity)
}

#[test]
fn answers_are_compared_as_sets_without_case_and_ttl() {
    let observed =
        |records: &[(Section, &str, Rtype, &str)]| response("www.example.", Rtype::A, Rcode::NOERROR, records);
    let (one, two) = (
        (Section::Answer, "www.example.", Rtype::A, "192.0.2.1"),
        (Section::Answer, "WWW.example.", Rtype::A, "192.0.2.2"),
    );
    let servers = [observed(&[one, two])];
    let reversed = observed(&[two, one]);
    assert_eq!(compared(&servers, "www.example.", Some(&reversed)).0, Verdict::Same);
    for other in [observed(&[one]), observed(&[]), servfail("www.example.")] {
        let (verdict, fidelity) = compared(&servers, "www.example.", Some(&other));
        assert_eq!((verdict, fidelity.other, fidelity.others.len()), (Verdict::Other, 1, 1));
        assert_eq!(fidelity.others[0].servers, ["NOERROR; www.example. A 192.0.2.1; www.example. A 192.0.2.2"]);
    }
    let (verdict, fidelity) = compared(&servers, "www.example.", None);
    assert_eq!((verdict, fidelity.others[0].resolver.as_str()), (Verdict::Other, "no answer"));
}

#[test]
fn several_observed_answers_are_accepted_and_reported() {
    let servers = [address("www.example.", "192.0.2.1"), address("www.example.", "192.0.2.2")];
    for (found, expected) in
        [("192.0.2.1", Verdict::OneOfSeveral), ("192.0.2.2", Verdict::OneOfSeveral), ("192.0.2.3", Verdict::Other)]
    {
        let (verdict, fidelity) = compared(&servers, "www.example.", Some(&address("www.example.", found)));
        assert_eq!(verdict, expected, "{found}");
        assert_eq!((fidelity.several[0].question.as_str(), fidelity.several[0].servers.len()), ("www.example. A", 2));
    }
}

#[test]
fn aliases_are_followed_to_answers_of_other_servers() {
    let servers = [alias("www.example.", "web.test."), address("web.test.", "192.0.2.1")];
    let complete = |address: &str| {
        let records = [
            (Section::Answer, "www.example.", Rtype::CNAME, "web.test."),
            (Section::Answer, "web.test.", Rtype::A, address),
        ];
        response("www.example.", Rtype::A, Rcode::NOERROR, &records)
    };
    assert_eq!(compared(&servers, "www.example.", Some(&complete("192.0.2.1"))).0, Verdict::Same);
    assert_eq!(compared(&servers, "www.example.", Some(&complete("192.0.2.2"))).0, Verdict::Other);
    assert_eq!(compared(&servers, "www.example.", Some(&servers[0])).0, Verdict::Other);
    // The alias leads to a name that was not asked.
    let servers = [alias("www.example.", "web.test.")];
    assert_eq!(compared(&servers, "www.example.", Some(&complete("192.0.2.2"))).0, Verdict::AsFar);
    assert_eq!(compared(&servers, "www.example.", Some(&servfail("www.example."))).0, Verdict::Beyond);
    assert_eq!(compared(&servers, "www.example.", Some(&address("www.example.", "192.0.2.1"))).0, Verdict::Other);
}

#[test]
fn alias_loops_and_many_paths_terminate() {
    let mut servers = Vec::new();
    for from in 0..40 {
        servers.extend((0..40).map(|to| alias(&format!("n{from}.example."), &format!("n{to}.example."))));
    }
    let (verdict, _) = compared(&servers, "n0.example.", Some(&servfail("n0.example.")));
    assert_eq!(verdict, Verdict::Beyond);
}

#[test]
fn messages_that_are_no_answers_are_skipped_and_counted() {
    let refers = [(Section::Authority, "example.", Rtype::NS, "ns.example.")];
    let mut referral = response("www.example.", Rtype::A, Rcode::NOERROR, &refers);
    referral[2] &= !0x04; // AA
    let mut truncated = address("www.example.", "192.0.2.1");
    truncated[2] |= 0x02; // TC
    let soa = [(Section::Authority, "example.", Rtype::SOA, "ns.example. h.example. 1 2 3 4 5")];
    let own_ds = response("example.", Rtype::DS, Rcode::NOERROR, &soa);
    let any = response(
        "www.example.",
        Rtype::ANY,
        Rcode::NOERROR,
        &[(Section::Answer, "www.example.", Rtype::A, "192.0.2.1")],
    );
    let mut observed = ObservedAnswers::default();
    for bytes in [&referral, &truncated, &own_ds, &any, &servfail("www.example.")] {
        observed.add(bytes);
    }
    assert_eq!((observed.questions().len(), observed.left_out.len()), (0, 5), "{:?}", observed.left_out);
    // The query is not counted as an answer.
    observed.add(&MessageBuilder::query(1, wire::name::NameRef::ROOT, Rtype::NS).build());
    assert_eq!(observed.left_out.values().sum::<u64>(), 5);
}
