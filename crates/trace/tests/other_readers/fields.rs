//! The fields that a reader reports about a message.

/// The compared fields, in the order of [`MessageFields::fields`].
pub(crate) const FIELDS: [&str; 20] = [
    "time", "opcode", "AA", "TC", "RD", "RA", "AD", "CD", "RCODE", "QD", "AN", "NS", "AR", "name", "type", "class",
    "EDNS", "size", "version", "DO",
];

/// Index of a field.
pub(crate) fn field(name: &str) -> usize {
    FIELDS.iter().position(|field| *field == name).unwrap()
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct MessageFields {
    /// Transport, addresses, ports, ID and QR. They match the messages of two readers.
    pub(crate) key: String,
    /// `None`: the reader does not report the field. [`NONE`]: the message does not have it.
    pub(crate) fields: [Option<String>; FIELDS.len()],
    /// Whether the reader reports the message as malformed.
    pub(crate) is_malformed: bool,
}

/// Value of a field that the message does not have.
pub(crate) const NONE: &str = "none";

impl MessageFields {
    pub(crate) fn new(key: String) -> Self {
        Self { key, fields: Default::default(), is_malformed: false }
    }

    /// Removes fractions of seconds, for readers that do not report them.
    pub(crate) fn drop_parts_of_seconds(&mut self) {
        let time = self.fields[field("time")].as_mut().unwrap();
        *time = (time.parse::<u64>().unwrap() / 1_000_000_000).to_string();
    }

    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.fields[field(name)] = Some(value.to_string());
    }

    /// Sets a field unless it is set: the first of several questions counts.
    pub(crate) fn set_first(&mut self, name: &str, value: impl ToString) {
        self.fields[field(name)].get_or_insert_with(|| value.to_string());
    }
}
