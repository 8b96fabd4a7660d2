//! The filter command: it reads messages as lines of text on standard input, and writes such lines to standard output.

use std::io::{self, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use trace::{Message, Reader, Tally, TraceError, read_lines, write_line};

/// A running filter command.
pub struct FilterCommand {
    child: Child,
    command: String,
}

/// How the command exited.
#[derive(Debug)]
pub struct FilterExit {
    /// Its exit status.
    pub status: ExitStatus,
    /// The command.
    pub command: String,
}

/// Buffer size of the input pipe.
pub(super) const PIPE_BYTES: usize = 64 << 10;

impl FilterCommand {
    /// Starts a shell command.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { child: shell.spawn()?, command: command.to_owned() })
    }

    /// Passes the output of `feed` to the command, and its output to `each`, in parallel. Neither pipe can block the
    /// other, and memory use is bounded. If the command closes its input early, feeding ends without an error.
    ///
    /// # Errors
    /// Those of `feed` and `each`, and if the output has no lines.
    pub fn run<F, E>(mut self, feed: F, mut each: E) -> Result<(FilterExit, Reader), FilterError>
    where
        F: FnOnce(&mut Pipe) -> Result<(), FilterError> + Send,
        E: FnMut(&Message<'_>) -> Result<(), FilterError>,
    {
        let stdin = self.child.stdin.take().expect("it is piped");
        let stdout = self.child.stdout.take().expect("it is piped");
        let mut reader = read_lines(Box::new(BufReader::with_capacity(PIPE_BYTES, stdout)));
        let child = &mut self.child;
        let (fed, read) = std::thread::scope(|scope| {
            let feeder = scope.spawn(move || {
                let mut pipe = Pipe::new(stdin);
                feed(&mut pipe).and_then(|()| pipe.end())
            });
            let read = read_all(&mut reader, &mut each);
            let read = match read {
                Ok(()) => Ok(reader),
                Err(error) => {
                    // Closing its output makes the command exit, which also ends the feeding.
                    drop(reader);
                    let _killed = child.kill();
                    Err(error)
                }
            };
            (feeder.join(), read)
        });
        let status = self.child.wait().map_err(FilterError::Pipe)?;
        let reader = read?;
        match fed {
            Ok(fed) => fed?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok((FilterExit { status, command: self.command }, reader))
    }
}

fn read_all(
    reader: &mut Reader,
    each: &mut impl FnMut(&Message<'_>) -> Result<(), FilterError>,
) -> Result<(), FilterError> {
    while let Some(message) = reader.next()? {
        each(&message)?;
    }
    Ok(())
}

/// The input pipe of the command.
pub struct Pipe {
    out: BufWriter<ChildStdin>,
    is_open: bool,
}

impl Pipe {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        Self { out: BufWriter::with_capacity(PIPE_BYTES, stdin), is_open: true }
    }

    /// Writes a message as a line. Returns false if the command has closed its input.
    ///
    /// # Errors
    /// If the pipe fails.
    pub fn write(&mut self, message: &Message<'_>) -> Result<bool, FilterError> {
        if self.is_open {
            self.is_open = is_open(write_line(message, &mut self.out))?;
        }
        Ok(self.is_open)
    }

    pub(super) fn end(mut self) -> Result<(), FilterError> {
        if self.is_open {
            is_open(self.out.flush())?;
        }
        // Bytes that a closed pipe has not accepted must not be written again on drop.
        drop(self.out.into_parts());
        Ok(())
    }
}

/// Describes output of the command that is not a valid line, if any.
pub(crate) fn no_lines(tally: &Tally) -> Option<String> {
    let lost = tally.all_unread().filter(|(reason, _)| reason.is_loss());
    let lost: Vec<_> = lost.map(|(reason, count)| format!("{count} {}", reason.meaning())).collect();
    (!lost.is_empty()).then(|| format!("it wrote invalid lines: {}", lost.join(", ")))
}

/// Whether the command still reads its input.
fn is_open(result: io::Result<()>) -> Result<bool, FilterError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(FilterError::Pipe(error)),
    }
}

/// Why filtering failed.
#[derive(Debug)]
pub enum FilterError {
    /// The pipe or the command failed.
    Pipe(io::Error),
    /// The output of the command is invalid.
    Text(TraceError),
    /// The result could not be written.
    Writer(io::Error),
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pipe(error) | Self::Writer(error) => error.fmt(f),
            Self::Text(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FilterError {}

impl From<TraceError> for FilterError {
    fn from(error: TraceError) -> Self {
        Self::Text(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Transport;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    /// Filters this many queries. Returns their IDs, and how the command exited.
    fn through(command: &str, count: u16) -> (Vec<u16>, FilterExit) {
        let name: wire::name::Name = "www.example.com.".parse().unwrap();
        let mut ids = Vec::new();
        let feed = |pipe: &mut Pipe| {
            for id in 0..count {
                let bytes = MessageBuilder::query(id, name.as_ref(), Rtype::A).build();
                let (source, destination) = ("192.0.2.1:4000".parse().unwrap(), "192.0.2.53:53".parse().unwrap());
                let transport = Transport::Udp;
                let message = Message { at_ns: id.into(), source, destination, transport, bytes: &bytes };
                if !pipe.write(&message)? {
                    break;
                }
            }
            Ok(())
        };
        let started = FilterCommand::start(command).unwrap();
        let (result, _) = started
            .run(feed, |message| {
                ids.push(u16::from_be_bytes([message.bytes[0], message.bytes[1]]));
                Ok(())
            })
            .unwrap();
        (ids, result)
    }

    #[test]
    fn all_lines_pass_the_filter_in_order() {
        // Far more than the capacity of both pipes.
        let (ids, result) = through("cat", 30_000);
        assert!(result.status.success() && ids.iter().copied().eq(0..30_000));
    }

    #[test]
    fn a_filter_may_read_all_input_before_writing() {
        let (ids, result) = through("sort -k 7,7nr", 20_000);
        assert!(result.status.success() && ids.iter().copied().eq((0..20_000).rev()));
    }

    #[test]
    fn a_filter_may_exit_early_with_its_exit_code() {
        let (ids, result) = through("head -n 5", 30_000);
        assert!(result.status.success() && ids == [0, 1, 2, 3, 4]);
        let (ids, result) = through("head -n 2; exit 7", 30_000);
        assert_eq!((ids, result.status.code()), (vec![0, 1], Some(7)));
        let (ids, result) = through("exec 0<&-; exit 3", 30_000);
        assert_eq!((ids, result.status.code()), (vec![], Some(3)));
    }

    #[test]
    fn a_writer_error_kills_the_filter() {
        let started = FilterCommand::start("yes '1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS - -'").unwrap();
        let mut count = 0;
        let stopped = started.run(
            |_| Ok(()),
            |_| {
                count += 1;
                if count < 3 { Ok(()) } else { Err(FilterError::Writer(io::ErrorKind::StorageFull.into())) }
            },
        );
        assert!(matches!(stopped, Err(FilterError::Writer(_))) && count == 3);
    }

    #[test]
    fn malformed_lines_are_counted() {
        let (result, reader) = FilterCommand::start("echo nonsense").unwrap().run(|_| Ok(()), |_| Ok(())).unwrap();
        assert!(result.status.success() && reader.tally().unread(trace::UnreadReason::LineMalformed) == 1);
    }
}
