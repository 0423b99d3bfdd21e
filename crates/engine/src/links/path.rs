//! The path of links between two ids.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use arrow::datatypes::DataType;

use super::link::{Link, NO_MEMBER};
use super::link_list::{LinkList, Neighbours, Ranked, memory_to_rank, ranks};
use super::members::{FrozenMembers, Members};
use super::sink::{LinkChunk, LinkSink, LinkTable};
use crate::cancel::Cancel;
use crate::error::{Result, keys_err};

/// Finds a path of links from one id to another with the fewest links; of several such, the one whose ids come first.
///
/// No row comes out where no path leads from one to the other.
#[derive(Debug)]
pub struct PathSearch {
    members: Members,
    links: LinkList,
    from: u32,
    to: u32,
}

impl PathSearch {
    /// A search from the one id to the other, each an array with one value.
    ///
    /// # Errors
    /// A type whose values have no order, or an id that is NULL.
    pub fn new(from: &ArrayRef, to: &ArrayRef) -> Result<Self> {
        let members = Members::new(from.data_type())?;
        let ends = members.numbers(&[Arc::clone(from), Arc::clone(to)])?;
        match ends[..] {
            [from, to] if from != NO_MEMBER && to != NO_MEMBER => {
                Ok(Self { members, links: LinkList::default(), from, to })
            }
            _ => keys_err!("a path begins and ends at an id that is not NULL"),
        }
    }

    /// Type of the ids.
    pub fn data_type(&self) -> &DataType {
        self.members.data_type()
    }
}

impl LinkSink for PathSearch {
    fn add(&self, chunk: &LinkChunk) -> Result<()> {
        let (left, right) = self.members.number_links(chunk)?;
        self.links.add((&left, &right), chunk.each_score());
        Ok(())
    }

    fn memory(&self) -> usize {
        self.members.memory() + self.links.memory()
    }

    fn memory_to_finish(&self) -> usize {
        memory_to_rank(&self.members, &self.links)
    }

    fn finish(self: Box<Self>, threads: usize, cancel: &Cancel) -> Result<Box<dyn LinkTable>> {
        let members = self.members.freeze();
        let ranked = Ranked::new(&members, self.links.into_links(), threads);
        cancel.check()?;
        let ranks = ranks(&ranked.numbers, members.end());
        let (from, to) = (ranks[self.from as usize], ranks[self.to as usize]);
        let links = shortest(ranked.numbers.len(), &ranked.links, from, to);
        let number = |rank: u32| ranked.numbers[rank as usize];
        let links = links.into_iter().map(|link| Link { left: number(link.left), right: number(link.right), ..link });
        Ok(Box::new(Found { members, links: links.collect() }))
    }
}

/// The links of the shortest path, in its direction; none where there is no path, or it has no link.
fn shortest(count: usize, links: &[Link], from: u32, to: u32) -> Vec<Link> {
    let neighbours = Neighbours::new(count, links);
    let mut distances = vec![u32::MAX; count];
    distances[to as usize] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while next < reached.len() && distances[from as usize] == u32::MAX {
        let member = reached[next];
        for &neighbour in neighbours.of(member) {
            if distances[neighbour as usize] == u32::MAX {
                distances[neighbour as usize] = distances[member as usize] + 1;
                reached.push(neighbour);
            }
        }
        next += 1;
    }
    let mut path = Vec::new();
    let mut left = from;
    while left != to {
        let nearer = |right: &&u32| distances[**right as usize].checked_add(1) == Some(distances[left as usize]);
        let Some(&right) = neighbours.of(left).iter().find(nearer) else { return Vec::new() };
        let ends = (left.min(right), left.max(right));
        let score = links.binary_search_by_key(&ends, Link::ends).map_or(f64::NAN, |at| links[at].score);
        path.push(Link { left, right, score });
        left = right;
    }
    path
}

/// A path: the number of each step from 1, its two ids and its score.
#[derive(Debug)]
struct Found {
    members: FrozenMembers,
    links: Vec<Link>,
}

impl LinkTable for Found {
    fn rows(&self) -> usize {
        self.links.len()
    }

    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let steps = Int64Array::from_iter_values(rows.clone().map(|row| row as i64 + 1));
        let links = &self.links[rows];
        let scores = Float64Array::from_iter_values(links.iter().map(|link| link.score));
        let left = self.members.array(links.iter().map(|link| link.left))?;
        let right = self.members.array(links.iter().map(|link| link.right))?;
        Ok(vec![Arc::new(steps), left, right, Arc::new(scores)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_links_then_smallest_ids() {
        let link = |(left, right)| Link { left, right, score: f64::from(left) };
        let links: Vec<Link> = [(0, 1), (0, 2), (0, 5), (1, 4), (2, 4), (3, 4), (5, 6)].into_iter().map(link).collect();
        let ends = |from, to| shortest(8, &links, from, to).iter().map(Link::ends).collect::<Vec<_>>();
        assert_eq!(ends(0, 3), [(0, 1), (1, 4), (4, 3)]);
        assert_eq!(ends(3, 0), [(3, 4), (4, 1), (1, 0)]);
        assert_eq!(ends(6, 6), []);
        assert_eq!(ends(6, 7), []);
        assert_eq!(shortest(8, &links, 4, 2)[0].score, 2.0);
    }
}
