//! The interval of scores that a condition accepts.

use std::cmp::Ordering;

/// One end of an interval of scores.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The literal that the score is compared with.
    pub value: f64,
    /// Whether the literal itself is accepted.
    pub inclusive: bool,
}

impl Bound {
    fn new(value: f64, inclusive: bool) -> Self {
        Self { value: if value == 0.0 { 0.0 } else { value }, inclusive }
    }
}

/// The scores that a condition accepts: every bound on one measure, intersected.
///
/// Scores are ordered as DataFusion compares floats: by [`f64::total_cmp`], so that a NaN literal is above every
/// score, but with -0.0 equal to 0.0. No score is -0.0.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    lower: Option<Bound>,
    upper: Option<Bound>,
}

impl Bounds {
    /// Accepts every score.
    pub fn everything() -> Self {
        Self::default()
    }

    /// `score >= value`, or `score > value`.
    pub fn at_least(value: f64, inclusive: bool) -> Self {
        Self { lower: Some(Bound::new(value, inclusive)), upper: None }
    }

    /// `score <= value`, or `score < value`.
    pub fn at_most(value: f64, inclusive: bool) -> Self {
        Self { lower: None, upper: Some(Bound::new(value, inclusive)) }
    }

    /// `score = value`.
    pub fn exactly(value: f64) -> Self {
        Self::at_least(value, true).and(Self::at_most(value, true))
    }

    /// The scores that both accept.
    pub fn and(self, other: Self) -> Self {
        Self {
            lower: tighter(self.lower, other.lower, Ordering::Greater),
            upper: tighter(self.upper, other.upper, Ordering::Less),
        }
    }

    /// The scores from the least to the greatest that either accepts.
    pub fn or(self, other: Self) -> Self {
        let looser = |one: Option<Bound>, other: Option<Bound>, direction| {
            let (one, other) = (one?, other?);
            let tighter = tighter(Some(one), Some(other), direction)?;
            let is_one = (tighter.value.to_bits(), tighter.inclusive) == (one.value.to_bits(), one.inclusive);
            Some(if is_one { other } else { one })
        };
        Self {
            lower: looser(self.lower, other.lower, Ordering::Greater),
            upper: looser(self.upper, other.upper, Ordering::Less),
        }
    }

    /// The scores whose negatives these accept.
    pub fn negated(self) -> Self {
        let negated = |bound: Bound| Bound::new(-bound.value, bound.inclusive);
        Self { lower: self.upper.map(negated), upper: self.lower.map(negated) }
    }

    /// The lower end, if there is one.
    pub fn lower(&self) -> Option<Bound> {
        self.lower
    }

    /// The upper end, if there is one.
    pub fn upper(&self) -> Option<Bound> {
        self.upper
    }

    /// Whether a score is accepted exactly where its negative is.
    pub fn is_symmetric(&self) -> bool {
        match (self.lower, self.upper) {
            (Some(l), Some(u)) => l.value == -u.value && l.inclusive == u.inclusive,
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether `score` is high enough.
    #[inline]
    pub fn above_lower(&self, score: f64) -> bool {
        self.lower.is_none_or(|b| match score.total_cmp(&b.value) {
            Ordering::Greater => true,
            Ordering::Equal => b.inclusive,
            Ordering::Less => false,
        })
    }

    /// Whether `score` is low enough.
    #[inline]
    pub fn below_upper(&self, score: f64) -> bool {
        self.upper.is_none_or(|b| match score.total_cmp(&b.value) {
            Ordering::Less => true,
            Ordering::Equal => b.inclusive,
            Ordering::Greater => false,
        })
    }

    /// Whether the condition holds for `score`.
    #[inline]
    pub fn contains(&self, score: f64) -> bool {
        self.above_lower(score) && self.below_upper(score)
    }
}

impl PartialEq for Bounds {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Bounds {}

impl std::hash::Hash for Bounds {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Bounds {
    fn key(&self) -> [Option<(u64, bool)>; 2] {
        [self.lower, self.upper].map(|b| b.map(|b| (b.value.to_bits(), b.inclusive)))
    }
}

/// The bound that accepts less; `direction` says on which side of the other a tighter value lies.
fn tighter(a: Option<Bound>, b: Option<Bound>, direction: Ordering) -> Option<Bound> {
    let (Some(x), Some(y)) = (a, b) else { return a.or(b) };
    Some(match x.value.total_cmp(&y.value) {
        Ordering::Equal => Bound { value: x.value, inclusive: x.inclusive && y.inclusive },
        side if side == direction => x,
        _ => y,
    })
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.lower, self.upper) {
            (None, None) => write!(f, "any score"),
            (Some(l), None) => write!(f, "{} {}", if l.inclusive { ">=" } else { ">" }, l.value),
            (None, Some(u)) => write!(f, "{} {}", if u.inclusive { "<=" } else { "<" }, u.value),
            (Some(l), Some(u)) if l.value == u.value => write!(f, "= {}", l.value),
            (Some(l), Some(u)) => {
                let (open, close) = (if l.inclusive { '[' } else { '(' }, if u.inclusive { ']' } else { ')' });
                write!(f, "in {open}{}, {}{close}", l.value, u.value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_arrow_order() {
        let b = Bounds::at_least(0.5, true).and(Bounds::at_most(0.8, false));
        assert!(b.contains(0.5) && b.contains(0.79) && !b.contains(0.8) && !b.contains(0.49));
        assert!(Bounds::at_most(-0.0, true).contains(0.0));
        assert!(Bounds::at_least(-0.0, true).contains(0.0));
        assert!(Bounds::at_most(f64::NAN, true).contains(1.0));
        assert!(!Bounds::at_least(f64::NAN, true).contains(1.0));
        assert!(Bounds::exactly(1.0).contains(1.0));
        assert!(!Bounds::exactly(1.0).and(Bounds::at_most(1.0, false)).contains(1.0));
        let c = Bounds::at_least(0.7, false).and(Bounds::at_most(0.8, true));
        assert_eq!(b.or(c), Bounds::at_least(0.5, true).and(Bounds::at_most(0.8, true)));
        assert_eq!(c.or(b), b.or(c));
        assert_eq!(b.or(Bounds::at_least(0.6, true)), Bounds::at_least(0.5, true));
        assert_eq!(b.negated(), Bounds::at_least(-0.8, false).and(Bounds::at_most(-0.5, true)));
    }
}
