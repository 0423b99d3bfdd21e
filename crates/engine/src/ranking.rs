//! What rows are ranked by.

use std::fmt::{Display, Formatter};

use crate::condition::Condition;
use crate::match_count::MatchCount;

/// What the rows of a build side are ranked by.
#[derive(Debug, Clone)]
pub enum Ranking {
    /// The score of a condition, whose bounds are ignored.
    Score(Condition),
    /// How many conditions hold, or the sum of their weights.
    MatchCount(MatchCount),
}

impl From<Condition> for Ranking {
    fn from(condition: Condition) -> Self {
        Self::Score(condition)
    }
}

impl From<MatchCount> for Ranking {
    fn from(count: MatchCount) -> Self {
        Self::MatchCount(count)
    }
}

impl Display for Ranking {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Score(condition) => condition.fmt(f),
            Self::MatchCount(MatchCount { conditions, weights: None }) => write!(f, "match count of {conditions}"),
            Self::MatchCount(MatchCount { conditions, weights: Some(_) }) => {
                write!(f, "weighted match count of {conditions}")
            }
        }
    }
}
