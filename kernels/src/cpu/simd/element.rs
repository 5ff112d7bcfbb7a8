//! The types of the operands.

use super::vector::Vector;
#[cfg(target_arch = "x86_64")]
use super::x86::Wide;
use burn::tensor::{DType, Element as Stored};
use half::bf16;

/// What products take: words of 32 bits that hold one element or several that follow each other along the summed axis, or parts
/// of elements.
pub(crate) trait Words {
    /// Elements, or parts of different ones, in a word.
    const PER_WORD: usize;
    /// Parts that an element is in.
    const PARTS: usize;

    /// Words that `count` summed elements take.
    fn words(count: usize) -> usize;
    /// `sum` plus the products of the elements in each word of `a` and `b`.
    fn dot<V: Vector>(a: V, b: V, sum: V) -> V;
}

/// A type that kernels read and write. They compute in f32 whatever it is. Elements are words, too.
pub(crate) trait Element: Words + Stored + bytemuck::Pod + Send + Sync {
    /// Burn's name for it.
    const DTYPE: DType;
    /// The widest vectors that use instructions for this type.
    #[cfg(target_arch = "x86_64")]
    type Widest: Vector;

    fn widen(self) -> f32;
    /// Rounded to the nearest, ties to even.
    fn narrow(x: f32) -> Self;

    /// # Safety
    /// As for [`Vector::load`].
    unsafe fn load<V: Vector>(from: *const Self) -> V;
    /// # Safety
    /// As for [`Vector::load_first`].
    unsafe fn load_first<V: Vector>(from: *const Self, count: usize) -> V;
    /// # Safety
    /// As for [`Vector::store`].
    unsafe fn store<V: Vector>(x: V, to: *mut Self);
    /// # Safety
    /// As for [`Vector::store_first`].
    unsafe fn store_first<V: Vector>(x: V, to: *mut Self, count: usize);

    /// A word of elements.
    fn word(first: Self, second: Self) -> f32;
}

impl Words for f32 {
    const PER_WORD: usize = 1;
    const PARTS: usize = 1;

    #[inline(always)]
    fn words(count: usize) -> usize {
        count
    }
    #[inline(always)]
    fn dot<V: Vector>(a: V, b: V, sum: V) -> V {
        a.mul_add(b, sum)
    }
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
    #[cfg(target_arch = "x86_64")]
    type Widest = Wide<false>;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        x
    }
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V {
        // SAFETY: the same contract.
        unsafe { V::load(from) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(from: *const Self, count: usize) -> V {
        // SAFETY: the same contract.
        unsafe { V::load_first(from, count) }
    }
    #[inline(always)]
    unsafe fn store<V: Vector>(x: V, to: *mut Self) {
        // SAFETY: the same contract.
        unsafe { x.store(to) }
    }
    #[inline(always)]
    unsafe fn store_first<V: Vector>(x: V, to: *mut Self, count: usize) {
        // SAFETY: the same contract.
        unsafe { x.store_first(to, count) }
    }
    #[inline(always)]
    fn word(first: Self, _: Self) -> f32 {
        first
    }
}

impl Words for bf16 {
    const PER_WORD: usize = 2;
    const PARTS: usize = 1;

    #[inline(always)]
    fn words(count: usize) -> usize {
        count.div_ceil(Self::PER_WORD)
    }
    #[inline(always)]
    fn dot<V: Vector>(a: V, b: V, sum: V) -> V {
        a.dot_bf16(b, sum)
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
    #[cfg(target_arch = "x86_64")]
    type Widest = Wide<true>;

    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        Self::from_f32(x)
    }
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V {
        // SAFETY: the same contract.
        unsafe { V::load_bf16(from) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(from: *const Self, count: usize) -> V {
        // SAFETY: the same contract.
        unsafe { V::load_first_bf16(from, count) }
    }
    #[inline(always)]
    unsafe fn store<V: Vector>(x: V, to: *mut Self) {
        // SAFETY: the same contract.
        unsafe { x.store_bf16(to) }
    }
    #[inline(always)]
    unsafe fn store_first<V: Vector>(x: V, to: *mut Self, count: usize) {
        // SAFETY: the same contract.
        unsafe { x.store_first_bf16(to, count) }
    }
    #[inline(always)]
    fn word(first: Self, second: Self) -> f32 {
        f32::from_bits(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
    }
}
