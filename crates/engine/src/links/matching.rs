//! One-to-one matches of two tables.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;

use super::forest::Forest;
use super::hungarian::assign;
use super::link::Link;
use super::link_list::{LinkList, best_of_each, memory_to_rank, ranks};
use super::members::{FrozenMembers, Members};
use super::sink::{LinkChunk, LinkSink, LinkTable};
use crate::cancel::Cancel;
use crate::error::{Result, keys_err};

/// Which links make up a one-to-one matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Assignment {
    /// The best link first, then the best one between ids that are still free.
    Greedy,
    /// Links with the largest sum of scores.
    Optimal,
}

/// The most ids of either side that links may connect for [`Assignment::Optimal`].
const LARGEST_PART: usize = 1_000;

/// Chooses links so that each id of either side has one at most.
///
/// Ids of the two sides are different things, even where they are equal. Links with an end or a score that is NULL
/// are left out.
#[derive(Debug)]
pub struct Matching {
    assignment: Assignment,
    left: Members,
    right: Members,
    links: LinkList,
}

impl Matching {
    /// A matching of no links yet, between ids of these types.
    ///
    /// # Errors
    /// A type whose values have no order.
    pub fn new(assignment: Assignment, left: &DataType, right: &DataType) -> Result<Self> {
        let (left, right) = (Members::new(left)?, Members::new(right)?);
        Ok(Self { assignment, left, right, links: LinkList::default() })
    }
}

impl LinkSink for Matching {
    fn add(&self, chunk: &LinkChunk) -> Result<()> {
        let (left, right) = (self.left.numbers(&chunk.left)?, self.right.numbers(&chunk.right)?);
        if chunk.each_score().zip(&left).any(|(score, _)| score.is_some_and(f64::is_nan)) {
            return keys_err!("a score is NaN, which no sum of scores can hold; leave such links out, or give them 0");
        }
        self.links.add((&left, &right), chunk.each_score());
        Ok(())
    }

    fn memory(&self) -> usize {
        self.left.memory() + self.right.memory() + self.links.memory()
    }

    fn memory_to_finish(&self) -> usize {
        memory_to_rank(&self.left, &self.links) + memory_to_rank(&self.right, &LinkList::default())
    }

    fn finish(self: Box<Self>, threads: usize, cancel: &Cancel) -> Result<Box<dyn LinkTable>> {
        let (left, right) = (self.left.freeze(), self.right.freeze());
        let [lefts, rights] = [&left, &right].map(|members| members.in_order(threads));
        let [of_left, of_right] = [(&left, &lefts), (&right, &rights)].map(|(m, order)| ranks(order, m.end()));
        let mut links = self.links.into_links();
        for link in &mut links {
            (link.left, link.right) = (of_left[link.left as usize], of_right[link.right as usize]);
        }
        let links = best_of_each(links);
        cancel.check()?;
        let mut chosen = match self.assignment {
            Assignment::Greedy => greedy(links, lefts.len(), rights.len()),
            Assignment::Optimal => optimal(&links, lefts.len(), rights.len(), cancel)?,
        };
        chosen.sort_unstable_by_key(Link::ends);
        for link in &mut chosen {
            (link.left, link.right) = (lefts[link.left as usize], rights[link.right as usize]);
        }
        Ok(Box::new(Matches { left, right, links: chosen }))
    }
}

/// Links whose ends no better link has.
fn greedy(mut links: Vec<Link>, lefts: usize, rights: usize) -> Vec<Link> {
    links.sort_unstable_by(Link::best_first);
    let (mut left_taken, mut right_taken) = (vec![false; lefts], vec![false; rights]);
    links.retain(|link| {
        let [left, right] = [&mut left_taken[link.left as usize], &mut right_taken[link.right as usize]];
        let free = !*left && !*right;
        (*left, *right) = (*left | free, *right | free);
        free
    });
    links
}

/// Links with the largest sum, part by part of what they connect; a link that scores 0 or less adds nothing.
fn optimal(links: &[Link], lefts: usize, rights: usize, cancel: &Cancel) -> Result<Vec<Link>> {
    let useful: Vec<Link> = links.iter().copied().filter(|link| link.score > 0.0).collect();
    if lefts.saturating_add(rights) >= u32::MAX as usize {
        return keys_err!("there are more than some four billion ids, which is the most");
    }
    let forest = Forest::default();
    let place = |link: &Link| (link.left, lefts as u32 + link.right);
    useful.iter().map(place).for_each(|(left, right)| forest.link(left, right));
    let mut by_part: Vec<(u32, Link)> = useful.into_iter().map(|link| (forest.root(link.left), link)).collect();
    by_part.sort_by_key(|(part, _)| *part);
    let mut chosen = Vec::new();
    for part in by_part.chunk_by(|(a, _), (b, _)| a == b) {
        cancel.check()?;
        let distinct = |end: fn(&Link) -> u32| {
            let mut ends: Vec<u32> = part.iter().map(|(_, link)| end(link)).collect();
            ends.sort_unstable();
            ends.dedup();
            ends
        };
        let (rows, columns) = (distinct(|link| link.left), distinct(|link| link.right));
        if rows.len().max(columns.len()) > LARGEST_PART {
            return keys_err!(
                "links connect {} ids of the left side with {} of the right side; an optimal assignment takes up to \
                 {LARGEST_PART} of either, so raise the threshold of the links, or ask for a greedy one",
                rows.len(),
                columns.len()
            );
        }
        let at = |ends: &[u32], end: u32| ends.binary_search(&end).unwrap_or_default();
        let mut weights = vec![0.0; rows.len() * columns.len()];
        for (_, link) in part {
            weights[at(&rows, link.left) * columns.len() + at(&columns, link.right)] = link.score;
        }
        let weight = |row: usize, column: usize| weights[row * columns.len() + column];
        let assigned = assign(rows.len(), columns.len(), weight).into_iter().enumerate();
        chosen.extend(assigned.filter_map(|(row, column)| {
            let column = column?;
            Some(Link { left: rows[row], right: columns[column], score: weight(row, column) })
        }));
    }
    Ok(chosen)
}

/// Matches: the ids of both sides and the score.
#[derive(Debug)]
struct Matches {
    left: FrozenMembers,
    right: FrozenMembers,
    links: Vec<Link>,
}

impl LinkTable for Matches {
    fn rows(&self) -> usize {
        self.links.len()
    }

    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let links = &self.links[rows];
        let left = self.left.array(links.iter().map(|link| link.left))?;
        let right = self.right.array(links.iter().map(|link| link.right))?;
        Ok(vec![left, right, Arc::new(Float64Array::from_iter_values(links.iter().map(|link| link.score)))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Vec<Link> {
        let link = |(left, right, score)| Link { left, right, score };
        [(0, 0, 0.9), (0, 1, 0.8), (1, 0, 0.8), (2, 1, -1.0), (2, 2, 0.0)].into_iter().map(link).collect()
    }

    #[test]
    fn greedy_takes_the_best_link() {
        let ends: Vec<_> = greedy(links(), 3, 3).iter().map(Link::ends).collect();
        assert_eq!(ends, [(0, 0), (2, 2)]);
    }

    #[test]
    fn optimal_takes_the_largest_sum() {
        let chosen = optimal(&links(), 3, 3, &Cancel::default()).unwrap();
        let ends: Vec<_> = chosen.iter().map(Link::ends).collect();
        assert_eq!(ends, [(0, 1), (1, 0)]);
    }

    #[test]
    fn large_parts_are_refused() {
        let links: Vec<Link> = (0..=LARGEST_PART as u32).map(|right| Link { left: 0, right, score: 1.0 }).collect();
        let error = optimal(&links, 1, LARGEST_PART + 1, &Cancel::default()).unwrap_err();
        assert!(error.to_string().contains("greedy"), "{error}");
    }
}
