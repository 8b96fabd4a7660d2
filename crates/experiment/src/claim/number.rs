//! Numbers as text.

/// A number with four significant digits, or all digits of its whole part: `0.9512`, `15,325`, `1.9e-7`.
pub(crate) fn text(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    if size >= 1_000.0 {
        return grouped(value);
    }
    let whole_digits = if size < 1.0 { size.max(1e-4).log10().floor() as i32 + 1 } else { size.log10() as i32 + 1 };
    let text = format!("{value:.*}", usize::try_from(4 - whole_digits).unwrap_or_default());
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// A whole number with digits in groups of three.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let places = digits.chars().enumerate();
    places.fold(sign.to_owned(), |mut text, (place, digit)| {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn numbers_have_four_significant_digits() {
        let shown = [0.0, -0.0, 1.0, 2.11, 0.951_234, 0.001_234_5, 99.24, 999.96, 15_324.57, -1_234_567.0, 1.9e-7]
            .map(text)
            .join(" ");
        assert_eq!(shown, "0 0 1 2.11 0.9512 0.001234 99.24 1000 15,325 -1,234,567 1.900e-7");
    }
}
