//! The runtime of a session, in which the calls of threads and of tasks run.
//!
//! A thread runs its calls by itself, so that a call costs no switch to another thread. One of the
//! threads that wait for the network reads for all of them; when it is done, another one does.
//! While there are no calls, nothing is read.
//!
//! A task must not block, and its executor may be of any kind. Its future is polled there, in the
//! context of the runtime, whose connections and timers it uses. Meanwhile something else has to
//! read from the network: the *driver*, a thread that the first task of a session starts.

use super::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// Its end tells the driver that a future is done.
type Done = oneshot::Sender<()>;

pub(super) struct Driver {
    /// `None` when this is dropped.
    runtime: Option<Arc<Runtime>>,
    /// What the driver waits for, one after the other.
    futures: OnceLock<mpsc::Sender<oneshot::Receiver<()>>>,
}

impl Driver {
    pub(super) fn new() -> Result<Driver, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(unusable)?;
        Ok(Driver { runtime: Some(Arc::new(runtime)), futures: OnceLock::new() })
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        self.runtime.as_ref().expect("it is not dropped")
    }

    /// Runs this to its end. A task of another runtime may not block in ours, so for it another
    /// thread does.
    pub(super) fn run<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        if Handle::try_current().is_err() {
            return self.runtime().block_on(future);
        }
        thread::scope(|scope| {
            let ran = scope.spawn(|| self.runtime().block_on(future)).join();
            ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The same as a future for a task.
    pub(super) async fn within<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let _done = self.drive()?;
        let mut future = pin!(future);
        poll_fn(|context| {
            let _inside = self.runtime().enter();
            future.as_mut().poll(context)
        })
        .await
    }

    /// Runs this in the background.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Without a driver the next call of a thread does it.
        let done = self.drive();
        self.runtime().spawn(async move {
            future.await;
            drop(done);
        });
    }

    /// The driver reads from the network until what is returned is dropped.
    fn drive(&self) -> Result<Done, Error> {
        let futures = match self.futures.get() {
            Some(futures) => futures,
            None => {
                let (sender, futures) = mpsc::channel::<oneshot::Receiver<()>>();
                let runtime = Arc::clone(self.runtime());
                let drive = move || {
                    for future in futures {
                        // It is done also if it was dropped.
                        let _ = runtime.block_on(future);
                    }
                };
                thread::Builder::new().name("manx-etcd-tasks".into()).spawn(drive).map_err(unusable)?;
                // If another task was faster, this thread ends.
                self.futures.get_or_init(|| sender)
            }
        };
        let (done, future) = oneshot::channel();
        // The thread ends after this.
        let _ = futures.send(future);
        Ok(done)
    }
}

pub(super) fn unusable(error: std::io::Error) -> Error {
    Error::Unusable(format!("etcd cannot be waited for: {error}"))
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.futures.take());
        // A thread may have it still. It is not waited for, which a task of another runtime may not
        // do.
        if let Some(runtime) = self.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_background();
        }
    }
}
