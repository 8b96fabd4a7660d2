//! Checks the values of an experiment in one size, for each combination of its parameters.

use super::problem::{Problem, hint};
use super::variables::{FOLDER, SERVER_VARIABLES, substitute};
use super::{Action, Event, Experiment, Load, Node, Resolved, Server, addresses, command};
use crate::expression::Expression;
use crate::limits::{CELL_SECONDS_MAX, CELLS_MAX, CORES_MAX, CPU_CORES_MIN, NODES_MAX};
use measure::Transport;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use testbed::Kind;

/// Servers that can be a primary and its secondaries.
const WITH_SECONDARIES: [Kind; 3] = [Kind::Bind, Kind::Knot, Kind::Nsd];
/// Servers with catalogs of zones.
const WITH_CATALOGS: [Kind; 2] = [Kind::Bind, Kind::Knot];
/// The echo server, which is part of `catlab`.
pub(crate) const ECHO: &str = "echo";
/// Commands that measure.
const LOADS: [&str; 3] = ["load", "replay", command::HIERARCHY];

/// Stands for a variable of a running server. It is an address with a port.
const PLACEHOLDER: &str = "127.0.0.1:1";

/// Checks the values of all cells.
pub(super) fn check_values(experiment: &Experiment) -> Result<(), Problem> {
    if experiment.repeats == 0 {
        return Err(Problem::new(&["repeats"], "0 repeats measure nothing; write 1 or more, better 3"));
    }
    let count = experiment.cell_count();
    if count > CELLS_MAX {
        let text = format!("the experiment has {count} cells; at most {CELLS_MAX} are possible: use fewer values");
        return Err(Problem::new(&["matrix"], text));
    }
    for (index, claim) in experiment.claims.iter().enumerate() {
        let expression = Expression::parse(&claim.value);
        let mut selectors = expression.iter().flat_map(|expression| &expression.selectors);
        let checked = selectors.try_for_each(|selector| selector.check_one_cell(experiment.parameters()));
        checked.map_err(|text| Problem::new(&["claim", &index.to_string(), "value"], text))?;
    }
    // Placeholders for values that are only known when the cell runs.
    let mut late = BTreeMap::from([(FOLDER.to_owned(), "/folder".to_owned())]);
    for server in &experiment.servers {
        let is_known = |variable: &&&str| (**variable != "key" || server.key) && **variable != "ca";
        let known = SERVER_VARIABLES.iter().filter(is_known);
        late.extend(known.map(|variable| (format!("{}.{variable}", server.name), PLACEHOLDER.to_owned())));
    }
    let mut values = experiment.values(&BTreeMap::new());
    values.extend(late.clone());
    for (index, line) in experiment.prepare.iter().enumerate() {
        let checked = substitute(line, &values).and_then(|line| command_words(&line));
        checked.map_err(|text| Problem::new(&["prepare", &index.to_string()], text))?;
    }
    for combination in experiment.combinations() {
        let mut values = experiment.values(&combination);
        values.extend(late.clone());
        for server in &experiment.servers {
            let transport = server.transport.as_deref().and_then(|text| substitute(text, &values).ok()?.parse().ok());
            if transport.is_some_and(Transport::is_encrypted) {
                values.insert(format!("{}.ca", server.name), "/folder/ca.pem".to_owned());
            }
        }
        if let Some(links) = &experiment.links {
            links.shape(&values).map_err(|text| Problem::new(&["links"], text))?;
        }
        // Servers start before values of [by.PARAMETER] are complete.
        let mut complete = values.clone();
        experiment.complete(&mut complete).map_err(|text| Problem::new(&["by"], text))?;
        for (index, event) in experiment.events.iter().enumerate() {
            let checked = check_event(event, experiment, &complete);
            checked.map_err(|(key, text)| Problem::new(&["at", &index.to_string(), key], text))?;
        }
        for (index, server) in experiment.servers.iter().enumerate() {
            check_server(server, &values)
                .map_err(|(key, text)| Problem::new(&["server", &index.to_string(), key], text))?;
        }
        for (index, load) in experiment.loads.iter().enumerate() {
            check_load(load, &complete)
                .map_err(|(key, text)| Problem::new(&["load", &index.to_string(), key], text))?;
        }
    }
    Ok(())
}

/// A key and what is wrong with its value.
type KeyProblem = (&'static str, String);

/// The time of an event, its action, and whether its node can exist.
fn check_event(event: &Event, experiment: &Experiment, values: &BTreeMap<String, String>) -> Result<(), KeyProblem> {
    let Resolved { seconds, action, node, zones } = event.resolved(values)?;
    if zones.is_some() != action.is_of_zones() {
        let why = if action.is_of_zones() {
            "needs the number of zones; write for example zones = 100"
        } else {
            "is not about zones; remove `zones`"
        };
        return Err(("zones", format!("`{}` {why}", action.label())));
    }
    if action.is_of_links() && experiment.links.is_none() {
        return Err(("action", format!("`{}` needs links between loads and servers; add [links]", action.label())));
    }
    if action.is_of_zones() {
        return check_change(event, action, experiment, values);
    }
    if action == Action::Join {
        return check_join(event, experiment, values);
    }
    match node {
        Some(Node::Number(number)) => {
            let server = experiment.servers.iter().find(|server| server.name == event.server);
            let count = count(server.and_then(|server| server.nodes.as_ref()), values);
            match count.filter(|count| number > *count) {
                Some(count) => {
                    Err(("node", format!("there is no node {number}; the server {} has {count}", event.server)))
                }
                None => Ok(()),
            }
        }
        Some(Node::Same) => {
            let is_aimed_before = |other: &Event| {
                let resolved = other.resolved(values);
                let is_aimed = resolved.is_ok_and(|other| {
                    matches!(other.node, Some(Node::Leader | Node::Follower)) && other.seconds <= seconds
                });
                is_aimed && other.server == event.server
            };
            if experiment.events.iter().any(is_aimed_before) {
                return Ok(());
            }
            Err(("node", "`same` needs an earlier event of this server with the node leader or follower".into()))
        }
        _ => Ok(()),
    }
}

/// Whether the server has nodes that join. That there are enough of them shows when the cell runs.
fn check_join(event: &Event, experiment: &Experiment, values: &BTreeMap<String, String>) -> Result<(), KeyProblem> {
    if event.node.is_some() {
        return Err(("node", "the next node joins; remove `node`".into()));
    }
    let Some(server) = experiment.servers.iter().find(|server| server.name == event.server) else { return Ok(()) };
    match count(server.joining.as_ref(), values) {
        Some(1..) => Ok(()),
        _ => Err(("server", format!("no node of the server {} joins later; add `joining = 1`", server.name))),
    }
}

/// A number of nodes, if it is one.
fn count(nodes: Option<&super::Value>, values: &BTreeMap<String, String>) -> Option<u32> {
    substitute(&nodes?.0, values).ok()?.parse().ok()
}

/// Whether the zones of a server can change or be transferred.
fn check_change(
    event: &Event,
    action: Action,
    experiment: &Experiment,
    values: &BTreeMap<String, String>,
) -> Result<(), KeyProblem> {
    let Some(server) = experiment.servers.iter().find(|server| server.name == event.server) else { return Ok(()) };
    let (name, kind) = (&server.name, substitute(&server.kind, values).map_err(|text| ("server", text))?);
    if event.node.is_some() {
        return Err(("node", "zones change on all nodes, and are transferred from the last one; remove `node`".into()));
    }
    if server.hierarchy.is_none() {
        return Err(("server", format!("the server {name} has no `hierarchy` whose zones could change; add it")));
    }
    if kind == Kind::Catamaran.label() || kind == ECHO {
        return Ok(());
    }
    if action == Action::TransferZones {
        let reason = || ("server", format!("zones of {kind} are transferred with a key; add `key = true`"));
        return if server.key { Ok(()) } else { Err(reason()) };
    }
    let nodes = count(server.nodes.as_ref(), values);
    let has_secondary = nodes.is_some_and(|nodes| nodes > 1) && server.primary.is_none();
    if !WITH_CATALOGS.iter().any(|known| known.label() == kind) {
        let kinds = WITH_CATALOGS.map(Kind::label).join(", ");
        return Err(("server", format!("the zones of {kind} cannot change here; use catamaran, {kinds} or echo")));
    }
    if server.catalog.is_none() || !has_secondary {
        let text =
            format!("the zones of {kind} change by a catalog and its secondaries; add `catalog` and `nodes = 2`");
        return Err(("server", text));
    }
    Ok(())
}

fn check_server(server: &Server, values: &BTreeMap<String, String>) -> Result<(), KeyProblem> {
    let in_cell = |key, text: &str| substitute(text, values).map_err(|text| (key, text));
    let kind = in_cell("kind", &server.kind)?;
    let known = Kind::ALL.into_iter().map(Kind::label).chain([ECHO]);
    if !known.clone().any(|known| known == kind) {
        return Err(("kind", format!("there is no kind of server `{kind}`; {}", hint(&kind, known))));
    }
    if (kind == Kind::Catamaran.label() || kind == ECHO) && !server.lines.is_empty() {
        return Err(("lines", format!("{kind} has no lines of configuration here; remove `lines`")));
    }
    for (apex, file) in &server.zones {
        let (apex, file) = (in_cell("zones", apex)?, in_cell("zones", file)?);
        if !apex.ends_with('.') {
            return Err(("zones", format!("the apex `{apex}` has no final dot; write `{apex}.`")));
        }
        if file.is_empty() {
            return Err(("zones", format!("the zone `{apex}` has no file; write its path")));
        }
    }
    check_backends(server, &kind, &in_cell("backends", &server.backends)?)?;
    check_catalog(server, &kind)?;
    let number = |key, value: &Option<super::Value>, is_good: fn(&str) -> bool, want: &str| match value {
        Some(value) => {
            let value = in_cell(key, &value.0)?;
            if is_good(&value) { Ok(()) } else { Err((key, format!("`{value}` is not {want}"))) }
        }
        None => Ok(()),
    };
    check_connections(server, &kind, in_cell)?;
    number("threads", &server.threads, |value| whole(value, 1), "a number of threads; write 1 or more")?;
    number("connections", &server.connections, is_count, "a number of connections; write 1 or more")?;
    number("nodes", &server.nodes, is_node_count, "a number of nodes; write 1 to 9, better 1, 3 or 5")?;
    check_nodes(server, &kind, in_cell)?;
    number("core", &server.core, |value| whole(value, 0), "a core; write 0 for the first one")?;
    number("cpu", &server.cpu, is_cpu, "a number of cores; write 0.01 or more, for example 0.5")?;
    let memory = server.memory.as_ref().map(|memory| super::Value(memory.clone()));
    number("memory", &memory, is_memory, "an amount of memory; write for example 512M")
}

/// Several nodes: a cluster, or a primary and its secondaries.
fn check_nodes(
    server: &Server,
    kind: &str,
    in_cell: impl Fn(&'static str, &str) -> Result<String, KeyProblem>,
) -> Result<(), KeyProblem> {
    let nodes = server.nodes.as_ref().map_or(Ok("1".to_owned()), |nodes| in_cell("nodes", &nodes.0))?;
    if let Some(joining) = &server.joining {
        let joining = in_cell("joining", &joining.0)?;
        if !matches!((joining.parse::<u32>(), nodes.parse::<u32>()), (Ok(joining), Ok(nodes)) if joining < nodes) {
            let text = format!("`{joining}` of {nodes} nodes cannot join later; write 1, and 2 or more `nodes`");
            return Err(("joining", text));
        }
    }
    if nodes == "1" || kind == Kind::Catamaran.label() {
        return Ok(());
    }
    if !WITH_SECONDARIES.iter().any(|known| known.label() == kind) {
        return Err(("nodes", format!("{kind} has no secondaries here; write 1, or a [[server]] for each")));
    }
    match (&server.primary, server.key) {
        (Some(_), _) => Err(("nodes", "a secondary has no secondaries here; remove `primary` or `nodes`".into())),
        (None, false) => Err(("nodes", format!("the secondaries of {kind} transfer with a key; add `key = true`"))),
        (None, true) => Ok(()),
    }
}

/// Transport, idle timeout and primary.
fn check_connections(
    server: &Server,
    kind: &str,
    in_cell: impl Fn(&'static str, &str) -> Result<String, KeyProblem>,
) -> Result<(), KeyProblem> {
    let text = |key, text: &Option<String>| text.as_ref().map(|text| in_cell(key, text)).transpose();
    if let Some(transport) = text("transport", &server.transport)?
        && transport.parse::<Transport>().is_err()
    {
        let known = Transport::ALL.map(Transport::label);
        return Err(("transport", format!("there is no transport `{transport}`; {}", hint(&transport, known))));
    }
    if let Some(idle) = text("idle", &server.idle)? {
        let length = report::parse_duration(&idle).map_err(|error| ("idle", error))?;
        if length.as_secs() == 0 || length.subsec_nanos() != 0 {
            return Err(("idle", format!("`{idle}` is not a number of whole seconds; write for example 20s")));
        }
    }
    if let Some(primary) = text("primary", &server.primary)? {
        if primary.parse::<SocketAddr>().is_err() {
            let text = format!("`{primary}` is not an address with a port; write for example {{primary.address}}");
            return Err(("primary", text));
        }
        if !server.key {
            return Err(("primary", format!("{kind} transfers zones with a key; add `key = true`")));
        }
    }
    Ok(())
}

/// Some kinds of servers have catalogs. Others take the key too, so that an experiment can compare them.
fn check_catalog(server: &Server, kind: &str) -> Result<(), KeyProblem> {
    let Some(catalog) = &server.catalog else { return Ok(()) };
    if !catalog.ends_with('.') {
        return Err(("catalog", format!("the apex `{catalog}` has no final dot; write `{catalog}.`")));
    }
    let has_catalogs = WITH_CATALOGS.iter().any(|known| known.label() == kind);
    if !has_catalogs && kind != Kind::Catamaran.label() && kind != ECHO {
        return Err(("catalog", format!("{kind} has no catalog here; remove `catalog`")));
    }
    if has_catalogs && !server.key {
        return Err(("catalog", format!("{kind} changes and transfers its catalog with a key; add `key = true`")));
    }
    Ok(())
}

/// Some kinds of servers have backends instead of zones.
fn check_backends(server: &Server, kind: &str, backends: &str) -> Result<(), KeyProblem> {
    let has_backends = !addresses(backends).map_err(|text| ("backends", text))?.is_empty();
    let known = Kind::named(kind);
    if known.is_some_and(Kind::needs_backends) {
        if !has_backends {
            return Err(("kind", format!("{kind} needs servers behind it; write backends = \"{{NAME.address}}\"")));
        }
        if !server.zones.is_empty() || server.hierarchy.is_some() {
            return Err(("zones", format!("{kind} serves no zones; its backends do: remove `zones` or `hierarchy`")));
        }
    } else if has_backends && !known.is_some_and(Kind::takes_backends) {
        return Err(("backends", format!("{kind} asks no other servers; remove `backends`")));
    }
    Ok(())
}

fn check_load(load: &Load, values: &BTreeMap<String, String>) -> Result<(), KeyProblem> {
    let line = substitute(&load.run, values).map_err(|text| ("run", text))?;
    let words = command_words(&line).map_err(|text| ("run", text))?;
    if !LOADS.contains(&words[0].as_str()) {
        return Err(("run", format!("`catlab {}` is not a load; {}", words[0], hint(&words[0], LOADS))));
    }
    if words[0] == command::HIERARCHY && words.get(1).is_none_or(|word| word != "run") {
        return Err(("run", "only `hierarchy run` is a load; write `run` after `hierarchy`".into()));
    }
    if command::has(command::own_words(&words), "--out") {
        return Err(("run", "the experiment chooses the folder of each run; remove --out".into()));
    }
    if command::seconds(&words).is_some_and(|seconds| seconds > CELL_SECONDS_MAX as f64) {
        return Err(("run", format!("the load is longer than the limit of a cell, {CELL_SECONDS_MAX} s; shorten it")));
    }
    if let Some(core) = &load.core {
        let core = substitute(&core.0, values).map_err(|text| ("core", text))?;
        if !whole(&core, 0) {
            return Err(("core", format!("`{core}` is not a core; write 0 for the first one")));
        }
    }
    Ok(())
}

/// The words of a command line of `catlab`.
fn command_words(line: &str) -> Result<Vec<String>, String> {
    let words = command::words(line)?;
    match words[0].as_str() {
        "catlab" => Err("command lines begin with the command of catlab; remove the word `catlab`".into()),
        "experiment" => Err("an experiment cannot run another one; remove this command".into()),
        _ => Ok(words),
    }
}

fn whole(value: &str, min: u32) -> bool {
    value.parse::<u32>().is_ok_and(|number| (min..=CORES_MAX).contains(&number))
}

fn is_count(value: &str) -> bool {
    value.parse::<u32>().is_ok_and(|count| count > 0)
}

fn is_node_count(value: &str) -> bool {
    value.parse::<u32>().is_ok_and(|count| (1..=NODES_MAX).contains(&count))
}

fn is_cpu(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(|cores| (CPU_CORES_MIN..=f64::from(CORES_MAX)).contains(&cores))
}

fn is_memory(value: &str) -> bool {
    let number = value.strip_suffix(['K', 'M', 'G']).unwrap_or(value);
    number.parse::<u64>().is_ok_and(|number| number > 0)
}
