//! The traces of the bench: those of Table 1 of the LDplayer paper, and one like a root server's.

/// A trace of the bench.
pub(crate) struct Shape {
    /// Its name on the command line.
    pub(crate) label: &'static str,
    pub(crate) name: &'static str,
    /// Options of `catlab trace synth`.
    pub(crate) synth: &'static [&'static str],
    /// The transport of all queries, if the trace does not set it.
    pub(crate) transport: Option<&'static str>,
    /// Whether the pacing budgets apply to it.
    pub(crate) has_budget: bool,
}

const fn even(label: &'static str, name: &'static str, synth: &'static [&'static str], has_budget: bool) -> Shape {
    Shape { label, name, synth, transport: None, has_budget }
}

/// A thousand queries per second from a hundred clients, each with one persistent connection.
const fn over(label: &'static str, name: &'static str) -> Shape {
    let synth = &["--interval", "1ms", "--clients", "100"];
    Shape { label, name, synth, transport: Some(label), has_budget: false }
}

/// All traces.
pub(crate) static SHAPES: [Shape; 11] = [
    even("syn-0", "syn-0, every 1 s", &["--like", "syn-0"], false),
    even("syn-1", "syn-1, every 100 ms", &["--like", "syn-1"], false),
    even("syn-2", "syn-2, every 10 ms", &["--like", "syn-2"], false),
    even("syn-3", "syn-3, every 1 ms", &["--like", "syn-3"], true),
    even("syn-4", "syn-4, every 100 us", &["--like", "syn-4"], true),
    even("20us", "every 20 us", &["--interval", "20us"], true),
    even("b-root", "b-root, 38,000 a second of a million clients, 3 % TCP", &["--like", "b-root"], false),
    over("tcp", "TCP, every 1 ms"),
    over("dot", "TLS, every 1 ms"),
    over("doh", "HTTPS, every 1 ms"),
    over("doq", "QUIC, every 1 ms"),
];

/// The names of the traces on the command line.
pub(crate) fn labels() -> Vec<&'static str> {
    SHAPES.iter().map(|shape| shape.label).collect()
}
