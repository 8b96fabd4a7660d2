//! Creates the input files of an experiment, once.

use super::record::Record;
use super::{Options, Progress, RunError, atomic, process, shell_line};
use crate::definition::variables::{FOLDER, substitute};
use crate::definition::{Experiment, command};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testbed::{Launch, output_end, spawn_into};

/// Name of the file that lists the commands that have run.
const FILE: &str = "prepared.json";
/// Interval of the checks whether a command has ended.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs the commands, unless an earlier run did. Returns `false` if the user stopped them.
pub(super) fn prepare(
    experiment: &Experiment,
    options: &Options<'_>,
    folder: &Path,
    record: &Record,
    progress: &mut dyn FnMut(&Progress),
) -> Result<bool, RunError> {
    let mut values = experiment.values(&BTreeMap::new());
    values.insert(FOLDER.to_owned(), folder.display().to_string());
    let wrong = |line: &String, reason: String| RunError::Prepare(line.clone(), reason);
    let mut commands = Vec::new();
    for line in &experiment.prepare {
        let words = substitute(line, &values).and_then(|line| command::words(&line));
        commands.push(words.map_err(|reason| wrong(line, reason))?);
    }
    let file = folder.join(FILE);
    let text = serde_json::to_vec_pretty(&commands).unwrap_or_default();
    if commands.is_empty() || std::fs::read(&file).is_ok_and(|earlier| earlier == text) {
        return Ok(true);
    }
    std::fs::create_dir_all(folder.join("input")).map_err(|error| RunError::File(folder.to_owned(), error))?;
    let _none = std::fs::remove_file(&file);
    for words in commands {
        let line = format!("catlab {}", shell_line(&words));
        progress(&Progress::Preparing(line.clone()));
        match run_one(&words, options, folder, record) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(reason) => return Err(wrong(&line, reason)),
        }
    }
    atomic(&file, &text).map_err(|error| RunError::File(file.clone(), error))?;
    Ok(true)
}

/// Runs one command. Returns `false` if the user stopped it.
fn run_one(words: &[String], options: &Options<'_>, folder: &Path, record: &Record) -> Result<bool, String> {
    let environment = process::environment(record.mark("prepare"));
    let launch = Launch { environment, has_own_group: true, ..Launch::default() };
    let mut inner = Command::new(&options.catlab);
    inner.args(words);
    let mut command = launch.command(&inner);
    command.current_dir(folder);
    let output = folder.join("prepare.output");
    let mut child = spawn_into(&mut command, &output).map_err(|error| error.to_string())?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(true),
            Ok(Some(status)) => {
                return Err(format!("it failed with {status}; its output ends:\n{}", output_end(&output)));
            }
            Ok(None) if options.is_stopped() => {
                let _killed = child.kill();
                let _ended = child.wait();
                return Ok(false);
            }
            Ok(None) => std::thread::sleep(INTERVAL),
            Err(error) => return Err(error.to_string()),
        }
    }
}
