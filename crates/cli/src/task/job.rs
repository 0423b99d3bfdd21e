//! A task from its first line to its last one: files begun, notes told, results written.

use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;
use similarity_report::{Fact, Report};

use super::figures;
use super::input::Input;
use super::options::Outputs;
use super::output::{NewFile, NewFolder, TableFile};
use super::query;
use crate::shell::Shell;

/// Results of comparisons with a truth, by what was compared.
pub type Measured = Vec<(String, Vec<RecordBatch>)>;

/// A task between its first line and its last one, with the files that it is going to write.
pub struct Job<'a> {
    shell: &'a Shell,
    started: Instant,
    table: Option<TableFile>,
    report: Option<NewFile>,
    charts: Option<NewFolder>,
}

impl<'a> Job<'a> {
    /// Begins all files, so that one that cannot be written ends the task before it works.
    pub fn begin(shell: &'a Shell, outputs: &Outputs) -> Result<Self> {
        if outputs.out.is_some() && outputs.out == outputs.report {
            return plan_err!("--out and --report name the same file");
        }
        let overwrite = outputs.overwrite;
        Ok(Self {
            shell,
            started: Instant::now(),
            table: outputs.out.as_ref().map(|path| TableFile::create(path, overwrite)).transpose()?,
            report: outputs.report.as_ref().map(|path| NewFile::create(path, overwrite)).transpose()?,
            charts: outputs.charts.as_ref().map(|path| NewFolder::create(path, overwrite)).transpose()?,
        })
    }

    /// Fails for a table that the file cannot hold.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        self.table.as_ref().map_or(Ok(()), |table| table.check(schema))
    }

    /// Tells about ids of the truth that no row has.
    pub fn note_unknown(&self, ids: u64, input: &Input) {
        if ids > 0 && !self.shell.print.quiet {
            let ids = figures::counted(ids, "id");
            eprintln!("{ids} of the truth not found in column {} of {}", input.id_name, input.file);
        }
    }

    /// Tells about pairs whose score is NULL, where such pairs link nothing.
    pub async fn note_unscored(&self) -> Result<()> {
        let pairs = query::count(&self.shell.ctx, "SELECT count(*) FROM pairs WHERE score IS NULL").await?;
        if pairs > 0 && !self.shell.print.quiet {
            eprintln!("{} left out for want of a score; coalesce gives one", figures::counted(pairs, "pair"));
        }
        Ok(())
    }

    /// Writes or prints the result, the measures, the report and a summary.
    pub async fn finish(
        self,
        result: DataFrame,
        measures: &Measured,
        report: Option<Report>,
        summary: &str,
    ) -> Result<()> {
        let prints_result = self.table.is_none();
        match self.table {
            Some(table) => table.write(result).await?,
            None => self.shell.show(result.schema().inner().clone(), &query::collect(result).await?)?,
        }
        for (title, batches) in measures {
            let schema = batches.first().map(RecordBatch::schema);
            match schema.filter(|_| !prints_result) {
                Some(schema) => self.shell.show(schema, batches)?,
                None => eprintln!("{title}\n{}", pretty_format_batches(batches)?),
            }
        }
        let seconds = format!("{:.1}", self.started.elapsed().as_secs_f64());
        if let Some(mut report) = report {
            report.settings.extend(versions(&self.shell.ctx).await?);
            report.settings.push(Fact { name: "Seconds".into(), value: seconds.clone() });
            if let Some(charts) = self.charts {
                for chart in report.charts() {
                    charts.write(&format!("{}.svg", chart.name), &chart.svg())?;
                    charts.write(&format!("{}.vl.json", chart.name), &chart.vega_lite())?;
                }
                charts.keep()?;
            }
            if let Some(mut page) = self.report {
                page.write(&report.html())?;
                page.keep()?;
            }
        }
        if !self.shell.print.quiet {
            eprintln!("{summary}; {seconds} s");
        }
        Ok(())
    }
}

/// What made the report, and when.
async fn versions(ctx: &SessionContext) -> Result<Vec<Fact>> {
    let now = query::query(ctx, "SELECT to_char(now(), '%Y-%m-%d %H:%M:%S UTC')").await?.text(0, 0)?;
    let program =
        format!("similarity-cli {}, DataFusion {}", env!("CARGO_PKG_VERSION"), datafusion::DATAFUSION_VERSION);
    Ok(figures::facts([("Made", now.unwrap_or_default()), ("By", program)]))
}
