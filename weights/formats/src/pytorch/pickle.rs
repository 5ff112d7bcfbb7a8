//! A pickle interpreter that can build dictionaries, lists and tensors, and nothing else.
//!
//! A pickle is a program for a stack machine (`pickletools` in Python's library documents it). The
//! dangerous instructions of Python's own machine import a name and call it. Here a name is only a
//! name: calling `torch._utils._rebuild_tensor_v2` or `collections.OrderedDict` makes what these
//! would make, calling anything else makes an inert placeholder. A file that names what only an
//! attack would (`os.system`, `builtins.eval`) is refused.
//!
//! **Memory** stays in proportion to the pickle: texts and tensors are shared when they are recalled, what calls copy
//! is limited by what was read, and so is the number of instructions.

use std::collections::HashMap;
use std::rc::Rc;

use super::machine::Machine;
use super::objects::name_value;
use super::opcodes::*;
use super::value::{Step, Value};

/// One run's stack and memo.
struct Run<'a> {
    machine: &'a mut Machine,
    stack: Vec<Value>,
    memo: HashMap<u64, Value>,
    bytes: &'a [u8],
    at: usize,
}

/// The most instructions that a file may have; a checkpoint of a thousand tensors has some ten thousand.
const MAX_INSTRUCTIONS: usize = 1 << 22;

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

const EMPTY_STACK: &str = "a pickle with an empty stack";

impl Run<'_> {
    fn run(&mut self) -> Step<Value> {
        loop {
            self.machine.instructions += 1;
            if self.machine.instructions > MAX_INSTRUCTIONS {
                return Err(
                    format!("a pickle of more than {MAX_INSTRUCTIONS} instructions").into(),
                );
            }
            match self.byte()? {
                STOP => return self.pop(),
                op => self.execute(op)?,
            }
        }
    }

    fn execute(&mut self, op: u8) -> Step<()> {
        match op {
            PROTO => self.skip(1)?,
            FRAME => self.skip(8)?,
            MARK => self.stack.push(Value::Mark),
            POP => _ = self.pop()?,
            POP_MARK => _ = self.pop_mark()?,
            DUP => {
                let top = self.top()?.clone();
                self.stack.push(top);
            }
            NONE => self.stack.push(Value::None),
            NEWTRUE => self.stack.push(Value::Bool(true)),
            NEWFALSE => self.stack.push(Value::Bool(false)),
            INT | LONG | BININT | BININT1 | BININT2 | LONG1 | LONG4 | FLOAT | BINFLOAT => {
                let number = self.number(op)?;
                self.stack.push(number);
            }
            STRING | UNICODE | BINSTRING | SHORT_BINSTRING | BINUNICODE | SHORT_BINUNICODE
            | BINUNICODE8 => {
                let text = self.text(op)?;
                self.stack.push(Value::Str(text));
            }
            BINBYTES | SHORT_BINBYTES | BINBYTES8 | BYTEARRAY8 => self.skip_bytes(op)?,
            PUT | BINPUT | LONG_BINPUT | MEMOIZE => self.put(op)?,
            GET | BINGET | LONG_BINGET => self.get(op)?,
            GLOBAL | STACK_GLOBAL | REDUCE | NEWOBJ | NEWOBJ_EX | INST | OBJ | BUILD
            | BINPERSID => self.call(op)?,
            _ => self.collection(op)?,
        }
        Ok(())
    }

    /// The value of a number; those that describe no tensor (fractions, random seeds wider than 64 bits) are opaque.
    fn number(&mut self, op: u8) -> Step<Value> {
        let len = match op {
            INT | LONG => {
                return Ok(match self.line()?.trim_end_matches('L') {
                    "00" => Value::Bool(false),
                    "01" => Value::Bool(true),
                    digits => digits.parse().map_or(Value::Opaque, Value::Int),
                });
            }
            FLOAT => return self.line().map(|_| Value::Opaque),
            BINFLOAT => return self.skip(8).map(|()| Value::Opaque),
            BININT => 4,
            BININT1 => 1,
            BININT2 => 2,
            LONG1 => self.length(1)?,
            _ => self.length(4)?,
        };
        let signed = !matches!(op, BININT1 | BININT2);
        let bytes = self.take(len)?;
        if len > 8 {
            return Ok(Value::Opaque);
        }
        let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..len].copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(wide)))
    }

    fn text(&mut self, op: u8) -> Step<Rc<str>> {
        let len = match op {
            STRING | UNICODE => return Ok(self.line()?.trim_matches(['\'', '"']).into()),
            SHORT_BINSTRING | SHORT_BINUNICODE => self.length(1)?,
            BINUNICODE8 => self.length(8)?,
            _ => self.length(4)?,
        };
        Ok(String::from_utf8_lossy(self.take(len)?).into())
    }

    /// Bytes are nothing that a tensor needs.
    fn skip_bytes(&mut self, op: u8) -> Step<()> {
        let len = self.length(match op {
            SHORT_BINBYTES => 1,
            BINBYTES => 4,
            _ => 8,
        })?;
        self.skip(len)?;
        self.stack.push(Value::Opaque);
        Ok(())
    }

    fn put(&mut self, op: u8) -> Step<()> {
        let index = match op {
            MEMOIZE => self.memo.len() as u64,
            _ => self.memo_index(op)?,
        };
        let top = self.top()?.clone();
        self.memo.insert(index, top);
        Ok(())
    }

    fn get(&mut self, op: u8) -> Step<()> {
        let index = self.memo_index(op)?;
        let value = self.memo.get(&index).cloned();
        let value = value.ok_or("a pickle that recalls what it never stored")?;
        self.stack.push(value);
        Ok(())
    }

    fn memo_index(&mut self, op: u8) -> Step<u64> {
        match op {
            PUT | GET => {
                let index = self.line()?.parse();
                index.map_err(|_| "a pickle with a memo that is not a number".into())
            }
            BINPUT | BINGET => Ok(self.length(1)? as u64),
            _ => Ok(self.length(4)? as u64),
        }
    }

    fn collection(&mut self, op: u8) -> Step<()> {
        match op {
            EMPTY_LIST | EMPTY_TUPLE | EMPTY_SET => self.push_list(Vec::new()),
            EMPTY_DICT => self.push_dict(Vec::new()),
            LIST | TUPLE | FROZENSET => {
                let items = self.pop_mark()?;
                self.push_list(items);
            }
            TUPLE1 | TUPLE2 | TUPLE3 => {
                let len = usize::from(op - TUPLE1) + 1;
                let from = self.stack.len().checked_sub(len).ok_or(EMPTY_STACK)?;
                let items = self.stack.split_off(from);
                self.push_list(items);
            }
            DICT => {
                let items = self.pop_mark()?;
                self.push_dict(pairs(items));
            }
            APPEND => {
                let item = self.pop()?;
                self.append(vec![item]);
            }
            APPENDS | ADDITEMS => {
                let items = self.pop_mark()?;
                self.append(items);
            }
            SETITEM => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![(key, value)]);
            }
            SETITEMS => {
                let items = self.pop_mark()?;
                self.set(pairs(items));
            }
            other => {
                return Err(format!(
                    "a pickle with the instruction {other:#04x}, which PyTorch never writes"
                )
                .into());
            }
        }
        Ok(())
    }

    /// Names, and what is made by calling them.
    fn call(&mut self, op: u8) -> Step<()> {
        let made = match op {
            GLOBAL => {
                let (module, name) = (self.line()?, self.line()?);
                name_value(module.into(), name.into())?
            }
            STACK_GLOBAL => match (self.pop()?, self.pop()?) {
                (Value::Str(name), Value::Str(module)) => name_value(module, name)?,
                _ => return Err("a pickle whose names are not text".into()),
            },
            REDUCE | NEWOBJ => {
                let arguments = self.pop()?;
                let callable = self.pop()?;
                self.machine.call(callable, arguments)?
            }
            NEWOBJ_EX => {
                for _ in ["keywords", "arguments", "class"] {
                    self.pop()?;
                }
                Value::Opaque
            }
            INST => {
                let (module, name) = (self.line()?, self.line()?);
                name_value(module.into(), name.into())?;
                self.pop_mark()?;
                Value::Opaque
            }
            OBJ => {
                self.pop_mark()?;
                Value::Opaque
            }
            BINPERSID => {
                let id = self.pop()?;
                self.machine.storage(id)?
            }
            _ => {
                self.pop()?; // BUILD: no object here has a state.
                return Ok(());
            }
        };
        self.stack.push(made);
        Ok(())
    }

    fn byte(&mut self) -> Step<u8> {
        Ok(self.take(1)?[0])
    }

    fn skip(&mut self, len: usize) -> Step<()> {
        self.take(len).map(drop)
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

    fn top(&self) -> Step<&Value> {
        self.stack.last().ok_or_else(|| EMPTY_STACK.into())
    }

    fn pop(&mut self) -> Step<Value> {
        self.stack.pop().ok_or_else(|| EMPTY_STACK.into())
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
