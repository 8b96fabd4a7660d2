//! Golden files: cases of a name, bytes and an outcome; and how long property tests run.

use proptest::test_runner::Config;
use std::{env, fs, path::Path};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Runs every case of `tests/golden/FILE` through `outcome` and compares. Rewrites the file on demand.
pub(crate) fn check_golden(file: &str, outcome: impl Fn(&str, &[u8]) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (mut now, mut cases, mut case) = (String::new(), 0, Vec::new());
    for line in text.lines() {
        if line.starts_with('#') || line.is_empty() {
            assert!(case.is_empty(), "a case is not complete before {line:?}");
            now.push_str(line);
            now.push('\n');
            continue;
        }
        case.push(line);
        if let [name, bytes, _] = case[..] {
            now.push_str(&format!("{name}\n{bytes}\n  {}\n", outcome(name, &hex(bytes))));
            cases += 1;
            case.clear();
        }
    }
    assert!(case.is_empty() && cases > 20, "{file}: {cases} cases");
    if env::var_os("CATAMARAN_REWRITE").is_some() {
        fs::write(&path, now).unwrap();
        return;
    }
    for (number, (was, is)) in text.lines().zip(now.lines()).enumerate() {
        assert_eq!(was, is, "{file}:{}", number + 1);
    }
    assert_eq!(text.len(), now.len(), "{file}");
}

/// This number of cases, or the number in `PROPTEST_CASES`.
pub(crate) fn config(cases: u32) -> Config {
    let cases = env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    Config { cases, failure_persistence: None, ..Config::default() }
}
