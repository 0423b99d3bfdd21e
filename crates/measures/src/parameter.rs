//! Constant arguments of measures.

/// A constant argument of a measure, behind the two values.
#[derive(Debug)]
pub struct Parameter {
    /// Name in the documentation and in errors.
    pub name: &'static str,
    /// What the constant is.
    pub description: &'static str,
    /// The largest constant; the least is 0.
    pub largest: f64,
    /// Constant of a call without the argument; `None` where every call has it.
    pub default: Option<f64>,
}

impl Parameter {
    /// The constant, where it is in range; -0.0 is 0.0.
    pub fn checked(&self, constant: f64) -> Option<f64> {
        (0.0..=self.largest).contains(&constant).then_some(constant + 0.0)
    }

    /// The range in words.
    pub fn range(&self) -> String {
        // most numbers are short one way or the other
        if self.largest < 1e6 { format!("from 0 to {}", self.largest) } else { format!("from 0 to {:e}", self.largest) }
    }
}

/// Constants of a measure, up to two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Weights([u64; 2]);

impl Weights {
    /// The most constants that a measure can have.
    pub const MOST: usize = 2;

    /// The largest weight of an element, so that no score overflows or loses digits near 0.
    pub const LARGEST: f64 = 1e100;

    /// Constants of a call without any; 0 where there is no default.
    pub(crate) const fn defaults(parameters: &[Parameter]) -> Self {
        let mut bits = [0; Self::MOST];
        let mut at = 0;
        while at < parameters.len() {
            if let Some(constant) = parameters[at].default {
                bits[at] = constant.to_bits();
            }
            at += 1;
        }
        Self(bits)
    }

    /// The constants that a call gives, and the defaults of those that it does not; `None` where one is out of range,
    /// lacks, or is too many.
    pub(crate) fn of(parameters: &[Parameter], given: &[f64]) -> Option<Self> {
        let mut bits = [0; Self::MOST];
        for (at, parameter) in parameters.iter().enumerate() {
            let constant = given.get(at).copied().or(parameter.default)?;
            *bits.get_mut(at)? = parameter.checked(constant)?.to_bits();
        }
        (given.len() <= parameters.len()).then_some(Self(bits))
    }

    /// The constants as numbers; 0 for those that the measure does not have.
    #[inline]
    pub fn get(self) -> [f64; Self::MOST] {
        self.0.map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn parameter(largest: f64, default: Option<f64>) -> Parameter {
        Parameter { name: "", description: "", largest, default }
    }

    #[test]
    fn constants_have_a_range() {
        let weights = [parameter(Weights::LARGEST, None), parameter(Weights::LARGEST, None)];
        for (given, fit) in [([0.5, 2.0], true), ([-0.0, 0.0], true), ([-1.0, 0.0], false), ([0.0, f64::NAN], false)] {
            assert_eq!(Weights::of(&weights, &given).is_some(), fit);
        }
        for wrong in [&[1.0, 1e101][..], &[1.0], &[1.0; 3], &[]] {
            assert_eq!(Weights::of(&weights, wrong), None);
        }
        assert_eq!(Weights::of(&weights, &[-0.0, -0.0]), Some(Weights::default()));
        assert_eq!(
            (weights[0].range(), parameter(0.25, None).range()),
            ("from 0 to 1e100".into(), "from 0 to 0.25".into())
        );
    }

    #[test]
    fn constants_may_be_left_out() {
        let parameters = [parameter(0.25, Some(0.1)), parameter(1.0, Some(0.7))];
        let of = |given: &[f64]| Weights::of(&parameters, given).map(Weights::get);
        assert_eq!([of(&[]), of(&[0.2]), of(&[0.2, 1.0])], [[0.1, 0.7], [0.2, 0.7], [0.2, 1.0]].map(Some));
        assert_eq!([of(&[0.3]), of(&[0.2, 0.7, 0.7]), of(&[f64::NAN])], [None; 3]);
        assert_eq!(Weights::defaults(&parameters).get(), [0.1, 0.7]);
    }
}
