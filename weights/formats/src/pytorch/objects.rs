//! What the names in a pickle make: dictionaries, storages, tensors, and nothing else.

use std::rc::Rc;

use super::machine::Machine;
use super::tensor::TensorRef;
use super::value::{Fault, Step, Value};
use crate::MAX_AXES;
use crate::dtype::StoredType;

/// A name is only refused when nothing but an attack would use it; what is called by it is
/// never run either way.
pub(super) fn name_value(module: Rc<str>, name: Rc<str>) -> Step<Value> {
    const MODULES: &[&str] = &[
        "os",
        "posix",
        "nt",
        "subprocess",
        "sys",
        "socket",
        "shutil",
        "runpy",
        "importlib",
        "pty",
        "ctypes",
        "webbrowser",
        "pickle",
        "_pickle",
        "commands",
        "code",
        "asyncio",
        "http",
        "urllib",
        "requests",
    ];
    const BUILTINS: &[&str] = &[
        "eval",
        "exec",
        "compile",
        "open",
        "__import__",
        "getattr",
        "setattr",
        "delattr",
        "globals",
        "locals",
        "breakpoint",
        "input",
        "vars",
        "apply",
        "execfile",
    ];
    let root = module.split('.').next().unwrap_or_default();
    let builtin = matches!(root, "builtins" | "__builtin__") && BUILTINS.contains(&&*name);
    if MODULES.contains(&root) || builtin {
        return Err(Fault::Attack(format!("{module}.{name}")));
    }
    Ok(Value::Name(module, name))
}

impl Machine {
    /// What `callable(*arguments)` makes.
    pub fn call(&mut self, callable: Value, arguments: Value) -> Step<Value> {
        let (Value::Name(module, name), Value::List(arguments)) = (callable, arguments) else {
            return Ok(Value::Opaque);
        };
        let arguments = &self.lists[arguments];
        match (&*module, &*name) {
            ("collections", "OrderedDict" | "defaultdict")
            | ("builtins" | "__builtin__", "dict") => {
                let items = match arguments.first() {
                    Some(Value::List(pairs)) => self.pairs(*pairs)?,
                    _ => Vec::new(),
                };
                self.dicts.push(items);
                Ok(Value::Dict(self.dicts.len() - 1))
            }
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => {
                let tensor = self.tensor(&name, arguments)?;
                Ok(Value::Tensor(Rc::new(tensor)))
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Ok(arguments.first().cloned().unwrap_or(Value::Opaque))
            }
            _ => Ok(Value::Opaque),
        }
    }

    /// The keys and values in a list of pairs.
    fn pairs(&mut self, list: usize) -> Step<Vec<(Value, Value)>> {
        self.allow_copies(self.lists[list].len())?;
        let pairs = self.lists[list].iter().filter_map(|pair| match pair {
            Value::List(pair) => match self.lists[*pair].as_slice() {
                [key, value] => Some((key.clone(), value.clone())),
                _ => None,
            },
            _ => None,
        });
        Ok(pairs.collect())
    }

    /// The tensor that `_rebuild_tensor…(storage, offset, size, stride, …)` makes.
    fn tensor(&self, name: &str, arguments: &[Value]) -> Step<TensorRef> {
        let [
            Value::Storage { key, dtype },
            Value::Int(offset),
            size,
            stride,
            ..,
        ] = arguments
        else {
            return Err("a tensor whose parts are not where they belong".into());
        };
        // The third version has bytes without a type, and the type after the hooks.
        let dtype = match (name, arguments.get(6)) {
            ("_rebuild_tensor_v3", Some(Value::Name(_, name))) => dtype_of(name),
            _ => *dtype,
        };
        let tensor = TensorRef {
            storage: key.clone(),
            dtype: dtype.ok_or("a tensor of an unknown type")?,
            offset: usize::try_from(*offset).map_err(|_| "a tensor with a negative offset")?,
            shape: self.numbers(size)?,
            stride: self.numbers(stride)?,
        };
        if tensor.shape.len() != tensor.stride.len() {
            return Err("a tensor with more sizes than strides".into());
        }
        Ok(tensor)
    }

    fn numbers(&self, list: &Value) -> Step<Vec<usize>> {
        let numbers = match list {
            Value::List(list) if self.lists[*list].len() > MAX_AXES => {
                let axes = self.lists[*list].len();
                return Err(
                    format!("a tensor of {axes} axes, and at most {MAX_AXES} are read").into(),
                );
            }
            Value::List(list) => self.lists[*list].iter().map(|item| match item {
                Value::Int(number) => usize::try_from(*number).ok(),
                _ => None,
            }),
            _ => return Err("a tensor without a size".into()),
        };
        numbers
            .collect::<Option<_>>()
            .ok_or_else(|| "a tensor whose size is not a number".into())
    }

    /// The storage that `("storage", type, key, location, elements)` refers to.
    pub fn storage(&mut self, id: Value) -> Step<Value> {
        let Value::List(list) = id else {
            return Ok(Value::Opaque);
        };
        let (dtype, key, elements) = match self.lists[list].as_slice() {
            [
                Value::Str(kind),
                Value::Name(_, name),
                Value::Str(key),
                _,
                Value::Int(elements),
                ..,
            ] if &**kind == "storage" => {
                let elements =
                    usize::try_from(*elements).map_err(|_| "a storage of negative size")?;
                (storage_type(name), key.clone(), elements)
            }
            // A module's source code, in whole models of the legacy format.
            _ => return Ok(Value::Opaque),
        };
        self.storages.insert(key.clone(), (dtype, elements));
        Ok(Value::Storage { key, dtype })
    }
}

/// The element type of a storage class of `torch`; none for bytes without a type.
fn storage_type(class: &str) -> Option<StoredType> {
    Some(match class {
        "DoubleStorage" => StoredType::F64,
        "FloatStorage" => StoredType::F32,
        "HalfStorage" => StoredType::F16,
        "BFloat16Storage" => StoredType::Bf16,
        "LongStorage" => StoredType::Other("I64", 64),
        "IntStorage" => StoredType::Other("I32", 32),
        "ShortStorage" => StoredType::Other("I16", 16),
        "CharStorage" => StoredType::Other("I8", 8),
        "ByteStorage" => StoredType::Other("U8", 8),
        "BoolStorage" => StoredType::Other("BOOL", 8),
        "ComplexFloatStorage" => StoredType::Other("C64", 64),
        _ => return None,
    })
}

/// The type `torch.{name}`.
fn dtype_of(name: &str) -> Option<StoredType> {
    Some(match name {
        "float64" => StoredType::F64,
        "float32" => StoredType::F32,
        "float16" => StoredType::F16,
        "bfloat16" => StoredType::Bf16,
        "int64" | "uint64" => StoredType::Other("I64", 64),
        "int32" | "uint32" => StoredType::Other("I32", 32),
        "int16" | "uint16" => StoredType::Other("I16", 16),
        "int8" => StoredType::Other("I8", 8),
        "uint8" => StoredType::Other("U8", 8),
        "bool" => StoredType::Other("BOOL", 8),
        "float8_e4m3fn" => StoredType::Other("F8_E4M3", 8),
        "float8_e5m2" => StoredType::Other("F8_E5M2", 8),
        _ => return None,
    })
}
