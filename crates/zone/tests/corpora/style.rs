//! The prints of others as records of words, and how each of their styles differs from ours.
//!
//! Nothing here uses the scanner that is tested: words are split at white space outside of quotes, and each [`Rule`]
//! rewrites one habit of one print, for the types that have it.

/// One record as printed: owner, TTL, class, type, rdata.
pub(crate) type Words = Vec<String>;

/// A habit of another print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Owners in lower case.
    OwnerCase,
    /// Names in rdata relative to this origin.
    NamesRelative(&'static str),
    /// Base64 in pieces.
    Base64Pieces,
    /// Strings without quotes, of this type.
    Unquoted(&'static str),
    /// LOC with two digits for minutes and degrees, or without centimetres.
    LocDigits,
    /// Values of service parameters all in quotes.
    ParameterQuotes,
    /// A word that is a mnemonic there and a number here, or the other way round: type, theirs, ours.
    Mnemonic(&'static str, &'static str, &'static str),
    /// Hexadecimal in upper case, of this type.
    HexCase(&'static str),
    /// IPv6 addresses and locators as they were written, of this type.
    Ipv6AsWritten(&'static str),
}

/// Splits a line into words; a quoted string is one.
fn words(line: &str) -> Words {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend([character].into_iter().chain(characters.next())),
            '"' => {
                quoted = !quoted;
                word.push(character);
            }
            ' ' | '\t' | '(' | ')' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            ';' if !quoted => break,
            _ => word.push(character),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The records of a print: `$ORIGIN`, owners that are left out, and one record over lines in parentheses are all it
/// may use.
pub(crate) fn records(text: &str, origin: &str) -> Vec<Words> {
    let (mut origin, mut owner, mut records) = (origin.to_owned(), String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        while line.trim_end().ends_with('(') || (line.contains("(\n") && !line.contains(')')) {
            line.push('\n');
            line.push_str(lines.next().expect("parentheses are closed"));
        }
        let mut words = words(&line.replace('\n', " "));
        match words.first().map(String::as_str) {
            None => continue,
            Some("$ORIGIN") => {
                origin = words.swap_remove(1);
                continue;
            }
            Some(_) => {}
        }
        if !line.starts_with([' ', '\t']) {
            owner = absolute(&words.remove(0), &origin);
        }
        words.insert(0, owner.clone());
        records.push(words);
    }
    records
}

fn absolute(name: &str, origin: &str) -> String {
    match name {
        "@" => origin.to_owned(),
        _ if name.ends_with('.') && !name.ends_with("\\.") => name.to_owned(),
        _ if origin == "." => format!("{name}."),
        _ => format!("{name}.{origin}"),
    }
}

/// Which words of the rdata are names.
fn name_places(rtype: &str, rdata: &[String]) -> Vec<usize> {
    match rtype {
        "NS" | "CNAME" | "DNAME" | "PTR" | "NSEC" | "NSAP-PTR" => vec![0],
        "MX" | "AFSDB" | "KX" | "RT" | "SVCB" | "HTTPS" | "LP" => vec![1],
        "SOA" | "RP" => vec![0, 1],
        "RRSIG" => vec![7],
        "IPSECKEY" if rdata[1] == "3" => vec![3],
        _ => vec![],
    }
}

impl Rule {
    /// Rewrites one record; says whether there was anything to rewrite.
    pub(crate) fn apply(self, words: &mut Words) -> bool {
        let before = words.clone();
        let rtype = words[3].clone();
        match self {
            Self::OwnerCase => words[0].make_ascii_lowercase(),
            Self::NamesRelative(origin) => {
                for place in name_places(&rtype, &words[4..]) {
                    words[4 + place] = absolute(&words[4 + place], origin);
                }
            }
            Self::Base64Pieces => {
                let first = match rtype.as_str() {
                    "DHCID" | "HHIT" | "BRID" | "OPENPGPKEY" => 4,
                    "CERT" | "DNSKEY" | "CDNSKEY" => 7,
                    "IPSECKEY" => 8,
                    "RRSIG" => 12,
                    _ => return false,
                };
                let joined = words.split_off(first).concat();
                words.push(joined);
            }
            Self::Unquoted(wanted) if wanted == rtype => {
                words[4..].iter_mut().for_each(|word| *word = format!("\"{word}\""));
            }
            Self::LocDigits if rtype == "LOC" => words[4..].iter_mut().for_each(|word| *word = loc_word(word)),
            Self::ParameterQuotes if matches!(rtype.as_str(), "SVCB" | "HTTPS") => {
                for word in words[6..].iter_mut().filter(|word| {
                    let is_quoted_here = ["alpn=", "dohpath=", "key"].iter().any(|key| word.starts_with(key));
                    !is_quoted_here
                }) {
                    *word = word.replace('"', "");
                }
            }
            Self::Mnemonic(wanted, theirs, ours) if wanted == rtype => {
                words[4..].iter_mut().filter(|word| *word == theirs).for_each(|word| *word = ours.to_owned());
            }
            Self::HexCase(wanted) if wanted == rtype => words.last_mut().expect("words").make_ascii_lowercase(),
            Self::Ipv6AsWritten(wanted) if wanted == rtype => {
                words[4..].iter_mut().for_each(|word| *word = ipv6_word(word))
            }
            _ => {}
        }
        *words != before
    }
}

/// `07` to `7`, `05.000` to `5.000`, `10m` to `10.00m`.
fn loc_word(word: &str) -> String {
    match word.strip_suffix('m') {
        Some(metres) if !metres.contains('.') => format!("{metres}.00m"),
        Some(_) => word.to_owned(),
        None => match word.strip_prefix('0') {
            Some(rest) if rest.starts_with(|digit: char| digit.is_ascii_digit()) => rest.to_owned(),
            _ => word.to_owned(),
        },
    }
}

/// The address in a word, as RFC 5952 has it; a locator in lower case.
fn ipv6_word(word: &str) -> String {
    let colon = word.find(':').map_or(0, |at| if word[..at].len() == 1 { at + 1 } else { 0 });
    let slash = word.find('/').unwrap_or(word.len());
    match word[colon..slash].parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("{}{address}{}", &word[..colon], &word[slash..]),
        Err(_) if word.matches(':').count() == 3 => word.to_ascii_lowercase(),
        Err(_) => word.to_owned(),
    }
}
