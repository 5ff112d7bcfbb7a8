//! Connections: how many, how long they may take, and how they end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::patient::Patient;
use crate::{http, worker};

/// How long connections may go on after the last picture.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves until `stop` says so: what is being made then is finished, what waits is refused.
///
/// # Errors
/// The threads cannot be started.
pub fn serve(
    app: &Arc<App>,
    listener: TcpListener,
    stop: impl Fn() -> bool,
) -> std::io::Result<()> {
    let maker = {
        let app = app.clone();
        std::thread::Builder::new()
            .name("pictures".into())
            .spawn(move || worker::work(&app))?
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let graceful = GracefulShutdown::new();
        let free = Arc::new(Semaphore::new(app.limits.connections));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = tokio::time::sleep(Duration::from_millis(100)) => match stop() {
                    true => break,
                    false => continue,
                },
            };
            let Ok((stream, _)) = accepted else {
                // Too many open files, perhaps: others will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = free.clone().try_acquire_owned() else {
                app.metrics
                    .count("prepose_rejected_total", "reason=\"connections\"".into());
                continue;
            };
            let service = TowerToHyperService::new(http::router(app));
            let mut builder = Builder::new();
            let patience = Duration::from_secs(app.limits.patience);
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(patience)
                .max_buf_size(64 << 10);
            let stream = TokioIo::new(Patient::new(stream, patience));
            let connection = builder.serve_connection(stream, service);
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // Whoever sends nonsense or goes away is no concern of ours.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(listener);
        app.close();
        // The batch at hand, then the answers.
        let made = tokio::task::spawn_blocking(move || maker.join());
        let _ = made.await;
        app.finish();
        let _ = tokio::time::timeout(LAST_WORDS, graceful.shutdown()).await;
        std::io::Result::Ok(())
    })
}

/// The names by which a server at `address` is asked.
pub fn names(address: SocketAddr) -> Vec<String> {
    let ip = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into(), ip]
}

/// A token that nobody can guess.
pub fn new_token() -> String {
    crate::random::hex(16)
}
