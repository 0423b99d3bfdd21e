//! Operators as bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use datafusion_similarity::exec::{
    CellsExec, DealtLoopExec, DmlExec, EitherWayExec, GatherExec, IndexedTopKExec, LinksExec,
    MatchingDependencyBlockExec, NearestJoinExec, OneCellExec, RowNumbersExec, SimilarityJoinExec, SmallBatchesExec,
};

use crate::envelope::{self, malformed};
use crate::expressions::{Reader, Writer};
use crate::functions::forwarded_functions;
use crate::messages::{
    DealtLoop, Gather, IndexedTopK, OneCell, Operator, OperatorKind, RowNumber, RowNumbers, SmallBatches,
};
use crate::{division, functions, join, links, nearest, rules};

/// The operators of similarity joins as bytes, and whatever another codec takes.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # use datafusion_proto::bytes::{
/// #     physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
/// # };
/// # use datafusion_similarity::SimilarityContext;
/// # use similarity_codec::SimilarityPhysicalCodec;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::common::Result<()> {
/// let session = SessionContext::new();
/// session.enable_similarity()?;
/// let query = "SELECT * FROM (VALUES ('Anna')) a(x) SIMILARITY JOIN (VALUES ('Ana')) b(y) ON levenshtein(x, y) <= 1";
/// let plan = session.similarity_sql(query).await?.create_physical_plan().await?;
/// let codec = SimilarityPhysicalCodec::default();
/// let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec)?;
/// let plan = physical_plan_from_bytes_with_extension_codec(&bytes, &session.task_ctx(), &codec)?;
/// assert_eq!(datafusion::physical_plan::collect(plan, session.task_ctx()).await?[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SimilarityPhysicalCodec {
    others: Arc<dyn PhysicalExtensionCodec>,
}

impl SimilarityPhysicalCodec {
    /// The codec that leaves what is not of similarity joins to `others`.
    pub fn new(others: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { others }
    }
}

impl Default for SimilarityPhysicalCodec {
    fn default() -> Self {
        Self::new(Arc::new(DefaultPhysicalExtensionCodec {}))
    }
}

impl PhysicalExtensionCodec for SimilarityPhysicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !envelope::is_ours(buf) {
            return self.others.try_decode(buf, inputs, ctx, proto_converter);
        }
        let reader = Reader::new(ctx, self, proto_converter);
        match envelope::open::<Operator>(buf)?.kind {
            Some(OperatorKind::Similarity(message)) => join::from_message(&message, inputs, &reader),
            Some(OperatorKind::Rules(message)) => rules::from_message(&message, inputs, &reader),
            Some(OperatorKind::Nearest(message)) => nearest::from_message(&message, inputs, &reader),
            Some(OperatorKind::Links(message)) => links::from_message(&message, inputs),
            Some(OperatorKind::RowNumbers(message)) => row_numbers_from_message(&message, inputs, &reader),
            Some(OperatorKind::IndexedTopK(message)) => indexed_top_k_from_message(&message, inputs),
            Some(OperatorKind::Gather(_)) => division::gather_from_message(inputs),
            Some(OperatorKind::Cells(message)) => division::cells_from_message(&message, inputs),
            Some(OperatorKind::OneCell(_)) => division::one_cell_from_message(inputs),
            Some(OperatorKind::EitherWay(message)) => division::either_way_from_message(&message, inputs, &reader),
            Some(OperatorKind::DealtLoop(_)) => dealt_loop_from_message(inputs),
            Some(OperatorKind::SmallBatches(message)) => small_batches_from_message(&message, inputs),
            None => Err(malformed("this release does not know the operator")),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let writer = Writer { codec: self, converter: proto_converter };
        let kind = if let Some(join) = node.downcast_ref::<SimilarityJoinExec>() {
            OperatorKind::Similarity(join::to_message(join, writer)?)
        } else if let Some(join) = node.downcast_ref::<MatchingDependencyBlockExec>() {
            OperatorKind::Rules(rules::to_message(join, writer)?)
        } else if let Some(join) = node.downcast_ref::<NearestJoinExec>() {
            OperatorKind::Nearest(Box::new(nearest::to_message(join, writer)?))
        } else if let Some(links) = node.downcast_ref::<LinksExec>() {
            OperatorKind::Links(links::to_message(links)?)
        } else if let Some(numbers) = node.downcast_ref::<RowNumbersExec>() {
            OperatorKind::RowNumbers(row_numbers_to_message(numbers, writer)?)
        } else if let Some(top) = node.downcast_ref::<IndexedTopKExec>() {
            OperatorKind::IndexedTopK(IndexedTopK { rows: top.rows() as u64, nulls_first: top.nulls_first() })
        } else if node.is::<GatherExec>() {
            OperatorKind::Gather(Gather {})
        } else if let Some(cells) = node.downcast_ref::<CellsExec>() {
            OperatorKind::Cells(division::cells_to_message(cells))
        } else if node.is::<OneCellExec>() {
            OperatorKind::OneCell(OneCell {})
        } else if let Some(ways) = node.downcast_ref::<EitherWayExec>() {
            OperatorKind::EitherWay(Box::new(division::either_way_to_message(ways, writer)?))
        } else if node.is::<DealtLoopExec>() {
            OperatorKind::DealtLoop(DealtLoop {})
        } else if let Some(batches) = node.downcast_ref::<SmallBatchesExec>() {
            OperatorKind::SmallBatches(SmallBatches { rows: batches.rows() as u64 })
        } else if node.is::<DmlExec>() || node.name() == "EstimateExec" {
            return plan_err!(
                "{} reads or changes the session that has planned it, and runs nowhere else; run the statement in a \
                 session of one process",
                node.name()
            );
        } else {
            return self.others.try_encode(node, buf, proto_converter);
        };
        envelope::seal(&Operator { kind: Some(kind) }, buf);
        Ok(())
    }

    forwarded_functions!();

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        ctx: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.others.try_decode_expr(buf, inputs, ctx)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.others.try_encode_expr(node, buf, ctx)
    }
}

fn row_numbers_to_message(numbers: &RowNumbersExec, writer: Writer<'_>) -> Result<RowNumbers> {
    let number = |number: &datafusion_similarity::exec::RowNumber| {
        Ok(RowNumber { field: Some(number.field.as_ref().try_into()?), order: writer.order(&number.order)? })
    };
    Ok(RowNumbers { numbers: numbers.numbers().iter().map(number).collect::<Result<_>>()? })
}

fn row_numbers_from_message(
    message: &RowNumbers,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("row numbers have one input")) };
    let schema = input.schema();
    let number = |number: &RowNumber| {
        let field = number.field.as_ref().ok_or_else(|| malformed("a column of row numbers has no name"))?;
        let field = Arc::new(Field::try_from(field)?);
        let order = reader.order(&number.order, &schema)?;
        match *field.data_type() == datafusion::arrow::datatypes::DataType::UInt64
            && RowNumbersExec::supports(&order, &schema)
        {
            true => Ok(datafusion_similarity::exec::RowNumber { field, order }),
            false => Err(malformed("rows cannot be numbered in such an order")),
        }
    };
    let numbers = message.numbers.iter().map(number).collect::<Result<_>>()?;
    Ok(Arc::new(RowNumbersExec::new(numbers, Arc::clone(input))))
}

fn dealt_loop_from_message(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [dealt] = inputs else { return Err(malformed("a nested loop with dealt rows is one plan")) };
    let dealt = DealtLoopExec::of_dealt(Arc::clone(dealt));
    Ok(Arc::new(dealt.map_err(|_| malformed("no rows are dealt to a nested loop"))?))
}

fn small_batches_from_message(
    message: &SmallBatches,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("small batches have one input")) };
    let rows = usize::try_from(message.rows).map_err(|_| malformed("a batch has too many rows"))?;
    Ok(Arc::new(SmallBatchesExec::new(rows, Arc::clone(input))))
}

fn indexed_top_k_from_message(
    message: &IndexedTopK,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let [nearest, stock] = inputs else { return Err(malformed("the first rows by an index have two plans")) };
    if nearest.schema() != stock.schema() {
        return Err(malformed("both plans of the first rows have other columns"));
    }
    let both = [Arc::clone(nearest), Arc::clone(stock)];
    Ok(Arc::new(IndexedTopKExec::new(both, nearest::rows(message.rows)?, message.nulls_first)))
}
