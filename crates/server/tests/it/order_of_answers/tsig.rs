//! Rows 9 to 14: decided by the signature.

use super::{ANSWERS, Case, REJECTS, UPDATES, add_record, query, tsig_of, with_counts};
use crate::support::message::{append, name, now_s, patch_before_tsig_rdata, sign, truncate_mac};
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};

fn with_opcode(message: MessageBuilder, opcode: Opcode) -> MessageBuilder {
    message.header(|header| header.opcode = opcode)
}

pub(super) const CASES: &[Case] = &[
    Case {
        row: "9 TSIG not last",
        message: |keys| {
            append(sign(&keys.good, query(Rtype::A).build(), 0), &[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4])
        },
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_not_last"),
    },
    Case {
        row: "9 TSIG twice",
        message: |keys| append(sign(&keys.good, query(Rtype::A).build(), 0), &tsig_of(&keys.good)),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_twice"),
    },
    Case {
        row: "9 TSIG of class IN",
        message: |keys| patch_before_tsig_rdata(sign(&keys.good, query(Rtype::A).build(), 0), 8, &[0, 1]),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_class"),
    },
    Case {
        row: "11 MAC of 15 bytes",
        message: |keys| truncate_mac(sign(&keys.good, query(Rtype::A).build(), 0), 15),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_mac_length"),
    },
    Case {
        row: "9 TSIG in the answer section",
        message: |keys| {
            let tsig = tsig_of(&keys.good);
            with_counts([query(Rtype::A).build(), tsig].concat(), 1, 1)
        },
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_not_last"),
    },
    Case {
        row: "11 MAC of 33 bytes",
        message: |keys| {
            let mut message = sign(&keys.good, query(Rtype::A).build(), 0);
            let end = message.len();
            // RDLENGTH and MAC size are one larger, with one more byte before the last six.
            message.insert(end - 6, 0);
            let mac_size = end - 6 - 32 - 2;
            message[mac_size + 1] += 1;
            let rdlength = end - 61 - 2;
            message[rdlength + 1] += 1;
            message
        },
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_mac_length"),
    },
    Case {
        row: "10 unknown key, MAC of 9 bytes: before 11",
        message: |keys| truncate_mac(sign(&keys.unknown, add_record("example.test.").build(), 0), 9),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "10 unknown key, no MAC",
        message: |keys| truncate_mac(sign(&keys.unknown, query(Rtype::A).build(), 0), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "10 unknown key, ZTYPE A: before 5",
        message: |keys| sign(&keys.unknown, with_opcode(query(Rtype::A), Opcode::UPDATE).build(), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "11 wrong secret, NOTIFY: before 2",
        message: |keys| sign(&keys.wrong_secret, with_opcode(query(Rtype::SOA), Opcode::NOTIFY).build(), 0),
        response: "NOTAUTH, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "14 a signed NOTIFY",
        message: |keys| sign(&keys.good, with_opcode(query(Rtype::SOA), Opcode::NOTIFY).build(), 0),
        response: "NOTIMP, tsig noerror, mac",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "14 a signed QUERY with two questions",
        message: |keys| {
            let two = query(Rtype::A).question(name("b.").as_ref(), Rtype::A, Class::IN);
            sign(&keys.good, two.build(), 0)
        },
        response: "FORMERR, tsig noerror, mac",
        counter: (REJECTS, "question_count_many"),
    },
    Case {
        row: "14 a signed UPDATE with ZTYPE A",
        message: |keys| sign(&keys.good, with_opcode(query(Rtype::A), Opcode::UPDATE).edns(1232, false).build(), 0),
        response: "FORMERR, question, opt, tsig noerror, mac",
        counter: (REJECTS, "zone_type"),
    },
    Case {
        row: "14 a signed QUERY with a COOKIE of 7",
        message: |keys| sign(&keys.good, query(Rtype::A).option(10, &[7; 7]).build(), 0),
        response: "FORMERR, question, opt, tsig noerror, mac",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "14 a signed QUERY of EDNS 1",
        message: |keys| sign(&keys.good, query(Rtype::A).edns_version(1).build(), 0),
        response: "BADVERS, question, opt, tsig noerror, mac",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "10 unknown key",
        message: |keys| sign(&keys.unknown, query(Rtype::A).build(), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "10 another algorithm",
        message: |keys| sign(&keys.wrong_algorithm, add_record("example.test.").build(), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "10 unknown key, an UPDATE of an unknown zone: before 16",
        message: |keys| sign(&keys.unknown, add_record("elsewhere.").edns(1232, false).build(), 0),
        response: "NOTAUTH, question, opt, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "11 wrong secret",
        message: |keys| sign(&keys.wrong_secret, add_record("example.test.").build(), 0),
        response: "NOTAUTH, question, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "11 wrong secret, and late: the MAC comes first",
        message: |keys| sign(&keys.wrong_secret, add_record("example.test.").build(), 9_999),
        response: "NOTAUTH, question, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "11 an byte changed on the way",
        message: |keys| {
            let mut message = sign(&keys.good, add_record("example.test.").build(), 0);
            let zone_end = 12 + name("example.test.").as_bytes().len() + 4;
            message[zone_end + 1] ^= 0x01;
            message
        },
        response: "NOTAUTH, question, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "12 late",
        message: |keys| sign(&keys.good, add_record("example.test.").build(), 301),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "12 late, fudge 3600 is capped",
        message: |keys| keys.good.sign_with_fudge(add_record("example.test.").build(), now_s() - 310, 3_600).unwrap(),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "12 early",
        message: |keys| keys.good.sign(add_record("example.test.").build(), now_s() + 310).unwrap(),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "12 late, a QUERY of class CH: before 15",
        message: |keys| {
            let of_ch = MessageBuilder::new(Default::default()).question(name("a.").as_ref(), Rtype::A, Class::CH);
            sign(&keys.good, of_ch.build(), 400)
        },
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "13 MAC of 16 bytes",
        message: |keys| truncate_mac(sign(&keys.good, add_record("example.test.").build(), 0), 16),
        response: "NOTAUTH, question, tsig badtrunc, mac",
        counter: (REJECTS, "tsig_bad_trunc"),
    },
    Case {
        row: "13 MAC of 31 bytes",
        message: |keys| truncate_mac(sign(&keys.good, add_record("example.test.").build(), 0), 31),
        response: "NOTAUTH, question, tsig badtrunc, mac",
        counter: (REJECTS, "tsig_bad_trunc"),
    },
    Case {
        row: "13 MAC of 16 bytes, late: 12",
        message: |keys| truncate_mac(sign(&keys.good, add_record("example.test.").build(), 400), 16),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "14 a signed QUERY",
        message: |keys| sign(&keys.good, query(Rtype::A).build(), 0),
        response: "NOERROR, question, answer 1, tsig noerror, mac",
        counter: (ANSWERS, "positive"),
    },
    Case {
        row: "14 a signed QUERY that asks for ZONEVERSION",
        message: |keys| sign(&keys.good, query(Rtype::A).option(19, &[]).build(), 0),
        response: "NOERROR, question, answer 1, opt, zoneversion, tsig noerror, mac",
        counter: (ANSWERS, "positive"),
    },
    Case {
        row: "14 a signed QUERY that is refused",
        message: |keys| {
            sign(&keys.good, MessageBuilder::query(1, name("nowhere.").as_ref(), Rtype::A).edns(1232, false).build(), 0)
        },
        response: "REFUSED, question, opt, ede 20, tsig noerror, mac",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "14 a signed UPDATE",
        message: |keys| sign(&keys.good, add_record("example.test.").edns(1232, false).build(), 0),
        response: "NOERROR, question, opt, tsig noerror, mac",
        counter: (UPDATES, "done"),
    },
    Case {
        row: "14 a signed QUERY with QTYPE OPT",
        message: |keys| sign(&keys.good, query(Rtype::OPT).build(), 0),
        response: "FORMERR, question, tsig noerror, mac",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "14 a signed QUERY of class CH",
        message: |keys| {
            let of_ch = MessageBuilder::new(Default::default()).question(name("a.").as_ref(), Rtype::A, Class::CH);
            sign(&keys.good, of_ch.build(), 0)
        },
        response: "REFUSED, question, tsig noerror, mac",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "14 a signed UPDATE whose prerequisite fails",
        message: |keys| {
            let (zone, no_such) = (name("example.test."), name("nothing.example.test."));
            let update = MessageBuilder::update(6, zone.as_ref()).name_in_use(no_such.as_ref());
            sign(&keys.good, update.delete_name(no_such.as_ref()).build(), 0)
        },
        response: "NXDOMAIN, question, tsig noerror, mac",
        counter: (UPDATES, "failed"),
    },
    Case {
        row: "14 a signed UPDATE of a name outside of the zone",
        message: |keys| {
            let outside = name("outside.");
            sign(&keys.good, add_record("example.test.").delete_name(outside.as_ref()).build(), 0)
        },
        response: "NOTZONE, question, tsig noerror, mac",
        counter: (REJECTS, "prescan"),
    },
];
