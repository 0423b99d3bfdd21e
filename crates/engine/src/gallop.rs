//! Search in sorted values for a place that is near the first one.

/// How many values at the start of `sorted` are `below`, those below coming first; in time that grows with the
/// logarithm of that number.
#[inline]
pub fn gallop<T>(sorted: &[T], below: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while sorted.get(step - 1).is_some_and(&below) {
        step *= 2;
    }
    let (low, high) = (step / 2, sorted.len().min(step));
    low + sorted[low..high].partition_point(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_binary_search() {
        for count in 0..40 {
            let sorted: Vec<u32> = (0..count).collect();
            for bound in 0..=count + 1 {
                assert_eq!(gallop(&sorted, |&value| value < bound), bound.min(count) as usize, "{bound} of {count}");
            }
        }
    }
}
