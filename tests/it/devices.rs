//! Joins that several devices share: those of the machine, or three of the emulated driver.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;

use crate::cuda::{CONDITIONS, DEVICES, on_a_device_with, on_the_emulated_driver, table_and_plan, with_strings};
use crate::epsilon::{finite_table, random_vectors};
use crate::nearest::{SCORES, SCORES_OF_CONDITIONS, SCORES_OF_TEXTS, check_tables};
use crate::oracle::{Cases, RULES, TEXTS, check};

/// Three devices, the second one with less memory than the others, which share every join.
const THREE: [(&str, &str); 3] =
    [("EMULATED_DEVICE_COUNT", "3"), ("EMULATED_DEVICE_MEMORY", "1000000000,200000000,1000000000"), (DEVICES, "all")];

/// Settings of the emulated driver: which launch fails or never ends, and of which device.
const FAIL_LAUNCH: &str = "EMULATED_FAIL_LAUNCH";
const HANG_LAUNCH: &str = "EMULATED_HANG_LAUNCH";
const FAULTY_DEVICE: &str = "EMULATED_FAIL_DEVICE";

/// The number of the query that a process asks.
const ASKED_QUERY: &str = "SIMILARITY_QUERY";

fn faulty_launch() -> String {
    [FAIL_LAUNCH, HANG_LAUNCH].into_iter().find_map(|name| std::env::var(name).ok()).unwrap()
}

const SHARED: Cases = Cases { operator: "engine=cuda:all", tenths: 1, ..TEXTS };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_have_the_same_rows_as_stock() {
    if on_a_device_with("devices::joins_have_the_same_rows_as_stock", &THREE) {
        check(9000..9004, SHARED).await;
        check(9100..9101, Cases { sizes: &[600], ..SHARED }).await;
        check(9200..9202, Cases { condition: random_vectors, table: finite_table, ..SHARED }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_have_the_same_rows_as_stock() {
    if on_a_device_with("devices::rules_have_the_same_rows_as_stock", &THREE) {
        check(9300..9303, Cases { operator: "engine=cuda:all", tenths: 3, ..RULES }).await;
        check(9400..9401, Cases { operator: "engine=cuda:all", tenths: 2, sizes: &[600], ..RULES }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rankings_have_the_same_rows_as_stock() {
    if on_a_device_with("devices::rankings_have_the_same_rows_as_stock", &THREE) {
        check_tables(9500, &SCORES[..5]).await;
        check_tables(9600, SCORES_OF_TEXTS).await;
        check_tables(9700, SCORES_OF_CONDITIONS).await;
    }
}

/// One query for each kind of kernels: a self-join, a join of two inputs, and a ranking. The last one has a key, which a
/// device numbers before it builds the index.
fn queries() -> Vec<String> {
    let sums = "SELECT count(*), sum(a.id * 31 + b.id) FROM t a JOIN";
    let mut queries = Vec::new();
    for condition in CONDITIONS {
        queries.push(format!("{sums} t b ON {condition} AND a.id < b.id"));
        queries.push(format!("{sums} (SELECT * FROM t WHERE id > 7) b ON {condition} AND a.id < b.id"));
    }
    for score in ["DISTANCE l2_distance(a.v, b.v)", "DISTANCE levenshtein(a.s, b.s)"] {
        queries.push(format!("{sums} (SELECT * FROM t WHERE id > 7) b NEAREST 3 BY {score} THEN BY b.id"));
    }
    queries.push(format!("{sums} t b ON a.city = b.city AND levenshtein(a.s, b.s) <= 2 AND a.id < b.id"));
    queries
}

/// What each query returns on the CPU.
async fn expected(context: &SessionContext, queries: &[String]) -> Vec<String> {
    context.sql("SET similarity.engine = 'cpu'").await.unwrap();
    let mut expected = Vec::new();
    for query in queries {
        let batches = context.similarity_sql(query).await.unwrap().collect().await.unwrap();
        expected.push(pretty_format_batches(&batches).unwrap().to_string());
    }
    context.sql("SET similarity.engine = 'cuda'").await.unwrap();
    // a device that hangs is given up soon
    context.sql("SET similarity.device_timeout = 1").await.unwrap();
    expected
}

/// The number after a metric's name, if the plan shows it.
fn metric(plan: &str, name: &str) -> Option<u64> {
    let number = plan.split(&format!("{name}=")).nth(1)?;
    number[..number.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

/// Eight devices, of which some sessions use three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_the_devices_of_its_list() {
    let settings = [("EMULATED_DEVICE_COUNT", "8"), (DEVICES, "all")];
    if !on_the_emulated_driver("devices::a_session_has_the_devices_of_its_list", &settings) {
        return;
    }
    let context = with_strings(400).await;
    let queries = queries();
    let expected = expected(&context, &queries).await;
    for (devices, count) in [("all", 8), ("1,2,6", 3), ("5", 1)] {
        context.sql(&format!("SET similarity.device = '{devices}'")).await.unwrap();
        for (query, expected) in queries.iter().zip(&expected) {
            let (found, plan) = table_and_plan(&context, query).await;
            assert_eq!(&found, expected, "{query}\n{plan}");
            assert!(plan.contains(&format!("engine=cuda:{devices}")), "{plan}");
            let on = format!(" on {count} devices");
            assert_eq!(plan.contains(&on), count > 1, "{plan}");
            // a list is not gone beyond
            let others = (0..8).filter(|device| devices != "all" && !devices.contains(&device.to_string()));
            for device in others {
                assert!(!plan.contains(&format!("device_tasks_cuda{device}")), "{plan}");
            }
        }
    }
    context.sql("SET similarity.device = '0,9'").await.unwrap();
    let error = context.similarity_sql(&queries[0]).await.unwrap().collect().await.expect_err("there is none");
    assert!(error.to_string().contains("there is no device 9, the last one is 7"), "{error}");
}

/// One of three devices fails or hangs, at one launch after the other: others do what it has not done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_do_what_a_device_that_fails_has_not_done() {
    // while an index is built, copied, given a probe batch, and probed
    let launches = [("0", "3"), ("0", "20"), ("1", "1"), ("1", "5")];
    let cases = [FAIL_LAUNCH, HANG_LAUNCH].into_iter().flat_map(|fault| launches.map(|at| (fault, at)));
    for (fault, (device, launch)) in cases {
        let settings = [&THREE[..], &[(FAULTY_DEVICE, device), (fault, launch)]].concat();
        if !on_the_emulated_driver("devices::others_do_what_a_device_that_fails_has_not_done", &settings) {
            continue;
        }
        let context = with_strings(400).await;
        let queries = queries();
        let expected = expected(&context, &queries).await;
        let (device, launch) = (std::env::var(FAULTY_DEVICE).unwrap(), faulty_launch());
        let mut failures = 0;
        for (query, expected) in queries.iter().zip(&expected) {
            let (found, plan) = table_and_plan(&context, query).await;
            assert_eq!(&found, expected, "device {device}, launch {launch}: {query}\n{plan}");
            failures += metric(&plan, "device_failures").unwrap_or(0);
        }
        println!("device {device}, launch {launch}: {failures} failures in the midst of a query");
        // the second device has none before it has a copy
        assert!(device == "0" || failures == 1, "device {device}, launch {launch}: {failures}");
        return;
    }
}

/// The only device fails or hangs: the CPU does what it has not done. One query a process, in which a device fails for
/// good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cpu_does_what_the_last_device_has_not_done() {
    for number in ["0", "1", "3", "10", "11", "12"] {
        for (fault, launch) in [(FAIL_LAUNCH, "2"), (FAIL_LAUNCH, "4"), (FAIL_LAUNCH, "6"), (HANG_LAUNCH, "4")] {
            let settings = [(fault, launch), (ASKED_QUERY, number)];
            if on_the_emulated_driver("devices::the_cpu_does_what_the_last_device_has_not_done", &settings) {
                let fallbacks = metric(&asked_query_without_its_device().await, "cpu_fallbacks");
                assert!(faulty_launch() != "2" || fallbacks > Some(0), "query {number}: {fallbacks:?} fallbacks");
                return;
            }
        }
    }
}

/// The device fails that has numbered the keys of rules, while it does so, while it groups rows, and while it walks
/// them: those that are left, or the CPU, do its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_go_on_without_the_device_that_has_numbered_their_keys() {
    let launches = ["1", "5", "9", "13", "17", "21", "25", "29", "33"];
    let faults =
        launches.map(|launch| (FAIL_LAUNCH, launch)).into_iter().chain([(HANG_LAUNCH, "3"), (HANG_LAUNCH, "22")]);
    for (at, (fault, launch)) in faults.enumerate() {
        for number in ["8", "9"] {
            let devices: &[(&str, &str)] = if at % 2 == 0 { &[] } else { &THREE };
            let settings = [devices, &[(FAULTY_DEVICE, "0"), (fault, launch), (ASKED_QUERY, number)]].concat();
            let test = "devices::rules_go_on_without_the_device_that_has_numbered_their_keys";
            if on_the_emulated_driver(test, &settings) {
                let plan = asked_query_without_its_device().await;
                // of several devices the one that fails may have had too little to do
                let has_failed = metric(&plan, "device_failures") == Some(1);
                assert!(has_failed || std::env::var_os(DEVICES).is_some(), "{plan}");
                return;
            }
        }
    }
}

/// Asserts that a query for which the process has a device that fails returns what it does on the CPU. Its plan.
async fn asked_query_without_its_device() -> String {
    let (launch, number) = (faulty_launch(), std::env::var(ASKED_QUERY).unwrap());
    let context = with_strings(400).await;
    let query = queries()[number.parse::<usize>().unwrap()].clone();
    let expected = expected(&context, std::slice::from_ref(&query)).await;
    let (found, plan) = table_and_plan(&context, &query).await;
    assert_eq!(found, expected[0], "launch {launch}: {query}\n{plan}");
    println!("query {number}, launch {launch}: {plan}");
    plan
}
