//! `extend_duplicates(..)`: new rows for a table whose rows have clusters already.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};

use super::arguments::Argument;
use super::duplicates::read_condition;
use super::links::{CLUSTERS, link_query};
use super::query::{Query, column_name, is_symmetric, quoted, session};

/// Name of the function.
pub(super) const EXTEND_DUPLICATES: &str = "extend_duplicates";

/// `extend_duplicates(clustered, new, id, condition)`: the rows of both tables with their `cluster_id` and the
/// `previous_cluster_id`, which is NULL for a new row.
///
/// `clustered` has the columns of `new` and `cluster_id`, as [`DuplicatesFunction`](super::DuplicatesFunction) gives
/// them. New rows are compared with old ones and with each other; old rows are not compared again. Rows share a cluster
/// where they would if all of them were compared at once. A cluster keeps its id; where clusters merge, the smallest id
/// stays, and the rows of the others are those whose two ids differ. A cluster of new rows alone has the smallest of
/// their ids. No new row may have the id of an old one, or of a cluster.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct ExtendDuplicatesFunction;

impl TableFunctionImpl for ExtendDuplicatesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), EXTEND_DUPLICATES)?;
        let argument = |place, what| Argument { function: EXTEND_DUPLICATES, place, what };
        let [clustered, new, id, condition] = args.exprs() else {
            return plan_err!(
                "{EXTEND_DUPLICATES} takes the table with clusters, the new rows, the id and the condition over two \
                rows a \
                 and b, as in {EXTEND_DUPLICATES}('people', 'more_people', 'id', 'levenshtein(a.name, b.name) <= 1')"
            );
        };
        let (of_clustered, of_new) = (argument(1, "the table with clusters"), argument(2, "the new rows"));
        let (old, old_columns) = link_query(clustered, &of_clustered, state)?;
        let (new, columns) = link_query(new, &of_new, state)?;
        let id = column_name(id, &argument(3, "the id"), state)?;
        let condition = read_condition(condition, &argument(4, "the condition"), state)?;
        let cluster = "\"cluster_id\"".to_owned();
        if !old_columns.contains(&cluster) {
            return plan_err!("{of_clustered} has no column cluster_id");
        }
        if let Some(missing) = columns.iter().find(|column| !old_columns.contains(column)) {
            return plan_err!("{of_clustered} has no column {missing}, which the new rows have");
        }
        if let Some(missing) = old_columns.iter().find(|column| **column != cluster && !columns.contains(column)) {
            return plan_err!("{of_new} have no column {missing}, which the table with clusters has");
        }
        if columns.contains(&cluster) {
            return plan_err!("{of_new} have a column cluster_id, which they are to get");
        }
        let sql = condition.sql();
        // an old row stands for its cluster, under the id of the cluster
        let mut links = vec![format!("SELECT a.cluster_id, b.{id} FROM {old} AS a JOIN {new} AS b ON ({sql})")];
        let symmetric = [&old, &new].iter().all(|table| is_symmetric(EXTEND_DUPLICATES, table, &sql, state));
        if !symmetric {
            links.push(format!("SELECT b.cluster_id, a.{id} FROM {new} AS a JOIN {old} AS b ON ({sql})"));
        }
        let order = if symmetric { "<" } else { "<>" };
        links.push(format!(
            "SELECT a.{id}, b.{id} FROM {new} AS a JOIN {new} AS b ON ({sql}) AND a.{id} {order} b.{id}"
        ));
        for links in &links {
            Query { function: EXTEND_DUPLICATES, text: links.clone() }.plan(state)?;
        }
        let listed =
            |alias: &str| columns.iter().map(|column| format!("{alias}.{column}")).collect::<Vec<_>>().join(", ");
        // the ids of old clusters come before those of new rows, the smallest first; a table that is named once is made
        // once, and the side on the left is the one that a join holds in memory; the two clusters of a row have names
        // that differ, since DataFusion pushes a filter through a plan by the names of its columns
        let text = format!(
            "WITH linked AS (SELECT c.id, c.cluster_id AS part, n.{id} IS NULL AS is_old \
             FROM {CLUSTERS}({links}) AS c LEFT JOIN {new} AS n ON n.{id} = c.id), \
             named AS (SELECT id, first_value(id) OVER (PARTITION BY part ORDER BY is_old DESC, id) AS __cluster_id \
             FROM linked), \
             rows AS (SELECT {of_old}, o.cluster_id AS cluster_id, o.cluster_id AS previous_cluster_id FROM {old} AS o \
             UNION ALL SELECT {of_new}, n.{id} AS cluster_id, NULL AS previous_cluster_id FROM {new} AS n) \
             SELECT {of_rows}, coalesce(m.__cluster_id, r.cluster_id) AS cluster_id, r.previous_cluster_id \
             FROM named AS m RIGHT JOIN rows AS r ON m.id = r.cluster_id",
            links = quoted(&links.join(" UNION ALL ")),
            of_old = listed("o"),
            of_new = listed("n"),
            of_rows = listed("r"),
        );
        Query { function: EXTEND_DUPLICATES, text }.view(state)
    }
}
