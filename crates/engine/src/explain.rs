//! What EXPLAIN says of an engine before a join runs: which one it may be, and how it finds pairs.

use arrow::datatypes::DataType;

use super::accelerator::Platform;
use super::choice::{Asked, EngineSpec};
use super::nearest::Wanted;
use super::offload::{self, ROWS_OF_RULES, RULES};
use super::work::OffloadThreshold;
use crate::access_path::AccessPaths;
use crate::condition::Condition;
use crate::cpu;
use crate::links::IntegerIds;
use crate::ranking::Ranking;
use crate::recall::Recall;

impl EngineSpec {
    /// Which engine runs a join of rules, for EXPLAIN.
    pub fn explain_rules(self, platform: Option<&dyn Platform>) -> String {
        match self.possible(platform) {
            Asked::Cpu => "cpu".into(),
            Asked::Cuda => format!("cuda:{}, cpu for what it has no kernels for", self.devices),
            Asked::Auto => format!("cpu, or cuda:{} {RULES}, then also from {ROWS_OF_RULES} rows on", self.devices),
        }
    }

    /// Which engine runs a condition, for EXPLAIN.
    pub fn explain(self, platform: Option<&dyn Platform>, condition: Condition) -> String {
        let flat = platform.map_or(0, Platform::few_dimensions);
        let pays = |dimension| platform.and_then(|kind| offload::of_condition(kind, condition, dimension));
        let engine = self.explain_where(platform, pays(flat + 1), "condition");
        match (self.possible(platform), condition, pays(0)) {
            (Asked::Auto, Condition::Vector(_), Some(few)) => format!("{engine}; in up to {flat} dimensions {few}"),
            _ => engine,
        }
    }

    /// Which engine ranks so many rows, for EXPLAIN.
    pub fn explain_ranking(self, platform: Option<&dyn Platform>, ranking: &Ranking, wanted: Wanted) -> String {
        let pays = platform.and_then(|kind| offload::of_ranking(kind, ranking, wanted));
        let engine = self.explain_where(platform, pays, "ranking");
        match (self.possible(platform), ranking, platform.filter(|_| pays.is_some())) {
            (Asked::Auto, Ranking::Score(Condition::Vector(_)), Some(kind)) => {
                format!("{engine}; cpu in up to {} dimensions", kind.few_dimensions())
            }
            _ => engine,
        }
    }

    /// Which engine finds components of links between ids of this type, for EXPLAIN.
    pub fn explain_components(self, platform: Option<&dyn Platform>, ids: &DataType) -> String {
        let pays = platform.filter(|_| IntegerIds::of(ids).is_some()).and_then(offload::of_components);
        self.explain_where(platform, pays, &format!("type, {ids}"))
    }

    fn explain_where(self, platform: Option<&dyn Platform>, pays: Option<OffloadThreshold>, what: &str) -> String {
        match (self.possible(platform), pays) {
            (Asked::Cuda | Asked::Auto, None) => format!("cpu (no kernels for this {what})"),
            (Asked::Cuda, Some(_)) => format!("cuda:{}", self.devices),
            (Asked::Auto, Some(pays)) => format!("cpu, or cuda:{} {pays}", self.devices),
            (Asked::Cpu, _) => "cpu".into(),
        }
    }

    /// The access paths for a condition of which so many pairs have to be found, on the engine that may run it.
    pub fn access_paths(self, platform: Option<&dyn Platform>, condition: Condition, recall: Option<Recall>) -> String {
        let served = platform.filter(|platform| platform.serves(condition));
        self.paths_where(
            platform,
            cpu::access_paths(condition, recall),
            served.map(|kind| kind.access_paths(condition)),
        )
    }

    /// The access paths for a ranking of so many rows, on the engine that may run it; where there is a `recall`,
    /// neighbours may be missed.
    pub fn ranking_access_paths(
        self,
        platform: Option<&dyn Platform>,
        ranking: &Ranking,
        wanted: Wanted,
        recall: Option<Recall>,
    ) -> String {
        let pays = |kind: &&dyn Platform| offload::of_ranking(*kind, ranking, wanted).is_some();
        let served = platform.filter(pays).map(|kind| kind.ranking_access_paths(ranking));
        self.paths_where(platform, cpu::nearest_access_paths(ranking, recall), served)
    }

    fn paths_where(
        self,
        platform: Option<&dyn Platform>,
        on_cpu: AccessPaths,
        on_device: Option<AccessPaths>,
    ) -> String {
        match (self.possible(platform), on_device) {
            (Asked::Cuda, Some(paths)) => paths.to_string(),
            (Asked::Auto, Some(paths)) if paths != on_cpu => format!("{on_cpu}; on cuda:{} {paths}", self.devices),
            _ => on_cpu.to_string(),
        }
    }

    /// What was asked for, as far as this machine can have it: `auto` means the CPU where no driver is installed.
    fn possible(self, platform: Option<&dyn Platform>) -> Asked {
        match self.asked {
            Asked::Auto if !platform.is_some_and(Platform::has_driver) => Asked::Cpu,
            asked => asked,
        }
    }
}
