//! Parses `include`, `view`, `options` and `zone`, and in them `update-policy` and `allow-update`.

use super::acl::{self, List, Lists};
use super::{Located, Sources, ZonePolicy, included};
use crate::limits::NAMED_CONF_DEPTH_MAX;
use policy::text::{TextError, Token, TokenKind, Tokens, parse_rule};
use policy::{Effect, Identity, Policy, Rule, RuleType, Scope};
use std::path::Path;
use wire::Name;
use wire::number::Rtype;

/// An error: its position, and the reason.
pub(super) type Fault = (String, String);

/// The update rules of one of the two statements.
#[derive(Clone)]
enum Allowed {
    /// `update-policy`
    Policy(Result<Vec<Rule>, Vec<Fault>>),
    /// `allow-update`. The lists that it names are resolved at the end of the file.
    List(List),
}

impl Allowed {
    /// The rules, or all their errors.
    fn resolve(&self, lists: &Lists) -> Result<Vec<Rule>, Vec<Fault>> {
        match self {
            Self::Policy(rules) => rules.clone(),
            Self::List(list) => acl::resolve(list, lists),
        }
    }
}

struct Parser<'s, S> {
    sources: &'s mut S,
    zones: Vec<Found>,
    /// `allow-update` outside of zones, for zones without a statement of their own: of the current view, or else of the
    /// whole file.
    default: Option<Allowed>,
    /// The lists of `acl` statements.
    lists: Lists,
    /// Whether zones without a class are of class IN. In a view, they have the class of the view.
    is_internet: bool,
}

struct Found {
    zone: Name,
    position: String,
    rules: Option<Allowed>,
}

/// The contents of a zone block and of the files that it includes.
#[derive(Default)]
struct ZoneBlock {
    rules: Option<Allowed>,
    /// Its type accepts no updates, or the zone is defined in another view.
    is_skipped: bool,
    /// Position of its `template` statement.
    template: Option<String>,
}

/// Reads a file and its includes.
pub(super) fn parse<S: Sources>(file: &Path, sources: &mut S) -> Located<Vec<ZonePolicy>> {
    let mut parser = Parser { sources, zones: Vec::new(), default: None, lists: Lists::new(), is_internet: true };
    parser.file(file, 0)?;
    let Parser { zones, default, lists, .. } = parser;
    let mut policies = Vec::<ZonePolicy>::new();
    for Found { zone, position, rules } in zones {
        let Some(rules) = rules.or_else(|| default.clone()) else { continue };
        if let Some(other) = policies.iter_mut().find(|other| other.zone == zone) {
            let why = format!(
                "zone {zone} is defined here and at {}; only zones in one view can be imported",
                other.position
            );
            other.rules = Err(vec![(position, why)]);
            continue;
        }
        let rules = rules.resolve(&lists).and_then(|rules| {
            Policy::new(rules, Vec::new()).map_err(|error| vec![(position.clone(), error.to_string())])
        });
        policies.push(ZonePolicy { zone, position, rules });
    }
    Ok(policies)
}

impl<S: Sources> Parser<'_, S> {
    fn file(&mut self, file: &Path, depth: usize) -> Located<()> {
        let text = self.text(file)?;
        let mut tokens = Tokens::new(&text);
        self.statements(file, &mut tokens, depth, false)
    }

    /// Statements of a file, or of a block up to its closing brace.
    fn statements(&mut self, file: &Path, tokens: &mut Tokens<'_>, depth: usize, in_block: bool) -> Located<()> {
        let at = |error: TextError| placed(file, error);
        loop {
            let Some(token) = tokens.next_token().map_err(at)? else {
                return if in_block { Err(at(tokens.error_here("a block is not closed"))) } else { Ok(()) };
            };
            if depth > NAMED_CONF_DEPTH_MAX {
                return Err(at(token.error("files or blocks are nested too deep")));
            }
            match &token.kind {
                TokenKind::Close if in_block => return Ok(()),
                TokenKind::End => {}
                TokenKind::Word(word) => self.statement(file, word, tokens, depth)?,
                _ => return Err(at(token.error(format!("expected a statement, found `{}`", token.text())))),
            }
        }
    }

    fn statement(&mut self, file: &Path, word: &str, tokens: &mut Tokens<'_>, depth: usize) -> Located<()> {
        let at = |error: TextError| placed(file, error);
        match word.to_ascii_lowercase().as_str() {
            "include" => {
                let (_, name) = tokens.expect_word("a file name").map_err(at)?;
                self.file(&included(file, &name), depth + 1)
            }
            // A zone in two views is an error of that zone. An `allow-update` in a view applies to all zones of the
            // view, also to earlier ones, and takes precedence over `options`.
            "view" => {
                tokens.expect_word("the name of a view").map_err(at)?;
                let is_internet = open(tokens, true).map_err(at)?;
                let outer_class = std::mem::replace(&mut self.is_internet, is_internet);
                let (before, first) = (self.default.take(), self.zones.len());
                self.statements(file, tokens, depth + 1, true)?;
                self.is_internet = outer_class;
                if let Some(of_view) = std::mem::replace(&mut self.default, before) {
                    let silent = self.zones[first..].iter_mut().filter(|zone| zone.rules.is_none());
                    silent.for_each(|zone| zone.rules = Some(of_view.clone()));
                }
                Ok(())
            }
            "options" => {
                open(tokens, true).map_err(at)?;
                self.statements(file, tokens, depth + 1, true)
            }
            "zone" => self.zone(file, tokens, depth),
            "allow-update" => {
                self.default = Some(Allowed::List(acl::parse(file, tokens).map_err(at)?));
                Ok(())
            }
            "acl" => acl::parse_named(file, tokens, &mut self.lists).map_err(at),
            _ => skip(tokens).map_err(at),
        }
    }

    fn zone(&mut self, file: &Path, tokens: &mut Tokens<'_>, depth: usize) -> Located<()> {
        let at = |error: TextError| placed(file, error);
        let (token, text) = tokens.expect_word("the name of a zone").map_err(at)?;
        let zone: Name =
            text.parse().map_err(|error| at(token.error(format!("`{text}` is not a domain name: {error}"))))?;
        let position = format!("{}:{}:{}", file.display(), token.line, token.column);
        let is_internet = open(tokens, self.is_internet).map_err(at)?;
        let mut block = ZoneBlock::default();
        self.zone_statements(file, tokens, depth + 1, true, &mut block)?;
        let ZoneBlock { mut rules, is_skipped, template } = block;
        if let (None, Some(position)) = (&rules, template) {
            let why = "templates are not supported: copy the update rules of the template into the zone";
            rules = Some(Allowed::Policy(Err(vec![(position, why.to_owned())])));
        }
        if is_internet && !is_skipped {
            self.zones.push(Found { zone: zone.as_ref().to_canonical(), position, rules });
        }
        Ok(())
    }

    /// Statements of a zone: in an included file, or in its block up to the closing brace.
    fn zone_statements(
        &mut self,
        file: &Path,
        tokens: &mut Tokens<'_>,
        depth: usize,
        in_block: bool,
        block: &mut ZoneBlock,
    ) -> Located<()> {
        let at = |error: TextError| placed(file, error);
        loop {
            let Some(token) = tokens.next_token().map_err(at)? else {
                return if in_block { Err(at(tokens.error_here("a block is not closed"))) } else { Ok(()) };
            };
            if depth > NAMED_CONF_DEPTH_MAX {
                return Err(at(token.error("files are nested too deep")));
            }
            let word = match &token.kind {
                TokenKind::Close if in_block => return Ok(()),
                TokenKind::End => continue,
                TokenKind::Word(word) => word.to_ascii_lowercase(),
                _ => return Err(at(token.error(format!("expected a statement, found `{}`", token.text())))),
            };
            match word.as_str() {
                "include" => {
                    let (_, name) = tokens.expect_word("a file name").map_err(at)?;
                    let included = included(file, &name);
                    let text = self.text(&included)?;
                    self.zone_statements(&included, &mut Tokens::new(&text), depth + 1, false, block)?;
                }
                "type" => {
                    let (_, kind) = tokens.expect_word("a type of zone").map_err(at)?;
                    block.is_skipped = !["primary", "master"].contains(&kind.to_ascii_lowercase().as_str());
                }
                // The zone is defined in another view.
                "in-view" => {
                    block.is_skipped = true;
                    skip(tokens).map_err(at)?;
                }
                "template" => {
                    block.template = Some(format!("{}:{}:{}", file.display(), token.line, token.column));
                    skip(tokens).map_err(at)?;
                }
                "update-policy" => {
                    let rules = update_policy(&token, tokens).map_err(at)?;
                    let rules = rules.map_err(|faults| faults.into_iter().map(at).collect());
                    block.rules = Some(Allowed::Policy(rules));
                }
                // `update-policy` and `allow-update` exclude each other.
                "allow-update" => block.rules = Some(Allowed::List(acl::parse(file, tokens).map_err(at)?)),
                _ => skip(tokens).map_err(at)?,
            }
        }
    }

    fn text(&mut self, file: &Path) -> Located<String> {
        self.sources.text(file).map_err(|why| (file.display().to_string(), why))
    }
}

pub(super) fn placed(file: &Path, error: TextError) -> Fault {
    (format!("{}:{}:{}", file.display(), error.line, error.column), error.what)
}

/// Skips to the next opening brace. Returns whether the block has class IN, according to the words before the brace.
pub(super) fn open(tokens: &mut Tokens<'_>, mut is_internet: bool) -> Result<bool, TextError> {
    loop {
        let token = tokens.expect("`{`")?;
        match &token.kind {
            TokenKind::Open => return Ok(is_internet),
            TokenKind::Word(class) => is_internet = ["in", "internet"].contains(&class.to_ascii_lowercase().as_str()),
            _ => return Err(token.error(format!("expected `{{`, found `{}`", token.text()))),
        }
    }
}

/// Skips the rest of a statement and its blocks.
pub(super) fn skip(tokens: &mut Tokens<'_>) -> Result<(), TextError> {
    let mut depth = 0usize;
    loop {
        let token = tokens.expect("`;`")?;
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close if depth == 0 => return Err(token.error("expected `;`, found `}`")),
            TokenKind::Close => depth -= 1,
            TokenKind::End if depth == 0 => return Ok(()),
            _ => {}
        }
    }
}

/// The outer error is a syntax error. The inner errors are of this policy, and parsing continues after it.
fn update_policy(word: &Token, tokens: &mut Tokens<'_>) -> Result<Result<Vec<Rule>, Vec<TextError>>, TextError> {
    let token = tokens.expect("`{` or `local`")?;
    if token.text().eq_ignore_ascii_case("local") {
        skip(tokens)?;
        return Ok(Err(vec![word.error(
            "`update-policy local` uses a key that named creates for itself; create a key with `catamaran key add`",
        )]));
    }
    if token.kind != TokenKind::Open {
        return Err(token.error(format!("expected `{{` or `local`, found `{}`", token.text())));
    }
    let (mut rules, mut faults) = (Vec::new(), Vec::new());
    loop {
        let token = tokens.expect("`}`")?;
        match token.kind {
            TokenKind::Close => break,
            TokenKind::End => continue,
            _ => {}
        }
        let before = tokens.clone();
        match parse_rule(&token, tokens) {
            Ok(rule) => {
                if let Some(rtype) = rule.ineffective_grant() {
                    faults.push(token.error(format!(
                        "no rule can grant {rtype}; only the signer of a zone may write DNSSEC records"
                    )));
                }
                rules.push(rule);
            }
            Err(error) => {
                faults.push(error);
                // Continue after the rule.
                *tokens = before;
                skip(tokens)?;
            }
        }
    }
    skip(tokens)?;
    Ok(if faults.is_empty() { Ok(rules) } else { Err(faults) })
}

/// The rule for a key in `allow-update`, which may write everything.
pub(super) fn everything(key: &Name) -> Rule {
    Rule {
        effect: Effect::Grant,
        identity: Identity::of_name(key.as_ref()),
        scope: Scope::ZoneSub,
        types: vec![RuleType { rtype: Rtype::ANY, records_max: None }],
    }
}
