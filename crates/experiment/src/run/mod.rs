//! Runs the cells of a plan.
//!
//! ```text
//!   prepare (once) --> each cell: servers --> loads and events --> figures --> cell.json
//!   record: running processes, in files --> ended by this run, or by the next one if this run is killed
//! ```

// Processes and control groups of a run.
mod cgroup;
mod process;
mod record;
// A cell and its parts.
mod cell;
mod figures;
mod hosts;
mod load;
mod marks;
mod peers;
mod phases;
mod server;
mod start;
mod zones;
// Input files.
mod prepare;

use crate::definition::Experiment;
use crate::results::{Cell, CellResult, Outcome};
use crate::user_servers::{Stored, UserServers};
use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file with the definition, in the folder of an experiment.
pub const DEFINITION: &str = "experiment.toml";
/// Name of the file with the command that runs the experiment.
pub const COMMAND: &str = "command";
/// Name of the file with the servers of the user.
const USER_SERVERS: &str = "servers.json";
/// The results of a cell in its folder.
const CELL: &str = "cell.json";

/// How an experiment runs.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The folder for the results. It is created if missing.
    pub folder: PathBuf,
    /// The program `catlab`.
    pub catlab: PathBuf,
    /// The command line that runs the experiment, for its page.
    pub command: Vec<String>,
    /// Servers and programs of the user.
    pub user_servers: UserServers,
    /// Whether the user asked to stop.
    pub stop: &'a AtomicBool,
}

impl Options<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A killed run left processes or control groups. They were removed. The folder is that of the killed run.
    Cleaned(PathBuf),
    /// A command that makes input files starts.
    Preparing(String),
    /// A cell starts: its number from 0, the number of cells, and the cell.
    Started(usize, usize, Cell),
    /// A cell ended.
    Ended(Box<CellResult>),
    /// An earlier run measured the cell.
    Kept(Box<CellResult>),
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Done {
    /// The results of the cells, in their order.
    pub results: Vec<CellResult>,
    /// Whether the user stopped the run before all cells were measured.
    pub is_stopped: bool,
}

/// Why an experiment cannot run.
#[derive(Debug)]
pub enum RunError {
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    /// The folder has cells of another definition.
    OtherDefinition(PathBuf),
    /// The folder has cells of other servers of the user.
    OtherServers(PathBuf),
    /// A command that makes input files failed.
    Prepare(String, String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "cannot use {}: {error}", path.display()),
            Self::OtherDefinition(folder) => {
                let folder = folder.display();
                write!(
                    f,
                    "cannot continue in {folder}: its cells were measured with another definition; use another --dir"
                )
            }
            Self::OtherServers(folder) => {
                let folder = folder.display();
                write!(
                    f,
                    "cannot continue in {folder}: its cells were measured with other values of --server and --program; \
                     use another --dir"
                )
            }
            Self::Prepare(command, reason) => write!(f, "cannot make input files with `{command}`: {reason}"),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs cells one after the other. Cells that an earlier run measured are kept.
///
/// # Errors
/// [`RunError`] if the experiment cannot start. Failures of a cell are in its result.
pub fn run(
    experiment: &Experiment,
    cells: &[Cell],
    options: &Options<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Done, RunError> {
    let wrong = |error| RunError::File(options.folder.clone(), error);
    record::clean().map_err(wrong)?.into_iter().for_each(|folder| progress(&Progress::Cleaned(folder)));
    std::fs::create_dir_all(&options.folder).map_err(wrong)?;
    let folder = options.folder.canonicalize().map_err(wrong)?;
    let record = record::Record::begin(&folder).map_err(wrong)?;
    write_definition(experiment, &folder)?;
    write_user_servers(&options.user_servers, &folder)?;
    let command = folder.join(COMMAND);
    atomic(&command, format!("{}\n", shell_line(&options.command)).as_bytes())
        .map_err(|error| RunError::File(command, error))?;
    let mut done = Done { results: Vec::new(), is_stopped: false };
    if !prepare::prepare(experiment, options, &folder, &record, progress)? {
        return Ok(Done { is_stopped: true, ..done });
    }
    for (index, cell) in cells.iter().enumerate() {
        let cell_folder = cell_folder(&folder, cell);
        if let Some(kept) = measured(&cell_folder, cell) {
            progress(&Progress::Kept(Box::new(kept.clone())));
            done.results.push(kept);
            continue;
        }
        if options.is_stopped() {
            return Ok(Done { is_stopped: true, ..done });
        }
        progress(&Progress::Started(index, cells.len(), cell.clone()));
        let wrong = |error| RunError::File(cell_folder.clone(), error);
        cell::fresh_folder(&cell_folder).map_err(wrong)?;
        let context = cell::Context { options, folder: &folder, cell_folder: &cell_folder, record: &record };
        let result = cell::measure(&context, experiment, cell);
        let text = serde_json::to_vec_pretty(&result).map_err(|error| wrong(error.into()))?;
        atomic(&cell_folder.join(CELL), &text).map_err(wrong)?;
        progress(&Progress::Ended(Box::new(result.clone())));
        done.results.push(result);
    }
    done.is_stopped = options.is_stopped() && done.results.iter().any(|result| result.outcome != Outcome::Measured);
    Ok(done)
}

/// The folder of a cell in the folder of an experiment.
#[must_use]
pub fn cell_folder(folder: &Path, cell: &Cell) -> PathBuf {
    let mut slug = String::new();
    for (name, value) in &cell.parameters {
        let _written = write!(slug, "{}={},", encoded(name), encoded(value));
    }
    let _written = write!(slug, "repeat={}", cell.repeat);
    folder.join("cells").join(slug)
}

/// A text as part of a file name. Different texts give different names.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _written = write!(encoded, "%{byte:02x}");
        }
    }
    encoded
}

/// The result of a cell that an earlier run measured.
fn measured(folder: &Path, cell: &Cell) -> Option<CellResult> {
    let result: CellResult = serde_json::from_slice(&std::fs::read(folder.join(CELL)).ok()?).ok()?;
    (result.outcome == Outcome::Measured && result.cell == *cell).then_some(result)
}

/// Writes the definition. Fails if earlier cells were measured with another one.
fn write_definition(experiment: &Experiment, folder: &Path) -> Result<(), RunError> {
    let path = folder.join(DEFINITION);
    let wrong = |error| RunError::File(path.clone(), error);
    if let Ok(text) = std::fs::read_to_string(&path) {
        let earlier: Option<Experiment> = toml::from_str(&text).ok();
        let is_same = earlier.is_some_and(|earlier| measures_the_same(&earlier, experiment));
        if !is_same && folder.join("cells").exists() {
            return Err(RunError::OtherDefinition(folder.to_owned()));
        }
    }
    let text = toml::to_string(experiment).map_err(|error| wrong(io::Error::other(error)))?;
    atomic(&path, text.as_bytes()).map_err(wrong)
}

/// Whether cells with the same parameters measure the same in both.
fn measures_the_same(one: &Experiment, other: &Experiment) -> bool {
    let of = |of: &Experiment| {
        let (values, run) = ((&of.variables, &of.by), (&of.servers, &of.loads, &of.events));
        serde_json::to_value((values, &of.prepare, &of.links, run)).ok()
    };
    of(one) == of(other)
}

/// Writes the servers of the user. Fails if earlier cells were measured with others.
fn write_user_servers(servers: &UserServers, folder: &Path) -> Result<(), RunError> {
    let (path, servers) = (folder.join(USER_SERVERS), servers.stored());
    let wrong = |error| RunError::File(path.clone(), error);
    let earlier: Stored = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| wrong(error.into()))?,
        Err(_) => Stored::default(),
    };
    if earlier != servers && folder.join("cells").exists() {
        return Err(RunError::OtherServers(folder.to_owned()));
    }
    let text = serde_json::to_vec_pretty(&servers).map_err(|error| wrong(error.into()))?;
    atomic(&path, &text).map_err(wrong)
}

/// Writes a file atomically.
fn atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    std::fs::write(&draft, bytes)?;
    std::fs::rename(&draft, path)
}

/// A command line to paste into a shell.
fn shell_line<T: AsRef<str>>(words: &[T]) -> String {
    // Only a word with a zero byte cannot be quoted, and no argument of a process can contain one.
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_cell_has_its_own_folder() {
        let folder = |value: &str, repeat| {
            let cell = Cell { parameters: BTreeMap::from([("cpu".to_owned(), value.to_owned())]), repeat };
            cell_folder(Path::new("x"), &cell).display().to_string()
        };
        assert_eq!(folder("0.5", 1), "x/cells/cpu=0.5,repeat=1");
        assert_ne!(folder("a/b", 0), folder("a:b", 0));
        assert_eq!(folder("../..", 0), "x/cells/cpu=..%2f..,repeat=0");
    }

    #[test]
    fn everything_that_changes_a_cell_is_another_definition() {
        let text = crate::definition::built_in_text("faults").unwrap();
        let parse = |text: &str| Experiment::parse(text, "test").unwrap();
        let is_same = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            measures_the_same(&parse(text), &parse(&text.replacen(from, to, 1)))
        };
        assert!(is_same("repeats = 3", "repeats = 4") && is_same("title = \"", "title = \"New: "));
        for (from, to) in [
            ("rtt = \"1ms\"", "rtt = \"2ms\""),
            ("reads = 10000", "reads = 9000"),
            ("nodes = 5", "nodes = 3"),
            ("--timeout 1s", "--timeout 2s"),
            ("\"{begin}\"", "\"{begin}5\""),
            ("--zones 1001", "--zones 1002"),
            ("cut = \"heal\"", "cut = \"resume\""),
        ] {
            assert!(!is_same(from, to), "{to}");
        }
    }

    #[test]
    fn a_definition_is_read_as_it_was_written() {
        for name in crate::definition::built_in_names() {
            let experiment = Experiment::parse(crate::definition::built_in_text(name).unwrap(), name).unwrap();
            let text = toml::to_string(&experiment).unwrap();
            let again: Experiment = toml::from_str(&text).unwrap();
            assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&experiment).unwrap(), "{name}");
        }
    }
}
