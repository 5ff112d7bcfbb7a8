//! Smaller batches when memory runs out.

use super::error::MakeError;

/// Calls `make` with at most `batch` pictures at a time; when memory runs out and `halves`, again with half of the
/// pictures that it tried together, which it returns besides what it made. In the end `batch` is what fitted.
pub(super) fn by_halves<T>(
    batch: &mut usize,
    halves: bool,
    mut make: impl FnMut(usize) -> Result<(usize, Result<T, MakeError>), MakeError>,
) -> Result<T, MakeError> {
    loop {
        let (together, made) = make(*batch)?;
        match made {
            Err(MakeError::Engine(short))
                if halves && together > 1 && short.out_of_memory().is_some() =>
            {
                *batch = together / 2;
                tracing::warn!("{short}; going on with {batch} at a time");
            }
            made => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineError;
    use crate::memory::{OutOfMemory, Room, Shortage};

    fn short<T>() -> Result<T, MakeError> {
        let short = OutOfMemory {
            doing: "denoising".into(),
            device: "flex".into(),
            shortage: Shortage { bytes: None },
            needs: None,
            room: Room::default(),
            ways: Vec::new(),
        };
        Err(EngineError::OutOfMemory(Box::new(short)).into())
    }

    #[test]
    fn a_batch_that_is_too_large_is_made_in_parts_and_nothing_twice() {
        let requests: Vec<usize> = (0..13).collect();
        let (mut batch, mut sizes, mut made) = (8, Vec::new(), Vec::new());
        while made.len() < requests.len() {
            let rest = &requests[made.len()..];
            let more = by_halves(&mut batch, true, |batch| {
                let size = rest.len().min(batch);
                sizes.push(size);
                // There is room for three, and less after a while.
                let fits = size <= if rest[0] < 6 { 3 } else { 1 };
                let made = if fits {
                    Ok(rest[..size].to_vec())
                } else {
                    short()
                };
                Ok((size, made))
            });
            made.extend(more.unwrap());
        }
        assert_eq!(made, requests);
        assert_eq!(batch, 1);
        assert_eq!(sizes, [8, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn one_that_is_too_large_alone_is_an_error() {
        let mut batch = 4;
        let made = by_halves(&mut batch, true, |batch| Ok((batch.min(3), short::<()>())));
        assert!(made.unwrap_err().to_string().contains("out of memory"));
        assert_eq!(batch, 1);
    }

    #[test]
    fn candidates_of_a_search_are_halved() {
        let mut batch = 16;
        let made = by_halves(&mut batch, true, |batch| {
            Ok((batch.min(12), if batch > 4 { short() } else { Ok(()) }))
        });
        assert_eq!((made.unwrap(), batch), ((), 3));
    }

    #[test]
    fn what_is_measured_is_not_made_smaller() {
        let mut batch = 4;
        let made = by_halves(&mut batch, false, |batch| Ok((batch, short::<()>())));
        assert!(made.is_err());
        assert_eq!(batch, 4);
    }
}
