# SPDX-License-Identifier: MIT
"""Reads files of torch.save and torch.jit.save as data: numbers, text, containers and numpy arrays.

A pickle is a program that may call anything. Here it is interpreted, never run: nothing is imported, and only the few
functions of this module that make tensors, arrays and containers are called. An unknown class becomes an `Unknown`
with its name and its state in the file. A call of one of Python's own functions, which no model needs, is refused with
its name. Needs only numpy.
"""

import io
import math
import pickletools
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .errors import EquiError
from .printable import printable

MAX_PICKLE_BYTES = 1 << 30
# torch.save before 1.6 begins with this number and the version of its layout, each in a separate pickle.
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_VERSION = 1001
ZIP_BEGIN = b"PK\x03\x04"

# numpy has no bfloat16, so its bits are read.
BFLOAT16 = "bfloat16"
STORAGES = {
    "FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "BFloat16Storage": BFLOAT16, "LongStorage": "i8",
    "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?",
    "ComplexFloatStorage": "c8", "ComplexDoubleStorage": "c16", "UntypedStorage": "u1",
}  # fmt: skip
DTYPES = {
    "float32": "f4", "float": "f4", "float64": "f8", "double": "f8", "float16": "f2", "half": "f2", "bfloat16": BFLOAT16,
    "int64": "i8", "long": "i8", "int32": "i4", "int": "i4", "int16": "i2", "short": "i2", "int8": "i1", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "?", "complex64": "c8", "complex128": "c16",
}  # fmt: skip


@dataclass(frozen=True)
class Name:
    """A class or function that the file names without calling it."""

    module: str
    name: str

    def __str__(self):
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Unknown:
    """An object of an unknown class: the data from which the file would make it."""

    name: str  # with its module: pathlib.PosixPath
    args: tuple = ()
    state: object = None  # for a module of torch: the dict with _parameters, _buffers, _modules
    items: dict = field(default_factory=dict)  # for classes that derive from dict
    members: list = field(default_factory=list)  # for classes that derive from list or set


@dataclass
class _Storage:
    data: np.ndarray
    dtype: str  # one of DTYPES, or BFLOAT16


class Rounded(np.ndarray):
    """An array of float32 whose numbers were rounded to bfloat16."""


def precision(array):
    """The name of the dtype that the numbers of an array have in the file: float64, bfloat16, ..."""
    return BFLOAT16 if isinstance(array, Rounded) else array.dtype.name


class _Dtype:
    """A dtype of numpy between its construction and its state."""

    def __init__(self, code):
        self.dtype = np.dtype(code)


class _Array:
    """An array of numpy between its construction and its state; `value` replaces it in the end."""

    value = None


def _refuse(text):
    raise EquiError(text)


def _array(buffer, dtype, byteorder="<"):
    """A one-dimensional view of bytes; bfloat16 as uint16."""
    code = "u2" if dtype == BFLOAT16 else dtype
    kind = np.dtype(code).newbyteorder(byteorder)
    return np.frombuffer(buffer, kind, len(buffer) // kind.itemsize)


def _tensor(storage, dtype, offset, size, stride):
    if not isinstance(storage, _Storage):
        _refuse("a tensor without a storage")
    data = storage.data
    if dtype != storage.dtype:
        # Untyped storages are bytes; torch itself never reads a typed one as another type.
        if storage.dtype != "u1":
            _refuse(f"a tensor of dtype {dtype} in a storage of {storage.dtype}")
        data = _array(data.tobytes(), dtype)
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
        _refuse("a tensor whose shape is not made of whole numbers")
    if len(size) > 32:
        _refuse(f"a tensor of {len(size)} dimensions")
    empty = 0 in size
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if not empty and last >= data.size:
        _refuse(f"a tensor of shape {size} reaches beyond its storage of {data.size} numbers")
    if empty:
        view = np.empty(size, data.dtype)
    else:
        view = np.lib.stride_tricks.as_strided(
            data[offset:], size, [s * data.itemsize for s in stride], writeable=False
        )
    if dtype == BFLOAT16:
        # The upper half of a float32; at most as many numbers as the storage has.
        if view.size > max(data.size, 1):
            _refuse("a bfloat16 tensor whose elements share their memory")
        return np.asarray(view.astype("=u4") << 16).view("=f4").view(Rounded)
    return view


def _rebuild_tensor_v2(storage, offset, size, stride, *_):
    return _tensor(storage, storage.dtype if isinstance(storage, _Storage) else None, offset, size, stride)


def _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, *_):
    if not isinstance(dtype, Name) or dtype.module != "torch" or dtype.name not in DTYPES:
        _refuse(f"a tensor of dtype {printable(str(dtype), 60)}, which is not supported")
    return _tensor(storage, DTYPES[dtype.name], offset, size, stride)


def _rebuild_from_type(function, kind, args, state):
    return _call(function, tuple(args))


def _getattr(owner, attribute):
    """Functions of torch that are methods of one of its classes, such as torch.abs. Only the names are compared;
    nothing is looked up."""
    if not isinstance(owner, Name) or owner.module.split(".")[0] != "torch" or not isinstance(attribute, str):
        _refuse(f"it would have Python use getattr of {printable(str(owner), 60)}, which no model needs: nothing of it was run")
    return Name(str(owner), attribute)


def _pairs(args):
    """The result of dict(...) for its argument."""
    return dict(args[0]) if args else {}


def _numpy_dtype(code, *_):
    kind = np.dtype(code) if isinstance(code, str) and code.strip("<>|=")[:1] in tuple("fiucb?SU") else None
    if kind is None or kind.hasobject:
        _refuse(f"an array of numpy of dtype {printable(str(code), 60)}")
    return _Dtype(kind)


def _numpy_scalar(dtype, data=b""):
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes) or len(data) != dtype.dtype.itemsize:
        _refuse("a number of numpy that does not have the size of its dtype")
    return np.frombuffer(data, dtype.dtype)[0].item()


def _encode(text, encoding="latin1"):
    if encoding not in ("latin1", "utf-8", "ascii"):
        _refuse(f"text in the encoding {printable(str(encoding), 60)}")
    return text.encode(encoding)


def _reconstructed(kind, base=None, state=None):
    """The functions by which copyreg makes objects of classes without calling their constructors."""
    made = Unknown(str(kind))
    if isinstance(state, dict):
        made.items.update(state)
    elif isinstance(state, (list, tuple, set)):
        made.members.extend(state)
    return made


# Objects that are made directly, by the name under which a pickle requests them.
FUNCTIONS = {
    "torch._utils._rebuild_tensor": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.Size": lambda *args: tuple(args[0]) if args else (),
    "torch.nn.parameter.Parameter": lambda data, *_: data,
    "torch.jit._pickle.build_intlist": lambda data: data,
    "torch.jit._pickle.build_doublelist": lambda data: data,
    "torch.jit._pickle.build_boollist": lambda data: data,
    "torch.jit._pickle.build_tensorlist": lambda data: data,
    "torch.jit._pickle.restore_type_tag": lambda data, *_: data,
    "collections.OrderedDict": lambda *args: _pairs(args),
    "collections.defaultdict": lambda *args: _pairs(args[1:]),
    "collections.Counter": lambda *args: _pairs(args),
    "collections.deque": lambda *args: list(args[0]) if args else [],
    "builtins.dict": lambda *args: _pairs(args),
    "builtins.list": lambda *args: list(args[0]) if args else [],
    "builtins.tuple": lambda *args: tuple(args[0]) if args else (),
    "builtins.set": lambda *args: set(args[0]) if args else set(),
    "builtins.frozenset": lambda *args: frozenset(args[0]) if args else frozenset(),
    "builtins.getattr": _getattr,
    "builtins.complex": complex,
    "builtins.bytearray": lambda *args: bytearray(args[0]) if args and isinstance(args[0], bytes) else bytearray(),
    "_codecs.encode": _encode,
    "copyreg._reconstructor": _reconstructed,
    "numpy.dtype": _numpy_dtype,
}  # fmt: skip
FUNCTIONS |= {f"numpy.{core}.multiarray._reconstruct": lambda *_: _Array() for core in ("core", "_core")}
FUNCTIONS |= {f"numpy.{core}.multiarray.scalar": _numpy_scalar for core in ("core", "_core")}
# Python 2's name of the same module.
FUNCTIONS |= {name.replace("builtins", "__builtin__"): f for name, f in FUNCTIONS.items() if name.startswith("builtins.")}
FUNCTIONS["copy_reg._reconstructor"] = _reconstructed

# Python's own classes that hold data. Pickles may name any class of other packages, because these are not imported.
HARMLESS = (
    "argparse.Namespace", "builtins.object", "builtins.slice", "builtins.range", "datetime.",
    "decimal.Decimal", "enum.", "fractions.Fraction", "functools.partial", "pathlib.", "types.SimpleNamespace", "uuid.UUID",
    "collections.", "typing.", "__builtin__.object", "__builtin__.slice",
    # Kinds of the values in a configuration.
    *(f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in ("int", "float", "bool", "str", "bytes")),
    "builtins.NoneType", "__builtin__.long", "__builtin__.unicode",
)  # fmt: skip
# Names of modules of Python 2 that have changed.
OLD_MODULES = {"__builtin__", "copy_reg", "posix", "nt", "commands", "cPickle"}


def _is_of_python(module):
    top = module.split(".")[0]
    return top in sys.stdlib_module_names or top in OLD_MODULES


def _checked(name):
    """The name itself, if a model may mention it."""
    text = str(name)
    if _is_of_python(name.module) and text not in FUNCTIONS and not text.startswith(HARMLESS):
        _refuse(f"it would have Python use {printable(text, 80)}, which no model needs: nothing of it was run")
    return name


def _call(function, args):
    if not isinstance(function, Name):
        _refuse("it calls something that is not the name of a class or function")
    known = FUNCTIONS.get(str(function))
    return known(*args) if known else Unknown(str(function), tuple(args))


def _set_state(target, state):
    """The effect of a pickle's BUILD on an object."""
    if isinstance(target, _Dtype):
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            _refuse("a dtype of numpy with an unknown state")
        if state[1] in "<>":
            target.dtype = target.dtype.newbyteorder(state[1])
    elif isinstance(target, _Array):
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], _Dtype):
            _refuse("an array of numpy with an unknown state")
        _, shape, dtype, in_columns, data = state
        if not isinstance(data, bytes) or math.prod(shape) * dtype.dtype.itemsize != len(data):
            _refuse("an array of numpy whose data does not have the size of its shape")
        flat = np.frombuffer(data, dtype.dtype)
        target.value = flat.reshape(shape, order="F" if in_columns else "C")
    elif isinstance(target, Unknown):
        target.state = state
    elif isinstance(target, Name):
        _refuse(f"it would change {target}")
    # Attributes of containers, such as the _metadata of a state_dict, do not concern its numbers.


def _finished(value):
    """The array of numpy in place of its placeholder."""
    return value.value if isinstance(value, _Array) and value.value is not None else value


class _Machine:
    """Interprets one pickle; `storage` resolves its persistent ids."""

    def __init__(self, storage):
        self.storage = storage
        self.stack, self.marks, self.memo = [], [], {}

    def items_since_mark(self):
        items = self.stack
        self.stack = self.marks.pop()
        return [_finished(item) for item in items]

    def take(self, n):
        items = self.stack[-n:]
        if len(items) != n:
            raise IndexError
        del self.stack[-n:]
        return [_finished(item) for item in items]

    def last(self):
        return self.stack[-1]

    def extend(self, items):
        target = self.last()
        if isinstance(target, Unknown):
            target.members.extend(items)
        elif isinstance(target, set):
            target.update(items)
        elif isinstance(target, list):
            target.extend(items)
        else:
            _refuse("it adds members to something that has none")

    def assign(self, items):
        target = self.last()
        entries = target.items if isinstance(target, Unknown) else target
        if not isinstance(entries, dict):
            _refuse("it adds entries to something that has none")
        entries.update(zip(items[::2], items[1::2]))

    def make(self, kind, args):
        if not isinstance(kind, Name):
            _refuse("it makes an object of something that is not the name of a class")
        return _call(kind, args)

    def run(self, source):
        """source: bytes, or a file, whose position afterwards is the end of the pickle."""
        for opcode, argument, _ in pickletools.genops(source):
            name = opcode.name
            if name == "STOP":
                return _finished(self.stack.pop())
            self.step(name, argument)
        _refuse("a pickle without an end")

    def step(self, name, argument):
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in VALUES:
            stack.append(argument)
        elif name in ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"):
            stack.append({"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}[name]())
        elif name == "MARK":
            self.marks.append(stack)
            self.stack = []
        elif name in ("LIST", "TUPLE", "FROZENSET"):
            items = self.items_since_mark()
            self.stack.append({"LIST": list, "TUPLE": tuple, "FROZENSET": frozenset}[name](items))
        elif name == "DICT":
            items = self.items_since_mark()
            self.stack.append(dict(zip(items[::2], items[1::2])))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self.take(int(name[-1]))))
        elif name == "APPEND":
            self.extend(self.take(1))
        elif name in ("APPENDS", "ADDITEMS"):
            self.extend(self.items_since_mark())
        elif name == "SETITEM":
            self.assign(self.take(2))
        elif name == "SETITEMS":
            self.assign(self.items_since_mark())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.last()
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.last()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "POP":
            stack.pop() if stack else self.items_since_mark()
        elif name == "POP_MARK":
            self.items_since_mark()
        elif name == "DUP":
            stack.append(self.last())
        elif name == "GLOBAL":
            stack.append(_checked(Name(*argument.split(" ", 1))))
        elif name == "STACK_GLOBAL":
            module, attribute = self.take(2)
            if not isinstance(module, str) or not isinstance(attribute, str):
                _refuse("the name of a class that is not text")
            stack.append(_checked(Name(module, attribute)))
        elif name == "REDUCE":
            function, args = self.take(2)
            stack.append(_call(function, args))
        elif name == "NEWOBJ":
            stack.append(self.make(*self.take(2)))
        elif name == "NEWOBJ_EX":
            kind, args, keywords = self.take(3)
            made = self.make(kind, args)
            if isinstance(made, Unknown):
                made.items.update(keywords)
            stack.append(made)
        elif name == "INST":
            args = self.items_since_mark()
            self.stack.append(self.make(_checked(Name(*argument.split(" ", 1))), tuple(args)))
        elif name == "OBJ":
            kind, *args = self.items_since_mark()
            self.stack.append(self.make(kind, tuple(args)))
        elif name == "BUILD":
            (state,) = self.take(1)
            _set_state(self.last(), state)
        elif name == "BINPERSID":
            stack.append(self.storage(self.take(1)[0]))
        else:
            _refuse(f"the instruction {name} in its pickle, which torch does not write")


CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "BYTEARRAY8",
}  # fmt: skip


def _storage_id(persistent, least):
    """(dtype, key, numbers, rest) of a persistent id ('storage', type, key, location, numbers, ...)."""
    if not isinstance(persistent, tuple) or len(persistent) < least or persistent[0] != "storage":
        _refuse("a persistent id that is not that of a storage")
    kind, key, numbers = persistent[1], persistent[2], persistent[4]
    key = str(key) if type(key) is int else key  # torch.package numbers them
    if not isinstance(kind, Name) or kind.name not in STORAGES:
        _refuse(f"a storage of {printable(str(kind), 60)}, which is not supported")
    if type(numbers) is not int or numbers < 0 or not isinstance(key, str):
        _refuse("a storage without a size")
    return STORAGES[kind.name], key, numbers


def _item_bytes(dtype):
    return 2 if dtype == BFLOAT16 else np.dtype(dtype).itemsize


def entry(archive, name, most=None):
    """The bytes of an entry of a zip file as torch writes it; refuses an entry of more than `most` bytes."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        _refuse(f"{printable(name, 60)} is compressed, which torch does not do")
    if most is not None and info.file_size > most:
        _refuse(f"{printable(name, 60)} has {info.file_size} bytes, at most {most} are read")
    return archive.read(name)


class _Zip:
    """The present form: a zip with data.pkl, and a file for each storage."""

    landmark = "data.pkl"

    def __init__(self, archive):
        self.archive = archive
        depth = 1 + self.landmark.count("/")
        found = [name for name in archive.namelist() if name.count("/") == depth and name.endswith(f"/{self.landmark}")]
        if len(found) != 1:
            _refuse(f"a zip archive that torch has not written: no {self.landmark} in its folder")
        self.folder = found[0].removesuffix(f"/{self.landmark}")
        order = f"{self.folder}/byteorder"
        self.byteorder = ">" if order in archive.namelist() and self.read(order) == b"big" else "<"
        self.storages = {}

    def read(self, name, most=None):
        return entry(self.archive, name, most)

    def storage_name(self, key, place):
        return f"{self.folder}/{place}/{key}"

    def storage(self, persistent, place="data"):
        dtype, key, numbers = _storage_id(persistent, 5)
        if key not in self.storages:
            name = self.storage_name(key, place)
            if name not in self.archive.namelist():
                _refuse(f"storage {printable(key, 60)} is missing")
            data = self.read(name)
            if len(data) < numbers * _item_bytes(dtype):
                _refuse(f"storage {printable(key, 60)} has {len(data)} bytes, too few for {numbers} numbers")
            self.storages[key] = _Storage(_array(data, dtype, self.byteorder), dtype)
        return self.storages[key]

    def load(self, place="data"):
        """The content of data.pkl, or of constants.pkl in TorchScript."""
        self.storages = {}
        machine = _Machine(lambda persistent: self.storage(persistent, place))
        return machine.run(self.read(f"{self.folder}/{place}.pkl", MAX_PICKLE_BYTES))


class _Package(_Zip):
    """Files of torch.package: sources, and pickles whose storages share one folder."""

    landmark = ".data/extern_modules"

    def storage_name(self, key, place):
        return f"{self.folder}/.data/{key}.storage"


class _Bounded:
    """A file that limits each read to what it has: the lengths in a damaged pickle may be any."""

    def __init__(self, file, size):
        self.file, self.size = file, size
        self.readline, self.tell, self.seek = file.readline, file.tell, file.seek

    def read(self, count):
        return self.file.read(min(count, self.size))


class _Legacy:
    """The form before torch 1.6: pickles one after another, then the storages in the order of their last pickle."""

    def __init__(self, file, size):
        self.file, self.size = _Bounded(file, size), size
        self.storages = {}

    def storage(self, persistent):
        if isinstance(persistent, tuple) and persistent[:1] == ("module",) and isinstance(persistent[1], Name):
            return persistent[1]  # a class of modules, next to which its source was stored
        dtype, key, numbers = _storage_id(persistent, 6)
        if persistent[5] is not None:
            _refuse("views of storages, which torch has not written since 0.4")
        if key not in self.storages:
            if numbers * _item_bytes(dtype) > self.size:
                _refuse(f"storage {printable(key, 60)} of {numbers} numbers is larger than the file")
            code = "u2" if dtype == BFLOAT16 else dtype
            self.storages[key] = _Storage(np.zeros(numbers, code), dtype)
        return self.storages[key]

    def pickle(self):
        return _Machine(self.storage).run(self.file)

    def load(self):
        version, system = self.pickle(), self.pickle()
        if version != LEGACY_VERSION or not isinstance(system, dict) or not system.get("little_endian", True):
            _refuse("a layout that torch has not written on this kind of machine")
        # Objects that refer to the storages are read again after these are filled.
        begin = self.file.tell()
        self.pickle()
        for key in self.pickle():
            if key not in self.storages:
                _refuse(f"storage {printable(str(key), 60)} belongs to nothing")
            data = self.storages[key].data
            numbers = int.from_bytes(self.file.read(8), "little")
            if numbers != data.size:
                _refuse(f"storage {printable(str(key), 60)} has {numbers} numbers, expected {data.size}")
            content = self.file.read(data.nbytes)
            if len(content) != data.nbytes:
                _refuse(f"the file ends within storage {printable(str(key), 60)}")
            data[:] = np.frombuffer(content, data.dtype.newbyteorder("<"))
        self.file.seek(begin)
        return self.pickle()


def is_zip(file):
    """Whether an opened file is a zip archive, as torch writes them since 1.6; a pickle that contains one is not."""
    return file.read(len(ZIP_BEGIN)) == ZIP_BEGIN and zipfile.is_zipfile(file)


def is_zip_file(path):
    """The same for the file of a name."""
    with open(path, "rb") as file:
        return is_zip(file)


def read(path):
    """The content of a file of torch.save: containers, text and numbers unchanged, tensors and parameters as read-only
    numpy arrays (bfloat16 as float32; tensors that share a storage share their memory), state_dicts as dicts, other
    objects as Unknown.

    Raises EquiError with the name of the file and the reason if the file is damaged, was written by something else, or
    requests something that a model does not need.
    """
    path = Path(path)
    with blaming(path), open(path, "rb") as file:
        return _read(file, path.stat().st_size)


def read_bytes(data):
    """The same of a file that stands in memory."""
    return _read(io.BytesIO(data), len(data))


def _read(file, size):
    if is_zip(file):
        with zipfile.ZipFile(file) as archive:
            return _Zip(archive).load()
    file.seek(0)
    return _read_legacy(file, size)


def _read_legacy(file, size):
    reader = _Legacy(file, size)
    if reader.pickle() != LEGACY_MAGIC:
        _refuse("not a file that torch.save has written")
    return reader.load()


def _load_from_bytes(data):
    """A storage in a pickle that torch.save did not write: the bytes of a file in the old form."""
    if not isinstance(data, bytes):
        _refuse("a storage that is not made of bytes")
    return _read_legacy(io.BytesIO(data), len(data))


FUNCTIONS["torch.storage._load_from_bytes"] = _load_from_bytes


def loads(data):
    """The content of a pickle of pickle.dumps, like `read`, tensors included."""

    def refuse(persistent):
        _refuse("a storage outside of its pickle")

    return _Machine(refuse).run(data)


def archive(opened):
    """The reader of an opened zip file: its `load(place)` returns the content of PLACE.pkl, data or constants."""
    return _Zip(opened)


def package(opened):
    """The same for a file of torch.package: `load(place)` returns the content of PLACE.pkl."""
    return _Package(opened)


@contextmanager
def blaming(path):
    """Turns any failure into an EquiError with the name of the file."""
    try:
        yield
    except EquiError as error:
        raise EquiError(str(error) if str(error).startswith(f"{path}: ") else f"{path}: {error}") from error
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle or archive fails in many ways
        first = (str(error).splitlines() or [""])[0]
        what = "not a file that torch.save has written, or a damaged one"
        raise EquiError(f"{path}: {what}: {type(error).__name__}: {first}") from error
