//! Runs of positions that are alike in group and length, and how to find those of a group.

use std::ops::Range;

use super::sorted::SortedStrings;

/// Positions of one group whose strings have the same number of characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) length: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Run {
    pub(super) fn positions(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// All runs of a build side, in the order of positions.
#[derive(Debug)]
pub(super) struct Runs {
    runs: Vec<Run>,
    /// Where the runs of each group start; one entry more than groups.
    groups: Vec<u32>,
}

impl Runs {
    pub(super) fn of(texts: &SortedStrings) -> Self {
        let mut runs = Vec::new();
        let mut groups = vec![0; texts.groups.last().map_or(0, |&group| group as usize + 1) + 1];
        let key = |position: usize| (texts.groups[position], texts.lengths[position]);
        let mut start = 0;
        while start < texts.len() {
            let end = (start + 1..texts.len()).find(|&p| key(p) != key(start)).unwrap_or(texts.len());
            runs.push(Run { length: texts.lengths[start], start: start as u32, end: end as u32 });
            groups[texts.groups[start] as usize + 1] += 1;
            start = end;
        }
        (1..groups.len()).for_each(|group| groups[group] += groups[group - 1]);
        Self { runs, groups }
    }

    /// Upper bound of the bytes that the runs of `texts` take.
    pub(super) fn size(texts: &SortedStrings) -> usize {
        let groups = texts.groups.last().map_or(0, |&group| group as usize);
        texts.len() * size_of::<Run>() + (groups + 2) * size_of::<u32>()
    }

    pub(super) fn all(&self) -> &[Run] {
        &self.runs
    }

    /// The runs of each group.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        self.groups.windows(2).map(|ends| ends[0] as usize..ends[1] as usize)
    }

    /// The runs of a group whose length is `possible` for a string of `length` characters.
    ///
    /// The farther two lengths are apart, the less may be possible.
    #[inline]
    pub(super) fn within(&self, group: u32, length: u32, possible: impl Fn(u32) -> bool) -> Range<usize> {
        let group = group as usize;
        let Some(&[first, end]) = self.groups.get(group..group + 2) else { return 0..0 };
        let runs = &self.runs[first as usize..end as usize];
        let middle = runs.partition_point(|run| run.length < length);
        let low = runs[..middle].partition_point(|run| !possible(run.length));
        let high = middle + runs[middle..].partition_point(|run| possible(run.length));
        first as usize + low..first as usize + high
    }

    /// The runs of a group, and the first of them that is not shorter than `length` characters.
    pub(super) fn around(&self, group: u32, length: u32) -> (Range<usize>, usize) {
        let runs = self.within(group, length, |_| true);
        let shorter = self.runs[runs.clone()].partition_point(|run| run.length < length);
        (runs.clone(), runs.start + shorter)
    }

    /// The positions of neighbouring runs, `None` if there are none.
    pub(super) fn positions(&self, runs: Range<usize>) -> Option<Range<usize>> {
        let runs = &self.runs[runs];
        Some(runs.first()?.start as usize..runs.last()?.end as usize)
    }

    pub(super) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.groups.capacity() * size_of::<u32>()
    }
}
