//! CENTER clustering.

use super::link::{Link, NO_MEMBER};

/// The centre of each of `count` members.
///
/// One walk over the links, best first. A member that meets the walk for the first time joins a centre at the other
/// end, or becomes a centre; of two such members the smaller one becomes the centre of both.
/// Source: CENTER in Hassanzadeh and others, *Framework for evaluating clustering algorithms in duplicate detection*,
/// 2009, after Haveliwala and others, 2000.
pub fn centers(count: usize, mut links: Vec<Link>) -> Vec<u32> {
    links.sort_unstable_by(Link::best_first);
    let mut centers = vec![NO_MEMBER; count];
    for (left, right) in links.iter().map(Link::ends) {
        let [of_left, of_right] = [left, right].map(|end| centers[end as usize]);
        match (of_left == NO_MEMBER, of_right == NO_MEMBER) {
            (true, true) => {
                centers[left as usize] = left;
                centers[right as usize] = left;
            }
            (true, false) => centers[left as usize] = if of_right == right { right } else { left },
            (false, true) => centers[right as usize] = if of_left == left { left } else { right },
            (false, false) => {}
        }
    }
    alone_where_none(centers)
}

/// Members without a centre, each as its own.
pub fn alone_where_none(mut centers: Vec<u32>) -> Vec<u32> {
    for (center, member) in centers.iter_mut().zip(0..) {
        if *center == NO_MEMBER {
            *center = member;
        }
    }
    centers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: usize, links: &[(u32, u32, f64)]) -> Vec<u32> {
        centers(count, links.iter().map(|&(left, right, score)| Link { left, right, score }).collect())
    }

    #[test]
    fn chain_is_cut_at_members_that_are_no_centres() {
        assert_eq!(of(4, &[(0, 1, 0.9), (1, 2, 0.8), (2, 3, 0.7)]), [0, 0, 2, 2]);
        assert_eq!(of(4, &[(0, 1, 0.7), (1, 2, 0.9), (1, 3, 0.8)]), [1, 1, 1, 1]);
        assert_eq!(of(3, &[]), [0, 1, 2]);
    }

    #[test]
    fn equal_scores_go_by_the_members() {
        assert_eq!(of(3, &[(1, 2, 0.5), (0, 1, 0.5)]), [0, 0, 2]);
    }
}
