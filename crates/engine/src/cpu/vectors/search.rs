//! Which leaves are within reach of a leaf.

use std::marker::PhantomData;
use std::ops::Range;

use super::blocks::{Blocks, LeafOf, Node};
use super::kernel::sums;
use super::lanes::LANES;
use super::lanes::Real;
use super::lanes::{self, Lanes, One, Task};
use super::metric::Metric;

/// Count of numbers up to which adding them one by one is faster than side by side with others that are zero.
const MOST_ONE_BY_ONE: usize = 4;

/// How many numbers an end of a box takes.
pub(super) fn width_of_boxes(dimension: usize) -> usize {
    if dimension <= MOST_ONE_BY_ONE { dimension } else { dimension.next_multiple_of(LANES) }
}

/// Leaves in order: the number of sixteen of them that follow each other, and a bit for each.
pub(super) type Found = Vec<(u32, u16)>;

/// Writes to `found` the leaves of `blocks` under `nodes` whose boxes are within `limit` of that of a leaf of `probe`;
/// all, where there are no boxes. Returns how many boxes were looked at.
pub(super) fn leaves_near<R: Real, M: Metric>(
    blocks: &Blocks<R>,
    nodes: Range<u32>,
    probe: LeafOf<'_, R>,
    limit: R,
    found: &mut Found,
) -> usize {
    found.clear();
    if blocks.width == 0 {
        blocks.leaves_of(nodes).for_each(|leaf| add(found, leaf as u32));
        return found.len();
    }
    let probe = probe.blocks.bounds(probe.points().node as usize);
    lanes::run(LeavesNear::<R, M> { blocks, nodes, probe, limit, found, metric: PhantomData })
}

/// The sums of the centres of all balls of `blocks` with that of a leaf of `probe`; none, where either has no balls.
pub(super) fn centre_sums<R: Real, M: Metric>(blocks: &Blocks<R>, probe: LeafOf<'_, R>) -> Option<Vec<R>> {
    let size = blocks.depth * LANES;
    let of_sixteen = &probe.blocks.balls.as_ref()?.centres[probe.leaf / LANES * size..][..size];
    let centre: Vec<R> = of_sixteen.iter().skip(probe.leaf % LANES).step_by(LANES).copied().collect();
    let centres = blocks.balls.as_ref()?.centres.chunks_exact(size);
    Some(
        centres
            .flat_map(|centres| lanes::run(Sums::<R, M> { point: &centre, block: centres, metric: PhantomData }))
            .collect(),
    )
}

#[inline(always)]
fn add(found: &mut Found, leaf: u32) {
    let (sixteen, bit) = (leaf / LANES as u32, 1 << (leaf % LANES as u32));
    match found.last_mut() {
        Some((known, bits)) if *known == sixteen => *bits |= bit,
        _ => found.push((sixteen, bit)),
    }
}

struct LeavesNear<'a, R, M> {
    blocks: &'a Blocks<R>,
    nodes: Range<u32>,
    /// The box of the probe leaf.
    probe: (&'a [R], &'a [R]),
    limit: R,
    found: &'a mut Found,
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for LeavesNear<'_, R, M> {
    type Result = usize;

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> usize {
        let (mut node, mut looked_at) = (self.nodes.start, 0);
        while node < self.nodes.end {
            looked_at += 1;
            let Node { skip, leaf } = self.blocks.nodes[node as usize];
            if !self.is_near::<L>(node as usize) {
                node = skip;
                continue;
            }
            if let Some(leaf) = leaf {
                add(self.found, leaf);
            }
            node += 1;
        }
        looked_at
    }
}

impl<R: Real, M: Metric> LeavesNear<'_, R, M> {
    /// Whether the box of a node is not beyond the limit.
    #[inline(always)]
    fn is_near<L: Lanes<R>>(&self, node: usize) -> bool {
        !box_sum::<R, M, L>(self.blocks.bounds(node), self.probe).exceeds(self.limit)
    }
}

/// The sum of the gaps between two boxes.
#[inline(always)]
pub(super) fn box_sum<R: Real, M: Metric, L: Lanes<R>>(one: (&[R], &[R]), other: (&[R], &[R])) -> R {
    if one.0.len() <= MOST_ONE_BY_ONE {
        let ends = one.0.iter().zip(one.1).zip(other.0.iter().zip(other.1));
        let mut sum = One(R::ZERO);
        for ((&low, &high), (&other_low, &other_high)) in ends {
            sum = M::add_least(sum, (One(low), One(high)), (One(other_low), One(other_high)));
        }
        return sum.0;
    }
    let one = one.0.chunks_exact(LANES).zip(one.1.chunks_exact(LANES));
    let other = other.0.chunks_exact(LANES).zip(other.1.chunks_exact(LANES));
    let mut sums = L::splat(R::ZERO);
    for ((low, high), (other_low, other_high)) in one.zip(other) {
        sums = M::add_least(sums, (L::load(low), L::load(high)), (L::load(other_low), L::load(other_high)));
    }
    M::all(sums)
}

/// The sums of a point with sixteen others.
struct Sums<'a, R, M> {
    point: &'a [R],
    block: &'a [R],
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for Sums<'_, R, M> {
    type Result = [R; LANES];

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> [R; LANES] {
        sums::<R, M, L>(self.point, self.block).numbers()
    }
}
