//! Zone files that nobody of this project wrote. They are read from `CATAMARAN_DATA`, or from `../shared/data` beside
//! the workspace; where neither is there, every test here says so and passes without having tested anything.

// Where the files are, and what they are packed in.
mod support;

// Every zone: loaded or refused, beside what the peers say (docs/reference/zone-files.md).
mod zones;

// What is printed, against the prints of others.
mod printed;
mod style;

// What is on the wire, against the bytes of others.
mod wire_text;
mod zonemd;
mod zscanner;

// The same text scanned by the `domain` crate.
mod oracle;
