//! Scans a zone file, checks it, prints what is served: `print_zone FILE [ORIGIN]`. `--unchecked` before leaves
//! checking out.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example is a shell: it has files and a clock"
)]

use catamaran_zone::check::check;
use catamaran_zone::file::{Input, LoadOptions, Opened, Source, load};
use catamaran_zone::text::print_record;
use std::io::Read;
use std::time::Instant;

struct Files(String);

struct File(std::fs::File);

impl Input for File {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        self.0.read(buffer).map_err(|error| error.to_string())
    }
}

impl Source for Files {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        let path = name.unwrap_or(&self.0).to_owned();
        let file = std::fs::File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(Opened { name: path, input: Box::new(File(file)) })
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_unchecked = arguments.first().is_some_and(|argument| argument == "--unchecked");
    arguments.drain(..usize::from(is_unchecked));
    let origin = arguments.get(1).map(|origin| origin.parse().expect("a name"));
    let start = Instant::now();
    let loaded = match load(&mut Files(arguments[0].clone()), origin.as_ref(), &LoadOptions::default()) {
        Ok(loaded) => loaded,
        Err(errors) => {
            errors.all().iter().for_each(|error| eprintln!("error: {error}"));
            std::process::exit(1);
        }
    };
    let scanned = start.elapsed();
    let records = if is_unchecked {
        loaded.records
    } else {
        match check(loaded) {
            Ok(checked) => {
                checked.findings.warnings().iter().take(30).for_each(|finding| eprintln!("warning: {finding}"));
                checked.records
            }
            Err(findings) => {
                findings.errors().iter().for_each(|finding| eprintln!("error: {finding}"));
                std::process::exit(1);
            }
        }
    };
    eprintln!("{} records, scanned in {scanned:?}, checked in {:?}", records.len(), start.elapsed() - scanned);
    let mut text = String::new();
    for record in records.iter() {
        print_record(record, &mut text);
        text.push('\n');
    }
    print!("{text}");
}
