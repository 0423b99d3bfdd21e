//! Nodes of logical plans as bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, Extension, HigherOrderUDF, LogicalPlan, ScalarUDF, SortExpr, WindowUDF,
};
use datafusion_proto::logical_plan::from_proto::{parse_expr, parse_sorts};
use datafusion_proto::logical_plan::to_proto::{serialize_expr, serialize_sorts};
use datafusion_proto::logical_plan::{DefaultLogicalExtensionCodec, LogicalExtensionCodec};
use datafusion_proto::protobuf::{LogicalExprNode, SortExprNode};
use datafusion_similarity::functions::nearest::{Direction, Nearest};
use datafusion_similarity::optimizer::{DmlNode, LinksNode, NearestJoinNode, SimilarityJoinNode};
use similarity_engine::recall::Recall;

use crate::envelope::{self, malformed};
use crate::functions::forwarded_functions;
use crate::messages::{NearestNode, Node, NodeKind, SimilarityNode};
use crate::{functions, join, links, nearest};

/// The nodes of similarity joins as bytes, and whatever another codec takes.
#[derive(Debug)]
pub struct SimilarityLogicalCodec {
    others: Arc<dyn LogicalExtensionCodec>,
}

impl SimilarityLogicalCodec {
    /// The codec that leaves what is not of similarity joins to `others`.
    pub fn new(others: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { others }
    }

    fn expression(&self, expr: &Expr) -> Result<Option<Box<LogicalExprNode>>> {
        Ok(Some(Box::new(serialize_expr(expr, self)?)))
    }

    fn read(&self, message: Option<&LogicalExprNode>, ctx: &TaskContext) -> Result<Expr> {
        let message = message.ok_or_else(|| malformed("an expression is missing"))?;
        Ok(parse_expr(message, ctx, self)?)
    }

    fn order(&self, order: &[SortExpr]) -> Result<Vec<SortExprNode>> {
        Ok(serialize_sorts(order, self)?)
    }

    fn similarity(&self, node: &SimilarityJoinNode) -> Result<SimilarityNode> {
        Ok(SimilarityNode {
            join_type: join::join_type_to_message(node.join_type())?.into(),
            condition: self.expression(node.condition())?,
            contract: node.contract(),
            recall: node.recall().map(Recall::share),
        })
    }

    fn read_similarity(
        &self,
        message: &SimilarityNode,
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> Result<SimilarityJoinNode> {
        let [left, right] = inputs else { return Err(malformed("a join has two inputs")) };
        let condition = self.read(message.condition.as_deref(), ctx)?;
        SimilarityJoinNode::try_new(
            left.clone(),
            right.clone(),
            join::join_type_from_message(message.join_type)?,
            condition,
            message.contract,
            join::recall(message.recall)?,
        )
    }

    fn nearest(&self, node: &NearestJoinNode) -> Result<NearestNode> {
        let Nearest { rows, direction, score, then_by, condition, ties, recall } = node.nearest();
        let condition = condition.as_ref().map(|condition| self.expression(condition));
        Ok(NearestNode {
            join_type: join::join_type_to_message(node.join_type())?.into(),
            rows: *rows as u64,
            is_distance: *direction == Direction::Distance,
            score: self.expression(score)?,
            then_by: self.order(then_by)?,
            condition: condition.transpose()?.flatten(),
            ties: *ties,
            recall: recall.map(Recall::share),
        })
    }

    fn read_nearest(
        &self,
        message: &NearestNode,
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> Result<NearestJoinNode> {
        let [left, right] = inputs else { return Err(malformed("a join has two inputs")) };
        let condition = message.condition.as_deref().map(|condition| self.read(Some(condition), ctx));
        let ranking = Nearest {
            rows: nearest::rows(message.rows)?,
            direction: nearest::direction(message.is_distance),
            score: self.read(message.score.as_deref(), ctx)?,
            then_by: parse_sorts(&message.then_by, ctx, self)?,
            condition: condition.transpose()?,
            ties: message.ties,
            recall: join::recall(message.recall)?,
        };
        NearestJoinNode::try_new(left.clone(), right.clone(), join::join_type_from_message(message.join_type)?, ranking)
    }
}

impl Default for SimilarityLogicalCodec {
    fn default() -> Self {
        Self::new(Arc::new(DefaultLogicalExtensionCodec {}))
    }
}

impl LogicalExtensionCodec for SimilarityLogicalCodec {
    fn try_decode(&self, buf: &[u8], inputs: &[LogicalPlan], ctx: &TaskContext) -> Result<Extension> {
        if !envelope::is_ours(buf) {
            return self.others.try_decode(buf, inputs, ctx);
        }
        match envelope::open::<Node>(buf)?.kind {
            Some(NodeKind::Similarity(message)) => {
                Ok(Extension { node: Arc::new(self.read_similarity(&message, inputs, ctx)?) })
            }
            Some(NodeKind::Nearest(message)) => {
                Ok(Extension { node: Arc::new(self.read_nearest(&message, inputs, ctx)?) })
            }
            Some(NodeKind::Links(task)) => {
                let [input] = inputs else { return Err(malformed("links have one input")) };
                let node = LinksNode::try_new(links::task_from_message(&task)?, input.clone())?;
                Ok(Extension { node: Arc::new(node) })
            }
            None => Err(malformed("this release does not know the node")),
        }
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        let any = node.node.as_any();
        let kind = if let Some(node) = any.downcast_ref::<SimilarityJoinNode>() {
            NodeKind::Similarity(Box::new(self.similarity(node)?))
        } else if let Some(node) = any.downcast_ref::<NearestJoinNode>() {
            NodeKind::Nearest(Box::new(self.nearest(node)?))
        } else if let Some(node) = any.downcast_ref::<LinksNode>() {
            NodeKind::Links(Box::new(links::task_to_message(node.task())?))
        } else if any.is::<DmlNode>() {
            return plan_err!(
                "a DELETE, UPDATE or MERGE with similarity conditions changes the tables of its own session, and runs \
                 nowhere else; run it in a session of one process"
            );
        } else {
            return self.others.try_encode(node, buf);
        };
        envelope::seal(&Node { kind: Some(kind) }, buf);
        Ok(())
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table_ref: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.others.try_decode_table_provider(buf, table_ref, schema, ctx)
    }

    fn try_encode_table_provider(
        &self,
        table_ref: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.others.try_encode_table_provider(table_ref, node, buf)
    }

    fn try_decode_file_format(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.others.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(&self, buf: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.others.try_encode_file_format(buf, node)
    }

    forwarded_functions!();
}
