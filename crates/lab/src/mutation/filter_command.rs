//! A program of the user's own, between two pipes: messages go to it as lines of our text, and what it writes is read
//! as such lines.

use std::io::{self, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use trace::{Message, Reader, Tally, TraceError, read_lines, write_line};

/// The program, started.
pub struct FilterCommand {
    child: Child,
    command: String,
}

/// How it ended.
#[derive(Debug)]
pub struct FilterExit {
    /// As the system tells it.
    pub status: ExitStatus,
    /// What it was.
    pub command: String,
}

/// Bytes that are gathered before they are written into the pipe.
pub(super) const PIPE_BYTES: usize = 64 << 10;

impl FilterCommand {
    /// Starts a command of the shell.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { child: shell.spawn()?, command: command.to_owned() })
    }

    /// Shows the program what `feed` writes, and `each` what the program writes, both at once: neither pipe can stop
    /// the other, and no more is held than they hold. A program that reads no further ends the feeding, which is no
    /// error.
    ///
    /// # Errors
    /// Of `feed`, of `each`, and when what the program writes has no lines.
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
                    // Nobody reads any more: with its pipe closed the program ends, and with it the feeding.
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

/// What the program reads.
pub struct Pipe {
    out: BufWriter<ChildStdin>,
    is_open: bool,
}

impl Pipe {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        Self { out: BufWriter::with_capacity(PIPE_BYTES, stdin), is_open: true }
    }

    /// Writes a message as a line; false when the program reads no further.
    ///
    /// # Errors
    /// Of the pipe.
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
        // What a closed pipe has not taken is not written again when the writer goes.
        drop(self.out.into_parts());
        Ok(())
    }
}

/// What a program wrote that is no line, if there was any.
pub(crate) fn no_lines(tally: &Tally) -> Option<String> {
    let lost = tally.all_unread().filter(|(reason, _)| reason.is_loss());
    let lost: Vec<_> = lost.map(|(reason, count)| format!("{count} {}", reason.meaning())).collect();
    (!lost.is_empty()).then(|| format!("it wrote what is no line: {}", lost.join(", ")))
}

/// Whether the other end still reads.
fn is_open(written: io::Result<()>) -> Result<bool, FilterError> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(FilterError::Pipe(error)),
    }
}

/// Why a trace did not go through a program.
#[derive(Debug)]
pub enum FilterError {
    /// A pipe, or the program.
    Pipe(io::Error),
    /// What the program wrote.
    Text(TraceError),
    /// Whoever writes the result.
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

    /// Sends so many queries through a program; gives the IDs that come back, and how it ended.
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
        let (ended, _) = started
            .run(feed, |message| {
                ids.push(u16::from_be_bytes([message.bytes[0], message.bytes[1]]));
                Ok(())
            })
            .unwrap();
        (ids, ended)
    }

    #[test]
    fn all_lines_pass_the_filter_in_order() {
        // Far more than both pipes hold.
        let (ids, ended) = through("cat", 30_000);
        assert!(ended.status.success() && ids.iter().copied().eq(0..30_000));
    }

    #[test]
    fn a_filter_may_read_all_input_before_writing() {
        let (ids, ended) = through("sort -k 7,7nr", 20_000);
        assert!(ended.status.success() && ids.iter().copied().eq((0..20_000).rev()));
    }

    #[test]
    fn a_filter_may_exit_early_with_its_exit_code() {
        let (ids, ended) = through("head -n 5", 30_000);
        assert!(ended.status.success() && ids == [0, 1, 2, 3, 4]);
        let (ids, ended) = through("head -n 2; exit 7", 30_000);
        assert_eq!((ids, ended.status.code()), (vec![0, 1], Some(7)));
        let (ids, ended) = through("exec 0<&-; exit 3", 30_000);
        assert_eq!((ids, ended.status.code()), (vec![], Some(3)));
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
        let (ended, reader) = FilterCommand::start("echo nonsense").unwrap().run(|_| Ok(()), |_| Ok(())).unwrap();
        assert!(ended.status.success() && reader.tally().unread(trace::Unread::LineMalformed) == 1);
    }
}
