//! A pickle interpreter that can build dictionaries, lists and tensors, and nothing else.
//!
//! A pickle is a program for a stack machine (`pickletools` in Python's library documents it). The
//! dangerous instructions of Python's own machine import a name and call it. Here a name is only a
//! name: calling `torch._utils._rebuild_tensor_v2` or `collections.OrderedDict` makes what these
//! would make, calling anything else makes an inert placeholder. A file that names what only an
//! attack would (`os.system`, `builtins.eval`) is refused.

use std::collections::HashMap;

use super::TensorRef;
use super::objects::name_value;
use crate::dtype::StoredType;

/// Why a pickle was not read to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// It makes no sense, in words.
    Damaged(String),
    /// It names this function, which only an attack would call.
    Attack(String),
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

/// A Python object. Those that can change after they are put aside in the memo live in a list of
/// their own.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Str(String),
    /// Index in [`Machine::lists`]. Tuples and sets are lists.
    List(usize),
    /// Index in [`Machine::dicts`].
    Dict(usize),
    /// A name of Python's: module and name.
    Name(String, String),
    /// Bytes that lie elsewhere in the file.
    Storage {
        key: String,
        dtype: Option<StoredType>,
    },
    Tensor(TensorRef),
    /// Anything else.
    Opaque,
    Mark,
}

/// The interpreter's memory. Several pickles of one file share it.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub lists: Vec<Vec<Value>>,
    pub dicts: Vec<Vec<(Value, Value)>>,
    /// Storages by key: type and number of elements.
    pub storages: HashMap<String, (Option<StoredType>, usize)>,
}

/// One run's stack and memo.
struct Run<'a> {
    machine: &'a mut Machine,
    stack: Vec<Value>,
    memo: HashMap<u64, Value>,
    bytes: &'a [u8],
    at: usize,
}

impl Machine {
    /// Runs the pickle that `bytes` starts with: the object that it makes, and its length.
    pub fn run(&mut self, bytes: &[u8]) -> Step<(Value, usize)> {
        let mut run = Run {
            machine: self,
            stack: Vec::new(),
            memo: HashMap::new(),
            bytes,
            at: 0,
        };
        let value = run.run()?;
        Ok((value, run.at))
    }
}

pub(super) type Step<T> = Result<T, Fault>;

impl Run<'_> {
    fn run(&mut self) -> Step<Value> {
        loop {
            let op = self.byte()?;
            match op {
                b'.' => return self.pop(),
                0x80 => _ = self.byte()?,  // protocol
                0x95 => _ = self.take(8)?, // frame
                b'(' => self.stack.push(Value::Mark),
                b'0' => _ = self.pop()?,
                b'1' => _ = self.pop_mark()?,
                b'2' => {
                    let top = self
                        .stack
                        .last()
                        .cloned()
                        .ok_or("a pickle with an empty stack")?;
                    self.stack.push(top);
                }
                b'N' => self.stack.push(Value::None),
                0x88 => self.stack.push(Value::Bool(true)),
                0x89 => self.stack.push(Value::Bool(false)),
                b'I' | b'L' => {
                    let text = self.line()?;
                    let value = match text.trim_end_matches('L') {
                        "00" => Value::Bool(false),
                        "01" => Value::Bool(true),
                        // Wider numbers, such as random seeds, describe no tensor.
                        digits => digits.parse().map_or(Value::Opaque, Value::Int),
                    };
                    self.stack.push(value);
                }
                b'J' | b'K' | b'M' | 0x8a | 0x8b => self.integer(op)?,
                b'F' => {
                    self.line()?;
                    self.stack.push(Value::Opaque);
                }
                b'G' => {
                    self.take(8)?;
                    self.stack.push(Value::Opaque);
                }
                b'S' | b'V' => {
                    let text = self.line()?.trim_matches(['\'', '"']).to_string();
                    self.stack.push(Value::Str(text));
                }
                b'T' | b'U' | b'X' | 0x8c | 0x8d => {
                    let len = self.length(match op {
                        b'U' | 0x8c => 1,
                        0x8d => 8,
                        _ => 4,
                    })?;
                    let text = String::from_utf8_lossy(self.take(len)?).into_owned();
                    self.stack.push(Value::Str(text));
                }
                b'B' | b'C' | 0x8e | 0x96 => {
                    let len = self.length(match op {
                        b'C' => 1,
                        b'B' => 4,
                        _ => 8,
                    })?;
                    self.take(len)?;
                    self.stack.push(Value::Opaque);
                }
                b'p' | b'q' | b'r' | 0x94 => self.put(op)?,
                b'g' | b'h' | b'j' => self.get(op)?,
                b']' | b')' | 0x8f => self.push_list(Vec::new()),
                b'}' => self.push_dict(Vec::new()),
                b'l' | b't' | 0x91 => {
                    let items = self.pop_mark()?;
                    self.push_list(items);
                }
                0x85..=0x87 => {
                    let len = usize::from(op - 0x84);
                    let from = self
                        .stack
                        .len()
                        .checked_sub(len)
                        .ok_or("a pickle with an empty stack")?;
                    let items = self.stack.split_off(from);
                    self.push_list(items);
                }
                b'd' => {
                    let items = self.pop_mark()?;
                    self.push_dict(pairs(items));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item]);
                }
                b'e' | 0x90 => {
                    let items = self.pop_mark()?;
                    self.append(items);
                }
                b's' => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.set(vec![(key, value)]);
                }
                b'u' => {
                    let items = self.pop_mark()?;
                    self.set(pairs(items));
                }
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push_name(module, name)?;
                }
                0x93 => match (self.pop()?, self.pop()?) {
                    (Value::Str(name), Value::Str(module)) => self.push_name(module, name)?,
                    _ => return Err("a pickle whose names are no text".into()),
                },
                b'R' | 0x81 => {
                    let arguments = self.pop()?;
                    let callable = self.pop()?;
                    let made = self.machine.call(callable, arguments)?;
                    self.stack.push(made);
                }
                0x92 => {
                    self.pop()?;
                    self.pop()?;
                    self.pop()?;
                    self.stack.push(Value::Opaque);
                }
                b'i' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push_name(module, name)?;
                    self.pop()?;
                    self.pop_mark()?;
                    self.stack.push(Value::Opaque);
                }
                b'o' => {
                    self.pop_mark()?;
                    self.stack.push(Value::Opaque);
                }
                b'b' => _ = self.pop()?, // an object's state; no object here has any
                b'Q' => {
                    let id = self.pop()?;
                    let storage = self.machine.storage(id)?;
                    self.stack.push(storage);
                }
                other => {
                    return Err(format!(
                        "a pickle with the instruction {other:#04x}, which PyTorch never writes"
                    )
                    .into());
                }
            }
        }
    }

    fn byte(&mut self) -> Step<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, len: usize) -> Step<&[u8]> {
        let end = self.at.checked_add(len);
        let taken = end
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or("a pickle that is cut short")?;
        self.at += len;
        Ok(taken)
    }

    /// A little-endian number of so many bytes.
    fn length(&mut self, bytes: usize) -> Step<usize> {
        let value = self
            .take(bytes)?
            .iter()
            .rev()
            .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).map_err(|_| "a pickle with an impossible length".into())
    }

    fn line(&mut self) -> Step<String> {
        let rest = &self.bytes[self.at..];
        let len = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("a pickle that is cut short")?;
        let line = String::from_utf8_lossy(&rest[..len])
            .trim_end_matches('\r')
            .to_string();
        self.at += len + 1;
        Ok(line)
    }

    fn pop(&mut self) -> Step<Value> {
        self.stack
            .pop()
            .ok_or_else(|| "a pickle with an empty stack".into())
    }

    fn pop_mark(&mut self) -> Step<Vec<Value>> {
        let mark = self
            .stack
            .iter()
            .rposition(|value| matches!(value, Value::Mark));
        let items = self
            .stack
            .split_off(mark.ok_or("a pickle without the mark that it refers to")? + 1);
        self.stack.pop();
        Ok(items)
    }

    fn integer(&mut self, op: u8) -> Step<()> {
        let len = match op {
            b'J' => 4,
            b'K' => 1,
            b'M' => 2,
            0x8a => self.length(1)?,
            _ => self.length(4)?,
        };
        let signed = !matches!(op, b'K' | b'M');
        let bytes = self.take(len)?;
        let value = if len > 8 {
            Value::Opaque
        } else {
            let fill = if signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0) {
                0xff
            } else {
                0
            };
            let mut wide = [fill; 8];
            wide[..len].copy_from_slice(bytes);
            Value::Int(i64::from_le_bytes(wide))
        };
        self.stack.push(value);
        Ok(())
    }

    fn put(&mut self, op: u8) -> Step<()> {
        let index = match op {
            b'p' => self
                .line()?
                .parse()
                .map_err(|_| "a pickle with a memo that is no number")?,
            b'q' => self.length(1)? as u64,
            b'r' => self.length(4)? as u64,
            _ => self.memo.len() as u64,
        };
        let top = self
            .stack
            .last()
            .cloned()
            .ok_or("a pickle with an empty stack")?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn get(&mut self, op: u8) -> Step<()> {
        let index = match op {
            b'g' => self
                .line()?
                .parse()
                .map_err(|_| "a pickle with a memo that is no number")?,
            b'h' => self.length(1)? as u64,
            _ => self.length(4)? as u64,
        };
        let value = self
            .memo
            .get(&index)
            .cloned()
            .ok_or("a pickle that recalls what it never stored")?;
        self.stack.push(value);
        Ok(())
    }

    fn push_name(&mut self, module: String, name: String) -> Step<()> {
        self.stack.push(name_value(module, name)?);
        Ok(())
    }

    fn push_list(&mut self, items: Vec<Value>) {
        self.machine.lists.push(items);
        self.stack.push(Value::List(self.machine.lists.len() - 1));
    }

    fn push_dict(&mut self, items: Vec<(Value, Value)>) {
        self.machine.dicts.push(items);
        self.stack.push(Value::Dict(self.machine.dicts.len() - 1));
    }

    fn append(&mut self, items: Vec<Value>) {
        if let Some(Value::List(list)) = self.stack.last() {
            self.machine.lists[*list].extend(items);
        }
    }

    fn set(&mut self, items: Vec<(Value, Value)>) {
        if let Some(Value::Dict(dict)) = self.stack.last() {
            self.machine.dicts[*dict].extend(items);
        }
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}
