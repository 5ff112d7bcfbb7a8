//! The CPU's threads, kept awake from one operation to the next.
//!
//! A network is some hundred operations, and those of a small one take some ten microseconds each. Rayon's threads go to
//! sleep when there is nothing to do for a moment, and the thread that called an operation sleeps until it is done: to wake
//! them takes as long as the operation. So a network runs on one of Rayon's threads, and the others look for work a little
//! longer than they would by themselves.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use burn::backend::DispatchDevice;
use burn::tensor::Device;

use crate::profile;

/// How long a thread looks for work after it has done some.
const PATIENCE: Duration = Duration::from_micros(200);

/// Threads that look for work or do some.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

/// Whether somebody has the threads: another's work would be taken up by a thread that waits in the midst of its own.
static TAKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread runs what [`keep_awake`] was given.
    static IN_CHARGE: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is one of [`LINGERING`].
    static LINGERS: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, whose operations on the CPU then need not wait for threads to wake up: calls of a network, or of several
/// with little between them. On other devices, within another such work or beside one, it is simply done.
///
/// `work` may run on another thread, so that it should not go by what belongs to the caller's; what
/// [`profile::record`](crate::profile::record) records goes along. If it panics, so does this.
pub fn keep_awake<T: Send>(device: &Device, work: impl FnOnce() -> T + Send) -> T {
    let device = device.clone().without_autodiff();
    let is_cpu = matches!(device.as_dispatch(), DispatchDevice::Flex(_));
    let is_within = rayon::current_thread_index().is_some();
    if !is_cpu || is_within || rayon::current_num_threads() == 1 {
        return work();
    }
    let Some(_taken) = Taken::take() else {
        return work();
    };
    profile::carry(|carried| {
        rayon::scope(|_| {
            let _charge = Charge::take();
            carried.on_this_thread(work)
        })
    })
}

/// The threads, until it is dropped.
struct Taken;

impl Taken {
    fn take() -> Option<Self> {
        match TAKEN.swap(true, Ordering::Acquire) {
            true => None,
            false => Some(Self),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// This thread is in charge until it is dropped.
struct Charge;

impl Charge {
    fn take() -> Self {
        IN_CHARGE.set(true);
        // One that looked for work and found all of it is none that the work can count on.
        if LINGERS.get() {
            LINGERING.fetch_sub(1, Ordering::Relaxed);
        }
        Self
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        IN_CHARGE.set(false);
        if LINGERS.get() {
            LINGERING.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Before an operation: has one more thread look for work, if there is one that does not.
pub(crate) fn call_up() {
    if !IN_CHARGE.get() || LINGERING.load(Ordering::Relaxed) + 1 >= rayon::current_num_threads() {
        return;
    }
    let caller = rayon::current_thread_index();
    LINGERING.fetch_add(1, Ordering::Relaxed);
    rayon::spawn(move || {
        // The caller itself may come to it, where it waits for others, and one that looks for work already.
        if rayon::current_thread_index() != caller && !LINGERS.replace(true) {
            linger();
            LINGERS.set(false);
        }
        LINGERING.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Does what work there is, until there has been none for a while.
fn linger() {
    // The more threads look, the less often each does.
    let pause = 4 * rayon::current_num_threads();
    let mut last = Instant::now();
    loop {
        match rayon::yield_now() {
            Some(rayon::Yield::Executed) => last = Instant::now(),
            _ if last.elapsed() > PATIENCE => return,
            _ => (0..pause).for_each(|_| spin_loop()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use burn::tensor::Tensor;

    use super::*;
    use crate::profile::Family;

    /// Tests that take the threads do so one after the other.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn many() -> bool {
        rayon::current_num_threads() > 1
    }

    #[test]
    fn work_is_done_by_one_of_the_threads_and_comes_back() {
        let _alone = alone();
        let device = Device::flex();
        let mut told = Vec::new();
        let (sum, place) = keep_awake(&device, || {
            told.push(1);
            let x = Tensor::<2>::ones([200, 300], &device);
            let weight = Tensor::<2>::ones([400, 300], &device);
            // Another one within it is simply done.
            let x = keep_awake(&device, || {
                crate::linear(x.unsqueeze::<3>(), weight, None).sum()
            });
            (x.into_scalar::<f32>(), rayon::current_thread_index())
        });
        assert_eq!((sum, told), (300.0 * 400.0 * 200.0, vec![1]));
        assert_eq!(place.is_some(), many());
        assert!(!IN_CHARGE.get());
    }

    #[test]
    fn one_beside_another_does_its_own_work() {
        let _alone = alone();
        let device = Device::flex();
        let (begun, begins) = channel();
        let (done, other) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                begins.recv().expect("the other has begun");
                // The second one, too: the first did not give back what it had not taken.
                let place = || keep_awake(&Device::flex(), rayon::current_thread_index);
                done.send([place(), place()]).expect("the other waits");
            });
            keep_awake(&device, move || {
                begun.send(()).expect("the other waits");
                let place = other.recv().expect("it is done beside this one");
                assert_eq!(place, [None; 2]);
            });
        });
    }

    #[test]
    fn a_panic_comes_through_and_leaves_the_threads_free() {
        let _alone = alone();
        let device = Device::flex();
        let work = || keep_awake(&device, || -> () { panic!("no memory for it") });
        let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"no memory for it"));
        let place = keep_awake(&device, rayon::current_thread_index);
        assert_eq!(place.is_some(), many());
    }

    #[test]
    fn a_recording_goes_along() {
        let _alone = alone();
        let device = Device::flex();
        let (_, profile) = profile::record(|| {
            keep_awake(&device, || crate::silu(Tensor::<2>::ones([3, 4], &device)));
            crate::silu(Tensor::<2>::ones([3, 4], &device))
        });
        assert_eq!(profile.get(Family::Activation).calls, 2);
    }

    #[test]
    fn threads_that_look_for_work_find_it_and_end() {
        let _alone = alone();
        let device = Device::flex();
        for _ in 0..50 {
            keep_awake(&device, || {
                for _ in 0..20 {
                    crate::silu(Tensor::<2>::ones([64, 4096], &device));
                }
            });
        }
        // The last ones end by themselves, soon or late.
        while LINGERING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
