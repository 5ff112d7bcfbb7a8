//! The instructions of pickles, named as Python's `pickletools` names them. Those that PyTorch and the trainers around
//! it never write are not here.

/// Marks the stack, for instructions that take all above the mark.
pub const MARK: u8 = b'(';
/// Ends the pickle: the top of the stack is what it makes.
pub const STOP: u8 = b'.';
pub const POP: u8 = b'0';
pub const POP_MARK: u8 = b'1';
pub const DUP: u8 = b'2';
/// The version of the protocol, in a byte.
pub const PROTO: u8 = 0x80;
/// The length of what follows, in 8 bytes.
pub const FRAME: u8 = 0x95;

pub const NONE: u8 = b'N';
pub const NEWTRUE: u8 = 0x88;
pub const NEWFALSE: u8 = 0x89;

// Numbers, as a line of text or in so many little-endian bytes.
pub const INT: u8 = b'I';
pub const LONG: u8 = b'L';
pub const BININT: u8 = b'J';
pub const BININT1: u8 = b'K';
pub const BININT2: u8 = b'M';
pub const LONG1: u8 = 0x8a;
pub const LONG4: u8 = 0x8b;
pub const FLOAT: u8 = b'F';
pub const BINFLOAT: u8 = b'G';

// Text, as a quoted line or after its length.
pub const STRING: u8 = b'S';
pub const UNICODE: u8 = b'V';
pub const BINSTRING: u8 = b'T';
pub const SHORT_BINSTRING: u8 = b'U';
pub const BINUNICODE: u8 = b'X';
pub const SHORT_BINUNICODE: u8 = 0x8c;
pub const BINUNICODE8: u8 = 0x8d;

// Bytes after their length.
pub const BINBYTES: u8 = b'B';
pub const SHORT_BINBYTES: u8 = b'C';
pub const BINBYTES8: u8 = 0x8e;
pub const BYTEARRAY8: u8 = 0x96;

// The memo: values put aside under a number, to be had again.
pub const PUT: u8 = b'p';
pub const BINPUT: u8 = b'q';
pub const LONG_BINPUT: u8 = b'r';
pub const MEMOIZE: u8 = 0x94;
pub const GET: u8 = b'g';
pub const BINGET: u8 = b'h';
pub const LONG_BINGET: u8 = b'j';

// Lists, tuples, sets and dictionaries: empty, of what lies above the mark, or added to.
pub const EMPTY_LIST: u8 = b']';
pub const EMPTY_TUPLE: u8 = b')';
pub const EMPTY_SET: u8 = 0x8f;
pub const EMPTY_DICT: u8 = b'}';
pub const LIST: u8 = b'l';
pub const TUPLE: u8 = b't';
pub const TUPLE1: u8 = 0x85;
pub const TUPLE2: u8 = 0x86;
pub const TUPLE3: u8 = 0x87;
pub const FROZENSET: u8 = 0x91;
pub const DICT: u8 = b'd';
pub const APPEND: u8 = b'a';
pub const APPENDS: u8 = b'e';
pub const ADDITEMS: u8 = 0x90;
pub const SETITEM: u8 = b's';
pub const SETITEMS: u8 = b'u';

/// Names something of Python's in two lines: module and name.
pub const GLOBAL: u8 = b'c';
/// The same with both on the stack.
pub const STACK_GLOBAL: u8 = 0x93;

// Calls: a name and its arguments on the stack.
pub const REDUCE: u8 = b'R';
pub const NEWOBJ: u8 = 0x81;
pub const NEWOBJ_EX: u8 = 0x92;
pub const INST: u8 = b'i';
pub const OBJ: u8 = b'o';
/// Sets an object's state.
pub const BUILD: u8 = b'b';
/// Something that lies outside of the pickle: the bytes of a storage.
pub const BINPERSID: u8 = b'Q';
