//! How long scanning takes: `cargo run --release -p catamaran-zone --example scan_speed [FILE]`, without a file a
//! zone of one million A records.
#![expect(clippy::disallowed_methods, reason = "an example is a shell: it has files and a clock")]

use catamaran_zone::file::{LoadOptions, Slice, load};
use std::fmt::Write;
use std::time::Instant;

fn main() {
    let bytes = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path).expect("the file can be read"),
        None => million().into_bytes(),
    };
    let (len, mut source) = (bytes.len(), Slice::new(bytes));
    for _ in 0..5 {
        let start = Instant::now();
        match load(&mut source, None, &LoadOptions::default()) {
            Ok(loaded) => {
                let (count, time) = (loaded.records.len(), start.elapsed());
                println!(
                    "{count} records, {len} bytes: {time:?}, {:.0} ns a record",
                    time.as_nanos() as f64 / count as f64
                );
            }
            Err(errors) => println!("{errors}"),
        }
    }
}

fn million() -> String {
    let mut zone = String::from("$ORIGIN example.\n$TTL 1h\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n");
    for number in 0..1_000_000u32 {
        let [_, b, c, d] = number.to_be_bytes();
        writeln!(zone, "name-{number} 3600 IN A 10.{b}.{c}.{d}").expect("memory");
    }
    zone
}
