//! A connection that does not wait for ever for a client that has stopped reading.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose writes fail if nothing of them was taken for as long as its patience lasts.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// From the first write on that had to wait to the next one that had not.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// A stream with so much patience.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
        }
    }

    /// What a write is that came to `written`.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        let over = waiting.as_mut().poll(context);
        over.map(|()| {
            let message = "the client reads nothing any more";
            Err(Error::new(ErrorKind::TimedOut, message))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Takes what is written if it is open.
    struct Door {
        open: bool,
    }

    impl AsyncWrite for Door {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<Result<usize>> {
            match self.open {
                true => Poll::Ready(Ok(bytes.len())),
                false => Poll::Pending,
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_client_that_stops_reading_is_left() {
        let door = Door { open: false };
        let mut stream = Patient::new(door, Duration::from_millis(1));
        let written = block_on(poll_fn(|context| {
            Pin::new(&mut stream).poll_write(context, b"a")
        }));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn whatever_is_taken_renews_the_patience() {
        let door = Door { open: false };
        let mut stream = Patient::new(door, Duration::from_secs(3600));
        block_on(poll_fn(|context| {
            let parts = [IoSlice::new(b"a")];
            let written = Pin::new(&mut stream).poll_write_vectored(context, &parts);
            assert!(written.is_pending() && stream.waiting.is_some());
            stream.stream.open = true;
            let written = Pin::new(&mut stream).poll_write_vectored(context, &parts);
            assert!(written.is_ready() && stream.waiting.is_none());
            Poll::Ready(())
        }));
    }
}
