//! The example of a service does what it says.

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/service.rs"]
mod example;

use std::sync::Arc;
use std::time::Duration;

use example::{Duplicate, Service};

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_several_tenants_run_at_once() {
    let mut service = Service::try_new(256 << 20).unwrap();
    service.load("acme", ["Miller & Sons Ltd", "Jones Bakery", "Miller and Sons Ltd", "Bakery Jones"]).unwrap();
    service.load("globex", (0..3_000).map(|i| format!("customer {} of region", i / 2))).unwrap();
    let service = Arc::new(service);
    let requests = (0..16).map(|i| {
        let service = Arc::clone(&service);
        let tenant = if i % 2 == 0 { "acme" } else { "globex" };
        tokio::spawn(async move { service.duplicates(tenant, 0.7, Duration::from_secs(60)).await.unwrap() })
    });
    for (i, found) in futures::future::join_all(requests).await.into_iter().enumerate() {
        let found = found.unwrap();
        if i % 2 == 0 {
            let expected = [(1, 3, 1.0), (0, 2, 0.75)];
            assert_eq!(found, expected.map(|(id, other, score)| Duplicate { id, other, score }));
        } else {
            assert_eq!(found.len(), 1_500);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_one_request_only() {
    let mut service = Service::try_new(1 << 30).unwrap();
    service.load("large", (0..100_000).map(|i| format!("customer {} of region {}", i / 3, i % 97))).unwrap();
    service.load("small", ["a b", "b a"]).unwrap();
    let (large, small) = tokio::join!(
        service.duplicates("large", 0.1, Duration::from_millis(30)),
        service.duplicates("small", 1.0, Duration::from_secs(60)),
    );
    assert!(large.unwrap_err().to_string().contains("deadline"));
    assert_eq!(small.unwrap().len(), 1);
}
