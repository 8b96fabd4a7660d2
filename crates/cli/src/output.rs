//! Standard output of commands. Printing never panics, even if the reader has closed the pipe.

use process::problem::{Exit, Problem};
use std::io::{self, ErrorKind, Write};

/// Prints a text and a newline. A closed pipe is not an error: readers such as `head` stop early.
pub fn print(text: &str) -> Result<(), Problem> {
    done(print_io(text))
}

/// Prints a text that exists nowhere else, such as a secret. A closed pipe is an error.
pub(crate) fn print_only_copy(text: &str) -> Result<(), Problem> {
    print_io(text).map_err(cannot_print)
}

/// Maps the result of a command that printed on its own, as [`print()`] does.
pub fn done(printed: io::Result<()>) -> Result<(), Problem> {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot_print(error)),
        _ => Ok(()),
    }
}

/// A count and its noun, as in `1 zone` and `2 zones`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn print_io(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}

fn cannot_print(error: io::Error) -> Problem {
    Problem::new(Exit::Failed, "cannot print the output", error)
        .hint("the command may have made its change; see `catamaran status`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        assert!(done(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let problem = done(Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert!(problem.to_string().starts_with("error: cannot print the output\n"), "{problem}");
    }
}
