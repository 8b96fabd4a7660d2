//! Runs experiments, and writes their pages.

use super::select::Selection;
use super::show::time;
use super::summary::Summary;
use clap::Args;
use experiment::definition::{Experiment, built_in_names};
use experiment::page::{self, Verdicts};
use experiment::plan::Plan;
use experiment::results::{Cell, CellResult, Outcome};
use experiment::run::{self, DEFINITION, Options, Progress};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of all built-in experiments together.
const ALL: &str = "all";
/// Whether the user asked to stop.
static STOP: AtomicBool = AtomicBool::new(false);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Built-in experiments, or files. `all` means every built-in experiment that can use the options.
    #[arg(required = true, value_name = "NAME|FILE|all")]
    experiments: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Folder for the results. Each experiment has a folder below it.
    #[arg(long, default_value = "experiments", value_name = "DIR")]
    dir: PathBuf,
}

/// An experiment that can run.
struct Ready {
    name: String,
    experiment: Experiment,
    plan: Plan,
    folder: PathBuf,
}

/// Runs experiments. All of their definitions are checked before the first one starts. If one of several cannot run,
/// the next one does.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let user_servers = arguments.selection.user_servers()?;
    let mut summary = Summary::default();
    let ready = ready(arguments, &mut summary)?;
    arguments.selection.check_programs(ready.iter().map(|one| &one.plan))?;
    // Without a handler, the signal kills this program, and the next run ends what is left.
    let _handled = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
    let catlab = std::env::current_exe().map_err(|error| format!("cannot find the program catlab: {error}"))?;
    let is_alone = ready.len() == 1;
    for Ready { name, experiment, plan, folder } in ready {
        let options = Options {
            folder,
            catlab: catlab.clone(),
            command: arguments.selection.command(&name),
            user_servers: user_servers.clone(),
            stop: &STOP,
        };
        match run_one(&experiment, &plan, &options) {
            Ok(Some((verdicts, results))) => summary.measured(name, verdicts, &results),
            Ok(None) => {
                if !is_alone {
                    summary.stopped(name);
                    lab::print(format_args!("\n{}", summary.text()));
                }
                return Err("stopped; the same command continues with the cells that are missing".into());
            }
            Err(error) if is_alone => return Err(error),
            Err(error) => {
                eprintln!("catlab experiment: {name}: {error}");
                summary.failed(name, &error.to_string());
            }
        }
    }
    lab::print(format_args!("\n{}", summary.text()));
    Ok(summary.exit_code())
}

/// The experiments that can run. Of `all`, those that cannot use the options are only noted in the summary.
fn ready(arguments: &Arguments, summary: &mut Summary) -> Result<Vec<Ready>, Box<dyn Error>> {
    let Arguments { experiments, selection, dir } = arguments;
    let mut ready: Vec<Ready> = Vec::new();
    for (name, is_of_all) in names(experiments) {
        let made = selection.experiment(&name).and_then(|experiment| {
            let plan = selection.plan(&experiment)?;
            Ok(Ready { folder: dir.join(selection.folder_name(&name)), name: name.clone(), experiment, plan })
        });
        match made {
            Ok(new) => match ready.iter().find(|known| known.folder == new.folder) {
                Some(known) => {
                    let (first, folder) = (&known.name, new.folder.display());
                    return Err(format!("cannot run {first} and {name} at once: both write to {folder}").into());
                }
                None => ready.push(new),
            },
            Err(error) if is_of_all => {
                eprintln!("catlab experiment: {name}: {error}");
                summary.skipped(name, &error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if ready.is_empty() {
        Err("cannot run all: no built-in experiment can use these options".into())
    } else {
        Ok(ready)
    }
}

/// The names of experiments, each once, and whether only `all` names it.
fn names(given: &[String]) -> Vec<(String, bool)> {
    let mut names: Vec<(String, bool)> = Vec::new();
    let mut add = |name: &str, is_of_all| {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name.to_owned(), is_of_all));
        }
    };
    for name in given {
        if name == ALL {
            built_in_names().for_each(|built_in| add(built_in, !given.iter().any(|name| name == built_in)));
        } else {
            add(name, false);
        }
    }
    names
}

/// Writes the page of the cells that were measured.
pub(super) fn report(folder: &Path, published: Option<&Path>) -> Result<ExitCode, Box<dyn Error>> {
    let definition = folder.join(DEFINITION);
    if !definition.exists() {
        let folder = folder.display();
        return Err(format!("cannot report {folder}: it has no {DEFINITION}; name the folder of one experiment").into());
    }
    let experiment = Experiment::read_measured(&definition)?;
    let verdicts = write_page(folder, &experiment)?;
    if let Some(published) = published {
        let folder = folder.canonicalize()?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let page = page::publish(&folder, &name, published)?;
        lab::print(format_args!("{}\n", page.display()));
    }
    Ok(if verdicts.has_differing() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The verdicts on the claims of a run, and the results of its cells.
type Measured = (Verdicts, Vec<CellResult>);

/// Runs the cells that are missing, and writes the page. Returns `None` if the user stopped it.
fn run_one(experiment: &Experiment, plan: &Plan, options: &Options<'_>) -> Result<Option<Measured>, Box<dyn Error>> {
    eprintln!("{}: {} cells, {}", experiment.title, plan.cells.len(), time(plan));
    for missing in &plan.missing {
        eprintln!("{} is not installed, so its cells are not measured. To install it: {}", missing.kind, missing.how);
    }
    let mut number = 0;
    let count = plan.cells.len();
    let done = run::run(experiment, &plan.cells, options, &mut |progress| {
        if let Progress::Ended(_) | Progress::Kept(_) = progress {
            number += 1;
        }
        if let Some(line) = progress_line(progress, number, count) {
            eprintln!("{line}");
        }
    })?;
    if done.is_stopped {
        return Ok(None);
    }
    Ok(Some((write_page(&options.folder, experiment)?, done.results)))
}

/// The line that the user sees.
fn progress_line(progress: &Progress, number: usize, count: usize) -> Option<String> {
    let cell_line = |result: &CellResult, end: &str| {
        let Cell { parameters, repeat } = &result.cell;
        let parameters: String = parameters.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        format!("{number:>4}/{count}  {parameters}repeat {}: {end}", repeat + 1)
    };
    match progress {
        Progress::Cleaned(folder) => Some(format!("Ended leftover processes of a killed run in {}", folder.display())),
        Progress::Preparing(command) => Some(format!("           {command}")),
        Progress::Started(..) => None,
        Progress::Kept(result) => Some(cell_line(result, "already measured")),
        Progress::Ended(result) => Some(match &result.outcome {
            Outcome::Measured => match result.figures.get("rate") {
                Some(rate) => cell_line(result, &format!("{rate:.0} right answers per second")),
                None => cell_line(result, "measured"),
            },
            Outcome::Invalid(reasons) => cell_line(result, &format!("INVALID: {}", reasons.join("; "))),
            Outcome::Failed(reasons) => cell_line(result, &format!("failed: {}", reasons.join("; "))),
            Outcome::NotMeasured(reasons) => cell_line(result, &format!("not measured: {}", reasons.join("; "))),
        }),
    }
}

/// Writes the page, and prints the verdicts and its path.
fn write_page(folder: &Path, experiment: &Experiment) -> Result<Verdicts, Box<dyn Error>> {
    let verdicts = page::write(folder, experiment)?;
    lab::print(format_args!("{}{}\n", verdicts.outline(), folder.join("index.html").display()));
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_cell_and_what_went_wrong() {
        let line = |outcome| {
            let result = CellResult {
                cell: Cell { parameters: [("cpu".to_owned(), "0.5".to_owned())].into(), repeat: 1 },
                outcome,
                figures: [("rate".to_owned(), 1234.4)].into(),
                commands: Vec::new(),
                servers: Vec::new(),
                runs: [].into(),
                events: Vec::new(),
            };
            progress_line(&Progress::Ended(Box::new(result)), 3, 18).unwrap()
        };
        assert_eq!(line(Outcome::Measured), "   3/18  cpu=0.5 repeat 2: 1234 right answers per second");
        let failed = line(Outcome::Failed(vec!["knot did not start".into()]));
        assert!(failed.ends_with("repeat 2: failed: knot did not start"), "{failed}");
    }

    #[test]
    fn all_means_each_built_in_experiment_once() {
        let names = |given: &[&str]| names(&given.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let built_in: Vec<_> = built_in_names().map(|name| (name.to_owned(), true)).collect();
        assert_eq!(names(&["all"]), built_in);
        let found = names(&["mine.toml", "read-rate", "all", "mine.toml"]);
        assert_eq!(found[..2], [("mine.toml".to_owned(), false), ("read-rate".to_owned(), false)]);
        assert_eq!(found.len(), built_in.len() + 1);
    }
}
