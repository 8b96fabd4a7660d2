//! Rules in the syntax of `named`, and errors with their position.

use super::policy;
use crate::text::{TokenKind, Tokens, parse_policy};
use proptest::prelude::*;

#[test]
fn rules_are_read_as_named_reads_them() {
    let text = "# a comment\nGRANT \"dhcp.example\" ZoneSub a(4) Aaaa; // another\n\
                /* and\n one more */ deny * name WWW.example. ANY(3) TXT(0) TYPE65280;\n\
                grant k self k; grant k selfsub .\n;limit k name-records 3;";
    let shown = "grant \"dhcp.example.\" zonesub A(4) AAAA;\n\
                 deny \"*.\" name \"www.example.\" ANY(3) TXT TYPE65280;\n\
                 grant \"k.\" self .;\n\
                 grant \"k.\" selfsub .;\n\
                 limit \"k.\" name-records 3;\n";
    assert_eq!(policy(text).to_string(), shown);
}

#[test]
fn errors_name_the_line_and_the_column() {
    for (text, at, why) in [
        ("allow k zonesub;", (1, 1), "`grant` or `deny`"),
        ("grant k zonesub;\n  grant k sub x;", (2, 11), "`sub` is no kind of rule"),
        ("grant k wildcard foo.example.;", (1, 18), "no wildcard"),
        ("grant k self example.;", (1, 14), "write `.` in its place"),
        ("grant k tcp-self k.;", (1, 18), "write `.` in its place"),
        ("grant k name A;", (1, 14), "the name is missing"),
        ("grant k zonesub A(70000);", (1, 17), "number up to 65535"),
        ("grant k zonesub A (4);", (1, 19), "no type"),
        ("grant k zonesub NOSUCH;", (1, 17), "`NOSUCH` is no type"),
        ("grant k zonesub A", (1, 18), "found the end"),
        ("grant k zonesub A }", (1, 19), "found `}`"),
        ("grant a..b zonesub;", (1, 7), "is not a domain name"),
        ("grant \"a zonesub;\n", (1, 7), "not closed"),
        ("grant k zonesub; /* x", (1, 18), "does not end"),
        ("grant * external local:s A;", (1, 7), "the absolute path of a socket"),
        ("grant local:s external * A;", (1, 7), "the absolute path of a socket"),
        ("grant local:/s external A;", (1, 25), "takes no name"),
        ("grant EXAMPLE.COM krb5-self . A;", (1, 19), "GSS-TSIG"),
        ("limit k records 3;", (1, 9), "is no limit"),
        ("limit k name-records x;", (1, 22), "no number"),
        ("limit k name-records 1 name-records 2;", (1, 37), "twice"),
        ("\u{e9}\u{e9} k zonesub;", (1, 1), "found `"),
        ("/*\u{e9}*/ allow k zonesub;", (1, 7), "found `allow`"),
    ] {
        let error = parse_policy(text).unwrap_err();
        assert_eq!((error.line, error.column), at, "{text}: {error}");
        assert!(error.what.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_quoted_name_may_contain_separators() {
    let text = "grant \"a\\\"b\\;c\\ d\\\\.example.\" zonesub;";
    let once = policy(text);
    assert_eq!(policy(&once.to_string()), once);
    assert!(once.to_string().contains("a\\034b\\;c\\032d\\\\.example."), "{once}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z*. {};\"\\\\#/()0-9\n\u{e9}]{0,60}") {
        let _ = parse_policy(&text);
        let _ = parse_policy(&format!("grant k {text}"));
        let mut tokens = Tokens::new(&text);
        // Each token takes at least one byte.
        let mut count = 0;
        while let Ok(Some(token)) = tokens.next_token() {
            count += 1;
            prop_assert!(token.kind != TokenKind::Word(String::new()) || text.contains('"'));
        }
        prop_assert!(count <= text.len());
    }
}
