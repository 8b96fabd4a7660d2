//! Where the bytes of zone files come from: whoever calls opens files and decompresses them.

/// Opens files by name.
pub trait Source {
    /// Opens the zone file (`name` is `None`) or a file that `$INCLUDE` names; `from` is what the including file is
    /// called.
    ///
    /// # Errors
    /// The reason in words; it becomes part of an error that names file and line of the `$INCLUDE`.
    fn open(&mut self, name: Option<&str>, from: Option<&str>) -> Result<Opened, String>;
}

/// A file that was opened.
pub struct Opened {
    /// What errors call it.
    pub name: String,
    /// Its bytes.
    pub input: Box<dyn Input>,
}

/// Bytes, one piece after the other.
pub trait Input {
    /// Fills the front of `buffer` and says how much of it; 0 at the end.
    ///
    /// # Errors
    /// The reason in words.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String>;

    /// How many bytes there are still; 0 where that is not known.
    fn bytes_left(&self) -> usize {
        0
    }
}

/// Bytes in memory as input, and as a source that has no other file.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: Vec<u8>,
    at: usize,
}

impl Slice {
    /// All of `bytes`.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Input for Slice {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }

    fn bytes_left(&self) -> usize {
        self.bytes.len() - self.at
    }
}

impl Source for Slice {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        match name {
            None => Ok(Opened { name: "zone".into(), input: Box::new(self.clone()) }),
            Some(_) => Err("there are no files here".into()),
        }
    }
}
