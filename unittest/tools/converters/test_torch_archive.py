# SPDX-License-Identifier: MIT
"""The restricted reader of files of torch.save: it returns the same numbers as torch, and runs nothing."""

import argparse
import collections
import io
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from equi_tools import torch_archive
from equi_tools.errors import EquiError
from equi_tools.torch_archive import Name, Unknown

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


def numbers(dtype, count=24):
    return (torch.arange(count) % 7).to(dtype) * (1 if dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64) else 3)


@pytest.fixture(params=["zip", "legacy"])
def saved(request, tmp_path):
    """Writes a value in one of torch's two forms, and reads it."""

    def save_and_read(value):
        torch.save(value, tmp_path / "file.pt", _use_new_zipfile_serialization=request.param == "zip")
        return torch_archive.read(tmp_path / "file.pt")

    return save_and_read


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_read(dtype, saved):
    tensor = numbers(dtype).reshape(2, 3, 4)
    found = saved({"a": tensor, "empty": tensor[:0], "one": tensor[1, 2, 3]})
    expected = tensor.float() if dtype == torch.bfloat16 else tensor
    assert found["a"].dtype == expected.numpy().dtype
    assert np.array_equal(found["a"], expected.numpy())
    assert found["empty"].shape == (0, 3, 4) and found["one"].shape == () and found["one"] == expected[1, 2, 3].item()


def test_strides_and_offsets_are_followed(saved):
    base = torch.randn(6, 5, 4)
    views = {
        "transposed": base.transpose(0, 2), "sliced": base[1:5:2, ::3], "expanded": base[0, :1].expand(7, 4),
        "diagonal": base[0].diagonal(),
    }  # fmt: skip
    found = saved(views)
    for name, view in views.items():
        assert np.array_equal(found[name], view.numpy()), name


def test_shared_storages_are_shared(saved):
    base = torch.randn(10)
    found = saved([base, base[2:5], base.view(2, 5), torch.randn(10)])
    assert all(np.shares_memory(found[0], view) for view in found[1:3])
    assert not np.shares_memory(found[0], found[3])
    assert not found[0].flags.writeable


def test_modules_are_placeholders_with_their_numbers(saved):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.SiLU(), torch.nn.LayerNorm(2))
    found = saved(module)
    assert isinstance(found, Unknown) and found.name == "torch.nn.modules.container.Sequential"
    linear = found.state["_modules"]["0"]
    assert linear.name == "torch.nn.modules.linear.Linear" and linear.state["in_features"] == 3
    assert np.array_equal(linear.state["_parameters"]["weight"], module[0].weight.detach().numpy())
    assert found.state["_modules"]["2"].state["normalized_shape"] == (2,)


def test_containers_and_plain_values_are_what_they_were(saved):
    values = {
        "ordered": collections.OrderedDict(b=1, a=[2, 3]), "tuple": (1, (2.5, "text"), None, True), "set": {1, 2},
        "frozen": frozenset([3]), "bytes": b"\x00\xff", "large": 2**80, "negative": -(2**40),
        "default": collections.defaultdict(list, x=[1]), "long": tuple(range(9)),
    }  # fmt: skip
    found = saved(values)
    assert found == values and list(found["ordered"]) == ["b", "a"]
    assert found["tuple"][3] is True


def test_numpy_and_foreign_objects(saved):
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = saved(
        {"array": array, "scalar": np.float32(2.5), "whole": np.int64(7), "path": pathlib.PurePosixPath("/a/b"),
         "options": argparse.Namespace(lr=0.1), "dtype": torch.float64, "device": torch.device("cpu"), "size": torch.Size([2, 3])}
    )  # fmt: skip
    assert np.array_equal(found["array"], array)
    assert (found["scalar"], found["whole"], found["size"]) == (2.5, 7, (2, 3))
    assert found["path"].name.startswith("pathlib.") and "b" in str(found["path"].args)
    assert found["options"].state == {"lr": 0.1}
    assert found["dtype"] == Name("torch", "float64")
    assert found["device"].name == "torch.device" and found["device"].args == ("cpu",)


def test_classes_that_derive_from_containers_keep_their_entries(saved):
    class_of_dict = type("Settings", (dict,), {"__module__": "some.package"})
    module = type(sys)("some.package")
    module.Settings = class_of_dict
    sys.modules["some"], sys.modules["some.package"] = type(sys)("some"), module
    try:
        found = saved({"settings": class_of_dict(a=1), "parameters": torch.nn.ParameterList([torch.ones(2)])})
    finally:
        del sys.modules["some"], sys.modules["some.package"]
    assert found["settings"].name == "some.package.Settings" and found["settings"].items == {"a": 1}


def test_kinds_of_values_are_names(saved):
    """As the metadata of omegaconf's configurations name them."""
    found = saved([int, float, bool, str, bytes, list, dict])
    # Python 2's names of int and str.
    names = {"long": "int", "unicode": "str"}
    assert all(isinstance(kind, Name) for kind in found)
    assert [names.get(kind.name, kind.name) for kind in found] == ["int", "float", "bool", "str", "bytes", "list", "dict"]


def test_torchscript_is_read_as_data(tmp_path):
    module = torch.jit.script(torch.nn.Linear(3, 2))
    torch.jit.save(module, tmp_path / "scripted.pt")
    found = torch_archive.read(tmp_path / "scripted.pt")
    assert found.name.endswith("Linear")
    assert np.array_equal(found.state["weight"], module.weight.detach().numpy())


def test_neither_torch_nor_a_framework_is_needed(tmp_path):
    torch.save({"a": torch.ones(3)}, tmp_path / "file.pt")
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from equi_tools import torch_archive\n"
        f"print(torch_archive.read({str(tmp_path / 'file.pt')!r})['a'].sum())\n"
        "assert not {'ase', 'e3nn', 'scipy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "3.0\n", done.stderr


class Call:
    """Pickled as a call of any function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def archive(path, data, extra=()):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", data)
        for name, content in extra:
            file.writestr(name, content)
    return path


def attacks(marker):
    import builtins
    import os
    import runpy
    import shutil

    command = f"touch {marker}"
    return {
        "posix.system": Call(os.system, command),
        "subprocess.Popen": Call(subprocess.Popen, ["touch", str(marker)]),
        "builtins.exec": Call(exec, f"open({str(marker)!r}, 'w')"),
        "builtins.eval": Call(eval, f"open({str(marker)!r}, 'w')"),
        "builtins.getattr": Call(getattr, builtins, "open"),
        "io.open": Call(io.open, str(marker), "w"),
        "runpy.run_path": Call(runpy.run_path, str(marker)),
        "shutil.rmtree": Call(shutil.rmtree, str(marker)),
    }


def test_functions_of_torch_stay_names(tmp_path):
    """torch.abs is pickled as a getattr of one of its classes: nothing is looked up, and the arguments are kept."""
    call = b"cbuiltins\ngetattr\n(ctorch._C\n_VariableFunctionsClass\nV%s\ntR"
    found = torch_archive.read(archive(tmp_path / "abs.pt", call % b"abs" + b"."))
    assert found == torch_archive.Name("torch._C._VariableFunctionsClass", "abs")
    called = torch_archive.read(archive(tmp_path / "called.pt", call % b"__class__" + b"(I1\ntR."))
    assert called.name == "torch._C._VariableFunctionsClass.__class__" and called.args == (1,)


def test_pickles_within_a_file_are_data_too(tmp_path):
    """e3nn stores its compiled code as bytes of a pickle, whose tensors are files of the old form."""
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.float64)}
    found = torch_archive.loads(pickle.dumps(tensors))
    assert all(np.array_equal(found[key], tensor.numpy()) for key, tensor in tensors.items())
    for name, attack in attacks(tmp_path / "marker").items():
        if name != "builtins.getattr":
            with pytest.raises(EquiError, match="nothing of it was run"):
                torch_archive.loads(pickle.dumps(attack))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", attacks("x"))
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused_and_nothing_of_it_runs(name, protocol, tmp_path):
    marker = tmp_path / "marker"
    try:
        data = pickle.dumps({"weight": [attacks(marker)[name]]}, protocol)
    except TypeError:  # a module cannot be pickled, so this is by hand
        data = b"cbuiltins\ngetattr\n(ccollections\nOrderedDict\nV__class__\ntR."
    path = archive(tmp_path / "bad.pt", data)
    with pytest.raises(EquiError, match=f"would have Python use .*{name.split('.')[-1]}.* nothing of it was run") as error:
        torch_archive.read(path)
    assert "bad.pt" in str(error.value) and "\n" not in str(error.value)
    assert not marker.exists()
    # The same pickle runs its commands when it is loaded: the test can fail.
    if name == "posix.system":
        pickle.loads(data)
        assert marker.exists()


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"\x80\x02cos\nsystem\n.", "os.system"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"(ios\nsystem\n.", "os.system"),
        (b"c__builtin__\neval\n(V1\ntR.", "eval"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02Vtext\n(tR.", "not the name of a class or function"),
        (b"ctorch\nfloat32\n}Va\nK\x01sb.", "would change torch.float32"),
        (b"\x80\x02]q\x00", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"", "damaged"),
    ],
)
def test_odd_pickles_are_refused_in_one_line(data, expected, tmp_path):
    with pytest.raises(EquiError, match=expected) as error:
        torch_archive.read(archive(tmp_path / "odd.pt", data))
    assert "odd.pt" in str(error.value) and "\n" not in str(error.value)


def test_classes_of_packages_are_never_imported(tmp_path):
    module = tmp_path / "trap.py"
    module.write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\nclass Model: pass\n")
    data = b"ctrap\nModel\n)\x81}Vx\nK\x01sb."
    sys.path.insert(0, str(tmp_path))
    try:
        found = torch_archive.read(archive(tmp_path / "trap.pt", data))
    finally:
        sys.path.remove(str(tmp_path))
    assert found.name == "trap.Model" and found.state == {"x": 1}
    assert not (tmp_path / "marker").exists() and "trap" not in sys.modules


def tensor_pickle(size, stride, offset=0, count=4, kind="FloatStorage"):
    """The pickle of one tensor, by hand."""

    class Storage:
        pass

    class Writer(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", getattr(torch, kind), "0", "cpu", count) if isinstance(value, Storage) else None

    file = io.BytesIO()
    Writer(file, 2).dump(Call(torch._utils._rebuild_tensor_v2, Storage(), offset, size, stride, False, {}))
    return file.getvalue()


@pytest.mark.parametrize(
    "options, expected",
    [
        (dict(size=(5,), stride=(1,)), "beyond its storage"),
        (dict(size=(2, 2), stride=(3, 1)), "beyond its storage"),
        (dict(size=(4,), stride=(1,), offset=1), "beyond its storage"),
        (dict(size=(2,), stride=(-1,), offset=1), "whole numbers"),
        (dict(size=(2,), stride=(1, 1)), "whole numbers"),
        (dict(size=(2,), stride=(1,), count=5), "too few for 5 numbers"),
        (dict(size=(2,), stride=(1,), kind="QInt8Storage"), "QInt8Storage, which is not supported"),
    ],
)
def test_tensors_stay_within_their_storages(options, expected, tmp_path):
    path = archive(tmp_path / "tensor.pt", tensor_pickle(**options), [("archive/data/0", bytes(16))])
    with pytest.raises(EquiError, match=expected):
        torch_archive.read(path)
    good = archive(tmp_path / "good.pt", tensor_pickle((2, 2), (2, 1)), [("archive/data/0", np.arange(4, dtype="f4").tobytes())])
    assert np.array_equal(torch_archive.read(good), [[0, 1], [2, 3]])


def test_a_byte_order_is_obeyed(tmp_path):
    extra = [("archive/data/0", np.arange(4, dtype=">f4").tobytes()), ("archive/byteorder", b"big")]
    assert np.array_equal(torch_archive.read(archive(tmp_path / "big.pt", tensor_pickle((4,), (1,)), extra)), [0, 1, 2, 3])


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    """Expanded tensors are views; compressed entries, which torch never writes, are refused."""
    path = archive(tmp_path / "view.pt", tensor_pickle((2**40,), (0,)), [("archive/data/0", bytes(16))])
    assert torch_archive.read(path).shape == (2**40,)
    path = archive(tmp_path / "half.pt", tensor_pickle((2**40,), (0,), kind="BFloat16Storage"), [("archive/data/0", bytes(16))])
    with pytest.raises(EquiError, match="share their memory"):
        torch_archive.read(path)
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", tensor_pickle((4,), (1,)))
    with pytest.raises(EquiError, match="compressed"):
        torch_archive.read(tmp_path / "bomb.pt")
    (tmp_path / "text.pt").write_bytes(b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b".")
    with pytest.raises(EquiError, match="text.pt: .*but only 1 remain"):
        torch_archive.read(tmp_path / "text.pt")


def test_other_and_truncated_files_are_refused_in_one_line(tmp_path):
    torch.save({"a": torch.ones(1000)}, tmp_path / "whole.pt", _use_new_zipfile_serialization=False)
    whole = (tmp_path / "whole.pt").read_bytes()
    for n, content in enumerate([b"", b"text", whole[:200], whole[:-8], pickle.dumps({"a": 1})]):
        path = tmp_path / f"{n}.pt"
        path.write_bytes(content)
        with pytest.raises(EquiError) as error:
            torch_archive.read(path)
        assert path.name in str(error.value) and "\n" not in str(error.value)
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as file:
        file.writestr("readme", "text")
    with pytest.raises(EquiError, match="no data.pkl"):
        torch_archive.read(tmp_path / "zip.pt")


def test_published_checkpoints_are_read_as_torch_reads_them():
    """SevenNet's checkpoint, from its package: options and all tensors."""
    from sevenn import _const

    path = pathlib.Path(_const.SEVENNET_0_11Jul2024)
    expected = torch.load(path, map_location="cpu", weights_only=False)
    found = torch_archive.read(path)
    assert set(found) == set(expected) and len(found["model_state_dict"]) > 50
    for name, tensor in expected["model_state_dict"].items():
        assert np.array_equal(found["model_state_dict"][name], tensor.numpy()), name
    for key in ("cutoff", "channel", "lmax", "_type_map", "irreps_manual"):
        assert found["config"][key] == expected["config"][key], key
