//! Verdicts over made-up cells.

use super::*;
use crate::definition::{Claim, Experiment, Value};
use crate::results::{Cell, CellResult, Outcome};
use std::collections::BTreeMap;

/// Two parameters with several values, one with a single value.
fn experiment() -> Experiment {
    let text = "title = 't'\nsource = 's'\nquestion = 'q'\n\
                [matrix]\nserver = ['ours', 'bind']\ncpu = [0.5, 1.0]\nzone = ['root']\n";
    toml::from_str(text).unwrap()
}

/// Ours answers 1000, 1100, 1200 per second and CPU. BIND answers 100 less.
fn cells() -> Vec<CellResult> {
    let mut cells = Vec::new();
    for (server, cpu) in [("ours", "0.5"), ("ours", "1"), ("bind", "0.5"), ("bind", "1")] {
        for repeat in 0..3 {
            let rate = (1_000.0 + 100.0 * f64::from(repeat)) * cpu.parse::<f64>().unwrap();
            let rate = if server == "bind" { rate - 100.0 } else { rate };
            let parameters = [("server", server), ("cpu", cpu), ("zone", "root")];
            let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            cells.push(CellResult {
                cell: Cell { parameters, repeat },
                outcome: Outcome::Measured,
                figures: BTreeMap::from([
                    ("rate".into(), rate),
                    ("main.latency_us.p99".into(), 5.0),
                    ("none".into(), 0.0),
                ]),
                commands: Vec::new(),
                servers: Vec::new(),
                runs: BTreeMap::new(),
                events: Vec::new(),
            });
        }
    }
    cells
}

fn claim(value: &str, want: &str, paper: Option<f64>) -> Claim {
    let (text, not_comparable) = ("a claim".into(), None);
    Claim { text, value: value.into(), paper, not_comparable, want: want.into(), unit: String::new() }
}

fn judged_with(value: &str, want: &str, paper: Option<f64>, cells: &[CellResult]) -> Result<Judgement, String> {
    let claim = claim(value, want, paper);
    judge(&claim, &experiment(), cells)
}

/// The verdict, the value and the reasons.
fn judged(value: &str, want: &str, paper: Option<f64>) -> String {
    let Judgement { verdict, here, reasons, .. } = judged_with(value, want, paper, &cells()).unwrap();
    let here = here.map_or_else(|| "-".into(), number::text);
    format!("{}, {here}, {}", verdict.text(), reasons.join("; ")).trim_end_matches(", ").to_owned()
}

const RATE: &str = "rate[server=ours, cpu=1]";

#[test]
fn a_value_that_the_source_did_not_measure_is_not_ahead() {
    for (want, expected) in [(">= 1000", Verdict::NotComparable), (">= 1201", Verdict::Differs)] {
        let claim = Claim { not_comparable: Some("other queries".into()), ..claim(RATE, want, Some(990.0)) };
        let judged = judge(&claim, &experiment(), &cells()).unwrap();
        assert_eq!(judged.verdict, expected);
        assert_eq!(judged.reasons == ["other queries"], expected == Verdict::NotComparable, "{:?}", judged.reasons);
    }
}

#[test]
fn each_verdict_follows_from_the_interval() {
    let cases = [
        (">= 1000", None, "holds, 1,100"),
        (">= 1000", Some(1_050.0), "holds, 1,100"),
        (">= 1000", Some(990.0), "ahead, 1,100"),
        ("> 1000", None, "undecided, 1,100, 1,000 to 1,200, range of 3 repeats is partly outside the wanted > 1000"),
        ("<= 1200", Some(1_300.0), "ahead, 1,100"),
        ("<= 1200", Some(1_200.0), "holds, 1,100"),
        ("< 1000", None, "differs, 1,100, 1,000 to 1,200, range of 3 repeats is above the wanted < 1000"),
        (">= 1201", None, "differs, 1,100, 1,000 to 1,200, range of 3 repeats is below the wanted >= 1201"),
        ("900..1200", Some(800.0), "holds, 1,100"),
        (
            "900..1150",
            None,
            "undecided, 1,100, 1,000 to 1,200, range of 3 repeats is partly outside the wanted 900..1150",
        ),
        ("1300..1400", None, "differs, 1,100, 1,000 to 1,200, range of 3 repeats is below the wanted 1300..1400"),
    ];
    for (want, paper, expected) in cases {
        assert_eq!(judged(RATE, want, paper), expected, "{want}");
    }
}

#[test]
fn ratios_are_paired_by_repeat() {
    // The rates of ours vary by 20 %. Their ratio does not vary.
    assert_eq!(judged("rate[cpu=1,server=ours] / rate[cpu=0.50, server = \"ours\"]", "2..2", None), "holds, 2");
    assert_eq!(judged("rate[server=ours,cpu=1] - rate[server=bind,cpu=1]", "100..100", None), "holds, 100");
}

#[test]
fn expressions_have_the_usual_order_of_operations() {
    for (value, expected) in [
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("10 - 4 - 3", "3"),
        ("24 / 4 / 2", "3"),
        ("-(1 + 2) * -3", "9"),
        ("1.5e3*2", "3,000"),
        ("1e-3 + 1", "1.001"),
        ("main.latency_us.p99[server=bind,cpu=1,zone=root]*2", "10"),
    ] {
        assert_eq!(judged(value, "> -1", None), format!("holds, {expected}"), "{value}");
    }
}

#[test]
fn wrong_claims_are_refused_with_the_column() {
    let cases = [
        ("rate[cpu=1", "column 11: the expression ends here; write `]`"),
        ("rate[cpu=1, server=ours] /", "column 27: the expression ends here; write a number, a figure or `(`"),
        ("(1 + 2", "column 7: the expression ends here; write `)`"),
        ("1 + 2)", "column 6: this `)` has no `(`"),
        ("1 2", "column 3: found `2`; write an operator"),
        ("2 * %", "column 5: found `%`; write a number"),
        ("1.2.3", "column 1: `1.2.3` is not a number"),
        ("rate[cpu]", "column 9: `cpu` has no value; write PARAMETER=VALUE"),
        ("rate[cpu=,server=ours]", "column 10: the value of `cpu` is missing"),
        ("rate[=1]", "column 6: the name of a parameter is missing"),
        ("rate[cpu='1]", "column 13: the expression ends here; write `'`"),
        ("1 + rate[cpu=1]", "column 5: rate: selects more than one cell; also name server (ours, bind)"),
        ("rate", "selects more than one cell; also name cpu (0.5, 1) and server (ours, bind)"),
        ("rate[core=1]", "column 1: rate: there is no parameter `core`; parameters: cpu, server, zone"),
        ("rate[cpu=1,cpu=2]", "column 1: rate: the parameter `cpu` is named twice"),
    ];
    for (value, expected) in cases {
        let error = judged_with(value, ">= 0", None, &cells()).unwrap_err();
        assert!(error.contains(expected) && error.contains("\"a claim\""), "{value}: {error}");
    }
    for want in ["", "1", "=> 1", "1..", "2..1", ">= x", "> inf"] {
        let error = judged_with("1", want, None, &cells()).unwrap_err();
        assert!(error.contains("want: "), "{error}");
    }
    let deep = "(".repeat(100_000);
    assert!(judged_with(&deep, ">= 0", None, &cells()).unwrap_err().contains("more than 32 parentheses"));
}

#[test]
fn a_cell_without_a_figure_is_named_with_its_reason() {
    let judged = |cells: &[CellResult]| {
        let found = judged_with(RATE, ">= 0", Some(1.0), cells).unwrap();
        assert_eq!((found.verdict, found.here, found.interval), (Verdict::NotMeasured, None, None));
        found.reasons
    };
    let mut cells = cells();
    cells[3].outcome = Outcome::Invalid(vec!["send lag".into(), "drops".into()]);
    assert_eq!(
        judged(&cells),
        [
            "cpu=1, server=ours, zone=root, repeat 1: INVALID: send lag; drops",
            "the other 2 repeats give 1,100 to 1,200"
        ]
    );
    cells[4].outcome = Outcome::Failed(vec!["dns did not start".into()]);
    cells[5].outcome = Outcome::Failed(vec!["dns did not start".into()]);
    assert_eq!(judged(&cells)[1], "cpu=1, server=ours, zone=root, repeats 2, 3: failed: dns did not start");
    cells.drain(3..6);
    assert_eq!(judged(&cells), ["cpu=1, server=ours, zone=root, repeats 1, 2, 3: was not run"]);
}

#[test]
fn a_missing_figure_or_value_is_not_measured() {
    assert_eq!(
        judged("rates[cpu=1,server=ours]", ">= 0", None),
        "not measured, -, cpu=1, server=ours, zone=root, repeats 1, 2, 3: has no figure `rates`"
    );
    assert_eq!(
        judged("rate[cpu=4,server=ours] + rate[cpu=1,server=ours]", ">= 0", None),
        "not measured, -, cpu=4 is not part of this run"
    );
    assert_eq!(
        judged("rate[cpu=1,server=ours] / none[cpu=1,server=ours] * 0", ">= 0", None),
        "not measured, -, repeat 1: the value is not finite, from rate 1,000, none 0; \
         repeat 2: the value is not finite, from rate 1,100, none 0; \
         repeat 3: the value is not finite, from rate 1,200, none 0"
    );
    assert_eq!(Value("1".into()), experiment().matrix["cpu"][1]);
}
