//! Ctrl-C, however busy the threads of a query are.
//!
//! A worker of a runtime may both wait for signals and run a long step of a plan. So signals have a thread of their
//! own.

use std::io;
use std::pin::pin;
use std::sync::mpsc;
use std::thread;

use futures::channel::oneshot::{self, Receiver};
use tokio::runtime::Builder;
use tokio::signal;

/// Catches Ctrl-C from now on, and says when it comes.
pub fn interrupted() -> io::Result<Receiver<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (told, interrupted) = oneshot::channel();
    let (listens, listening) = mpsc::channel();
    let wait = async move {
        let mut signal = pin!(signal::ctrl_c());
        // the first look makes the handler
        let mut came = futures::poll!(&mut signal).is_ready();
        // nobody waits for either message once the program ends
        let _ = listens.send(());
        if !came {
            came = signal.await.is_ok();
        }
        if came {
            let _ = told.send(());
        }
    };
    thread::Builder::new().name("interrupt".into()).spawn(move || runtime.block_on(wait))?;
    let _ = listening.recv();
    Ok(interrupted)
}
