//! Clusters that are split at their weakest links until they are small enough.

use super::link::{Link, by_score};

/// The cluster of each of `count` members, named by its smallest member; none holds more than `largest` members,
/// unless all links of a connected part have one score.
///
/// A cluster that is too large loses all links of its lowest score, and what is left of it is looked at again. A
/// cluster whose links all have one score has no weakest link, and stays whole.
/// Source: single-linkage clustering cut at its weakest links, as in Zahn, *Graph-theoretical methods for detecting and
/// describing gestalt clusters*, 1971.
pub fn split(count: usize, mut links: Vec<Link>, largest: usize) -> Vec<u32> {
    // the same from the strongest links on: a merge that would be too large is where the split ends
    links.sort_unstable_by(Link::best_first);
    let mut clusters = Merging::new(count);
    for level in links.chunk_by(|a, b| by_score(a.score, b.score).is_eq()) {
        clusters.merge(level, largest);
    }
    clusters.named()
}

struct Merging {
    parents: Vec<u32>,
    /// Members of the cluster with this root.
    sizes: Vec<usize>,
    /// Whether the cluster with this root grows no more.
    closed: Vec<bool>,
}

impl Merging {
    fn new(count: usize) -> Self {
        Self { parents: (0..count as u32).collect(), sizes: vec![1; count], closed: vec![false; count] }
    }

    fn root(&mut self, mut member: u32) -> u32 {
        while self.parents[member as usize] != member {
            let above = self.parents[self.parents[member as usize] as usize];
            self.parents[member as usize] = above;
            member = above;
        }
        member
    }

    /// Merges what links of one score connect, where that is not too large.
    fn merge(&mut self, level: &[Link], largest: usize) {
        let mut joined: Vec<(u32, u32)> =
            level.iter().map(|link| (self.root(link.left), self.root(link.right))).filter(|(l, r)| l != r).collect();
        if joined.is_empty() {
            return;
        }
        // the clusters that this level connects, by a union-find of their own
        let mut ends: Vec<u32> = joined.iter().flat_map(|&(left, right)| [left, right]).collect();
        ends.sort_unstable();
        ends.dedup();
        let place = |root: u32| ends.binary_search(&root).unwrap_or_else(|_| unreachable!("every end is among them"));
        let mut groups = Self::new(ends.len());
        for (left, right) in joined.drain(..) {
            let (left, right) = (groups.root(place(left) as u32), groups.root(place(right) as u32));
            groups.parents[left.max(right) as usize] = left.min(right);
        }
        let groups: Vec<u32> = (0..ends.len() as u32).map(|at| groups.root(at)).collect();
        let mut totals = vec![(0, true, false); ends.len()];
        for (&root, &group) in ends.iter().zip(&groups) {
            let (size, alone, closed) = &mut totals[group as usize];
            *size += self.sizes[root as usize];
            *alone &= self.sizes[root as usize] == 1;
            *closed |= self.closed[root as usize];
        }
        for (&root, &group) in ends.iter().zip(&groups) {
            let (size, alone, closed) = totals[group as usize];
            let first = ends[group as usize];
            let (fits, one_score) = (size <= largest && !closed, alone && !closed);
            if !fits && !one_score {
                self.closed[root as usize] = true;
            } else if root != first {
                self.parents[root as usize] = first;
                self.sizes[first as usize] = size;
            }
            self.closed[first as usize] |= !fits;
        }
    }

    /// Clusters by their smallest member.
    fn named(mut self) -> Vec<u32> {
        let count = self.parents.len() as u32;
        let roots: Vec<u32> = (0..count).map(|member| self.root(member)).collect();
        let mut smallest = vec![u32::MAX; roots.len()];
        for (&root, member) in roots.iter().zip(0..) {
            smallest[root as usize] = smallest[root as usize].min(member);
        }
        roots.into_iter().map(|root| smallest[root as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn links(links: &[(u32, u32, f64)]) -> Vec<Link> {
        links.iter().map(|&(left, right, score)| Link { left, right, score }).collect()
    }

    /// The definition as it stands in the documentation.
    fn by_definition(count: usize, links: &[Link], largest: usize) -> Vec<u32> {
        let mut clusters: Vec<u32> = (0..count as u32).collect();
        let mut todo: Vec<(Vec<u32>, Vec<Link>)> = vec![((0..count as u32).collect(), links.to_vec())];
        while let Some((members, links)) = todo.pop() {
            let mut merging = Merging::new(count);
            for link in &links {
                let (left, right) = (merging.root(link.left), merging.root(link.right));
                merging.parents[left.max(right) as usize] = left.min(right);
            }
            let roots: Vec<u32> = members.iter().map(|&member| merging.root(member)).collect();
            let mut distinct = roots.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() > 1 {
                for root in distinct {
                    let of = |member: u32, merging: &mut Merging| merging.root(member) == root;
                    let part = members.iter().copied().filter(|&member| of(member, &mut merging)).collect();
                    let inside = links.iter().copied().filter(|link| of(link.left, &mut merging)).collect();
                    todo.push((part, inside));
                }
                continue;
            }
            let weakest = links.iter().map(|link| link.score).fold(f64::INFINITY, f64::min);
            let stronger: Vec<Link> = links.iter().copied().filter(|link| link.score > weakest).collect();
            if members.len() <= largest || stronger.is_empty() {
                let name = members.iter().copied().min().unwrap();
                members.iter().for_each(|&member| clusters[member as usize] = name);
            } else {
                todo.push((members, stronger));
            }
        }
        clusters
    }

    #[test]
    fn chain_breaks_at_its_weakest_link() {
        let chain = links(&[(0, 1, 0.9), (1, 2, 0.6), (2, 3, 0.8), (3, 4, 0.7)]);
        assert_eq!(split(5, chain.clone(), 4), [0, 0, 2, 2, 2]);
        assert_eq!(split(5, chain.clone(), 2), [0, 0, 2, 2, 4]);
        assert_eq!(split(5, chain, 5), [0; 5]);
        assert_eq!(split(3, links(&[(0, 1, 1.0), (1, 2, 1.0)]), 2), [0; 3], "no link is the weakest");
    }

    #[test]
    fn merges_are_splits_the_other_way_round() {
        let mut rng = StdRng::seed_from_u64(71);
        for case in 0..2000 {
            let count = rng.random_range(1..14);
            let random = (0..rng.random_range(0..24)).map(|_| {
                let (a, b) = (rng.random_range(0..count), rng.random_range(0..count));
                (a.min(b), a.max(b), f64::from(rng.random_range(0..5)) / 4.0)
            });
            let random: Vec<_> = random.filter(|(a, b, _)| a != b).collect();
            let random = super::super::link_list::best_of_each(links(&random));
            let largest = rng.random_range(1..6);
            let expected = by_definition(count as usize, &random, largest);
            assert_eq!(split(count as usize, random, largest), expected, "case {case}");
        }
    }
}
