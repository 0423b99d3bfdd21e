//! Star clustering.

use super::center::alone_where_none;
use super::link::{Link, NO_MEMBER};
use super::link_list::Neighbours;

/// The centre of each of `count` members.
///
/// Members are taken by descending number of links, the smaller one first of two with as many. One that belongs to no
/// star yet becomes the centre of a star, and its neighbours without a star join it.
/// Source: the offline star algorithm of Aslam, Pelekhov and Rus, *The star clustering algorithm*, 2004, with each
/// member in one star.
pub fn stars(count: usize, links: &[Link]) -> Vec<u32> {
    let neighbours = Neighbours::new(count, links);
    let mut members: Vec<u32> = (0..count as u32).collect();
    members.sort_by_key(|&member| std::cmp::Reverse(neighbours.of(member).len()));
    let mut centers = vec![NO_MEMBER; count];
    for member in members {
        if centers[member as usize] != NO_MEMBER {
            continue;
        }
        centers[member as usize] = member;
        for &neighbour in neighbours.of(member) {
            let center = &mut centers[neighbour as usize];
            if *center == NO_MEMBER {
                *center = member;
            }
        }
    }
    alone_where_none(centers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_linked_member_is_the_centre() {
        let link = |(left, right)| Link { left, right, score: 1.0 };
        let links: Vec<Link> = [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)].into_iter().map(link).collect();
        assert_eq!(stars(7, &links), [2, 2, 2, 2, 4, 4, 6]);
    }
}
