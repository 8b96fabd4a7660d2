//! Detection of formats.

use std::path::PathBuf;
use trace::{Format, Options, Tally, Transport, UnreadReason, open};

/// A temporary file.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catamaran-trace-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A leftover temporary file does no harm.
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Returns the detected format, each message as text, and the tally.
fn read(file: &File) -> (Format, Vec<String>, Tally) {
    let mut reader = open(&file.0, &Options::default()).unwrap();
    let mut lines = Vec::new();
    while let Some(message) = reader.next().unwrap() {
        let mut line = Vec::new();
        trace::write_line(&message, &mut line).unwrap();
        lines.push(String::from_utf8(line).unwrap().trim_end().to_owned());
    }
    (reader.format(), lines, reader.tally().clone())
}

const ZEEK_JSON: &str = concat!(
    r#"{"ts":1521911721.255387,"uid":"C8","id.orig_h":"10.164.94.120","id.orig_p":39681,"id.resp_h":"10.47.3.155","#,
    r#""id.resp_p":53,"proto":"udp","trans_id":1,"query":"a.b","qclass":1,"qclass_name":"C_INTERNET","qtype":28,"#,
    r#""RD":true}"#,
    "\n",
    r#"{"ts":1521911722.5,"id.orig_h":"2001:db8::1","id.orig_p":4000,"id.resp_h":"2001:db8::53","id.resp_p":53,"#,
    r#""proto":"tcp","trans_id":2,"query":"","qtype":2,"RD":false}"#,
    "\n",
    r#"{"ts":1521911723.5,"id.orig_h":"10.0.0.1","id.orig_p":4000,"id.resp_h":"10.0.0.2","id.resp_p":53,"#,
    r#""proto":"udp","trans_id":3,"rcode":0}"#,
    "\n",
    r#"{"ts":1521911724.5,"id.orig_h":"10.0.0.1"}"#,
    "\n{\"ts\":\n",
);

const ZEEK_TABS: &str = "#separator \\x09\n\
    #fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttrans_id\tquery\tqclass\tqtype\tRD\n\
    1521911721.255387\t10.164.94.120\t39681\t10.47.3.155\t53\tudp\t1\ta.b\t1\t28\tT\n\
    1521911722.500000\t2001:db8::1\t4000\t2001:db8::53\t53\ttcp\t2\t\t-\t2\tF\n\
    1521911723.500000\t10.0.0.1\t4000\t10.0.0.2\t53\tudp\t3\t-\t-\t-\tF\n";

#[test]
fn zeek_logs_in_json_equal_those_with_tabs() {
    let (format, lines, tally) = read(&File::new("zeek.json", ZEEK_JSON));
    let (_, tabs, _) = read(&File::new("dns.log", ZEEK_TABS));
    assert_eq!((format, &lines), (Format::Zeek, &tabs));
    assert!(lines.len() == 2 && lines[0].starts_with("1521911721.255387000 10.164.94.120 39681 "), "{lines:?}");
    assert_eq!(
        (tally.records, tally.unread(UnreadReason::NoMessage), tally.unread(UnreadReason::LineMalformed)),
        (5, 1, 2)
    );
}

/// Unknown files are errors, not empty traces.
#[test]
fn json_of_another_kind_is_refused_with_what_was_expected() {
    for text in
        ["{}", "{\"a\":1}", "{\"ts\":1}\n{\"ts\":2}\n", "{\"example.\": {\"queries\": 1}}", "{\"a\": {\"b\": []}}"]
    {
        let file = File::new("other.json", text);
        let Err(error) = open(&file.0, &Options::default()) else { panic!("{text} is read") };
        let error = error.to_string();
        assert!(
            error.contains("DNSViz") && error.contains("dns.log") && error.contains("id.orig_h"),
            "{text}: {error}"
        );
    }
    // A zone without queries, and metadata of DNSViz.
    for text in ["{\"example.\": {\"queries\": []}}", "{\"_meta._dnsviz.\": {\"version\": 1.2}}"] {
        assert_eq!(read(&File::new("dnsviz.json", text)).0, Format::Dnsviz);
    }
}

#[test]
fn fsdb_columns_follow_the_header_line() {
    let text = "#fsdb -F t protocol time qtype qname qclass src_ip answer\n\
        # a comment\n\
        tls\t1600000000.5\tA\twww.example.com.\tIN\t192.0.2.1\tnone\n\
        UDP\t1600000000.700000001\tAAAA\twww2.example.com\tCH\t2001:db8::1\t-\n\
        tcp\t1600000001\tTYPE65\t.\tIN\t192.0.2.2\t-\n\
        sctp\t1600000001\tA\t.\tIN\t192.0.2.2\t-\n\
        udp\tyesterday\tA\t.\tIN\t192.0.2.2\t-\n\
        udp\t1600000001\tA\ta..b\tIN\t192.0.2.2\t-\n\
        udp\t1600000001\n";
    let (format, lines, tally) = read(&File::new("trace.fsdb", text));
    let columns = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = lines.iter().map(columns).map(|line| [&line[..6], &line[10..13]].concat().join(" ")).collect();
    assert_eq!(format, Format::Fsdb);
    assert_eq!(
        lines,
        [
            "1600000000.500000000 192.0.2.1 0 0.0.0.0 53 dot www.example.com. IN A",
            "1600000000.700000001 2001:db8::1 0 :: 53 udp www2.example.com. CH AAAA",
            "1600000001.000000000 192.0.2.2 0 0.0.0.0 53 tcp . IN HTTPS",
        ]
    );
    assert_eq!("tls".parse(), Ok(Transport::Dot));
    let unread = [UnreadReason::OtherProtocol, UnreadReason::LineMalformed, UnreadReason::NotSendable]
        .map(|reason| tally.unread(reason));
    assert_eq!((tally.records, unread), (7, [1, 2, 1]));
    // A required column is missing.
    let file = File::new("short.fsdb", "#fsdb time src_ip qname qclass qtype\n1 192.0.2.1 . IN A\n");
    let error = open(&file.0, &Options::default()).unwrap().next().unwrap_err().to_string();
    assert_eq!(error, "fsdb: at 1: no column protocol");
}
