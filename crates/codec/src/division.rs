//! The operators that divide a join among processes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_similarity::exec::{CellsExec, EitherWayExec, GatherExec, OneCellExec};

use crate::envelope::malformed;
use crate::expressions::{Reader, Schemas, Writer};
use crate::join::{projection_from_message, projection_to_message};
use crate::messages::{Cells, EitherWay, Slice};

pub fn gather_from_message(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("rows are gathered from one input")) };
    Ok(Arc::new(GatherExec::new(Arc::clone(input))))
}

pub fn cells_to_message(cells: &CellsExec) -> Cells {
    Cells { slices: cells.slices().iter().map(|cells| Slice { cells: cells.clone() }).collect() }
}

pub fn cells_from_message(message: &Cells, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("the rows of one input have cells")) };
    if message.slices.is_empty() {
        return Err(malformed("rows have no cells"));
    }
    let slices = message.slices.iter().map(|slice| slice.cells.clone()).collect();
    Ok(Arc::new(CellsExec::new(Arc::clone(input), slices)))
}

pub fn one_cell_from_message(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("a cell has one input")) };
    let cell = OneCellExec::try_new(Arc::clone(input)).map_err(|_| malformed("rows have no cell"))?;
    Ok(Arc::new(cell))
}

pub fn either_way_to_message(ways: &EitherWayExec, writer: Writer<'_>) -> Result<EitherWay> {
    let projection = projection_to_message(ways.projection());
    Ok(EitherWay { condition: Some(writer.filter(ways.condition())?), projection })
}

pub fn either_way_from_message(
    message: &EitherWay,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [pairs] = inputs else { return Err(malformed("pairs have one input")) };
    let both = pairs.schema();
    let columns = both.fields().len() / 2;
    let row = both.project(&(0..columns).collect::<Vec<_>>())?;
    let condition = message.condition.as_ref().ok_or_else(|| malformed("the condition of pairs is missing"))?;
    let condition = reader.filter(condition, Schemas { left: &row, right: &row })?;
    let projection = projection_from_message(message.projection.as_ref(), 2 * columns)?;
    let ways = EitherWayExec::try_new(Arc::clone(pairs), condition, projection);
    Ok(Arc::new(ways.map_err(|_| malformed("the rows of a pair have different columns"))?))
}
