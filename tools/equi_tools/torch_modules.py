# SPDX-License-Identifier: MIT
"""Trees of torch's modules as a file describes them: of a pickled module, of a torch.package, or of TorchScript.

`read` returns the `Module` at the root. A module here is data: its class is a name, and its methods do not exist. Only
the declarations in TorchScript's code are read, and which function an activation is. Needs only numpy.
"""

import ast
import io
import math
import re
import textwrap
import zipfile
from functools import cached_property
from pathlib import Path

import numpy as np

from . import torch_archive
from .errors import EquiError
from .printable import printable
from .torch_archive import Name, Unknown

MAX_CODE_BYTES = 1 << 24
HEADER = re.compile(r"^class (\w+)\((?:Module|NamedTuple)\):$", re.M)
CONSTANT = re.compile(r"^  (\w+) : Final\[.*?\] = (.+)$", re.M)
PARAMETERS = re.compile(r"^  __parameters__ = (\[.*?\])$", re.M | re.S)
IRREPS = re.compile(r"e3nn\..*\.(Irreps|_MulIr|Irrep)$")
# Attributes that torch itself keeps in each module.
OF_TORCH = re.compile(r"_(parameters|buffers|modules|non_persistent_buffers_set|is_full_backward_hook|\w*hooks\w*)$|training$")


def plain(value):
    """A value of an attribute with modules and other objects as Module, and e3nn's irreps and named tuples as tuples."""
    if isinstance(value, Unknown):
        if value.state is None and value.args and not value.items and not value.members:
            # Tuples of a separate class become their contents, or their fields.
            if IRREPS.search(value.name):
                return tuple(plain(item) for item in value.args[0])
            if value.name != GRAPH_MODULE:
                return tuple(plain(item) for item in value.args)
        # An object that is shared in the file stays one module.
        if not hasattr(value, "module"):
            value.module = Module.of(value)
        return value.module
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


GRAPH_MODULE = "torch.fx.graph_module.reduce_graph_module"


class Module:
    """A module of a file. Its parameters, buffers, children and other attributes are its attributes, tensors as
    arrays."""

    def __init__(self, name, parameters, buffers, children, attributes, code=""):
        self.__dict__.update(
            qualified_name=name, class_name=name.rsplit(".", 1)[-1], parameters=parameters, buffers=buffers,
            submodules=children, attributes=attributes, code=code,
        )  # fmt: skip

    @staticmethod
    def of(found):
        """The module of an Unknown."""
        state = found.state
        if found.name == GRAPH_MODULE:
            state = found.args[0] if found.args else {}
        if isinstance(state, tuple) and len(state) == 2:  # from a class with slots
            state = {**(state[0] or {}), **(state[1] or {})}
        state = state if isinstance(state, dict) else {}
        parameters, buffers = dict(state.get("_parameters") or {}), dict(state.get("_buffers") or {})
        children = {key: plain(value) for key, value in (state.get("_modules") or {}).items()}
        attributes = {key: plain(value) for key, value in state.items() if not OF_TORCH.match(key)}
        for key, content in attributes.pop("__codegen__", {}).items():
            children[key] = _compiled(content)
        return Module(found.name, parameters, buffers, children, attributes)

    def __getattr__(self, key):
        for place in (self.parameters, self.buffers, self.submodules, self.attributes):
            if key in place:
                return place[key]
        raise AttributeError(f"{self.class_name} has no '{key}'")

    def __iter__(self):
        return self.children()

    def __len__(self):
        return len(self.submodules) + len(self.parameters)

    def children(self):
        return (module for _, module in self.named_children())

    def named_children(self):
        return ((key, module) for key, module in self.submodules.items() if isinstance(module, Module))

    def named_modules(self, prefix="", seen=None):
        """All modules with their places, as torch lists them: a shared module is listed once."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for key, module in self.named_children():
            yield from module.named_modules(f"{prefix}.{key}" if prefix else key, seen)

    def _named(self, kind):
        for place, module in self.named_modules():
            for key, array in getattr(module, kind).items():
                if isinstance(array, np.ndarray):
                    yield f"{place}.{key}" if place else key, array

    def named_parameters(self):
        return self._named("parameters")

    def named_buffers(self):
        return self._named("buffers")

    @property
    def is_script(self):
        return self.qualified_name.startswith("__torch__.")


def _compiled(content):
    """The code that e3nn has compiled for a module: the bytes of TorchScript, or since 0.5.2 their kind and the
    bytes."""
    kind, content = content if isinstance(content, tuple) and len(content) == 2 else ("torchscript", content)
    if kind == "torchscript" and isinstance(content, bytes):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return script_in(archive)
    if kind == "fx" and isinstance(content, bytes):
        return plain(torch_archive.loads(content))
    raise EquiError(f"e3nn's compiled code in a form that is not known: {printable(str(kind), 60)}")


class _Script:
    """The archive that torch.jit.save writes."""

    def __init__(self, archive):
        self.archive = torch_archive.archive(archive)
        self.folder = self.archive.folder
        self.classes = {}

    def text(self, path):
        names = self.archive.archive.NameToInfo
        info = names.get(f"{self.folder}/code/{path}.py")
        if info is None:
            return ""
        if info.file_size > MAX_CODE_BYTES:
            raise EquiError(f"{path}.py has {info.file_size} bytes, at most {MAX_CODE_BYTES} are read")
        return self.archive.archive.read(info).decode()

    def code(self, qualified_name):
        """The text of a class."""
        path, kind = qualified_name.rsplit(".", 1)
        if path not in self.classes:
            text = self.text(path.replace(".", "/"))
            heads = list(HEADER.finditer(text))
            ends = [head.start() for head in heads[1:]] + [len(text)]
            self.classes[path] = {head.group(1): text[head.start() : end] for head, end in zip(heads, ends)}
        return self.classes[path].get(kind, "")

    @cached_property
    def constants(self):
        return self.archive.load("constants")

    def module(self, found):
        code = self.code(found.name)
        trained = PARAMETERS.search(code)
        trained = ast.literal_eval(trained.group(1)) if trained else []
        parameters, buffers, children, attributes = {}, {}, {}, {}
        for key, value in CONSTANT.findall(code):
            attributes[key] = self.literal(value)
        for key, value in (found.state or {}).items():
            if isinstance(value, np.ndarray):
                (parameters if key in trained else buffers)[key] = value
            elif isinstance(value, Unknown) and value.name.startswith("__torch__."):
                children[key] = self.module(value)
            elif not OF_TORCH.match(key):
                attributes[key] = plain(value)
        return Module(found.name, parameters, buffers, children, attributes, self.with_constants(code))

    @staticmethod
    def literal(text):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    def with_constants(self, code):
        """Code with the numbers of the archive in place of their names."""

        def number(found):
            constant = self.constants[int(found.group(1))]
            is_number = isinstance(constant, np.ndarray) and constant.size == 1
            return repr(float(constant.reshape(()))) if is_number else found.group(0)

        return re.sub(r"\bCONSTANTS\.c(\d+)\b", number, code)


def script_in(archive):
    """The module that torch.jit.save wrote into an opened zip file."""
    script = _Script(archive)
    return script.module(script.archive.load())


def is_script(path):
    """Whether a file is TorchScript."""
    if not torch_archive.is_zip_file(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.count("/") == 1 and name.endswith("/constants.pkl") for name in names)


def extra_file(path, name):
    """The text that was stored with TorchScript under a name, or nothing."""
    with zipfile.ZipFile(path) as archive:
        names = [found for found in archive.namelist() if found.count("/") == 2 and found.endswith(f"/extra/{name}")]
        return torch_archive.entry(archive, names[0], MAX_CODE_BYTES).decode() if names else ""


def read_package(path, package, name):
    """The module that torch.package keeps under PACKAGE/NAME in a file."""
    with torch_archive.blaming(path), zipfile.ZipFile(path) as archive:
        return plain(torch_archive.package(archive).load(f"{package}/{name}"))


def read(path):
    """The content of a file of torch.save or torch.jit.save, a module as Module; EquiError with the name of the
    file."""
    path = Path(path)
    with torch_archive.blaming(path):
        if not is_script(path):
            return plain(torch_archive.read(path))
        with zipfile.ZipFile(path) as archive:
            return script_in(archive)


# Functions by the names under which files speak of them.
FUNCTIONS = {
    "silu": "silu", "tanh": "tanh", "abs": "abs", "sigmoid": "sigmoid", "relu": "relu", "shifted_softplus": "ssp",
    "ShiftedSoftPlus": "ssp", "ShiftedSoftplus": "ssp", "SiLU": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid",
}  # fmt: skip


def activation(found):
    """(name, factor) of an activation that e3nn has normalized, or of a function; None for any other one.

    found: a Module, the Name of a function, or None for the identity.
    """
    if found is None:
        return "identity", 1.0
    if isinstance(found, Name):
        function = FUNCTIONS.get(found.name)
        return (function, 1.0) if function and found.module.split(".")[0] in ("torch", "nequip", "e3nn", "mace") else None
    if found.class_name != "normalize2mom":
        function = FUNCTIONS.get(found.class_name)
        return (function, 1.0) if function else None
    if not found.is_script:
        inner = activation(found.f)
        return inner and (inner[0], 1.0 if found._is_id else inner[1] * float(found.cst))
    return _traced_activation(found)


def _traced_activation(found):
    """The activation of TorchScript whose forward is one function of its argument, which may have a factor; None for
    any other code."""
    begin = found.code.find("  def forward(")
    text = textwrap.dedent(found.code[begin:].split("\n  def ")[0]) if begin >= 0 else ""
    try:
        (function,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    names = {}
    for statement in function.body:
        if isinstance(statement, ast.Return):
            return _function_times_number(statement.value, names)
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return None
        names[statement.targets[0].id] = statement.value
    return None


def _function_times_number(node, names):
    """(name, factor) of an expression such as torch.mul(torch.silu(x), 1.68), or None."""
    node = names.get(node.id, node) if isinstance(node, ast.Name) else node
    if not isinstance(node, ast.Call):
        return None
    function = names.get(node.func.id, node.func) if isinstance(node.func, ast.Name) else node.func
    called, arguments = ast.unparse(function), node.args
    if called == "torch.mul" and len(arguments) == 2 and isinstance(arguments[1], ast.Constant):
        inner = _function_times_number(arguments[0], names)
        return inner and (inner[0], inner[1] * float(arguments[1].value))
    if called == "torch.sub" and len(arguments) == 2 and isinstance(arguments[1], ast.Constant):
        inner = arguments[0]
        inner = names.get(inner.id, inner) if isinstance(inner, ast.Name) else inner
        is_softplus = isinstance(inner, ast.Call) and ast.unparse(inner.func) == "torch.softplus" and len(inner.args) == 1
        return ("ssp", 1.0) if is_softplus and arguments[1].value == math.log(2.0) else None
    if len(arguments) != 1 or not isinstance(arguments[0], ast.Name) or arguments[0].id in names:
        return None
    name = FUNCTIONS.get(called.rsplit(".", 1)[-1])
    return (name, 1.0) if name and called.startswith(("torch.", "__torch__.nequip.nn.nonlinearities.")) else None
