//! Options that select an experiment, its size, its cells and its servers.

use clap::Args;
use experiment::claim::judge;
use experiment::definition::{Experiment, Size, built_in, built_in_names};
use experiment::plan::{Only, Plan};
use experiment::user_servers::{Program, RunningServer, UserServers};
use std::error::Error;
use std::path::Path;

#[derive(Args)]
pub(crate) struct Selection {
    /// Use the small size of the experiment, for a first look.
    #[arg(long)]
    quick: bool,
    /// Use the size in the paper. It may need a large machine.
    #[arg(long, conflicts_with = "quick")]
    paper: bool,
    /// Set a variable of the experiment. Paths of files must be absolute. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,
    /// Select only the cells in which a parameter has this value. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    only: Vec<Only>,
    /// Load your own running server in place of the server NAME, in all cells. Select cells with --only. Its settings
    /// in the definition do not apply, and its CPU and memory are not measured. A public address must be named in
    /// CATLAB_ALLOW. May be given several times.
    #[arg(long, value_name = "NAME=ADDRESS")]
    server: Vec<RunningServer>,
    /// Start another build of a kind of server, such as bind=/opt/bind/sbin/named. May be given several times.
    #[arg(long, value_name = "KIND=PATH")]
    program: Vec<Program>,
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no value; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Selection {
    /// The experiment in the size and with the variables of the user.
    ///
    /// # Errors
    /// There is no such experiment, its definition is wrong, a variable cannot be set, or a claim cannot be judged.
    pub(super) fn experiment(&self, experiment: &str) -> Result<Experiment, Box<dyn Error>> {
        let (size, name) = self.size();
        let found = find(experiment)?;
        if !found.has_size(size) {
            return Err(format!("cannot use --{name}: {experiment} has no [{name}] size; leave the option out").into());
        }
        let mut found = found.size(size);
        self.set.iter().try_for_each(|(name, value)| found.set(name, value))?;
        // Finds claims that cannot be judged now, not after the last cell.
        found.claims.iter().try_for_each(|claim| judge(claim, &found, &[]).map(|_| ()))?;
        Ok(found)
    }

    /// The servers of the user.
    ///
    /// # Errors
    /// A name or kind is given twice, or a program cannot run.
    pub(super) fn user_servers(&self) -> Result<UserServers, String> {
        UserServers::new(&self.server, &self.program)
    }

    /// The selected cells.
    ///
    /// # Errors
    /// The experiment has no such parameter or value, or a running server cannot replace one of the experiment.
    pub(super) fn plan(&self, experiment: &Experiment) -> Result<Plan, String> {
        Plan::with_user_servers(experiment, &self.only, &self.user_servers()?)
    }

    /// Checks that each --program belongs to a server of a plan.
    ///
    /// # Errors
    /// Names the kind that no plan starts.
    pub(super) fn check_programs<'p>(&self, plans: impl Iterator<Item = &'p Plan> + Clone) -> Result<(), String> {
        let is_used = |program: &&Program| plans.clone().any(|plan| plan.kinds.contains(program.kind.label()));
        match self.program.iter().find(|program| !is_used(program)) {
            Some(Program { kind, path }) => Err(format!(
                "cannot use {} as {kind}: no selected cell starts a server of the kind {kind}; leave the option out",
                path.display(),
                kind = kind.label()
            )),
            None => Ok(()),
        }
    }

    /// The name of the folder for results.
    pub(super) fn folder_name(&self, experiment: &str) -> String {
        let name = Path::new(experiment).file_stem().unwrap_or_default().to_string_lossy();
        match self.size() {
            (Size::Here, _) => name.into_owned(),
            (_, size) => format!("{name}-{size}"),
        }
    }

    /// The command line that runs an experiment with these options.
    pub(super) fn command(&self, experiment: &str) -> Vec<String> {
        let mut words = ["catlab", "experiment", "run", experiment].map(str::to_owned).to_vec();
        match self.size() {
            (Size::Here, _) => {}
            (_, size) => words.push(format!("--{size}")),
        }
        let mut add = |option: &str, name: &str, value: &dyn std::fmt::Display| {
            words.extend([option.to_owned(), format!("{name}={value}")]);
        };
        self.set.iter().for_each(|(name, value)| add("--set", name, value));
        self.only.iter().for_each(|only| add("--only", &only.name, &only.value));
        self.server.iter().for_each(|server| add("--server", &server.name, &server.address));
        self.program.iter().for_each(|program| add("--program", program.kind.label(), &program.path.display()));
        words
    }

    /// The size and its name.
    const fn size(&self) -> (Size, &'static str) {
        match (self.quick, self.paper) {
            (true, _) => (Size::Quick, "quick"),
            (_, true) => (Size::Paper, "paper"),
            _ => (Size::Here, "here"),
        }
    }
}

/// A built-in experiment or a file.
fn find(experiment: &str) -> Result<Experiment, Box<dyn Error>> {
    if let Some(found) = built_in(experiment) {
        return Ok(found?);
    }
    if !Path::new(experiment).exists() {
        let names: Vec<_> = built_in_names().collect();
        return Err(format!(
            "cannot find {experiment}: it is neither a file nor a built-in experiment; built in are {}",
            names.join(", ")
        )
        .into());
    }
    Ok(Experiment::read(Path::new(experiment))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(quick: bool, paper: bool, set: &[&str]) -> Selection {
        let set = set.iter().map(|text| parse_set(text).unwrap()).collect();
        Selection { quick, paper, set, only: Vec::new(), server: Vec::new(), program: Vec::new() }
    }

    #[test]
    fn size_and_variables_are_those_of_the_user() {
        let chosen = selection(true, false, &["in_flight=7"]);
        let experiment = chosen.experiment("cpu-quota").unwrap();
        let quick = built_in("cpu-quota").unwrap().unwrap().size(Size::Quick);
        assert_eq!(experiment.variables["in_flight"].0, "7");
        assert_eq!(experiment.variables["seconds"], quick.variables["seconds"]);
        assert_eq!(chosen.folder_name("cpu-quota"), "cpu-quota-quick");
        assert_eq!(selection(false, false, &[]).folder_name("some/mine.toml"), "mine");
    }

    #[test]
    fn wrong_selections_are_refused() {
        for (chosen, experiment, expected) in [
            (selection(false, true, &[]), "cpu-quota", "has no [paper] size"),
            (selection(false, false, &["second=1"]), "cpu-quota", "did you mean `seconds`?"),
            (selection(false, false, &["cpu=1"]), "cpu-quota", "--only cpu=1"),
            (selection(false, false, &[]), "cpu-quotas", "built in are acks, "),
        ] {
            let error = chosen.experiment(experiment).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse_set("seconds").unwrap_err().contains("NAME=VALUE"));
    }

    #[test]
    fn a_program_that_no_cell_starts_is_refused() {
        let mut chosen = selection(false, false, &[]);
        chosen.program = vec!["unbound=/bin/sh".parse().unwrap(), "nsd=/bin/sh".parse().unwrap()];
        let plan = chosen.plan(&chosen.experiment("cpu-quota").unwrap()).unwrap();
        assert!(plan.missing.iter().all(|missing| missing.kind != "nsd"));
        let error = chosen.check_programs([&plan].into_iter()).unwrap_err();
        assert!(error.starts_with("cannot use /bin/sh as unbound: no selected cell starts"), "{error}");
        chosen.program.remove(0);
        assert_eq!(chosen.check_programs([&plan].into_iter()), Ok(()));
    }
}
