//! Checks the names of a definition, and that each name in a text or claim is defined, in any size.

use super::problem::{Problem, hint};
use super::variables::{FOLDER, SERVER_VARIABLES, names};
use super::{Experiment, Override, Picture, TIME, Value};
use crate::expression;
use crate::want::Want;
use std::collections::BTreeMap;

/// Checks all names.
pub(super) fn check_names(experiment: &Experiment) -> Result<(), Problem> {
    check_variables(experiment)?;
    check_servers_and_loads(experiment)?;
    for (size, changes) in [("quick", &experiment.quick), ("paper", &experiment.paper)] {
        check_override(experiment, size, changes)?;
    }
    check_texts(experiment)?;
    for (index, event) in experiment.events.iter().enumerate() {
        let known = experiment.servers.iter().map(|server| server.name.as_str());
        if !known.clone().any(|name| name == event.server) {
            let text = format!("there is no server `{}`; {}", event.server, hint(&event.server, known));
            return Err(Problem::new(&["at", &index.to_string(), "server"], text));
        }
        let has_nodes = experiment.servers.iter().any(|server| server.name == event.server && server.nodes.is_some());
        if event.node.is_some() && !has_nodes {
            let text = format!("the server {} has no `nodes`; remove `node`", event.server);
            return Err(Problem::new(&["at", &index.to_string(), "node"], text));
        }
    }
    check_claims(experiment)?;
    check_pictures(experiment)
}

/// Names of variables and parameters.
fn check_variables(experiment: &Experiment) -> Result<(), Problem> {
    let variables = experiment.variables.keys().map(|name| ("variables", name));
    for (table, name) in variables.chain(experiment.matrix.keys().map(|name| ("matrix", name))) {
        check_word(&[table, name], name)?;
        if name == FOLDER {
            let text = "`folder` is always the folder of the experiment; choose another name";
            return Err(Problem::new(&[table, name], text));
        }
    }
    for (parameter, variables) in &experiment.by {
        if !experiment.matrix.contains_key(parameter) {
            let known = experiment.matrix.keys().map(String::as_str);
            let text = format!("there is no parameter `{parameter}`; {}", hint(parameter, known));
            return Err(Problem::new(&["by", parameter], text));
        }
        variables.iter().try_for_each(|(name, values)| check_by(experiment, parameter, name, values))?;
        let others = experiment.by.iter().take_while(|(other, _)| *other != parameter);
        for (other, name) in others.flat_map(|(other, of)| of.keys().map(move |name| (other, name))) {
            if variables.contains_key(name) {
                let text = format!("`{name}` is in [by.{other}] too; choose another name for one of them");
                return Err(Problem::new(&["by", parameter, name], text));
            }
        }
    }
    for (name, values) in &experiment.matrix {
        if name == TIME {
            let text = "`time` is the axis of pictures over time; choose another name";
            return Err(Problem::new(&["matrix", name], text));
        }
        if experiment.variables.contains_key(name) {
            let text = format!("`{name}` is a variable and a parameter; choose another name for one of them");
            return Err(Problem::new(&["matrix", name], text));
        }
        check_parameter(&["matrix", name], values)?;
    }
    Ok(())
}

/// A variable that depends on a parameter needs a value for each of its values.
fn check_by(experiment: &Experiment, parameter: &str, name: &str, by: &BTreeMap<String, Value>) -> Result<(), Problem> {
    let place = ["by", parameter, name];
    check_word(&place, name)?;
    if name == FOLDER || experiment.variables.contains_key(name) || experiment.matrix.contains_key(name) {
        return Err(Problem::new(&place, format!("`{name}` has another value already; choose another name")));
    }
    let known = values([&experiment.matrix, &experiment.quick.matrix, &experiment.paper.matrix], parameter);
    if let Some(wrong) = by.keys().find(|value| !known.contains(&value.as_str())) {
        let text = format!("the parameter `{parameter}` has no value {wrong}; {}", hint(wrong, known));
        return Err(Problem::new(&["by", parameter, name, wrong], text));
    }
    let others = experiment.by.values().flat_map(BTreeMap::keys);
    for (value, text) in by {
        if let Some(other) = others.clone().find(|other| names(&text.0).any(|used| used == *other)) {
            let text = format!("the value has {{{other}}}, which is in a table [by.PARAMETER] too; write its value");
            return Err(Problem::new(&["by", parameter, name, value], text));
        }
    }
    match known.iter().find(|value| !by.contains_key(**value)) {
        Some(value) => Err(Problem::new(&place, format!("`{name}` has no value for {parameter}={value}; add it"))),
        None => Ok(()),
    }
}

/// Values of a parameter.
fn check_parameter(place: &[&str], values: &[Value]) -> Result<(), Problem> {
    if values.is_empty() {
        return Err(Problem::new(place, "a parameter needs at least one value"));
    }
    match values.iter().enumerate().find(|(index, value)| values[..*index].contains(value)) {
        Some((_, value)) => Err(Problem::new(place, format!("the value {} is listed twice; remove one", value.0))),
        None => Ok(()),
    }
}

/// A name is a word of letters, digits, `-` and `_`, because a dot follows it in variables and figures.
fn check_word(place: &[&str], name: &str) -> Result<(), Problem> {
    let is_word = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if is_word {
        return Ok(());
    }
    let text = format!("`{name}` is not a name; write a letter first, then letters, digits, - and _");
    Err(Problem::new(place, text))
}

fn check_servers_and_loads(experiment: &Experiment) -> Result<(), Problem> {
    if experiment.loads.is_empty() {
        return Err(Problem::new(&["load"], "the experiment has no load; add a [[load]] with a key `run`"));
    }
    if experiment.loads.iter().all(|load| load.at_end) {
        let text = "there is no load whose end this one could wait for; remove `at_end`";
        return Err(Problem::new(&["load", "0", "at_end"], text));
    }
    let mut seen: Vec<&str> = Vec::new();
    let servers = experiment.servers.iter().map(|server| ("server", server.name.as_str())).enumerate();
    let loads = experiment.loads.iter().map(|load| ("load", load.name.as_str())).enumerate();
    let is_only_load = experiment.loads.len() == 1;
    for (index, (table, name)) in servers.chain(loads) {
        let index = index.to_string();
        if table == "load" && name.is_empty() {
            if is_only_load {
                continue;
            }
            return Err(Problem::new(&[table, &index], "several loads need a `name` each; add it"));
        }
        check_word(&[table, &index, "name"], name)?;
        if seen.contains(&name) {
            let text = format!("two servers or loads have the name `{name}`; figures need different names");
            return Err(Problem::new(&[table, &index, "name"], text));
        }
        seen.push(name);
    }
    Ok(())
}

/// A size may only change variables and parameters that are defined.
fn check_override(experiment: &Experiment, size: &str, changes: &Override) -> Result<(), Problem> {
    if let Some(name) = changes.variables.keys().find(|name| !experiment.variables.contains_key(*name)) {
        let known = experiment.variables.keys().map(String::as_str);
        let text = format!("[{size}] changes a variable `{name}` that is not in [variables]; {}", hint(name, known));
        return Err(Problem::new(&[size, "variables", name], text));
    }
    for (name, values) in &changes.matrix {
        if !experiment.matrix.contains_key(name) {
            let known = experiment.matrix.keys().map(String::as_str);
            let text = format!("[{size}] changes a parameter `{name}` that is not in [matrix]; {}", hint(name, known));
            return Err(Problem::new(&[size, "matrix", name], text));
        }
        check_parameter(&[size, "matrix", name], values)?;
    }
    Ok(())
}

/// The variables in all texts.
fn check_texts(experiment: &Experiment) -> Result<(), Problem> {
    let mut known: Vec<String> = experiment.variables.keys().cloned().chain([FOLDER.to_owned()]).collect();
    for (index, line) in experiment.prepare.iter().enumerate() {
        if let Some(name) = names(line).find(|name| experiment.matrix.contains_key(*name)) {
            let text = format!(
                "`prepare` runs once, before the first cell, so it has no parameter {{{name}}}; make the files of all \
                 values"
            );
            return Err(Problem::new(&["prepare", &index.to_string()], text));
        }
        check_text(&["prepare", &index.to_string()], line, &known)?;
    }
    known.extend(experiment.matrix.keys().cloned());
    known.extend(experiment.by.values().flat_map(BTreeMap::keys).cloned());
    if let Some(links) = &experiment.links {
        let texts = [("rtt", Some(&links.rtt)), ("jitter", links.jitter.as_ref()), ("loss", links.loss.as_ref())];
        for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            check_text(&["links", key], text, &known)?;
        }
    }
    for (index, server) in experiment.servers.iter().enumerate() {
        for (key, text) in server.texts() {
            check_text(&["server", &index.to_string(), key], text, &known)?;
        }
        // Servers start in this order, so the next ones know the address.
        known.extend(SERVER_VARIABLES.iter().map(|variable| format!("{}.{variable}", server.name)));
    }
    for (index, event) in experiment.events.iter().enumerate() {
        let node = event.node.as_ref().map(|node| &node.0);
        let zones = event.zones.as_ref().map(|zones| &zones.0);
        let (seconds, action) = (Some(&event.seconds.0), Some(&event.action));
        let texts = [("seconds", seconds), ("action", action), ("node", node), ("zones", zones)];
        for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            check_text(&["at", &index.to_string(), key], text, &known)?;
        }
    }
    for (index, load) in experiment.loads.iter().enumerate() {
        check_text(&["load", &index.to_string(), "run"], &load.run, &known)?;
        if let Some(core) = &load.core {
            check_text(&["load", &index.to_string(), "core"], &core.0, &known)?;
        }
    }
    Ok(())
}

fn check_text(place: &[&str], text: &str, known: &[String]) -> Result<(), Problem> {
    match names(text).find(|name| !known.iter().any(|known| known == name)) {
        Some(name) => {
            let hint = hint(name, known.iter().map(String::as_str));
            // Patterns of names have braces too.
            let is_mistyped = hint.starts_with("did you mean");
            let braces =
                if is_mistyped { String::new() } else { format!("; or write {{{{{name}}}}} for the text {{{name}}}") };
            Err(Problem::new(place, format!("the variable {{{name}}} is not defined; {hint}{braces}")))
        }
        None => Ok(()),
    }
}

/// Claims select cells by parameters and their values: `rate[cpu=1, server=knot]`.
fn check_claims(experiment: &Experiment) -> Result<(), Problem> {
    for (index, claim) in experiment.claims.iter().enumerate() {
        if experiment.claims[..index].iter().any(|other| other.text == claim.text) {
            let text = "two claims have the same text; comparisons need different ones";
            return Err(Problem::new(&["claim", &index.to_string(), "text"], text));
        }
        if claim.not_comparable.is_some() && claim.paper.is_none() {
            let text = "there is no `paper` that the value could be compared with; remove this key";
            return Err(Problem::new(&["claim", &index.to_string(), "not_comparable"], text));
        }
        let problem = |text: String| Problem::new(&["claim", &index.to_string(), "value"], text);
        let selected =
            expression::selected(&claim.value).map_err(|error| problem(format!("`{}`: {error}", claim.value)))?;
        for (name, value) in selected {
            check_selector(experiment, &name, &value).map_err(problem)?;
        }
        Want::parse(&claim.want).map_err(|text| Problem::new(&["claim", &index.to_string(), "want"], text))?;
    }
    Ok(())
}

fn check_selector(experiment: &Experiment, name: &str, value: &str) -> Result<(), String> {
    if !experiment.matrix.contains_key(name) {
        let known = experiment.matrix.keys().map(String::as_str);
        return Err(format!("there is no parameter `{name}`; {}", hint(name, known)));
    }
    let values = values([&experiment.matrix, &experiment.quick.matrix, &experiment.paper.matrix], name);
    if !values.iter().any(|known| expression::is_same(known, value)) {
        return Err(format!("the parameter `{name}` has no value {value}; {}", hint(value, values)));
    }
    Ok(())
}

/// The values of a parameter in all sizes.
fn values<'a>(sizes: [&'a BTreeMap<String, Vec<Value>>; 3], name: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for value in sizes.iter().filter_map(|size| size.get(name)).flatten() {
        if !found.contains(&value.0.as_str()) {
            found.push(&value.0);
        }
    }
    found
}

/// The figure of a picture over time.
fn check_series(experiment: &Experiment, picture: &Picture) -> Result<(), (&'static str, String)> {
    if !picture.paper.is_empty() {
        return Err(("paper", "a picture over time has no values of the source; remove this key".into()));
    }
    let (load, name) = experiment.load_of(&picture.figure);
    if !experiment.loads.iter().any(|known| known.name == load) {
        let known = experiment.loads.iter().map(|load| load.name.as_str()).collect::<Vec<_>>().join(", ");
        let text = format!("the figure `{}` does not begin with the name of a load; loads: {known}", picture.figure);
        return Err(("figure", text));
    }
    if report::is_second_series(name) {
        return Ok(());
    }
    let known = report::second_series_names();
    let hint = hint(name, known.iter().map(String::as_str));
    Err(("figure", format!("the figure `{}` does not exist over time; {hint}", picture.figure)))
}

fn check_pictures(experiment: &Experiment) -> Result<(), Problem> {
    for (index, picture) in experiment.pictures.iter().enumerate() {
        if picture.by == TIME {
            check_series(experiment, picture)
                .map_err(|(key, text)| Problem::new(&["picture", &index.to_string(), key], text))?;
        }
        let axes = [("by", Some(&picture.by).filter(|by| **by != TIME)), ("lines", picture.lines.as_ref())];
        for (key, name) in axes {
            let Some(name) = name else { continue };
            if !experiment.matrix.contains_key(name) {
                let known = experiment.matrix.keys().map(String::as_str);
                let text = format!("there is no parameter `{name}`; {}", hint(name, known));
                return Err(Problem::new(&["picture", &index.to_string(), key], text));
            }
        }
        for (name, value) in &picture.only {
            let problem = |text: String| Problem::new(&["picture", &index.to_string(), "only"], text);
            check_selector(experiment, name, &value.0).map_err(problem)?;
        }
    }
    Ok(())
}
