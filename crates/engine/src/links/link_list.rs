//! Links that are kept until all of them have come.

use std::sync::{Mutex, PoisonError};

use super::link::{Link, NO_MEMBER};
use super::members::{FrozenMembers, Members};

/// Links by the numbers of their members, in the order in which threads bring them.
#[derive(Debug, Default)]
pub struct LinkList(Mutex<Vec<Link>>);

impl LinkList {
    /// Adds links; those with an end or a score that is NULL, and those of a member with itself, say nothing.
    pub fn add(&self, ends: (&[u32], &[u32]), scores: impl Iterator<Item = Option<f64>>) {
        let links = ends.0.iter().zip(ends.1).zip(scores).filter_map(|((&left, &right), score)| {
            let says = left != NO_MEMBER && right != NO_MEMBER;
            says.then_some(Link { left, right, score: score? })
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(links);
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).capacity() * size_of::<Link>()
    }

    /// The links.
    pub fn into_links(self) -> Vec<Link> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Links among `members`, whose ends are ranks: places of ids in their order.
#[derive(Debug)]
pub struct Ranked {
    /// The number of each rank.
    pub numbers: Vec<u32>,
    /// Links, each pair of members once with its best score, from the smaller rank to the larger one.
    pub links: Vec<Link>,
}

impl Ranked {
    /// Ranks `members` and renames the ends of `links`.
    pub fn new(members: &FrozenMembers, mut links: Vec<Link>, threads: usize) -> Self {
        let numbers = members.in_order(threads);
        let ranks = ranks(&numbers, members.end());
        for link in &mut links {
            let (left, right) = (ranks[link.left as usize], ranks[link.right as usize]);
            (link.left, link.right) = (left.min(right), left.max(right));
        }
        links.retain(|link| link.left != link.right);
        Self { numbers, links: best_of_each(links) }
    }
}

/// Bytes that a method over ranked links takes at most: copies of the links, and some ten numbers for each id.
pub fn memory_to_rank(members: &Members, links: &LinkList) -> usize {
    2 * links.memory() + 10 * size_of::<u32>() * members.end()
}

/// The rank of each number.
pub fn ranks(numbers: &[u32], end: usize) -> Vec<u32> {
    let mut ranks = vec![NO_MEMBER; end];
    numbers.iter().zip(0..).for_each(|(&number, rank)| ranks[number as usize] = rank);
    ranks
}

/// Links sorted by their ends, each pair once with its best score.
pub fn best_of_each(mut links: Vec<Link>) -> Vec<Link> {
    links.sort_unstable_by(|a, b| a.ends().cmp(&b.ends()).then_with(|| a.best_first(b)));
    links.dedup_by_key(|link| link.ends());
    links
}

/// Neighbours of each member: `links` in both directions, by the member.
#[derive(Debug)]
pub struct Neighbours {
    starts: Vec<usize>,
    ends: Vec<u32>,
}

impl Neighbours {
    /// Neighbours of `count` members, in ascending order.
    pub fn new(count: usize, links: &[Link]) -> Self {
        let mut starts = vec![0; count + 1];
        for link in links {
            starts[link.left as usize + 1] += 1;
            starts[link.right as usize + 1] += 1;
        }
        for member in 0..count {
            starts[member + 1] += starts[member];
        }
        let mut next = starts.clone();
        let mut ends = vec![0; starts[count]];
        for (from, to) in links.iter().flat_map(|link| [(link.left, link.right), (link.right, link.left)]) {
            ends[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        starts.windows(2).for_each(|range| ends[range[0]..range[1]].sort_unstable());
        Self { starts, ends }
    }

    /// The neighbours of a member.
    pub fn of(&self, member: u32) -> &[u32] {
        &self.ends[self.starts[member as usize]..self.starts[member as usize + 1]]
    }
}
