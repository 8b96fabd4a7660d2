//! `catlab trace mutate` and `anonymize` as a program: options and rules are equivalent, filter commands work, and keys
//! are created and kept.

use crate::support::Folder;
use crate::support::program::CATLAB;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Exit code and standard error.
/// Adds --force because the output may exist.
fn catlab(words: &[&str]) -> (i32, String) {
    let force = words.contains(&"--out").then_some("--force");
    let output = Command::new(CATLAB).arg("trace").args(words).args(force).output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Queries of ten clients in catlab's text format.
fn trace(folder: &Folder, count: u32) -> String {
    let mut text = "# catlab trace 1\n".to_owned();
    for number in 0..count {
        let (client, qtype) = (number % 10, if number % 3 == 0 { "AAAA" } else { "A" });
        let time = f64::from(number) / 100.0;
        writeln!(
            text,
            "{time:.2} 192.0.2.{client} 4000 198.51.100.53 53 udp {number} QUERY NOERROR rd \
             www{number}.Example.com. IN {qtype} - -"
        )
        .unwrap();
    }
    let path = folder.path().join("in.txt");
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// The lines of a trace, each as its columns.
fn columns(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn path_of(folder: &Folder, name: &str) -> String {
    folder.path().join(name).to_string_lossy().into_owned()
}

#[test]
fn options_and_rules_have_the_same_effect() {
    let folder = Folder::new("mutate-same");
    let input = trace(&folder, 300);
    let rules = path_of(&folder, "rules.toml");
    std::fs::write(
        &rules,
        r#"
        seed = 7
        speed = 4
        shift = -0.25
        [[rule]]
        when = { kind = "query", type = "A", from = 0.5, until = 2.5 }
        keep = true
        [[rule]]
        share = 0.5
        keep = true
        [[rule]]
        suffix = { from = "example.com", to = "lab.test" }
        [[rule]]
        transport = { tcp = 0.5 }
        client = { prefix = "10.0.0.0/16", count = 3 }
        name = "q{n}.{name}"
        rd = false
        do = 1
        add_options = ["nsid"]
        id = "count"
        "#,
    )
    .unwrap();
    let (one, other) = (folder.path().join("one.txt"), folder.path().join("other.txt"));
    let (code, printed) = catlab(&["mutate", &input, "--rules", &rules, "--out", &one.to_string_lossy()]);
    assert_eq!(code, 0, "{printed}");
    let mut words = vec!["mutate", &input, "--seed", "7", "--speed", "4", "--shift", "-0.25", "--queries"];
    words.extend(["--only-type", "A", "--from", "0.5", "--until", "2.5", "--sample", "0.5"]);
    words.extend(["--suffix", "example.com=lab.test", "--transport", "tcp=0.5", "--clients", "3"]);
    words.extend(["--client-prefix", "10.0.0.0/16", "--unique", "--rd", "off", "--do", "1", "--add-option", "nsid"]);
    let out = other.to_string_lossy();
    words.extend(["--id", "count", "--out", &out]);
    let (code, printed) = catlab(&words);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(std::fs::read_to_string(&one).unwrap(), std::fs::read_to_string(&other).unwrap());
    let lines = columns(&one);
    assert!(!lines.is_empty() && printed.contains(&format!("{} of 300 messages kept", lines.len())), "{printed}");
    for line in lines {
        let number = &line[6];
        assert_eq!(line[10], format!("q{number}.www{number}.lab.test."));
        assert!(line[1].starts_with("10.0.0.") && line[12] == "A" && line[13] == "1232,do", "{line:?}");
        let time: f64 = line[0].parse().unwrap();
        let expected = number.parse::<f64>().unwrap() / 400.0 - 0.25;
        // Times that would be before 1970 become 0.
        assert!((time - expected.max(0.0)).abs() < 1e-6, "{line:?}");
    }
}

#[test]
fn all_messages_pass_through_a_filter_command() {
    let folder = Folder::new("mutate-through");
    let input = trace(&folder, 20_000);
    let out = path_of(&folder, "out.txt");
    let awk = "awk '{ if ($13 == \"AAAA\") { $13 = \"MX\"; $15 = \"-\" } print }'";
    let (code, printed) = catlab(&["mutate", &input, "--id", "7", "--filter-command", awk, "--out", &out]);
    assert_eq!(code, 0, "{printed}");
    let lines = columns(Path::new(&out));
    assert_eq!(lines.len(), 20_000);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!((line[10].as_str(), line[6].as_str()), (format!("www{number}.Example.com.").as_str(), "7"));
        assert_eq!(line[12], if number % 3 == 0 { "MX" } else { "A" });
    }
}

#[test]
fn a_failing_program_is_reported_with_its_exit_code_and_its_output_is_kept() {
    let folder = Folder::new("mutate-fails");
    let input = trace(&folder, 20_000);
    let out = path_of(&folder, "out.txt");
    let (code, printed) = catlab(&["mutate", &input, "--filter-command", "head -n 3; exit 9", "--out", &out]);
    assert_eq!((code, columns(Path::new(&out)).len()), (1, 3), "{printed}");
    assert!(printed.contains("exit code 9"), "{printed}");
    let (code, printed) = catlab(&["mutate", &input, "--filter-command", "no-such-program-anywhere", "--out", &out]);
    assert!(code == 1 && printed.contains("exit code 127"), "{code} {printed}");
    let (code, printed) =
        catlab(&["mutate", &input, "--filter-command", "head -n 2 | tr a-z ' '; echo x", "--out", &out]);
    assert!(code == 0 && printed.contains("lost: 3"), "{code} {printed}");
}

#[test]
fn invalid_options_are_refused_with_a_reason() {
    let folder = Folder::new("mutate-wrong");
    let input = trace(&folder, 1);
    let out = path_of(&folder, "out.txt");
    let rules = path_of(&folder, "rules.toml");
    std::fs::write(&rules, "[[rule]]\nrd = true\ntyp = \"A\"\n").unwrap();
    for (words, reason) in [
        (vec!["--rules", rules.as_str()], "unknown field `typ`"),
        (vec!["--transport", "tcp=0.7,dot=0.7"], "add up to more than 1"),
        (vec!["--speed", "0"], "the speed must be above 0"),
        (vec!["--clients", "100", "--client-prefix", "10.0.0.0/30"], "more than the prefix has"),
        (vec!["--name", "a..b"], "does not give a name"),
        (vec!["--add-option", "cookie=00"], "a client cookie has 8 bytes"),
        (vec!["--unique", "--name", "a.b"], "cannot be used with"),
    ] {
        let all: Vec<&str> = ["mutate", &input, "--out", &out].into_iter().chain(words.iter().copied()).collect();
        let (code, printed) = catlab(&all);
        assert!(code == 2 && printed.contains(reason), "{words:?}: {code} {printed}");
    }
}

#[test]
fn a_key_is_created_once_and_gives_the_same_pseudonyms_again() {
    let folder = Folder::new("anonymize");
    let input = trace(&folder, 100);
    let key = path_of(&folder, "trace.key");
    let anonymized = |name: &str, more: &[&str]| {
        let out = path_of(&folder, name);
        let all: Vec<&str> =
            ["anonymize", &input, "--key", &key, "--out", &out].into_iter().chain(more.iter().copied()).collect();
        let (code, printed) = catlab(&all);
        assert_eq!(code, 0, "{printed}");
        assert!(printed.contains("100 of 100 messages kept"), "{printed}");
        (columns(Path::new(&out)), printed)
    };
    let (first, printed) = anonymized("first.txt", &[]);
    assert!(printed.contains("trace.key: created"), "{printed}");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let (second, printed) = anonymized("second.txt", &[]);
    assert!(first == second && !printed.contains("created"), "{printed}");
    let suffixes = path_of(&folder, "suffixes.txt");
    std::fs::write(&suffixes, "# top\ncom\n\nnet # too\n").unwrap();
    let (kept, _) = anonymized("kept.txt", &["--keep-suffixes", &suffixes, "--lengths", "hide"]);
    for (number, (plain, kept)) in first.iter().zip(&kept).enumerate() {
        let www = format!("www{number}");
        let labels: Vec<&str> = plain[10].split('.').collect();
        assert_eq!(labels.iter().map(|label| label.len()).collect::<Vec<_>>(), [www.len(), 7, 3, 0]);
        assert!(labels[1] != "example" && labels[2] != "com" && !plain[1].starts_with("192.0.2."), "{plain:?}");
        let hidden: Vec<&str> = kept[10].split('.').collect();
        assert_eq!((hidden[0].len(), hidden[1].len(), hidden[2]), (13, 13, "com"));
        // Everything but names and addresses stays.
        assert_eq!((&plain[0], &plain[2], &plain[6], &plain[12]), (&kept[0], &kept[2], &number.to_string(), &kept[12]));
        assert_eq!(plain[1], kept[1]);
    }
    std::fs::write(&key, "0011").unwrap();
    let (code, printed) = catlab(&["anonymize", &input, "--key", &key, "--out", &path_of(&folder, "no.txt")]);
    assert!(code == 2 && printed.contains("not a key: write 64 hexadecimal digits"), "{printed}");
}

#[test]
fn changed_traces_can_be_cut_and_merged() {
    let folder = Folder::new("changed-cut");
    let input = trace(&folder, 50);
    let [one, other, both, cut] =
        ["one.pcap", "other.pcap.gz", "both.txt", "cut.pcap"].map(|name| path_of(&folder, name));
    let key = path_of(&folder, "trace.key");
    for words in [
        &["mutate", &input, "--transport", "tcp", "--out", &one][..],
        &["anonymize", &input, "--key", &key, "--out", &other],
        &["merge", &one, &other, "--out", &both],
        &["cut", &both, "--queries", "--from", "0.1", "--until", "0.2", "--out", &cut],
    ] {
        let (code, printed) = catlab(words);
        assert_eq!(code, 0, "{words:?}: {printed}");
    }
    let transports: Vec<String> = columns(Path::new(&both)).into_iter().map(|mut line| line.swap_remove(5)).collect();
    assert_eq!(transports.iter().filter(|transport| *transport == "tcp").count(), 50);
    assert_eq!(transports.len(), 100);
    let again = path_of(&folder, "again.txt");
    assert_eq!(catlab(&["convert", &cut, "--out", &again]).0, 0);
    assert_eq!(columns(Path::new(&again)).len(), 20);
}

#[test]
fn a_capture_that_could_hold_no_message_is_refused() {
    let folder = Folder::new("mutate-dot");
    let (input, out) = (trace(&folder, 20), path_of(&folder, "out.pcap"));
    let (code, text) = catlab(&["mutate", &input, "--transport", "dot", "--out", &out]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("all 20 messages would be left out: a capture holds UDP and TCP only"), "{text}");
    assert!(!Path::new(&out).exists());
    // Messages over DoT are left out and counted; the others are in the file.
    let (code, text) = catlab(&["mutate", &input, "--transport", "dot=0.5", "--by", "query", "--out", &out]);
    assert!(code == 0 && text.contains("messages are left out: a capture holds UDP and TCP only"), "{text}");
    assert!(Path::new(&out).exists());
}

#[test]
fn traces_can_be_cut_by_client() {
    let folder = Folder::new("cut-clients");
    let (input, out) = (trace(&folder, 100), path_of(&folder, "out.txt"));
    let clients = ["--client", "192.0.2.1,192.0.2.8/31", "--out", &out];
    let (code, text) = catlab(&[&["cut", &input][..], &clients].concat());
    assert_eq!(code, 0, "{text}");
    let found: std::collections::BTreeSet<_> =
        columns(Path::new(&out)).into_iter().map(|columns| columns[1].clone()).collect();
    assert_eq!(found, ["192.0.2.1", "192.0.2.8", "192.0.2.9"].map(str::to_owned).into());
    assert_eq!(columns(Path::new(&out)).len(), 30);
}

#[test]
fn messages_that_are_not_dns_are_counted_and_not_converted() {
    let folder = Folder::new("zeek-ports");
    let (log, out) = (path_of(&folder, "dns.log"), path_of(&folder, "out.txt"));
    let mut lines =
        "#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttrans_id\tquery\tqtype\n".to_owned();
    for port in [53, 5353, 137, 5353] {
        writeln!(lines, "1600000000.5\t192.0.2.1\t4000\t198.51.100.1\t{port}\tudp\t7\twww.example\t1").unwrap();
    }
    std::fs::write(&log, lines).unwrap();
    let (code, text) = catlab(&["convert", &log, "--out", &out]);
    assert_eq!((code, columns(Path::new(&out)).len()), (0, 1), "{text}");
    assert!(text.contains("not DNS: 2 mDNS") && text.contains("not DNS: 1 NetBIOS"), "{text}");
    let (code, text) = catlab(&["convert", &log, "--port", "5353", "--out", &out]);
    assert_eq!((code, columns(Path::new(&out)).len()), (0, 2), "{text}");
}
