//! The measures over two vectors as one closed choice, for the parts that treat them alike.

use super::{cosine, l1, l2, linf, lp};

/// A measure over two vectors of equal length.
///
/// `array_distance`, `cosine_distance` and `inner_product` are DataFusion's own functions. For elements that are finite
/// and far from overflow they are what stands here, to the last bit; what they do with others is theirs to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VectorMeasure {
    /// The sum of absolute differences.
    L1,
    /// Euclidean.
    L2,
    /// The largest absolute difference.
    Linf,
    /// Minkowski, with a power of at least 1.
    Lp(Power),
    /// The cosine of the angle.
    Cosine,
    /// 1 less the cosine.
    CosineDistance,
    /// The sum of products.
    InnerProduct,
}

/// The power of [`VectorMeasure::Lp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Power(u64);

impl Power {
    /// `p`, if it makes a distance: at least 1.
    pub fn new(p: f64) -> Option<Self> {
        (p >= 1.0).then(|| Self(p.to_bits()))
    }

    /// The power as a number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl VectorMeasure {
    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1_distance",
            Self::L2 => "l2_distance",
            Self::Linf => "linf_distance",
            Self::Lp(_) => "lp_distance",
            Self::Cosine => "cosine_similarity",
            Self::CosineDistance => "cosine_distance",
            Self::InnerProduct => "inner_product",
        }
    }

    /// The measure of the SQL function with this name, where it takes nothing but two vectors.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::L1, Self::L2, Self::Linf, Self::Cosine, Self::CosineDistance, Self::InnerProduct];
        all.into_iter().find(|measure| measure.name() == name)
    }

    /// Whether an index ranks by the measure: it follows the distance of a metric.
    pub fn is_ranked(self) -> bool {
        matches!(self, Self::L1 | Self::L2 | Self::Linf | Self::Cosine)
    }

    /// Whether smaller means closer.
    pub fn is_distance(self) -> bool {
        !matches!(self, Self::Cosine | Self::InnerProduct)
    }

    /// The score or distance, `None` where the SQL function is NULL.
    #[inline(always)]
    pub fn score(self, a: &[f64], b: &[f64]) -> Option<f64> {
        match self {
            Self::L1 => l1::l1_distance(a, b),
            Self::L2 => l2::l2_distance(a, b),
            Self::Linf => linf::linf_distance(a, b),
            Self::Lp(p) => lp::lp_distance(a, b, p.get()),
            Self::Cosine => cosine::cosine_similarity(a, b),
            Self::CosineDistance => cosine::cosine_distance(a, b),
            Self::InnerProduct => Some(a.iter().zip(b).fold(0.0, |dot, (x, y)| dot + x * y)),
        }
    }
}
