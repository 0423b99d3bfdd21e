//! Numbers that look random and are the same on every machine: what signatures are made from.
//!
//! Source of the generator: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014.

/// The step of the generator's counter.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that depends on every bit of another one.
#[inline]
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A sequence of numbers by a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mixed(seed.wrapping_add(STEP)) ^ mixed(stream.wrapping_mul(STEP).wrapping_add(1)))
    }

    /// All 64 bits at random.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number above 0 and below 1, each as likely.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// A number of the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_that_of_the_paper() {
        // the first numbers of the reference implementation for the seed 1234567
        let mut counter = 1_234_567u64;
        let mut next = || {
            counter = counter.wrapping_add(STEP);
            mixed(counter)
        };
        assert_eq!([next(), next(), next()], [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn moments_of_the_distributions() {
        let mut random = Random::new(1, 2);
        let normal: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        assert!(mean(&normal).abs() < 0.02);
        assert!((mean(&normal.iter().map(|x| x * x).collect::<Vec<_>>()) - 1.0).abs() < 0.02);
        let uniform: Vec<f64> = (0..100_000).map(|_| random.uniform()).collect();
        assert!((mean(&uniform) - 0.5).abs() < 0.01 && uniform.iter().all(|x| (0.0..1.0).contains(x)));
        assert_ne!(Random::new(1, 2).bits(), Random::new(1, 3).bits());
    }
}
