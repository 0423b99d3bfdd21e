//! One case of the oracle again: `SIMILARITY_SEED=5003` or, for one of its queries, `SIMILARITY_SEED=5003:7`.
//!
//! The tables and the query are printed as SQL that can be pasted into the shell. A case that fails is made smaller
//! first: rows are left out as long as it still fails.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use crate::session;

/// Which case is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub seed: u64,
    /// The number of the query, from 0 on.
    pub query: Option<usize>,
}

/// The case that `SIMILARITY_SEED` names.
pub(crate) fn asked() -> Option<Asked> {
    let text = std::env::var("SIMILARITY_SEED").ok()?;
    let (seed, query) = match text.split_once(':') {
        Some((seed, query)) => (seed, Some(query.parse().expect("SIMILARITY_SEED takes a seed, or seed:query"))),
        None => (text.as_str(), None),
    };
    Some(Asked { seed: seed.parse().expect("SIMILARITY_SEED takes a seed, or seed:query"), query })
}

/// What a query is asked of.
pub(crate) struct Case<'a> {
    pub tables: Vec<(&'static str, RecordBatch)>,
    pub batch_size: usize,
    pub partitions: usize,
    pub settings: &'a [&'a str],
    pub query: &'a str,
}

impl<'a> Case<'a> {
    /// A query over the tables of a session.
    pub(crate) async fn of(
        context: &SessionContext,
        names: &[&'static str],
        settings: &'a [&'a str],
        query: &'a str,
    ) -> Self {
        let mut tables = Vec::new();
        for &name in names {
            let frame = context.table(name).await.unwrap();
            let schema = Arc::new(frame.schema().as_arrow().clone());
            tables.push((name, concat_batches(&schema, &frame.collect().await.unwrap()).unwrap()));
        }
        let state = context.state();
        let (batch_size, partitions) = (state.config().batch_size(), state.config().target_partitions());
        Self { tables, batch_size, partitions, settings, query }
    }

    /// A session with the tables.
    async fn session(&self) -> SessionContext {
        let context = session(self.batch_size, self.partitions);
        for (name, batch) in &self.tables {
            // in two parts, as the oracle has them
            let cut = batch.num_rows() / 3;
            let parts = vec![vec![batch.slice(0, cut)], vec![batch.slice(cut, batch.num_rows() - cut)]];
            context.register_table(*name, Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
        }
        for setting in self.settings {
            context.sql(setting).await.unwrap();
        }
        context
    }

    /// The case with as few rows as `fails` needs to be true.
    pub(crate) async fn shrunk(mut self, fails: impl AsyncFn(&SessionContext, &str) -> bool) -> Self {
        for table in 0..self.tables.len() {
            let mut stretch = self.tables[table].1.num_rows().div_ceil(2);
            while stretch > 0 {
                let mut start = 0;
                while start < self.tables[table].1.num_rows() {
                    let whole = self.tables[table].1.clone();
                    let rows = 0..whole.num_rows() as u32;
                    let kept = rows.filter(|row| !(start..start + stretch).contains(&(*row as usize)));
                    self.tables[table].1 = take_record_batch(&whole, &UInt32Array::from_iter_values(kept)).unwrap();
                    let context = self.session().await;
                    if !fails(&context, self.query).await {
                        self.tables[table].1 = whole;
                        start += stretch;
                    }
                }
                stretch /= 2;
            }
        }
        self
    }

    /// Statements that make the tables and ask the query.
    pub(crate) fn script(&self) -> String {
        let mut sql = String::new();
        for (name, batch) in &self.tables {
            writeln!(sql, "{}", create_table(name, batch)).unwrap();
        }
        writeln!(sql, "SET datafusion.execution.batch_size = {};", self.batch_size).unwrap();
        writeln!(sql, "SET datafusion.execution.target_partitions = {};", self.partitions).unwrap();
        for setting in self.settings {
            writeln!(sql, "{setting};").unwrap();
        }
        writeln!(sql, "{};", self.query).unwrap();
        sql
    }
}

fn create_table(name: &str, batch: &RecordBatch) -> String {
    let columns = |format: fn(usize, &str, &DataType) -> String| {
        let fields = batch.schema().fields().clone();
        let all: Vec<_> = fields.iter().enumerate().map(|(i, f)| format(i, f.name(), f.data_type())).collect();
        all.join(", ")
    };
    let casts = columns(|i, name, data_type| format!("arrow_cast(c{i}, '{data_type}') AS {name}"));
    let names = columns(|i, _, _| format!("c{i}"));
    let row = |row: usize| {
        let values: Vec<_> = batch.columns().iter().map(|column| literal(column, row)).collect();
        format!("  ({})", values.join(", "))
    };
    let (rows, filter) = match batch.num_rows() {
        0 => (vec![format!("  ({})", vec!["NULL"; batch.num_columns()].join(", "))], " WHERE FALSE"),
        count => ((0..count).map(row).collect(), ""),
    };
    format!("CREATE TABLE {name} AS SELECT {casts} FROM (VALUES\n{}\n) AS v({names}){filter};", rows.join(",\n"))
}

/// A value as SQL.
fn literal(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".into();
    }
    let quoted = |text: String| format!("'{}'", text.replace('\'', "''"));
    match column.data_type() {
        DataType::Float64 => format!("CAST('{}' AS DOUBLE)", column.as_primitive::<Float64Type>().value(row)),
        DataType::List(_) => {
            let values = column.as_list::<i32>().value(row);
            let items: Vec<_> = (0..values.len()).map(|at| literal(&values, at)).collect();
            match items.iter().all(|item| item == "NULL") {
                true => format!("arrow_cast(make_array({}), '{}')", items.join(", "), column.data_type()),
                false => format!("make_array({})", items.join(", ")),
            }
        }
        DataType::Int8 | DataType::Int64 => array_value_to_string(column, row).unwrap(),
        DataType::Date32 => format!("DATE '{}'", array_value_to_string(column, row).unwrap()),
        _ => quoted(array_value_to_string(column, row).unwrap()),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::oracle::random_table;
    use crate::rows::Rows;

    /// What is pasted has the rows and the types of the tables.
    #[tokio::test]
    async fn a_script_makes_the_tables_again() {
        for seed in 0..12 {
            let context = session(8192, 1);
            let mut rng = StdRng::seed_from_u64(seed);
            context.register_table("l", Arc::new(random_table(&mut rng, &[0, 1, 40]))).unwrap();
            let case = Case::of(&context, &["l"], &[], "SELECT * FROM l").await;
            let pasted = session(8192, 1);
            let script = case.script();
            for statement in script.split_inclusive(";\n") {
                let frame = pasted.sql(statement).await.unwrap_or_else(|error| panic!("{error}\n{statement}"));
                frame.collect().await.unwrap();
            }
            let [expected, found] = [&context, &pasted].map(|context| async {
                let frame = context.table("l").await.unwrap();
                let schema = Arc::new(frame.schema().as_arrow().clone());
                (schema.clone(), Rows::new(schema, frame.collect().await.unwrap()))
            });
            let ((expected_schema, expected), (schema, found)) = (expected.await, found.await);
            let types = |schema: &datafusion::arrow::datatypes::Schema| {
                schema.fields().iter().map(|field| field.data_type().to_string()).collect::<Vec<_>>()
            };
            assert_eq!(types(&schema), types(&expected_schema));
            assert_eq!(found, expected, "{script}");
        }
    }

    #[tokio::test]
    async fn rows_that_a_failure_does_not_need_are_left_out() {
        let context = session(8192, 1);
        let mut rng = StdRng::seed_from_u64(3);
        for name in ["l", "r"] {
            context.register_table(name, Arc::new(random_table(&mut rng, &[40]))).unwrap();
        }
        let query = "SELECT a.id FROM l a, r b WHERE a.id = 7 AND b.id = 11";
        let case = Case::of(&context, &["l", "r"], &[], query).await;
        let fails = async |context: &SessionContext, query: &str| {
            let batches = context.sql(query).await.unwrap().collect().await.unwrap();
            batches.iter().any(|batch| batch.num_rows() > 0)
        };
        let shrunk = case.shrunk(fails).await;
        let rows: Vec<_> = shrunk.tables.iter().map(|(_, batch)| batch.num_rows()).collect();
        assert_eq!(rows, [1, 1]);
        assert!(shrunk.script().contains("(7, "), "{}", shrunk.script());
    }
}
