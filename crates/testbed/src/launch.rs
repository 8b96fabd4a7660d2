//! How a process is launched: its control groups, its core, its network namespace, and its environment.

use links::Namespace;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Joins the control groups, then runs the program with `exec`. The process ID stays the same.
const SCRIPT: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 126; shift; done; shift; exec "$@""#;

/// How a process and its children are launched. By default, they run like this process.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Folders of control groups. The process joins them before it runs the program.
    pub cgroups: Vec<PathBuf>,
    /// Its core, from 0. `taskset` of util-linux sets it.
    pub core: Option<usize>,
    /// More variables of its environment.
    pub environment: Vec<(String, String)>,
    /// The network namespace in which it starts, as `ip netns` lists it.
    pub namespace: Option<String>,
    /// Whether it has its own process group. Ctrl-C in a terminal does not reach it then.
    pub has_own_group: bool,
}

impl Launch {
    /// The command that launches a program this way. Of `inner`, it keeps only the program, the arguments and the
    /// environment.
    #[must_use]
    pub fn command(&self, inner: &Command) -> Command {
        let mut words = Vec::new();
        if !self.cgroups.is_empty() {
            words.extend(["sh", "-c", SCRIPT, "sh"].map(Into::into));
            words.extend(self.cgroups.iter().map(|folder| folder.join("cgroup.procs").into_os_string()));
            words.push("--".into());
        }
        if let Some(core) = self.core {
            words.extend(["taskset".into(), "-c".into(), core.to_string().into()]);
        }
        words.push(inner.get_program().to_owned());
        words.extend(inner.get_args().map(ToOwned::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).envs(self.environment.iter().cloned());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if self.has_own_group {
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        if let Some(name) = &self.namespace {
            links::start_inside(&mut command, name);
        }
        command
    }

    /// Fails if its namespace does not exist.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.namespace.as_deref().map(Namespace::open).transpose().map(drop)
    }

    /// Runs a function in its network namespace. Sockets that the function opens are in the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the function failed.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.namespace {
            Some(name) => Namespace::open(name)?.inside(action),
            None => action(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_on_its_core_with_its_environment() {
        let mut inner = Command::new("sh");
        inner.args(["-c", "echo $FIRST $SECOND; taskset -cp $$"]).env("FIRST", "1");
        let environment = vec![("SECOND".to_owned(), "2".to_owned())];
        let launch = Launch { core: Some(0), environment, ..Launch::default() };
        let output = launch.command(&inner).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("1 2\n") && text.ends_with("affinity list: 0\n"), "{text}");
    }

    #[test]
    fn a_program_that_cannot_join_its_group_does_not_start() {
        let launch = Launch { cgroups: vec!["/missing".into()], ..Launch::default() };
        let output = launch.command(&Command::new("true")).output().unwrap();
        assert_eq!(output.status.code(), Some(126));
    }
}
