//! Numbers as people read them.

/// Writes a count with commas between thousands.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number of an axis in few characters: 1500 as `1.5k`, 2000000 as `2M`.
pub(crate) fn short(value: f64) -> String {
    let units = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| value.abs() >= *unit) {
        Some((unit, name)) => format!("{}{name}", decimal(value / unit, 2)),
        None => decimal(value, 3),
    }
}

/// Writes a number with at most so many decimals, without zeros at its end.
pub(crate) fn decimal(value: f64, most: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = format!("{value:.most$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// The step between the ticks of an axis from 0 to `most`, for four to nine ticks.
pub(crate) fn tick(most: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return 1.0;
    }
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!([0.0, 0.25, 1500.0, 2e6, 1.8e19].map(short), ["0", "0.25", "1.5k", "2M", "18E"]);
        assert_eq!([-0.0001, 0.12345, f64::NAN].map(|value| decimal(value, 2)), ["0", "0.12", "–"]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        for most in [1e-3, 0.7, 1.0, 3.0, 99.0, 12_345.0, 1.8e19] {
            let ticks = most / tick(most);
            assert!((2.0..=9.0).contains(&ticks), "{most}: {ticks}");
        }
        assert_eq!([tick(1.0), tick(100.0), tick(0.0), tick(f64::NAN)], [0.2, 20.0, 1.0, 1.0]);
    }
}
