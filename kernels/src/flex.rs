//! Between Burn's tensors on the CPU backend `flex` and the kernels in [`crate::cpu`].

use crate::cpu::simd::Element as Computed;
use crate::threads;

use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{BackendTensor, DispatchTensorKind, Flex};
use burn::tensor::{Bytes, DType, Element, Shape, Tensor};
use core::marker::PhantomData;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

/// Elements that a thread converts at a time.
const CHUNK: usize = 1 << 16;

/// Calls `$function::<E>` with `E` = bf16 if all of the tensors are of this type, else with f32. Operands that are of another
/// type than `E` are converted.
macro_rules! by_type {
    ([$($tensor:expr),+ $(,)?], $function:ident($($arg:expr),* $(,)?)) => {
        if [$($tensor.dtype()),+].iter().all(|dtype| *dtype == burn::tensor::DType::BF16) {
            $function::<half::bf16>($($arg),*)
        } else {
            $function::<f32>($($arg),*)
        }
    };
}
pub(crate) use by_type;

/// An operand on `flex` outside autodiff, of type `E` or made so.
pub(crate) struct Operand<E = f32> {
    tensor: FlexTensor,
    element: PhantomData<E>,
}

impl<E: Computed> Operand<E> {
    /// `None` if the tensor is on another backend, under autodiff, or neither f32 nor f16 nor bf16.
    pub(crate) fn new<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        let DispatchTensorKind::Flex(BackendTensor::Float(tensor)) =
            tensor.clone().into_dispatch().kind
        else {
            return None;
        };
        threads::call_up();
        let wide = match tensor.dtype() {
            dtype if dtype == E::DTYPE => return Some(Self::of(tensor)),
            DType::F32 => tensor,
            DType::F16 => widen::<f16>(&tensor, |from, to| from.convert_to_f32_slice(to)),
            DType::BF16 => widen::<bf16>(&tensor, |from, to| from.convert_to_f32_slice(to)),
            _ => return None,
        };
        if E::DTYPE == DType::F32 {
            return Some(Self::of(wide));
        }
        let wide = wide.to_contiguous();
        let from = wide.as_slice::<f32>().expect("a contiguous f32 tensor");
        let narrow: Vec<E> = from.iter().copied().map(E::narrow).collect();
        let layout = Layout::contiguous(wide.layout().shape().clone());
        let bytes = Bytes::from_elems(narrow);
        Some(Self::of(FlexTensor::new(bytes, layout, E::DTYPE)))
    }

    fn of(tensor: FlexTensor) -> Self {
        Self {
            tensor,
            element: PhantomData,
        }
    }

    /// Elements between neighbours along each axis.
    pub(crate) fn strides<const D: usize>(&self) -> [isize; D] {
        self.tensor
            .layout()
            .strides()
            .try_into()
            .expect("the rank of the tensor")
    }

    /// The elements from the first one on; which are part of the tensor depends on its strides.
    pub(crate) fn as_ptr(&self) -> *const E {
        self.tensor.storage::<E>()[self.tensor.layout().start_offset()..].as_ptr()
    }

    /// The same tensor with its elements one after the other, copied only if they are not.
    pub(crate) fn contiguous(self) -> Self {
        if self.tensor.is_contiguous() {
            self
        } else {
            Self::of(self.tensor.to_contiguous())
        }
    }

    /// The elements of a contiguous tensor.
    pub(crate) fn as_slice(&self) -> &[E] {
        self.tensor
            .as_slice()
            .expect("a contiguous tensor of this type")
    }
}

/// A contiguous f32 copy.
fn widen<T: Element + bytemuck::Pod + Sync>(
    tensor: &FlexTensor,
    convert: impl Fn(&[T], &mut [f32]) + Sync + Send,
) -> FlexTensor {
    let tensor = tensor.to_contiguous();
    let from = tensor
        .as_slice::<T>()
        .expect("a contiguous tensor of this type");
    let mut to = vec![0.0f32; from.len()];
    to.par_chunks_mut(CHUNK)
        .zip(from.par_chunks(CHUNK))
        .for_each(|(to, from)| convert(from, to));
    let layout = Layout::contiguous(tensor.layout().shape().clone());
    FlexTensor::new(Bytes::from_elems(to), layout, DType::F32)
}

/// A result of `shape` whose elements `fill` writes to the pointer it gets, contiguously; of f32 rounded to `dtype`, which
/// otherwise must be that of `E`.
///
/// # Safety
/// `fill` must write all elements of `shape`.
pub(crate) unsafe fn filled<E: Computed, const D: usize>(
    shape: [usize; D],
    dtype: DType,
    fill: impl FnOnce(*mut E),
) -> Tensor<D> {
    // SAFETY: a contiguous layout has no gaps, and the rest is this function's contract.
    unsafe { filled_with_layout(Layout::contiguous(Shape::from(shape)), dtype, fill) }
}

/// As [`filled`] for any layout without gaps.
///
/// # Safety
/// `fill` must write all elements.
pub(crate) unsafe fn filled_with_layout<E: Computed, const D: usize>(
    layout: Layout,
    dtype: DType,
    fill: impl FnOnce(*mut E),
) -> Tensor<D> {
    let len = layout.num_elements();
    let mut data = Vec::<E>::with_capacity(len);
    use_huge_pages(&mut data);
    fill(data.as_mut_ptr());
    // SAFETY: there is capacity for `len`, and `fill` has written them all.
    unsafe { data.set_len(len) };
    let bytes = if dtype == E::DTYPE {
        Bytes::from_elems(data)
    } else {
        let wide: &[f32] = bytemuck::cast_slice(&data);
        match dtype {
            DType::F16 => Bytes::from_elems(narrow(wide, f16::ZERO, |from, to| {
                to.convert_from_f32_slice(from);
            })),
            DType::BF16 => Bytes::from_elems(narrow(wide, bf16::ZERO, |from, to| {
                to.convert_from_f32_slice(from);
            })),
            _ => unreachable!("operands are f32, f16 or bf16"),
        }
    };
    Tensor::from_primitive::<Flex>(FlexTensor::new(bytes, layout, dtype))
}

/// Lets `change` at the elements of `x`, all of which the pointer may read and write, if they are of type `E`, fill their
/// memory one after the other and are nobody else's. Gives `x` back, and whether it was changed.
pub(crate) fn in_place<E: Computed, const D: usize>(
    x: Tensor<D>,
    change: impl FnOnce(*mut E),
) -> (Tensor<D>, bool) {
    let mut dispatch = x.into_dispatch();
    let elements = match &mut dispatch.kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) if tensor.dtype() == E::DTYPE => {
            let places = tensor.layout().contiguous_offsets();
            let elements = tensor.try_storage_mut::<E>();
            elements.filter(|elements| places == Some((0, elements.len())))
        }
        _ => None,
    };
    let changed = elements.map(|elements| change(elements.as_mut_ptr()));
    (Tensor::from_dispatch(dispatch), changed.is_some())
}

/// Large results come fresh from the system each time, and the first touch of each 4 KiB page costs
/// as much as computing what goes there; with pages of 2 MiB it does not. Working memory that is read in many places at a time is then
/// found faster, too.
pub(crate) fn use_huge_pages<E>(data: &mut Vec<E>) {
    #[cfg(target_os = "linux")]
    {
        const HUGE: usize = 2 << 20;
        let size = data.capacity() * size_of::<E>();
        let start = data.as_mut_ptr() as usize;
        let (first, end) = (start.next_multiple_of(HUGE), (start + size) / HUGE * HUGE);
        if end > first + HUGE {
            // SAFETY: advice about memory inside the vector's; it changes no contents, and to fail
            // is no harm.
            unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}

/// Tells the allocator to keep freed memory instead of giving it back to the system after every operation, which would have to
/// clear it again for the next, and to keep it for all threads together: which thread runs a network changes from call to call
/// ([`keep_awake`](crate::keep_awake)). Only what is free at the end of the heap goes back, from 512 MiB on. For the start of a
/// program that runs networks on the CPU; does nothing where the allocator is not glibc's.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: parameters of the allocator; it takes a lock to change them.
    unsafe {
        // Activations of more than 32 MiB, too, for which glibc would otherwise ask the system.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 512 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives memory that [`keep_freed_memory`] holds on to back to the system, so that what a piece of work takes can be
/// measured.
pub fn release_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's locks and touches no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn narrow<T: Copy + Send + Sync>(
    from: &[f32],
    zero: T,
    convert: impl Fn(&[f32], &mut [T]) + Sync + Send,
) -> Vec<T> {
    let mut to = vec![zero; from.len()];
    to.par_chunks_mut(CHUNK)
        .zip(from.par_chunks(CHUNK))
        .for_each(|(to, from)| convert(from, to));
    to
}
