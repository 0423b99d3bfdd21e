//! What a ranking knows that may miss neighbours: what is asked of it, in which cluster a row is, and what became of
//! samples.

use super::super::lanes::Real;
use super::super::sorted::Side;
use crate::metrics::{Count, MetricValue};
use crate::nearest::Wanted;
use crate::recall::Recall;
use crate::stored::stored;

/// Probe rows for each one that may be drawn.
pub(super) const ROWS_FOR_EACH: usize = 4;

/// What is asked of a ranking that may miss neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) recall: Recall,
    pub(super) wanted: Wanted,
}

stored!(Asked { recall, wanted });

impl Asked {
    /// Whether so many probe rows are enough to show the recall with a few of them.
    pub(super) fn is_shown_among(self, rows: usize) -> bool {
        self.recall.fewest_shown() <= rows / ROWS_FOR_EACH
    }
}

/// What has become of samples, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Neighbours of sampled rows.
    pub(super) neighbours: Count,
    /// Neighbours among them in the clusters that are visited.
    pub(super) found: Count,
    /// Neighbours among them that a bound on the recall stands for.
    pub(super) shown: Count,
    /// Rows that were searched in clusters.
    pub(super) searched: Count,
    /// Clusters that they visited.
    pub(super) visited: Count,
}

impl Counters {
    pub(super) fn metrics(&self) -> Vec<MetricValue> {
        let counts = [
            ("recall_sample_pairs", &self.neighbours),
            ("recall_sample_found", &self.found),
            ("recall_sample_shown", &self.shown),
            ("clustered_rows", &self.searched),
            ("clusters_visited", &self.visited),
        ];
        counts.map(|(name, count)| MetricValue::Count { name: name.into(), count: count.clone() }).to_vec()
    }
}

/// What a ranking that may miss neighbours knows besides.
#[derive(Debug)]
pub(super) struct Approximate {
    pub(super) asked: Asked,
    /// The cluster of each row, [`NO_CLUSTER`] where it has none.
    clusters: Vec<u32>,
    /// How many clusters the rows of a self-join visit; `None` where they are searched exactly.
    pub(super) self_join: Option<usize>,
    pub(super) counters: Counters,
}

stored!(Approximate { asked, clusters, self_join } with { counters: Counters::default() });

/// Stands for no cluster.
const NO_CLUSTER: u32 = u32::MAX;

impl Approximate {
    /// What is asked of the clusters of a side of `rows` rows; nothing, where it has none.
    pub(super) fn of<R: Real>(asked: Option<Asked>, side: &Side<R>, rows: usize) -> Option<Self> {
        let blocks = &side.blocks;
        let asked = asked.filter(|_| !blocks.clusters.is_empty())?;
        let mut clusters = vec![NO_CLUSTER; rows];
        for of_group in &blocks.clusters {
            for (leaves, cluster) in of_group.leaves.iter().zip(0..) {
                for leaf in &blocks.leaves[leaves.start as usize..leaves.end as usize] {
                    let rows = &blocks.rows[leaf.first as usize..(leaf.first + leaf.len) as usize];
                    rows.iter().for_each(|&row| clusters[row as usize] = cluster);
                }
            }
        }
        Some(Self { asked, clusters, self_join: None, counters: Counters::default() })
    }

    /// The cluster of a row, if it has one.
    pub(super) fn cluster_of(&self, row: u32) -> Option<u32> {
        let cluster = self.clusters[row as usize];
        (cluster != NO_CLUSTER).then_some(cluster)
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.clusters.capacity() * size_of::<u32>()
    }
}
