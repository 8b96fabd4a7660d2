//! Rows 1 to 8: decided by the bytes of a message alone.

use super::{ANSWERS, Case, DROPS, REJECTS, add_record, opcode, opt, query, with_counts};
use crate::support::message::{append, name, sign};
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};
use wire::parse::Section;

pub(super) const CASES: &[Case] = &[
    Case { row: "1 short", message: |_| vec![0; 11], response: "none", counter: (DROPS, "short") },
    Case {
        row: "1 QR",
        message: |_| query(Rtype::A).header(|header| header.qr = true).build(),
        response: "none",
        counter: (DROPS, "response"),
    },
    Case { row: "1 empty", message: |_| Vec::new(), response: "none", counter: (DROPS, "short") },
    Case {
        row: "1 QR, opcode 15",
        message: |_| query(Rtype::A).header(|header| (header.qr, header.opcode) = (true, Opcode(15))).build(),
        response: "none",
        counter: (DROPS, "response"),
    },
    Case { row: "2 STATUS", message: |_| opcode(2), response: "NOTIMP", counter: (REJECTS, "opcode") },
    Case { row: "2 NOTIFY", message: |_| opcode(4), response: "NOTIMP", counter: (REJECTS, "opcode") },
    Case {
        row: "2 DSO, QDCOUNT 0",
        message: |_| with_counts(opcode(6), 0, 0),
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 opcode 15, nonsense behind",
        message: |_| [opcode(15), vec![0xFF; 99]].concat(),
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 IQUERY, QDCOUNT 0",
        message: |_| with_counts(opcode(1), 0, 0),
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 opcode 3, EDNS 1: before 8",
        message: |_| query(Rtype::A).header(|header| header.opcode = Opcode(3)).edns_version(1).build(),
        response: "NOTIMP, opt",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 NOTIFY with OPT",
        message: |_| query(Rtype::SOA).header(|header| header.opcode = Opcode(4)).edns(1232, true).build(),
        response: "NOTIMP, opt",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 DSO, QDCOUNT 0, OPT",
        message: |_| {
            let builder = MessageBuilder::new(Default::default()).header(|header| header.opcode = Opcode(6));
            builder.edns(1232, false).build()
        },
        response: "NOTIMP, opt",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 two OPT: none in the answer",
        message: |_| {
            let twice =
                [query(Rtype::A).header(|header| header.opcode = Opcode(3)).build(), opt(&[0], &[]), opt(&[0], &[])];
            with_counts(twice.concat(), 3, 2)
        },
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 OPT, bytes left over",
        message: |_| {
            let builder = query(Rtype::A).header(|header| header.opcode = Opcode(3)).edns(1232, false);
            [builder.build(), vec![0]].concat()
        },
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "3 QDCOUNT 2, OPT",
        message: |_| {
            let builder = query(Rtype::A).question(name("b.").as_ref(), Rtype::A, Class::IN);
            builder.edns(1232, false).build()
        },
        response: "FORMERR, opt",
        counter: (REJECTS, "question_count_many"),
    },
    Case {
        row: "3 QDCOUNT 2",
        message: |_| query(Rtype::A).question(name("b.").as_ref(), Rtype::A, Class::IN).build(),
        response: "FORMERR",
        counter: (REJECTS, "question_count_many"),
    },
    Case {
        row: "3 QDCOUNT 65535",
        message: |_| with_counts(query(Rtype::A).build(), 0, 65_535),
        response: "FORMERR",
        counter: (REJECTS, "question_count_many"),
    },
    Case {
        row: "4 QDCOUNT 0",
        message: |_| query(Rtype::A).build()[..12].to_vec(),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "4 QDCOUNT 0, empty",
        message: |_| with_counts(query(Rtype::A).build()[..12].to_vec(), 0, 0),
        response: "FORMERR",
        counter: (REJECTS, "question_count_zero"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE",
        message: |_| MessageBuilder::new(Default::default()).option(10, &[7; 8]).build(),
        response: "NOERROR, opt, cookie 24",
        counter: (ANSWERS, "cookie_only"),
    },
    Case {
        row: "4 QDCOUNT 0, OPT without COOKIE",
        message: |_| MessageBuilder::new(Default::default()).edns(1232, false).build(),
        response: "FORMERR, opt",
        counter: (REJECTS, "question_count_zero"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE with a server part",
        message: |_| MessageBuilder::new(Default::default()).option(10, &[7; 24]).build(),
        response: "NOERROR, opt, cookie 24",
        counter: (ANSWERS, "cookie_only"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE of 9: 7",
        message: |_| MessageBuilder::new(Default::default()).option(10, &[7; 9]).build(),
        response: "FORMERR, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE, EDNS 1: 8",
        message: |_| MessageBuilder::new(Default::default()).option(10, &[7; 8]).edns_version(1).build(),
        response: "BADVERS, opt, cookie 24",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE, signed",
        message: |keys| sign(&keys.good, MessageBuilder::new(Default::default()).option(10, &[7; 8]).build(), 0),
        response: "NOERROR, opt, cookie 24, tsig noerror, mac",
        counter: (ANSWERS, "cookie_only"),
    },
    Case {
        row: "4 with a question COOKIE is no case of its own",
        message: |_| query(Rtype::A).option(10, &[7; 8]).build(),
        response: "NOERROR, question, answer 1, opt, cookie 24",
        counter: (ANSWERS, "positive"),
    },
    Case {
        row: "5 ZOCOUNT 0",
        message: |_| with_counts(opcode(5)[..12].to_vec(), 0, 0),
        response: "FORMERR",
        counter: (REJECTS, "zone_count"),
    },
    Case {
        row: "5 ZOCOUNT 2",
        message: |_| with_counts(add_record("example.test.").build(), 0, 2),
        response: "FORMERR",
        counter: (REJECTS, "zone_count"),
    },
    Case {
        row: "5 ZOCOUNT 2, OPT",
        message: |_| {
            let builder = MessageBuilder::update(1, name("example.test.").as_ref());
            builder.question(name("b.").as_ref(), Rtype::SOA, Class::IN).edns(1232, false).build()
        },
        response: "FORMERR, opt",
        counter: (REJECTS, "zone_count"),
    },
    Case {
        row: "5 ZTYPE A, OPT",
        message: |_| query(Rtype::A).header(|header| header.opcode = Opcode::UPDATE).edns(1232, false).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "zone_type"),
    },
    Case { row: "5 ZTYPE A", message: |_| opcode(5), response: "FORMERR, question", counter: (REJECTS, "zone_type") },
    Case {
        row: "5 ZTYPE ANY, unsigned: before 21",
        message: |_| query(Rtype::ANY).header(|header| header.opcode = Opcode::UPDATE).build(),
        response: "FORMERR, question",
        counter: (REJECTS, "zone_type"),
    },
    Case {
        row: "6 past the end",
        message: |_| with_counts(query(Rtype::A).build(), 1, 1),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "6 left over",
        message: |_| [query(Rtype::A).build(), vec![0]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "left_over"),
    },
    Case {
        row: "6 a name that points at itself",
        message: |_| [&query(Rtype::A).build()[..12], &[0xC0, 12, 0, 1, 0, 1]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "name_malformed"),
    },
    Case {
        row: "6 a count of 65535 records",
        message: |_| with_counts(query(Rtype::A).build(), 3, 65_535),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "6 rdata past the end",
        message: |_| append(query(Rtype::A).build(), &[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4]),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "6 a label of type 01",
        message: |_| [&query(Rtype::A).build()[..12], &[0x41, b'a', 0, 0, 1, 0, 1]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "name_malformed"),
    },
    Case {
        row: "6 a name of 256 bytes",
        message: |_| {
            let label = [&[63][..], &[b'x'; 63]].concat();
            [&query(Rtype::A).build()[..12], &label.repeat(4), &[0, 0, 1, 0, 1]].concat()
        },
        response: "FORMERR",
        counter: (REJECTS, "name_malformed"),
    },
    Case {
        row: "6 left over behind an UPDATE, unsigned: before 21",
        message: |_| [add_record("example.test.").build(), vec![0]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "left_over"),
    },
    Case {
        row: "7 two OPT",
        message: |_| append(query(Rtype::A).edns(1232, false).build(), &opt(&[0], &[])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_twice"),
    },
    Case {
        row: "7 OPT not at the root",
        message: |_| append(query(Rtype::A).build(), &opt(&[1, b'a', 0], &[])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_owner"),
    },
    Case {
        row: "7 OPT in the answer section",
        message: |_| {
            query(Rtype::A).record(Section::Answer, name(".").as_ref(), Rtype::OPT, Class(1232), 0, &[]).build()
        },
        response: "FORMERR, question",
        counter: (REJECTS, "opt_section"),
    },
    Case {
        row: "7 option past the end",
        message: |_| append(query(Rtype::A).build(), &opt(&[0], &[0, 3, 0, 9])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_options"),
    },
    Case {
        row: "7 COOKIE of 9",
        message: |_| query(Rtype::A).option(10, &[7; 9]).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "7 OPT in the authority section",
        message: |_| {
            query(Rtype::A).record(Section::Authority, name(".").as_ref(), Rtype::OPT, Class(1232), 0, &[]).build()
        },
        response: "FORMERR, question",
        counter: (REJECTS, "opt_section"),
    },
    Case {
        row: "7 half an option",
        message: |_| append(query(Rtype::A).build(), &opt(&[0], &[0, 3, 0])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_options"),
    },
    Case {
        row: "7 COOKIE of 0",
        message: |_| query(Rtype::A).option(10, &[]).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "7 COOKIE of 15",
        message: |_| query(Rtype::A).option(10, &[7; 15]).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "7 COOKIE of 41",
        message: |_| query(Rtype::A).option(10, &[7; 41]).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "7 two OPT in an UPDATE, unsigned: before 21",
        message: |_| append(add_record("example.test.").edns(1232, false).build(), &opt(&[0], &[])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_twice"),
    },
    Case {
        row: "7 an option that nobody knows is passed over",
        message: |_| query(Rtype::A).option(65_001, &[7; 9]).build(),
        response: "NOERROR, question, answer 1, opt",
        counter: (ANSWERS, "positive"),
    },
    Case {
        row: "8 EDNS 1",
        message: |_| query(Rtype::A).edns_version(1).build(),
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "8 EDNS 1 and a COOKIE of 7: before 7",
        message: |_| query(Rtype::A).option(10, &[7; 7]).edns_version(1).build(),
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "8 EDNS 1 and an option past the end",
        message: |_| {
            let mut opt = opt(&[0], &[0, 10, 0, 9, 7]);
            opt[6] = 1;
            append(query(Rtype::A).build(), &opt)
        },
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "8 EDNS 1, before class",
        message: |_| {
            MessageBuilder::new(Default::default())
                .question(name("a.").as_ref(), Rtype::A, Class::CH)
                .edns_version(9)
                .build()
        },
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "8 EDNS 1 in an UPDATE of an unknown zone, unsigned: before 16 and 21",
        message: |_| add_record("elsewhere.").edns_version(1).build(),
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
];
