//! Queries on a cluster and in one process: the same rows.

mod local_cluster;

use std::error::Error;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::{SimilarityContext, SimilarityStateBuilder};

use local_cluster::LocalCluster;

/// Runs a test on threads with stacks as deep as plans.
fn run<F: Future<Output = Result<(), Box<dyn Error>>>>(test: F) {
    similarity_cluster::runtime().unwrap().block_on(test).unwrap();
}

fn session(scheduler: Option<&str>) -> Result<SessionContext> {
    let config = SessionConfig::new().with_information_schema(true).with_target_partitions(4);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity().build();
    Ok(SessionContext::new_with_state(match scheduler {
        Some(scheduler) => similarity_cluster::connect(state, scheduler)?,
        None => state,
    }))
}

/// The rows of a query, sorted, or its error.
async fn rows(session: &SessionContext, query: &str) -> Result<Vec<String>> {
    let batches = session.similarity_sql(query).await?.collect().await?;
    let table = pretty_format_batches(&batches)?.to_string();
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

const PEOPLE: &str = "CREATE TABLE people (id INT, part INT, flag BOOLEAN, name VARCHAR) AS VALUES \
     (1, 1, true, 'Anna'), (2, 1, false, 'Ana'), (3, 1, true, 'Hanna'), (4, 2, false, 'Otto'), (5, 2, true, 'Oto'), \
     (6, 2, false, NULL)";

#[test]
fn windows_are_right_or_refused() {
    run(async {
        let cluster = LocalCluster::start(2, 1).await?;
        let [local, remote] = [session(None)?, session(Some(&cluster.scheduler))?];
        for session in [&local, &remote] {
            session.sql(PEOPLE).await?;
        }
        for query in [
            "SELECT id, first_value(id) OVER (PARTITION BY part ORDER BY flag DESC, id) FROM people",
            "SELECT id, sum(id) OVER (ORDER BY id DESC), row_number() OVER (PARTITION BY part ORDER BY id DESC) FROM people",
        ] {
            assert_eq!(rows(&remote, query).await?, rows(&local, query).await?, "{query}");
        }
        let both_ways = "SELECT id, lag(id) OVER (ORDER BY id DESC), lead(id) OVER (ORDER BY id) FROM people";
        let refused = rows(&remote, both_ways).await.unwrap_err().strip_backtrace();
        assert!(refused.contains("of the opposite order"), "{refused}");
        Ok(())
    });
}

#[test]
fn what_only_the_session_knows_is_read_there() {
    run(async {
        let cluster = LocalCluster::start(1, 1).await?;
        let [local, remote] = [session(None)?, session(Some(&cluster.scheduler))?];
        for session in [&local, &remote] {
            session.sql(PEOPLE).await?;
        }
        for query in [
            "SELECT jaccard(word_tokens('a b'), word_tokens('b c'))",
            "SELECT p.name, s.value FROM people p JOIN generate_series(1, 3) s ON p.id = s.value",
            "SELECT p.name, t.table_name FROM people p, information_schema.tables t WHERE t.table_name = 'people'",
            "SELECT name FROM people WHERE false",
            "SELECT name FROM people WHERE id > (SELECT avg(id) FROM people)",
            "DESCRIBE SELECT id, flag FROM people",
            "SELECT a.id, b.id FROM people a SIMILARITY JOIN people b ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id",
        ] {
            assert_eq!(rows(&remote, query).await?, rows(&local, query).await?, "{query}");
        }
        for session in [&local, &remote] {
            rows(
                session,
                "DELETE FROM people WHERE id IN (SELECT a.id FROM people a JOIN people b \
                 ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id)",
            )
            .await?;
        }
        for session in [&local, &remote] {
            rows(session, "INSERT INTO people SELECT id + 10, part, flag, name FROM people WHERE flag").await?;
        }
        let rest = "SELECT id FROM people";
        assert_eq!(rows(&remote, rest).await?, rows(&local, rest).await?);
        Ok(())
    });
}

#[test]
fn a_table_too_large_to_travel_is_named() {
    run(async {
        let cluster = LocalCluster::start(1, 1).await?;
        let remote = session(Some(&cluster.scheduler))?;
        remote
            .sql("CREATE TABLE large AS SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 70000)")
            .await?;
        let refused = rows(&remote, "SELECT count(*) FROM large").await.unwrap_err().strip_backtrace();
        assert!(refused.contains("the table large has") && refused.contains("COPY"), "{refused}");
        Ok(())
    });
}
