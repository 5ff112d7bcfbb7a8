//! A server that makes pictures, several at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::time::Instant;

use prepose_remote::RemoteError;
use prepose_remote::images::ImageServer;

use crate::{Deliver, Editing, File, Job, Origin, Outcome, Refusal, Source, SourceError, Wishes};

/// Jobs that are given at a time, for each that is under way: the fewer, the more often all wait for the slowest.
const WINDOW: usize = 4;

/// A server that makes pictures.
pub struct Endpoint {
    server: Box<dyn ImageServer>,
    wishes: Wishes,
    parallel: usize,
}

impl Endpoint {
    /// Asks `server` for at most `parallel` pictures at a time.
    pub fn new(server: Box<dyn ImageServer>, wishes: Wishes, parallel: usize) -> Self {
        Self {
            server,
            wishes,
            parallel: parallel.max(1),
        }
    }

    /// Asks the server whether it is what it should be.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), SourceError> {
        Ok(self.server.check()?)
    }

    fn one(&self, job: &Job) -> Result<Outcome, RemoteError> {
        let began = Instant::now();
        match self.server.make(&self.wishes.request(job)) {
            Ok(made) => {
                let origin = Origin {
                    seed: made.seed,
                    revised_prompt: made.revised_prompt,
                    model: made.model,
                    request_id: made.request_id,
                    attempts: made.attempts,
                    start: job.start.as_ref().map(|start| start.sha256.clone()),
                    ..Origin::default()
                };
                let seconds = began.elapsed().as_secs_f64();
                Ok(Outcome::Picture(File::new(made.bytes, origin, seconds)))
            }
            Err(RemoteError::Refused { code, message, .. }) => {
                Ok(Outcome::Refused(Refusal { code, message }))
            }
            Err(error) => Err(error),
        }
    }
}

impl Source for Endpoint {
    fn at_once(&self) -> usize {
        self.parallel * WINDOW
    }

    fn editing(&self) -> Editing {
        self.server.editing()
    }

    fn fetch(&mut self, jobs: &[Job], deliver: &mut Deliver) -> Result<(), SourceError> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let this = &*self;
        std::thread::scope(|scope| {
            let (send, receive) = channel();
            for _ in 0..this.parallel.min(jobs.len()) {
                let send = send.clone();
                let (next, stop) = (&next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(index) else { return };
                        // The next picture is asked for once this one is kept, so that no more than are under way can be
                        // lost.
                        let (kept, is_kept) = sync_channel(1);
                        if send.send((index, this.one(job), kept)).is_err()
                            || is_kept.recv().is_err()
                        {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let mut failed = None;
            // What is under way when one fails is paid for, and kept.
            for (index, outcome, kept) in receive {
                let delivered = match outcome {
                    Ok(outcome) => deliver(index, outcome),
                    Err(RemoteError::Stopped) => Err(SourceError::Stopped),
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = delivered {
                    stop.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
                // It waits for this.
                let _ = kept.send(());
            }
            failed.map_or(Ok(()), Err)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prepose_remote::images::{Extra, OpenAiImages};
    use prepose_remote::stub::{Reply, Stub};
    use prepose_remote::{Client, Retry, Settings};
    use serde_json::json;

    use super::*;

    fn jobs(count: usize) -> Vec<Job> {
        let job = |number: usize| Job {
            name: format!("{number:064x}"),
            prompt_id: format!("p{number}"),
            prompt: format!("prompt {number}"),
            seed: 0,
            number: 0,
            start: None,
        };
        (0..count).map(job).collect()
    }

    fn endpoint(stub: &Stub, parallel: usize) -> Endpoint {
        let settings = Settings {
            retry: Retry {
                attempts: 2,
                first: Duration::from_millis(1),
                ..Retry::default()
            },
            ..Settings::default()
        };
        let client = Client::new(&stub.address, None, settings).unwrap();
        let server = OpenAiImages::new(client, "m", Extra::default());
        Endpoint::new(Box::new(server), Wishes::default(), parallel)
    }

    /// A PNG file as far as a server of pictures is believed, in base64.
    fn picture() -> Reply {
        Reply::Json(
            200,
            json!({"data": [{"b64_json": "iVBORw0KGgouLi4uSUVORK5CYII="}]}),
        )
    }

    fn fetch(
        endpoint: &mut Endpoint,
        jobs: &[Job],
    ) -> (Vec<(usize, Outcome)>, Result<(), SourceError>) {
        let mut got = Vec::new();
        let result = endpoint.fetch(jobs, &mut |index, outcome| {
            got.push((index, outcome));
            Ok(())
        });
        got.sort_by_key(|(index, _)| *index);
        (got, result)
    }

    #[test]
    fn so_many_are_asked_for_at_a_time_and_refusals_are_outcomes() {
        let stub = Stub::start(|asked| match asked.json()["prompt"].as_str() {
            Some("prompt 3") => Reply::error(400, "moderation_blocked", "no"),
            _ => picture(),
        })
        .unwrap();
        let mut endpoint = endpoint(&stub, 3);
        assert_eq!(endpoint.at_once(), 12);
        let (got, result) = fetch(&mut endpoint, &jobs(20));
        result.unwrap();
        assert_eq!(got.len(), 20);
        assert_eq!(stub.count(), 20);
        assert!(stub.most_at_once() <= 3, "{}", stub.most_at_once());
        for (index, outcome) in got {
            match outcome {
                Outcome::Refused(refusal) => {
                    assert_eq!((index, refusal.message.as_str()), (3, "no"))
                }
                Outcome::Picture(file) => assert_eq!(file.origin.attempts, 1),
                Outcome::Missing => panic!("nothing is missing"),
            }
        }
    }

    #[test]
    fn what_is_paid_for_is_kept_when_another_fails() {
        const GOOD: [&str; 5] = ["prompt 0", "prompt 1", "prompt 2", "prompt 3", "prompt 4"];
        let stub = Stub::start(|asked| match asked.json()["prompt"].as_str() {
            Some(prompt) if GOOD.contains(&prompt) => picture(),
            _ => Reply::error(400, "bad", "no such size"),
        })
        .unwrap();
        let (got, result) = fetch(&mut endpoint(&stub, 4), &jobs(40));
        assert!(
            result
                .unwrap_err()
                .to_string()
                .ends_with("answered 400: no such size")
        );
        // All that was answered was handed over.
        let got: Vec<usize> = got.into_iter().map(|(index, _)| index).collect();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        // Each of the four that ask has heard of the failure before it could ask once more.
        let asked = stub.count();
        assert!((6..=9).contains(&asked), "{asked}");
    }
}
