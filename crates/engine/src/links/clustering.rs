//! Clusters: which ids belong together.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::center::centers;
use super::forest::Forest;
use super::link::{Link, NO_MEMBER};
use super::link_list::{LinkList, Ranked, memory_to_rank};
use super::members::{FrozenMembers, Members};
use super::sink::{LinkChunk, LinkSink, LinkTable};
use super::split::split;
use super::star::stars;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::parallel::each_in_parallel;

/// How links become clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Connected components: whoever is linked, directly or through others, belongs together.
    Components,
    /// CENTER: every member is linked to the centre of its cluster, which the best links choose.
    Center,
    /// Star: every member is linked to the centre of its cluster, which has the most links.
    Star,
    /// Components that lose their weakest links until none has more members than `largest`.
    Split {
        /// The most members of a cluster.
        largest: usize,
    },
}

/// Clusters the ids of links.
///
/// An id belongs to one cluster, and a cluster has the name of its smallest id. A link that is NULL at one end adds the
/// other end, which may stay alone. So does a link of an id with itself, and one whose score is NULL.
#[derive(Debug)]
pub struct Clustering {
    method: Method,
    members: Members,
    links: Links,
}

#[derive(Debug)]
enum Links {
    Forest(Box<Forest>),
    List(LinkList),
}

impl Clustering {
    /// Clusters of no links yet, between ids of this type.
    ///
    /// # Errors
    /// A type whose values have no order.
    pub fn new(method: Method, ids: &DataType) -> Result<Self> {
        let links = match method {
            Method::Components => Links::Forest(Box::default()),
            _ => Links::List(LinkList::default()),
        };
        let members = match links {
            // the forest knows which numbers have come
            Links::Forest(_) => Members::unmarked(ids)?,
            Links::List(_) => Members::new(ids)?,
        };
        Ok(Self { method, members, links })
    }

    /// Whether no id has come yet.
    pub(super) fn is_empty(&self) -> bool {
        self.members.end() == 0
    }
}

impl LinkSink for Clustering {
    fn add(&self, chunk: &LinkChunk) -> Result<()> {
        let (mut left, mut right) = self.members.number_links(chunk)?;
        match &self.links {
            Links::List(list) => list.add((&left, &right), chunk.each_score()),
            Links::Forest(forest) => {
                if !chunk.scores.is_empty() {
                    let ends = left.iter_mut().zip(&mut right).zip(chunk.each_score());
                    for ((left, right), _) in ends.filter(|(_, score)| score.is_none()) {
                        // both ids are there, and not linked
                        [*left, *right].into_iter().filter(|&end| end != NO_MEMBER).for_each(|end| forest.add(end));
                        (*left, *right) = (NO_MEMBER, NO_MEMBER);
                    }
                }
                forest.link_all(&left, &right);
            }
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        let links = match &self.links {
            Links::Forest(forest) => forest.memory(),
            Links::List(list) => list.memory(),
        };
        self.members.memory() + links
    }

    fn memory_to_finish(&self) -> usize {
        match &self.links {
            // the smallest member by root and by member, and the members in turn
            Links::Forest(_) => 3 * size_of::<u32>() * self.members.end(),
            Links::List(list) => memory_to_rank(&self.members, list),
        }
    }

    fn finish(self: Box<Self>, threads: usize, cancel: &Cancel) -> Result<Box<dyn LinkTable>> {
        if let Links::Forest(forest) = &self.links {
            self.members.mark(|number| forest.is_present(number), threads);
        }
        let members = self.members.freeze();
        cancel.check()?;
        let smallest = match self.links {
            Links::Forest(forest) => components(&members, &forest, threads),
            Links::List(list) => ranked(self.method, &members, list.into_links(), threads),
        };
        cancel.check()?;
        let members_in_turn = members.numbers().collect();
        Ok(Box::new(Clusters { members, smallest, members_in_turn }))
    }
}

/// The smallest member of each member's tree, by their numbers.
fn components(members: &FrozenMembers, forest: &Forest, threads: usize) -> Vec<u32> {
    let smallest: Vec<AtomicU32> = (0..members.end()).map(|_| AtomicU32::new(NO_MEMBER)).collect();
    let blocks: Vec<usize> = (0..members.blocks()).collect();
    let share = blocks.len().div_ceil(threads.max(1)).max(1);
    each_in_parallel(blocks.chunks(share), |blocks| {
        for member in blocks.iter().flat_map(|&block| members.of_block(block)) {
            let place = &smallest[forest.root(member) as usize];
            let mut known = place.load(Ordering::Relaxed);
            while known == NO_MEMBER || members.compare(member, known).is_lt() {
                match place.compare_exchange_weak(known, member, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(other) => known = other,
                }
            }
        }
    });
    let of_root: Vec<u32> = smallest.into_iter().map(AtomicU32::into_inner).collect();
    let mut of_member = vec![NO_MEMBER; of_root.len()];
    let slice = of_member.len().div_ceil(threads.max(1)).max(1 << 14);
    each_in_parallel(of_member.chunks_mut(slice).enumerate(), |(at, chunk)| {
        for (member, smallest) in ((at * slice) as u32..).zip(chunk) {
            *smallest = of_root[forest.root(member) as usize];
        }
    });
    of_member
}

/// The smallest member of each member's cluster, by a method that looks at all links at once.
fn ranked(method: Method, members: &FrozenMembers, links: Vec<Link>, threads: usize) -> Vec<u32> {
    let Ranked { numbers, links } = Ranked::new(members, links, threads);
    let clusters = match method {
        Method::Center => centers(numbers.len(), links),
        Method::Star => stars(numbers.len(), &links),
        Method::Split { largest } => split(numbers.len(), links, largest),
        Method::Components => split(numbers.len(), links, usize::MAX),
    };
    // a cluster has the name of its smallest member, whoever its centre is
    let mut names = vec![NO_MEMBER; numbers.len()];
    let mut smallest = vec![NO_MEMBER; members.end()];
    for (&cluster, &number) in clusters.iter().zip(&numbers) {
        let name = &mut names[cluster as usize];
        if *name == NO_MEMBER {
            *name = number;
        }
        smallest[number as usize] = *name;
    }
    smallest
}

/// Ids with the smallest id of their cluster.
#[derive(Debug)]
struct Clusters {
    members: FrozenMembers,
    /// The smallest member of a member's cluster.
    smallest: Vec<u32>,
    members_in_turn: Vec<u32>,
}

impl LinkTable for Clusters {
    fn rows(&self) -> usize {
        self.members_in_turn.len()
    }

    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let members = &self.members_in_turn[rows];
        let ids = self.members.array(members.iter().copied())?;
        let clusters = self.members.array(members.iter().map(|&member| self.smallest[member as usize]))?;
        Ok(vec![ids, clusters])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{AsArray, Float64Array, Int64Array, StringArray, new_null_array};
    use arrow::compute::cast;
    use arrow::datatypes::Int64Type;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;

    use super::*;
    use crate::test_oracle::links::{Edge, random_edges};

    fn chunk(edges: &[Edge], data_type: &DataType, scores: Option<&[f64]>) -> LinkChunk {
        let left: Int64Array = edges.iter().map(|edge| edge.0).collect();
        let right: Int64Array = edges.iter().map(|edge| edge.1).collect();
        LinkChunk {
            left: vec![cast(&left, data_type).unwrap()],
            right: vec![cast(&right, data_type).unwrap()],
            scores: scores.map(|scores| Arc::new(Float64Array::from(scores.to_vec())) as _).into_iter().collect(),
        }
    }

    fn table(table: &dyn LinkTable) -> BTreeMap<String, String> {
        let columns = table.columns(0..table.rows()).unwrap();
        let texts: Vec<ArrayRef> = columns.iter().map(|column| cast(column, &DataType::Utf8).unwrap()).collect();
        let texts: Vec<&StringArray> = texts.iter().map(|column| column.as_string::<i32>()).collect();
        let rows = texts[0].iter().zip(texts[1]).map(|(id, cluster)| (id.unwrap().into(), cluster.unwrap().into()));
        let found: BTreeMap<String, String> = rows.collect();
        assert_eq!(found.len(), table.rows(), "every id comes once");
        found
    }

    fn clusters(method: Method, chunks: &[LinkChunk], data_type: &DataType) -> BTreeMap<String, String> {
        let sink = Box::new(Clustering::new(method, data_type).unwrap());
        std::thread::scope(|scope| {
            for chunk in chunks {
                let sink = &sink;
                scope.spawn(move || sink.add(chunk).unwrap());
            }
        });
        table(sink.finish(2, &Cancel::default()).unwrap().as_ref())
    }

    /// Closure by repeated passes over all edges.
    fn by_passes(edges: &[Edge]) -> BTreeMap<i64, i64> {
        let ids = edges.iter().flat_map(|edge| [edge.0, edge.1]).flatten();
        let mut smallest: BTreeMap<i64, i64> = ids.map(|id| (id, id)).collect();
        loop {
            let mut changed = false;
            for edge in edges {
                let (Some(left), Some(right)) = *edge else { continue };
                let least = smallest[&left].min(smallest[&right]);
                for id in [left, right] {
                    changed |= smallest.insert(id, least) != Some(least);
                }
            }
            if !changed {
                return smallest;
            }
        }
    }

    #[test]
    fn components_of_random_graphs() {
        let mut rng = StdRng::seed_from_u64(35);
        let types = [DataType::Int64, DataType::Int8, DataType::Utf8, DataType::Utf8View, DataType::Float64];
        for case in 0..3000 {
            let edges = random_edges(&mut rng);
            let data_type = &types[case % types.len()];
            let chunks: Vec<LinkChunk> = edges.chunks(7).map(|edges| chunk(edges, data_type, None)).collect();
            let found = clusters(Method::Components, &chunks, data_type);
            let expected = by_passes(&edges);
            if data_type.is_string() {
                // the smallest text is not the smallest number: compare which ids share a cluster
                let mut texts: BTreeMap<i64, String> = BTreeMap::new();
                for (id, cluster) in &expected {
                    let least = texts.entry(*cluster).or_insert_with(|| id.to_string());
                    *least = id.to_string().min(least.clone());
                }
                let expected = expected.iter().map(|(id, cluster)| (id.to_string(), texts[cluster].clone()));
                assert_eq!(found, expected.collect(), "case {case}");
            } else {
                let number = |text: &String| text.parse::<f64>().unwrap() as i64;
                let found: BTreeMap<i64, i64> =
                    found.iter().map(|(id, cluster)| (number(id), number(cluster))).collect();
                assert_eq!(found, expected, "case {case}");
            }
        }
    }

    #[test]
    fn split_without_a_limit_is_components() {
        let mut rng = StdRng::seed_from_u64(36);
        for _ in 0..300 {
            let edges = random_edges(&mut rng);
            let chunks = [chunk(&edges, &DataType::Int64, None)];
            let [a, b] = [Method::Components, Method::Split { largest: 1000 }]
                .map(|method| clusters(method, &chunks, &DataType::Int64));
            assert_eq!(a, b);
        }
    }

    #[test]
    fn order_of_links_changes_nothing() {
        let mut rng = StdRng::seed_from_u64(37);
        for _ in 0..200 {
            let mut edges = random_edges(&mut rng);
            let score = |edge: &Edge| (edge.0.unwrap_or(0) * edge.1.unwrap_or(0)).rem_euclid(5) as f64;
            for method in [Method::Center, Method::Star, Method::Split { largest: 4 }] {
                let mut once = || {
                    edges.shuffle(&mut rng);
                    let scores: Vec<f64> = edges.iter().map(score).collect();
                    clusters(method, &[chunk(&edges, &DataType::Int64, Some(&scores))], &DataType::Int64)
                };
                assert_eq!(once(), once());
            }
        }
    }

    #[test]
    fn long_path_and_many_that_are_alone() {
        let mut edges: Vec<Edge> = (1..200_000).map(|at| (Some(at - 1), Some(at))).collect();
        edges.reverse();
        edges.extend((1_000_000..1_100_000).map(|id| (Some(id), None)));
        let sink = Box::new(Clustering::new(Method::Components, &DataType::Int64).unwrap());
        edges.chunks(50_000).for_each(|edges| sink.add(&chunk(edges, &DataType::Int64, None)).unwrap());
        let needed = sink.memory_to_finish();
        let found = sink.finish(2, &Cancel::default()).unwrap();
        assert_eq!(found.rows(), 300_000);
        assert!(needed >= 300_000 * 3 * size_of::<u32>(), "a reservation of {needed} bytes is too small");
        let columns = found.columns(0..found.rows()).unwrap();
        let [ids, clusters] = [&columns[0], &columns[1]].map(|column| column.as_primitive::<Int64Type>());
        let right = |(id, cluster): (&i64, &i64)| *cluster == if *id < 200_000 { 0 } else { *id };
        assert!(ids.values().iter().zip(clusters.values()).all(right));
    }

    #[test]
    fn ids_that_lie_close_and_ids_that_do_not() {
        let far = |at: i64| at * 1_000_003 - (1 << 40);
        let mut close: Vec<Edge> = (1..5000).map(|at| (Some(at), Some(at - 1))).collect();
        let mut spread: Vec<Edge> = (1..3000).map(|at| (Some(far(at - 1)), Some(far(at)))).collect();
        close.push((Some(10), Some(far(7))));
        spread.push((Some(20_000), None));
        for order in [[&close, &spread], [&spread, &close]] {
            let sink = Box::new(Clustering::new(Method::Components, &DataType::Int64).unwrap());
            order.iter().for_each(|edges| sink.add(&chunk(edges, &DataType::Int64, None)).unwrap());
            let found = sink.finish(3, &Cancel::default()).unwrap();
            assert_eq!(found.rows(), 8001);
            let columns = found.columns(0..found.rows()).unwrap();
            let [ids, clusters] = [&columns[0], &columns[1]].map(|column| column.as_primitive::<Int64Type>());
            let right = |(id, cluster): (&i64, &i64)| *cluster == if *id == 20_000 { 20_000 } else { far(0) };
            assert!(ids.values().iter().zip(clusters.values()).all(right));
        }
    }

    #[test]
    fn links_with_a_null_score_add_their_ends_alone() {
        let mut links = chunk(&[(Some(1), Some(2)), (Some(3), Some(4))], &DataType::Int64, Some(&[0.5, 0.5]));
        links.scores = vec![Arc::new(Float64Array::from(vec![None, Some(0.5)]))];
        for method in [Method::Components, Method::Center, Method::Star, Method::Split { largest: 9 }] {
            let found = clusters(method, std::slice::from_ref(&links), &DataType::Int64);
            let expected = [("1", "1"), ("2", "2"), ("3", "3"), ("4", "3")];
            assert_eq!(found, expected.map(|(id, cluster)| (id.to_string(), cluster.to_string())).into());
        }
    }

    #[test]
    fn ids_need_an_order_and_one_type() {
        assert!(Clustering::new(Method::Star, &DataType::Null).is_err());
        let sink = Clustering::new(Method::Components, &DataType::Int64).unwrap();
        let nulls = new_null_array(&DataType::Utf8, 1);
        let other = LinkChunk { left: vec![nulls.clone()], right: vec![nulls], scores: vec![] };
        assert!(sink.add(&other).is_err());
    }
}
