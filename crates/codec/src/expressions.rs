//! Expressions over the inputs of an operator.
//!
//! A plan may come from anywhere. Whatever is read here is checked against the columns that it is about, so that no
//! operator meets a column that is not there.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ReturnFieldArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_proto::physical_plan::from_proto::parse_physical_sort_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_sort_expr;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{self, PhysicalExprNode, PhysicalSortExprNode};
use datafusion_similarity::exec::{BandExprs, EqualityExprs};

use crate::envelope::malformed;
use crate::messages::{Band, BandKind, Between, Difference, Equality, Keys};
use crate::{condition, functions};

/// Writes expressions.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    pub codec: &'a dyn PhysicalExtensionCodec,
    pub converter: &'a dyn PhysicalProtoConverterExtension,
}

impl Writer<'_> {
    pub fn expression(&self, expression: &PhysicalExprRef) -> Result<Option<Box<PhysicalExprNode>>> {
        Ok(Some(Box::new(self.converter.physical_expr_to_proto(expression, self.codec)?)))
    }

    pub fn keys(&self, left: &PhysicalExprRef, right: &PhysicalExprRef) -> Result<Option<Keys>> {
        Ok(Some(Keys { left: self.expression(left)?, right: self.expression(right)? }))
    }

    pub fn equality(&self, equality: &EqualityExprs) -> Result<Equality> {
        let EqualityExprs { left, right, null_equals_null } = equality;
        Ok(Equality {
            left: self.expression(left)?,
            right: self.expression(right)?,
            null_equals_null: *null_equals_null,
        })
    }

    pub fn equalities(&self, equalities: &[EqualityExprs]) -> Result<Vec<Equality>> {
        equalities.iter().map(|equality| self.equality(equality)).collect()
    }

    pub fn band(&self, band: &BandExprs) -> Result<Band> {
        let kind = match band {
            BandExprs::Difference { left, right, bounds, unlimited } => BandKind::Difference(Difference {
                keys: self.keys(left, right)?,
                bounds: Some(condition::bounds_to_message(*bounds)),
                unlimited: *unlimited,
            }),
            BandExprs::Between { value_side, value, low, high } => BandKind::Between(Between {
                value_is_right: *value_side == JoinSide::Right,
                value: self.expression(value)?,
                low: self.expression(&low.0)?,
                with_low: low.1,
                high: self.expression(&high.0)?,
                with_high: high.1,
            }),
        };
        Ok(Band { kind: Some(kind) })
    }

    pub fn filter(&self, filter: &JoinFilter) -> Result<protobuf::JoinFilter> {
        let index = |column: &ColumnIndex| protobuf::ColumnIndex {
            index: column.index as u32,
            side: match column.side {
                JoinSide::Left => protobuf::JoinSide::LeftSide,
                JoinSide::Right => protobuf::JoinSide::RightSide,
                JoinSide::None => protobuf::JoinSide::None,
            }
            .into(),
        };
        Ok(protobuf::JoinFilter {
            expression: self.expression(filter.expression())?.map(|expression| *expression),
            column_indices: filter.column_indices().iter().map(index).collect(),
            schema: Some(filter.schema().as_ref().try_into()?),
        })
    }

    pub fn filters(&self, filters: &[JoinFilter]) -> Result<Vec<protobuf::JoinFilter>> {
        filters.iter().map(|filter| self.filter(filter)).collect()
    }

    pub fn order(&self, order: &[PhysicalSortExpr]) -> Result<Vec<PhysicalSortExprNode>> {
        order.iter().map(|sort| serialize_physical_sort_expr(sort.clone(), self.codec, self.converter)).collect()
    }
}

/// Reads expressions.
pub struct Reader<'a> {
    context: PhysicalPlanDecodeContext<'a>,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

/// The columns of both inputs.
#[derive(Clone, Copy)]
pub struct Schemas<'a> {
    pub left: &'a Schema,
    pub right: &'a Schema,
}

impl<'a> Schemas<'a> {
    pub fn of(self, is_right: bool) -> &'a Schema {
        if is_right { self.right } else { self.left }
    }
}

impl<'a> Reader<'a> {
    pub fn new(
        session: &'a TaskContext,
        codec: &'a dyn PhysicalExtensionCodec,
        converter: &'a dyn PhysicalProtoConverterExtension,
    ) -> Self {
        Self { context: PhysicalPlanDecodeContext::new(session, codec), converter }
    }

    pub fn expression(&self, message: Option<&PhysicalExprNode>, schema: &Schema) -> Result<PhysicalExprRef> {
        let message = message.ok_or_else(|| malformed("an expression is missing"))?;
        let expression = self.converter.proto_to_physical_expr(message, schema, &self.context)?;
        within(&expression, schema)?;
        Ok(expression)
    }

    /// A condition of one side.
    pub fn condition(&self, message: Option<&PhysicalExprNode>, schema: &Schema) -> Result<PhysicalExprRef> {
        let condition = self.expression(message, schema)?;
        is_condition(&condition, schema)?;
        Ok(condition)
    }

    pub fn keys(&self, message: Option<&Keys>, schemas: Schemas<'_>) -> Result<[PhysicalExprRef; 2]> {
        let Keys { left, right } = message.ok_or_else(|| malformed("the keys of a condition are missing"))?;
        Ok([self.expression(left.as_deref(), schemas.left)?, self.expression(right.as_deref(), schemas.right)?])
    }

    pub fn equality(&self, message: &Equality, schemas: Schemas<'_>) -> Result<EqualityExprs> {
        let Equality { left, right, null_equals_null } = message;
        let left = self.expression(left.as_deref(), schemas.left)?;
        let right = self.expression(right.as_deref(), schemas.right)?;
        if left.data_type(schemas.left)? != right.data_type(schemas.right)? {
            return Err(malformed("both sides of an equality are of different types"));
        }
        Ok(EqualityExprs { left, right, null_equals_null: *null_equals_null })
    }

    pub fn equalities(&self, messages: &[Equality], schemas: Schemas<'_>) -> Result<Vec<EqualityExprs>> {
        messages.iter().map(|message| self.equality(message, schemas)).collect()
    }

    pub fn band(&self, message: &Band, schemas: Schemas<'_>) -> Result<BandExprs> {
        Ok(match &message.kind {
            Some(BandKind::Difference(Difference { keys, bounds, unlimited })) => {
                let [left, right] = self.keys(keys.as_ref(), schemas)?;
                let bounds = condition::bounds_from_message(bounds.as_ref());
                BandExprs::Difference { left, right, bounds, unlimited: *unlimited }
            }
            Some(BandKind::Between(between)) => {
                let ends = schemas.of(!between.value_is_right);
                BandExprs::Between {
                    value_side: side(between.value_is_right),
                    value: self.expression(between.value.as_deref(), schemas.of(between.value_is_right))?,
                    low: (self.expression(between.low.as_deref(), ends)?, between.with_low),
                    high: (self.expression(between.high.as_deref(), ends)?, between.with_high),
                }
            }
            None => return Err(malformed("a band has no ends")),
        })
    }

    /// A condition over columns of both sides.
    pub fn filter(&self, message: &protobuf::JoinFilter, schemas: Schemas<'_>) -> Result<JoinFilter> {
        let filter = self.value(message, schemas)?;
        is_condition(filter.expression(), filter.schema())?;
        Ok(filter)
    }

    pub fn filters(&self, messages: &[protobuf::JoinFilter], schemas: Schemas<'_>) -> Result<Vec<JoinFilter>> {
        messages.iter().map(|message| self.filter(message, schemas)).collect()
    }

    /// A value over columns of both sides.
    pub fn value(&self, message: &protobuf::JoinFilter, schemas: Schemas<'_>) -> Result<JoinFilter> {
        let schema = message.schema.as_ref().ok_or_else(|| malformed("a condition has no columns"))?;
        let schema = Schema::try_from(schema)?;
        let expression = self.expression(message.expression.as_ref(), &schema)?;
        if message.column_indices.len() != schema.fields().len() {
            return Err(malformed("a condition has other columns than it reads"));
        }
        let mut columns = Vec::with_capacity(message.column_indices.len());
        for (column, field) in message.column_indices.iter().zip(schema.fields()) {
            let is_right = match protobuf::JoinSide::try_from(column.side) {
                Ok(protobuf::JoinSide::LeftSide) => false,
                Ok(protobuf::JoinSide::RightSide) => true,
                _ => return Err(malformed("a column of a condition is of neither side")),
            };
            let index = column.index as usize;
            if schemas.of(is_right).fields().get(index).map(|known| known.data_type()) != Some(field.data_type()) {
                return Err(malformed("a condition reads a column that its inputs do not have"));
            }
            columns.push(ColumnIndex { index, side: side(is_right) });
        }
        Ok(JoinFilter::new(expression, columns, Arc::new(schema)))
    }

    pub fn order(&self, messages: &[PhysicalSortExprNode], schema: &Schema) -> Result<Vec<PhysicalSortExpr>> {
        let read = |message: &PhysicalSortExprNode| {
            let sort = parse_physical_sort_expr(message, &self.context, schema, self.converter)?;
            within(&sort.expr, schema)?;
            Ok(sort)
        };
        messages.iter().map(read).collect()
    }
}

pub fn side(is_right: bool) -> JoinSide {
    if is_right { JoinSide::Right } else { JoinSide::Left }
}

/// Fails for an expression that reads other columns than there are, or calls a function of this project with arguments
/// that it does not take: where a query is planned, both have been seen to.
fn within(expression: &PhysicalExprRef, schema: &Schema) -> Result<()> {
    if collect_columns(expression).iter().any(|column| column.index() >= schema.fields().len()) {
        return Err(malformed("an expression reads a column that its input does not have"));
    }
    expression.apply(|part| {
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>()
            && functions::is_known(call.fun())
        {
            let given = call.args().iter().map(|argument| argument.return_field(schema)).collect::<Result<Vec<_>>>()?;
            let constant = |argument: &PhysicalExprRef| argument.downcast_ref::<Literal>().map(|it| it.value().clone());
            let constants: Vec<_> = call.args().iter().map(constant).collect();
            let constants: Vec<_> = constants.iter().map(Option::as_ref).collect();
            let taken = fields_with_udf(&given, call.fun())?;
            let arguments = ReturnFieldArgs { arg_fields: &taken, scalar_arguments: &constants };
            let returned = call.fun().return_field_from_args(arguments)?;
            if given.iter().zip(&taken).any(|(given, taken)| given.data_type() != taken.data_type())
                || returned.data_type() != call.return_type()
            {
                return Err(malformed(&format!("{} is called with arguments of other types", call.name())));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn is_condition(expression: &PhysicalExprRef, schema: &Schema) -> Result<()> {
    match expression.data_type(schema)? {
        DataType::Boolean | DataType::Null => Ok(()),
        other => Err(malformed(&format!("a condition is of type {other}"))),
    }
}
