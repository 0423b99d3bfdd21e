//! The first example finds the same pair by SQL and by data frames.

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/quickstart.rs"]
mod example;

#[tokio::test]
async fn both_ways_find_the_pair() {
    let session = example::session().await.unwrap();
    assert_eq!(example::by_sql(&session).await.unwrap().count().await.unwrap(), 1);
    assert_eq!(example::by_data_frames(&session).await.unwrap().count().await.unwrap(), 1);
}
