//! Ctrl-C, however busy the threads of a query are.
//!
//! A worker of a runtime may both wait for signals and run a long step of a plan. So signals have a thread of their
//! own.

use std::io;
use std::sync::mpsc;
use std::thread;

use futures::channel::oneshot::{self, Receiver};
use tokio::runtime::Builder;

/// The exit status of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;
/// The exit status of a program that was asked to end.
#[cfg(unix)]
const TERMINATED: i32 = 143;

/// Catches signals that end a program from now on, and gives its exit status when one comes.
pub fn interrupted() -> io::Result<Receiver<i32>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (told, interrupted) = oneshot::channel();
    let (listens, listening) = mpsc::channel();
    let wait = async move {
        // nobody waits for either message once the program ends
        if let Ok(status) = end(|| drop(listens)).await {
            let _ = told.send(status);
        }
    };
    thread::Builder::new().name("interrupt".into()).spawn(move || runtime.block_on(wait))?;
    // an error is the news that nothing more will be said
    let _: Result<(), _> = listening.recv();
    Ok(interrupted)
}

#[cfg(unix)]
async fn end(listening: impl FnOnce()) -> io::Result<i32> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    listening();
    tokio::select! {
        _ = interrupt.recv() => Ok(INTERRUPTED),
        _ = terminate.recv() => Ok(TERMINATED),
    }
}

#[cfg(not(unix))]
async fn end(listening: impl FnOnce()) -> io::Result<i32> {
    listening();
    tokio::signal::ctrl_c().await.map(|()| INTERRUPTED)
}
