//! The loads of a cell: child processes of `catlab`.

use super::cell::{CellError, Context};
use super::hosts::Hosts;
use super::marks::Marks;
use super::process::{self, Identity};
use super::start::core;
use crate::definition::variables::substitute;
use crate::definition::{Load as Definition, command};
use crate::hierarchy_programs::HierarchyProgram;
use crate::results::ServerResult;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use testbed::{Launch, output_end, spawn_into};

/// Time limit for a load to exit after SIGTERM.
const END_MAX: Duration = Duration::from_secs(10);

/// A running load. It is killed on drop.
pub(super) struct Load {
    /// Its name. It may be empty if there is only one load.
    pub(super) name: String,
    /// Its run folder, relative to the folder of the cell.
    pub(super) run: String,
    /// Its command line, without the program.
    pub(super) words: Vec<String>,
    /// The servers that it starts.
    pub(super) servers: Vec<ServerResult>,
    child: Child,
    output: PathBuf,
    status: Option<ExitStatus>,
}

impl Load {
    /// Starts a load. With `marks`, it shows the lines of a file in its charts over time.
    pub(super) fn start(
        context: &Context<'_>,
        hosts: &Hosts,
        definition: &Definition,
        values: &BTreeMap<String, String>,
        marks: Option<&mut Marks>,
    ) -> Result<Self, CellError> {
        let name = definition.name.clone();
        let run = if name.is_empty() { "load".to_owned() } else { format!("load-{name}") };
        let failed =
            |reason: String| CellError::Failed(format!("cannot start the {}: {reason}", label(&definition.name)));
        let line = substitute(&definition.run, values).map_err(failed)?;
        let mut words = command::words(&line).map_err(failed)?;
        let programs = HierarchyProgram::of_load(&words);
        if let Some(missing) = programs.iter().find(|program| !program.is_installed()) {
            let (label, how) = (missing.label(), missing.how_to_install());
            return Err(CellError::Unsupported(format!("{label} is not installed; to install it: {how}")));
        }
        let mut options = vec!["--out".to_owned(), context.cell_folder.join(&run).display().to_string()];
        if let Some(marks) = marks.filter(|_| words[0] != command::HIERARCHY) {
            let path = context.cell_folder.join(format!("{run}.marks"));
            options.extend(["--marks".to_owned(), path.display().to_string()]);
            marks.add_file(path);
        }
        let end = command::own_words(&words).len();
        words.splice(end..end, options);
        let core_text = definition.core.as_ref().map(|core| substitute(&core.0, values)).transpose().map_err(failed)?;
        let parse = |text: String| text.parse().map_err(|_| failed(format!("`{text}` is not a core")));
        let launch = Launch {
            core: core(core_text.map(parse).transpose()?)?,
            environment: process::environment(context.record.mark(&run)),
            namespace: hosts.of_loads(),
            has_own_group: true,
            ..Launch::default()
        };
        let mut inner = Command::new(&context.options.catlab);
        inner.args(&words);
        let mut command = launch.command(&inner);
        command.current_dir(context.folder);
        let output = context.cell_folder.join(format!("{run}.output"));
        let child = spawn_into(&mut command, &output).map_err(|error| failed(error.to_string()))?;
        let servers = programs.into_iter().map(HierarchyProgram::result).collect();
        let load = Self { name: definition.name.clone(), run, words, servers, child, output, status: None };
        if let Some(identity) = Identity::of(load.child.id()) {
            context.record.add_process(identity).map_err(|error| failed(error.to_string()))?;
        }
        Ok(load)
    }

    /// Whether it is still running.
    pub(super) fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_none()
    }

    /// The reason why it has no results, after it exited.
    pub(super) fn error(&self) -> Option<String> {
        // With exit code 1 the run is INVALID or answers were wrong. It has results. `hierarchy` exits with the code of
        // another program.
        let status = self.status?;
        let has_results = match status.code() {
            Some(0) => true,
            Some(1) => self.words[0] != command::HIERARCHY,
            _ => false,
        };
        let label = label(&self.name);
        (!has_results)
            .then(|| format!("the {label} failed with {status}; its output ends:\n{}", output_end(&self.output)))
    }
}

/// `load NAME`, or `load` without a name.
fn label(name: &str) -> String {
    format!("load {name}").trim_end().to_owned()
}

impl Drop for Load {
    fn drop(&mut self) {
        if self.is_running() {
            // It removes its network namespaces first.
            if self.words[0] == command::HIERARCHY {
                process::terminate(self.child.id());
                process::wait_until(END_MAX, || !self.is_running());
            }
            let _killed = self.child.kill();
            let _ended = self.child.wait();
        }
    }
}
