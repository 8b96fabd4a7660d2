//! Address match lists of `allow-update` and `acl`.

use super::parse::{Fault, everything, placed, skip};
use crate::limits::NAMED_CONF_DEPTH_MAX;
use policy::Rule;
use policy::text::{TextError, TokenKind, Tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wire::Name;

/// One element of a list.
#[derive(Clone, Debug)]
pub(super) enum Element {
    /// `key NAME`
    Key(Name),
    /// A list in braces.
    Nested(List),
    /// The name of another list, an address, or `any`.
    Word(String, Fault),
    /// An element that cannot be imported.
    Wrong(Fault),
}

pub(super) type List = Vec<Element>;

/// The lists of `acl` statements by name, in lower case: BIND compares names without case.
pub(super) type Lists = BTreeMap<String, List>;

/// Why an element of BIND's lists cannot be imported.
const ONLY_KEYS: &str = "cannot be imported: updates need a key, so only `key NAME`, `none` alone, and acls or lists \
                         of these can be imported";

/// Why `none` is refused beside other elements. It is `!any`, and BIND applies the first element that matches: later
/// elements grant nothing, and earlier ones need no `none`.
const NOT_ALONE: &str = "`none` cannot be imported beside other elements: it matches every client, so `named` \
                         ignores the elements after it. Remove it, or remove the other elements";

/// The names of BIND's own lists, which no `acl` may take.
const BUILT_IN: [&str; 4] = ["any", "none", "localhost", "localnets"];

/// Reads `NAME { ... }` after `acl`. A second definition of a name is an error, as in BIND.
pub(super) fn parse_named(file: &Path, tokens: &mut Tokens<'_>, lists: &mut Lists) -> Result<(), TextError> {
    let (token, name) = tokens.expect_word("the name of a list")?;
    let name = name.to_ascii_lowercase();
    if BUILT_IN.contains(&name.as_str()) {
        return Err(token.error(format!("`acl {name}` cannot be defined: `{name}` is a list of BIND itself")));
    }
    if lists.contains_key(&name) {
        return Err(token.error(format!("`acl {name}` is defined a second time; names are compared without case")));
    }
    lists.insert(name, parse(file, tokens)?);
    Ok(())
}

/// Reads `{ ... }` after `allow-update` or the name of an `acl`.
pub(super) fn parse(file: &Path, tokens: &mut Tokens<'_>) -> Result<List, TextError> {
    super::parse::open(tokens, true)?;
    let list = elements(file, tokens, 0)?;
    skip(tokens)?;
    Ok(list)
}

/// Elements up to the closing brace.
fn elements(file: &Path, tokens: &mut Tokens<'_>, depth: usize) -> Result<List, TextError> {
    let (mut list, mut none) = (List::new(), None);
    loop {
        let token = tokens.expect("`}`")?;
        let word = match &token.kind {
            TokenKind::Close => {
                // `none` alone means that the list lets no client update.
                list.extend(none.filter(|_| !list.is_empty()).map(Element::Wrong));
                return Ok(list);
            }
            TokenKind::End => continue,
            TokenKind::Open if depth == NAMED_CONF_DEPTH_MAX => return Err(token.error("lists are nested too deep")),
            TokenKind::Open => {
                list.push(Element::Nested(elements(file, tokens, depth + 1)?));
                continue;
            }
            TokenKind::Word(word) => word.to_ascii_lowercase(),
        };
        let fault = |what: String| placed(file, token.error(what));
        match word.as_str() {
            "key" => {
                let (token, text) = tokens.expect_word("the name of a key")?;
                list.push(match text.parse::<Name>() {
                    Ok(name) => Element::Key(name),
                    Err(error) => {
                        Element::Wrong(placed(file, token.error(format!("`{text}` is not a domain name: {error}"))))
                    }
                });
            }
            "none" => none = Some(fault(NOT_ALONE.to_owned())),
            _ if word.starts_with('!') => {
                list.push(Element::Wrong(fault(format!("`{word}` {ONLY_KEYS}"))));
                rest_of_element(tokens)?;
            }
            _ => list.push(Element::Word(word.clone(), fault(format!("`{word}` {ONLY_KEYS}")))),
        }
    }
}

/// Skips a negated element, up to its semicolon.
fn rest_of_element(tokens: &mut Tokens<'_>) -> Result<(), TextError> {
    let mut depth = 0usize;
    loop {
        let before = tokens.clone();
        match tokens.expect("`;`")?.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close if depth == 0 => {
                *tokens = before;
                return Ok(());
            }
            TokenKind::Close => depth -= 1,
            TokenKind::End if depth == 0 => return Ok(()),
            TokenKind::End | TokenKind::Word(_) => {}
        }
    }
}

/// A rule for each key of a list, or all errors of the list.
pub(super) fn resolve(list: &List, lists: &Lists) -> Result<Vec<Rule>, Vec<Fault>> {
    let mut keys = Keys { lists, seen: BTreeSet::new(), found: Vec::new(), faults: Vec::new() };
    keys.add(list);
    if keys.faults.is_empty() { Ok(keys.found.iter().map(everything).collect()) } else { Err(keys.faults) }
}

/// Collects the keys of a list. A list that occurs again is skipped: it adds no keys.
struct Keys<'l> {
    lists: &'l Lists,
    seen: BTreeSet<&'l str>,
    found: Vec<Name>,
    faults: Vec<Fault>,
}

/// The next step of the walk through the lists.
enum Step<'l> {
    Element(&'l Element),
    /// The end of the list of this name.
    End(&'l str),
}

impl<'l> Keys<'l> {
    fn add(&mut self, list: &'l List) {
        let steps = |list: &'l List| list.iter().rev().map(Step::Element);
        let mut open: Vec<Step<'l>> = steps(list).collect();
        // Names of the lists that contain the current element.
        let mut around = BTreeSet::new();
        while let Some(step) = open.pop() {
            let element = match step {
                Step::Element(element) => element,
                Step::End(name) => {
                    around.remove(name);
                    continue;
                }
            };
            match element {
                Element::Key(name) if self.found.contains(name) => {}
                Element::Key(name) => self.found.push(name.clone()),
                Element::Nested(list) => open.extend(steps(list)),
                Element::Word(word, fault) => match self.lists.get_key_value(word) {
                    Some((name, _)) if around.contains(name.as_str()) => {
                        self.faults.push((fault.0.clone(), format!("`acl {name}` contains itself")));
                    }
                    Some((name, list)) if self.seen.insert(name) => {
                        around.insert(name.as_str());
                        open.push(Step::End(name));
                        open.extend(steps(list));
                    }
                    Some(_) => {}
                    None => self.faults.push(fault.clone()),
                },
                Element::Wrong(fault) => self.faults.push(fault.clone()),
            }
        }
    }
}
