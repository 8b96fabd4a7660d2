//! Input for zone files. The caller opens and decompresses files.

/// Opens files by name.
pub trait Source {
    /// Opens the zone file (`name` is `None`), or a file named by `$INCLUDE` in the file `from`.
    ///
    /// # Errors
    /// The reason, which becomes part of an error with file and line of the `$INCLUDE`.
    fn open(&mut self, name: Option<&str>, from: Option<&str>) -> Result<Opened, String>;
}

/// An open file.
pub struct Opened {
    /// The name of the file in errors.
    pub name: String,
    /// Its bytes.
    pub input: Box<dyn Input>,
}

/// A stream of bytes.
pub trait Input {
    /// Fills the start of `buffer`, and returns the number of bytes; 0 at the end.
    ///
    /// # Errors
    /// The reason in words.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String>;

    /// Number of remaining bytes; 0 if unknown.
    fn bytes_left(&self) -> usize {
        0
    }
}

/// Bytes in memory as input, and as a source without other files.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: Vec<u8>,
    at: usize,
}

impl Slice {
    /// An input of these bytes.
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
