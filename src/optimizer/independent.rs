//! Plans whose output partitions may each run in a process of its own, and how joins are divided among processes.
//!
//! | division | who reads what | for |
//! |---|---|---|
//! | an index in each process | every process all rows of the indexed side | all joins; best where it is small |
//! | by equality keys | every partition the rows of its keys | all joins with equality keys |
//! | grid | cell (i, j) slice i of one side and slice j of the other | pairs of inner joins |
//! | triangle | cell (i, j), i < j, two slices of one input; cell (i, i) one of them | pairs of self-joins |
//!
//! The cost of a division is the number of rows that one core reads, to index them or to look them up. For self-joins
//! it is also what that core compares.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, replace_children_if_necessary};

use super::build_side;
use crate::exec::{
    CellsExec, EitherWayExec, GatherExec, JoinExec, JoinInputs, JoinSpec, JoinStrategy, LinksExec,
    MatchingDependencyBlockExec, NearestJoinExec, RowNumbersExec, SimilarityJoinExec, cells_of_partitions, either_way,
};

/// How many processes run the output partitions of a plan, as an extension of a session's configuration. Without it
/// each partition may have one of its own.
#[derive(Debug, Clone, Copy)]
pub struct Processes(pub usize);

/// What a plan runs on.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    /// Output partitions that run side by side.
    cores: usize,
    processes: usize,
}

/// Joins of fewer rows are not worth the way of their rows through a hash partitioning.
const SMALL: usize = 50_000;

/// Rows of an input of which nothing is known.
const UNKNOWN: usize = 1_000_000;

/// What it costs to send a row to another process and to read it there, in rows that are indexed or looked up.
const SENT: f64 = 0.3;

/// What a row that is looked up costs more for each row of the index, in the same unit. By measured times of a
/// million rows it is 1.7 for ten rules about people, and 30 for 3-grams at 0.8.
const COMPARED: f64 = 3e-6;

/// `plan` without operators whose partitions count on each other, and without those that read several partitions in one
/// of their own. Where `sorted`, somebody may count on the order of its rows.
pub(super) fn with_independent_partitions(
    plan: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
    sorted: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let cores = session.config().target_partitions();
    let processes = session.config().get_extension::<Processes>().map_or(cores, |processes| processes.0);
    Cluster { cores, processes: processes.clamp(1, cores) }.plan(plan, sorted)
}

impl Cluster {
    fn plan(self, operator: Arc<dyn ExecutionPlan>, sorted: bool) -> Result<Arc<dyn ExecutionPlan>> {
        let (required, kept) = (operator.required_input_ordering(), operator.maintains_input_order());
        let counts_on_order = |input: usize| {
            required.get(input).is_none_or(Option::is_some) || sorted && kept.get(input).is_none_or(|&kept| kept)
        };
        let inputs = operator.children().into_iter().cloned().enumerate();
        let inputs = inputs.map(|(number, input)| self.plan(input, counts_on_order(number)));
        let operator = replace_children_if_necessary(Arc::clone(&operator), inputs.collect::<Result<_>>()?)?;
        let independent = if let Some(join) = operator.downcast_ref::<SimilarityJoinExec>() {
            divided(join, self, (true, sorted))?
        } else if let Some(join) = operator.downcast_ref::<MatchingDependencyBlockExec>() {
            divided(join, self, (true, sorted))?
        } else if let Some(join) = operator.downcast_ref::<NearestJoinExec>() {
            divided(join, self, (false, sorted))?
        } else if operator.is::<LinksExec>() || operator.is::<RowNumbersExec>() {
            Some(with_gathered_inputs(&operator)?)
        } else {
            None
        };
        Ok(independent.unwrap_or(operator))
    }
}

fn with_gathered_inputs(operator: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let gathered =
        |input: &Arc<dyn ExecutionPlan>| Arc::new(GatherExec::new(Arc::clone(input))) as Arc<dyn ExecutionPlan>;
    let inputs = operator.children().into_iter().map(gathered).collect();
    Arc::clone(operator).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// How the work of a join is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Division {
    /// Every process has an index of all rows.
    Replicated,
    /// One process has the index, and all of its cores look up.
    OneProcess,
    /// Every partition has the rows of its keys.
    Keys,
    /// The build side in so many slices, and the probe side.
    Grid { build: usize, probe: usize },
    /// One input in so many slices.
    Triangle { slices: usize },
}

/// The join with partitions that are independent, where they are not; `of_pairs`, where each pair counts by itself, and
/// `sorted`, where somebody counts on the order of its rows.
fn divided<M: JoinStrategy>(
    join: &JoinExec<M>,
    cluster: Cluster,
    (of_pairs, sorted): (bool, bool),
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let divided = match cheapest(join, cluster, (of_pairs, sorted))? {
        Division::Replicated if join.needs_one_process().is_none() => return Ok(None),
        Division::Replicated => Arc::new(join.independent()?),
        Division::OneProcess => in_one_process(join)?,
        Division::Keys => by_keys(join, cluster)?,
        Division::Grid { build, probe } => grid(join, [build, probe], cluster)?,
        Division::Triangle { slices } => triangle(join, slices, cluster)?,
    };
    // whatever reads the join may have counted on its one partition
    Ok(Some(match join.properties().partitioning.partition_count() {
        1 => Arc::new(GatherExec::new(divided)),
        _ => divided,
    }))
}

/// The division that costs least.
fn cheapest<M: JoinStrategy>(
    join: &JoinExec<M>,
    cluster: Cluster,
    (of_pairs, sorted): (bool, bool),
) -> Result<Division> {
    let spec = join.spec();
    let (build, probe) = (join.inputs().side(spec.build), join.inputs().side(spec.build.negate()));
    let rows = |side: &Arc<dyn ExecutionPlan>| -> Result<usize> {
        Ok(build_side::rows(side.as_ref())?.get_value().copied().unwrap_or(UNKNOWN))
    };
    let is_self_join = join.inputs().is_self_join();
    let [build, probe] = [rows(build)? as f64, if is_self_join { 0.0 } else { rows(probe)? as f64 }];
    // an index that is kept is one of all rows, what may miss pairs says which by all of them, and an order is lost
    let is_ordered = sorted && join.properties().output_ordering().is_some();
    let is_whole = spec.index.is_some() || spec.recall.is_some() || is_ordered || cluster.cores == 1;
    let is_forced = !join.matching().engine().overrides.replicated;
    if is_whole || build + probe < SMALL as f64 && !is_forced {
        return Ok(Division::Replicated);
    }
    let (cores, threads) = (cluster.cores as f64, cluster.cores as f64 / cluster.processes as f64);
    let looked_up = if is_self_join { build } else { probe };
    // a self-join compares each row with half of the rows on average; two inputs compare as much in any division
    let half = if is_self_join { COMPARED * build * build / cores / 2.0 } else { 0.0 };
    // here it finds each pair from both rows, and of neither is known that it is the smaller
    let replicated = build / threads * (1.0 + SENT) + looked_up / cores + 4.0 * half;
    let mut divisions = vec![(Division::Replicated, replicated)];
    if is_self_join && cluster.processes == 1 {
        divisions.push((Division::OneProcess, (build + looked_up) / cores + half));
    }
    if keys(join).is_some() {
        divisions.push((Division::Keys, (build + looked_up) / cores * (1.0 + SENT) + half));
    }
    // pairs of an inner join count by themselves, whatever else the rows pair with
    if of_pairs && spec.join_type == JoinType::Inner {
        match is_self_join {
            true if spec.residual.len() == 1 && !join.matching().info().directed => {
                let slices = slices_of_triangle(cluster.cores);
                // each slice is in a cell with each other one, and in one of its own, where it is both sides
                let read = (slices as f64 + 1.0) * build;
                divisions.push((Division::Triangle { slices }, read / cores * (1.0 + SENT) + 2.0 * half));
            }
            true => {}
            false => {
                let grids = (1..=cluster.cores).map(|slices| (slices, cluster.cores / slices));
                divisions.extend(grids.map(|(of_build, of_probe)| {
                    let read = build / of_build as f64 + probe / of_probe as f64;
                    (Division::Grid { build: of_build, probe: of_probe }, read * (1.0 + SENT))
                }));
            }
        }
    }
    if is_forced && divisions.len() > 1 {
        divisions.remove(0);
    }
    let cheapest = divisions.into_iter().min_by(|(_, one), (_, other)| one.total_cmp(other));
    Ok(cheapest.map_or(Division::Replicated, |(division, _)| division))
}

/// The most slices of which all pairs are as many cells as there are cores; at least two.
fn slices_of_triangle(cores: usize) -> usize {
    (2..=cores.max(2)).take_while(|slices| slices * (slices - 1) / 2 <= cores).last().unwrap_or(2)
}

/// The equality keys of both sides, where hash partitioning can go by them: columns whose equal values have one hash.
fn keys<M: JoinStrategy>(join: &JoinExec<M>) -> Option<[Vec<PhysicalExprRef>; 2]> {
    let equalities = join.matching().equalities().filter(|equalities| !equalities.is_empty())?;
    let schema = join.inputs().side(join.spec().build).schema();
    let fits = equalities.iter().all(|key| {
        let of_build = if join.spec().build == JoinSide::Right { &key.right } else { &key.left };
        let has_one_hash = |data_type: DataType| !data_type.is_floating() && !data_type.is_nested();
        let are_columns = key.left.is::<Column>() && key.right.is::<Column>();
        are_columns && of_build.data_type(&schema).is_ok_and(has_one_hash)
    });
    let (left, right) = equalities.into_iter().map(|key| (key.left, key.right)).unzip();
    fits.then_some([left, right])
}

/// `input` as it comes before it is brought into one partition.
fn apart(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::clone(input.downcast_ref::<CoalescePartitionsExec>().map_or(input, CoalescePartitionsExec::input))
}

/// `join` on other inputs.
fn over<M: JoinStrategy>(
    join: &JoinExec<M>,
    inputs: JoinInputs,
    spec: JoinSpec,
    projection: Option<&[usize]>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let matching = Arc::clone(join.shared_matching());
    Ok(Arc::new(JoinExec::with_projection(inputs, Arc::new(spec), matching, projection.map(<[_]>::to_vec))?))
}

fn in_one_process<M: JoinStrategy>(join: &JoinExec<M>) -> Result<Arc<dyn ExecutionPlan>> {
    let input = Arc::clone(join.inputs().side(join.spec().build));
    let inputs = JoinInputs::SelfJoin { input, partitions: 1 };
    over(join, inputs, join.spec().clone(), join.projection())
}

fn by_keys<M: JoinStrategy>(join: &JoinExec<M>, cluster: Cluster) -> Result<Arc<dyn ExecutionPlan>> {
    let Some([left_keys, right_keys]) = keys(join) else { return Ok(Arc::new(join.independent()?)) };
    let hashed = |input: &Arc<dyn ExecutionPlan>, keys: Vec<PhysicalExprRef>| -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RepartitionExec::try_new(apart(input), Partitioning::Hash(keys, cluster.cores))?))
    };
    let left = hashed(join.inputs().side(JoinSide::Left), left_keys)?;
    let inputs = match join.inputs().is_self_join() {
        true => JoinInputs::PartitionedSelfJoin { input: left },
        false => JoinInputs::Partitioned { left, right: hashed(join.inputs().side(JoinSide::Right), right_keys)? },
    };
    let why_build = format!("{}, divided by the equality keys", join.spec().why_build);
    over(join, inputs, JoinSpec { why_build, ..join.spec().clone() }, join.projection())
}

fn grid<M: JoinStrategy>(
    join: &JoinExec<M>,
    [of_build, of_probe]: [usize; 2],
    cluster: Cluster,
) -> Result<Arc<dyn ExecutionPlan>> {
    let numbers = cells_of_partitions(cluster.cores)?;
    let cell = |build: usize, probe: usize| numbers[build * of_probe + probe];
    let build_slices = (0..of_build).map(|build| (0..of_probe).map(|probe| cell(build, probe)).collect()).collect();
    let probe_slices = (0..of_probe).map(|probe| (0..of_build).map(|build| cell(build, probe)).collect()).collect();
    let (build, probe) = (join.inputs().side(join.spec().build), join.inputs().side(join.spec().build.negate()));
    let build = CellsExec::one_cell_each(apart(build), build_slices, cluster.cores)?;
    let probe = CellsExec::one_cell_each(apart(probe), probe_slices, cluster.cores)?;
    let (left, right) = if join.spec().build == JoinSide::Right { (probe, build) } else { (build, probe) };
    let spec = join.spec();
    let spec = JoinSpec {
        why_build: format!("{}, in a grid of {of_build} x {of_probe} cells", spec.why_build),
        probe_rows: spec.probe_rows.map(|rows| rows.div_ceil(of_probe)),
        ..spec.clone()
    };
    over(join, JoinInputs::Partitioned { left, right }, spec, join.projection())
}

/// The self-join of each slice, beside the joins of each slice with those behind it.
fn triangle<M: JoinStrategy>(join: &JoinExec<M>, slices: usize, cluster: Cluster) -> Result<Arc<dyn ExecutionPlan>> {
    let numbers = cells_of_partitions(cluster.cores.max(slices))?;
    let input = apart(join.inputs().side(join.spec().build));
    let own: Arc<[Vec<u32>]> = (0..slices).map(|slice| vec![numbers[slice]]).collect();
    let of_slice = CellsExec::one_cell_each(Arc::clone(&input), own, numbers.len())?;
    let within = JoinInputs::PartitionedSelfJoin { input: of_slice };
    let within = over(join, within, join.spec().clone(), join.projection())?;

    let numbers = cells_of_partitions(cluster.cores)?;
    // the cells of (0, 1), (0, 2), .., (1, 2), ..
    let cell = |first: usize, second: usize| numbers[first * (2 * slices - first - 1) / 2 + second - first - 1];
    let firsts = (0..slices).map(|first| (first + 1..slices).map(|second| cell(first, second)).collect()).collect();
    let seconds = (0..slices).map(|second| (0..second).map(|first| cell(first, second)).collect()).collect();
    let left = CellsExec::one_cell_each(Arc::clone(&input), firsts, cluster.cores)?;
    let right = CellsExec::one_cell_each(input, seconds, cluster.cores)?;
    let spec = join.spec();
    let [way] = spec.residual.as_slice() else { return Ok(Arc::new(join.independent()?)) };
    let between = JoinSpec {
        why_build: format!("two of {slices} slices of one input"),
        residual: vec![either_way(way)?],
        condition: either_way(&spec.condition)?,
        probe_rows: spec.probe_rows.map(|rows| rows / slices),
        ..spec.clone()
    };
    let between = over(join, JoinInputs::Partitioned { left, right }, between, None)?;
    let between = EitherWayExec::try_new(between, way.clone(), join.projection().map(<[_]>::to_vec))?;
    UnionExec::try_new(vec![within, Arc::new(between)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triangle_has_no_more_cells_than_cores() {
        let slices: Vec<usize> = [1, 2, 3, 6, 9, 10, 16, 28].map(slices_of_triangle).into();
        assert_eq!(slices, [2, 2, 3, 4, 4, 5, 6, 8]);
    }
}
