//! Well formed messages that are refused: rows 15 to 21, without 20, and without row 18 by transport.

use super::{ANSWERS, Case, REJECTS, add_record, query, question_of_class};
use crate::support::message::{name, sign};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};

pub(super) const CASES: &[Case] = &[
    Case {
        row: "15 class CH",
        message: |_| {
            MessageBuilder::new(Default::default()).question(name("id.server.").as_ref(), Rtype::TXT, Class::CH).build()
        },
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "15 class ANY",
        message: |_| {
            MessageBuilder::new(Default::default())
                .question(name("www.example.test.").as_ref(), Rtype::A, Class::ANY)
                .build()
        },
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "15 class NONE",
        message: |_| question_of_class(Class::NONE),
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "15 class 0",
        message: |_| question_of_class(Class(0)),
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "15 class 65280, QTYPE OPT: before 17",
        message: |_| {
            let builder = MessageBuilder::new(Default::default());
            builder.question(name("www.example.test.").as_ref(), Rtype::OPT, Class(65_280)).build()
        },
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "16 UPDATE of class CH",
        message: |keys| {
            let header = MessageBuilder::update(5, name(".").as_ref()).build()[..4].to_vec();
            let body = [&[0, 1, 0, 0, 0, 0, 0, 0][..], name("example.test.").as_bytes(), &[0, 6, 0, 3]].concat();
            sign(&keys.good, [header, body].concat(), 0)
        },
        response: "NOTAUTH, question, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of what is no apex",
        message: |keys| sign(&keys.good, add_record("www.example.test.").build(), 0),
        response: "NOTAUTH, question, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of what is no apex, unsigned: before 21",
        message: |_| add_record("elsewhere.").build(),
        response: "NOTAUTH, question",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of class ANY",
        message: |keys| {
            let mut message = add_record("example.test.").build();
            let class = 12 + name("example.test.").as_bytes().len() + 2;
            message[class..class + 2].copy_from_slice(&Class::ANY.0.to_be_bytes());
            sign(&keys.good, message, 0)
        },
        response: "NOTAUTH, question, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of a name above the apex",
        message: |keys| sign(&keys.good, add_record("test.").edns(1232, false).build(), 0),
        response: "NOTAUTH, question, opt, ede 20, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "17 QTYPE OPT",
        message: |_| query(Rtype::OPT).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE TSIG",
        message: |_| query(Rtype::TSIG).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE TKEY",
        message: |_| query(Rtype::TKEY).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE NXNAME, without ZONEVERSION",
        message: |_| query(Rtype::NXNAME).option(19, &[]).build(),
        response: "FORMERR, question, opt, ede 30",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE MAILA",
        message: |_| query(Rtype::MAILA).build(),
        response: "NOTIMP, question",
        counter: (ANSWERS, "notimp"),
    },
    Case {
        row: "17 QTYPE MAILB",
        message: |_| query(Rtype::MAILB).build(),
        response: "NOTIMP, question",
        counter: (ANSWERS, "notimp"),
    },
    Case {
        row: "17 QTYPE OPT, no zone: before 19",
        message: |_| MessageBuilder::query(9, name("nowhere.").as_ref(), Rtype::OPT).edns(1232, false).build(),
        response: "FORMERR, question, opt",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "18 AXFR without key",
        message: |_| MessageBuilder::query(9, name("example.test.").as_ref(), Rtype::AXFR).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 21",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "18 IXFR without key",
        message: |_| MessageBuilder::query(9, name("example.test.").as_ref(), Rtype::IXFR).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 21",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "18 AXFR of no zone, without key: before 19",
        message: |_| MessageBuilder::query(9, name("nowhere.").as_ref(), Rtype::AXFR).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 21",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "19 no zone",
        message: |_| MessageBuilder::query(9, name("example.org.").as_ref(), Rtype::A).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 20",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "19 the parent of a zone",
        message: |_| MessageBuilder::query(9, name("test.").as_ref(), Rtype::NS).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 20",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "21 UPDATE without key",
        message: |_| add_record("example.test.").build(),
        response: "REFUSED, question",
        counter: (REJECTS, "unsigned"),
    },
    Case {
        row: "21 UPDATE without key, with EDNS",
        message: |_| add_record("example.test.").edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 18",
        counter: (REJECTS, "unsigned"),
    },
    Case {
        row: "21 UPDATE by a key that is not granted it",
        message: |keys| sign(&keys.granted_nothing, add_record("example.test.").edns(1232, false).build(), 0),
        response: "REFUSED, question, opt, ede 18, tsig noerror, mac",
        counter: (REJECTS, "not_granted"),
    },
    Case {
        row: "21 UPDATE without key that is wrong otherwise: nothing else is looked at",
        message: |_| add_record("example.test.").delete_name(name("outside.").as_ref()).build(),
        response: "REFUSED, question",
        counter: (REJECTS, "unsigned"),
    },
];
