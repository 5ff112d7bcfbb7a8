//! The one place where what looks at pictures waits for the device.

use std::cell::Cell;

use burn::tensor::kind;
use burn::tensor::{Tensor, TensorData, Transaction};

thread_local! {
    static TIMES: Cell<usize> = const { Cell::new(0) };
}

/// Tensors that are read from the device together, so that it is waited for once.
#[derive(Default)]
pub struct Reading {
    transaction: Transaction,
    tensors: usize,
}

impl Reading {
    /// With another tensor.
    pub fn with<const D: usize, K: kind::Transaction>(self, tensor: Tensor<D, K>) -> Self {
        Self {
            transaction: self.transaction.register(tensor),
            tensors: self.tensors + 1,
        }
    }

    /// With more tensors.
    pub fn with_all<const D: usize, K: kind::Transaction>(
        self,
        tensors: impl IntoIterator<Item = Tensor<D, K>>,
    ) -> Self {
        tensors.into_iter().fold(self, Self::with)
    }

    /// What is in them, in their order. Nothing is waited for if there is none.
    pub fn read(self) -> Vec<TensorData> {
        if self.tensors == 0 {
            return Vec::new();
        }
        TIMES.with(|times| times.set(times.get() + 1));
        self.transaction.execute()
    }

    /// The same as numbers.
    pub fn numbers(self) -> Vec<Vec<f32>> {
        let read = self.read();
        read.iter().map(|data| data.iter().collect()).collect()
    }
}

/// How often this thread has read.
pub fn times() -> usize {
    TIMES.with(Cell::get)
}
