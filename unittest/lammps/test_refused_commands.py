# SPDX-License-Identifier: MIT
"""A program that uses LAMMPS as a library survives errors. After a refused command, or a failed setup, pair style equi
computes nothing until it is set up again, and then the same as a fresh LAMMPS."""

import re
import textwrap

import pytest
from equi_tools import equi_file
from lammps_script import rock_salt
from lammps_session import run_session


class Session:
    def __init__(self, lammps):
        self.lammps = lammps
        self.structure = ["units metal", *lammps.write(rock_salt(), ["Cl", "Na"])]
        self.model = f'"{lammps.model("nequip")}"'

    def run(self, script, **values):
        return run_session(self.lammps.build_dir, self.lammps.folder, script, structure=self.structure, **values)

    def truncated(self):
        data = self.lammps.model("nequip").read_bytes()
        (self.lammps.folder / "short.equi").write_bytes(data[: len(data) // 2])
        return "short.equi"

    def edited(self, change):
        """A copy of the model whose document `change` has edited."""
        document, tensors = equi_file.read(self.lammps.model("nequip"))
        change(document)
        equi_file.write(self.lammps.folder / "edited.equi", document, tensors)
        return "edited.equi"


@pytest.fixture
def session(lammps):
    return Session(lammps)


# All commands that request an energy or derivatives from the style, also without a setup.
USES = ["run 0", "run 1 pre no", "minimize 0 1e-8 1 1", "equi_modes all 1", "equi_dynamical_matrix all regular 1e-6", "run 0 post no"]

REFUSAL = """
commands(structure + setup)
found["before"] = energy()
found["refused"] = error_of(bad)
found["uses"] = [error_of(use) for use in uses]
found["mended"] = []
for line in mend:
    found["mended"].append(error_of(line))
found["after"] = energy()
lmp.command("clear")
commands(structure + fresh)
found["fresh"] = energy()
"""


def assert_stays_refused(found, command, text):
    assert re.search(text, found["refused"]), found["refused"]
    for use in found["uses"]:
        assert use is not None, found
        assert re.search(f"the last {command} command was refused", use), use
    assert found["mended"] == [None] * len(found["mended"])
    assert found["after"] == found["fresh"]


BAD_COEFFICIENTS = {
    "unknown_element": ("{model} Na Xx", "does not know element Xx"),
    "too_few_elements": ("{model} Na", "names 1 elements for 2 atom types"),
    "too_many_elements": ("{model} Na Cl Na", "names 3 elements for 2 atom types"),
    "no_file": ("", "FILE|Incorrect args"),
    "missing_file": ("nowhere.equi Na Cl", "nowhere.equi"),
    "damaged_file": ("{damaged} Na Cl", "short.equi"),
    "all_null": ("{model} NULL NULL", "all atom types to NULL"),
    "folder": (". Na Cl", "expected|directory"),
}


# Under a hybrid style LAMMPS itself refuses an argument that names no file, before it reaches the style.
@pytest.mark.parametrize(
    "style,name",
    [("equi", name) for name in BAD_COEFFICIENTS]
    + [(style, name) for style in ("hybrid equi", "hybrid/overlay equi") for name in BAD_COEFFICIENTS if name != "no_file"],
)
def test_after_a_refused_pair_coeff_nothing_is_computed(session, style, name):
    words, text = BAD_COEFFICIENTS[name]
    prefix = "pair_coeff * * " + ("equi " if "hybrid" in style else "")
    pair = f"pair_style {style} precision double"
    others = []
    if "overlay" in style:
        pair += " zero 5.0"
        others = ["pair_coeff * * zero"]
    good = prefix + session.model + " Na Cl"
    found = session.run(
        REFUSAL, setup=[pair, prefix + session.model + " Cl Na", *others],
        bad=prefix + words.format(model=session.model, damaged=session.truncated()),
        uses=USES[:2] if "hybrid" in style else USES, mend=[good], fresh=[pair, good, *others],
    )  # fmt: skip
    assert_stays_refused(found, "pair_coeff", text)
    assert found["after"] != found["before"]  # the elements are exchanged


@pytest.mark.parametrize(
    "words,text",
    [
        ("precision half", "must be mixed, double or tf32"),
        ("precision mixed speed fast", "unknown keyword speed"),
        ("precision mixed radial", "needs a value"),
        ("precision mixed radial 2", "must lie between 0 and 1"),
        ("reference yes memory -1", "memory must be"),
        ("check perhaps", "must be yes or no"),
        ("exchange device", "needs the style equi/kk"),
        ("radial table 1e-3x", "1e-3x"),
    ],
)
def test_after_a_refused_pair_style_nothing_is_computed(session, words, text):
    """A valid pair_coeff does not help; another pair_style does, and the settings of pair_coeff still hold."""
    coefficients = f"pair_coeff * * {session.model} Cl Na"
    found = session.run(
        REFUSAL, setup=["pair_style equi precision double", coefficients], bad="pair_style equi " + words, uses=USES, mend=["pair_style equi radial 1e-3"],
        fresh=["pair_style equi radial 1e-3", coefficients],
    )  # fmt: skip
    assert_stays_refused(found, "pair_style", text)
    assert found["after"] != found["before"]

    found = session.run(
        """
commands(structure + [style, coefficients])
found["before"] = energy()
found["refused"] = error_of(bad)
found["coefficients"] = error_of(coefficients)
found["use"] = error_of("run 0")
""",
        style="pair_style equi", coefficients=coefficients, bad="pair_style equi " + words,
    )  # fmt: skip
    assert found["coefficients"] is None
    assert "the last pair_style command was refused" in found["use"]


def test_a_first_command_that_is_refused(session):
    found = session.run(
        """
commands(structure)
found["style"] = error_of("pair_style equi precision half")
found["first"] = error_of("run 0")
found["coefficients"] = error_of(coefficients)
found["second"] = error_of("run 0")
lmp.command("pair_style equi")
found["bad"] = error_of(coefficients + " Na")
found["third"] = error_of("run 0")
lmp.command(coefficients)
found["energy"] = energy()
lmp.command("clear")
commands(structure + ["pair_style equi", coefficients])
found["fresh"] = energy()
""",
        coefficients=f"pair_coeff * * {session.model} Cl Na",
    )
    assert None not in (found["style"], found["first"], found["bad"], found["third"])
    assert "pair_style command was refused" in found["second"]
    assert "pair_coeff command was refused" in found["third"]
    assert found["energy"] == found["fresh"]


FAILING_SETUP = """
commands(structure + [good_style, coefficients])
found["before"] = energy()
commands([style, bad_coefficients])
found["setups"] = [error_of(use) for use in uses]
found["without"] = error_of("run 1 pre no")
commands([good_style, coefficients])
found["after"] = energy()
"""


def spoil_energies(document):
    for structure in document["self_check"]:
        structure["energy"] += 1.0


@pytest.mark.parametrize("name", ["table", "self_check"])
def test_after_a_setup_that_failed_nothing_is_computed(session, name):
    """A failure of a setup repeats at the next one, and a run without a setup is refused."""
    style, file, text = {
        "table": ("pair_style equi radial 1e-30", session.model, "tolerance"),
        "self_check": ("pair_style equi check yes", session.edited(spoil_energies), "not reproduced"),
    }[name]
    found = session.run(
        FAILING_SETUP, good_style="pair_style equi precision double", style=style,
        coefficients=f"pair_coeff * * {session.model} Cl Na", bad_coefficients=f"pair_coeff * * {file} Cl Na",
        uses=["run 0", "run 0", "minimize 0 1e-8 1 1", "equi_modes all 1"],
    )  # fmt: skip
    for fault in found["setups"]:
        assert fault is not None and re.search(text, fault), found
    assert "is not set up" in found["without"]
    assert found["after"] == found["before"]


def test_second_derivatives_after_a_refused_command(session):
    """A compute does not refer to a pair style that is gone, or to one that is not set up."""
    found = session.run(
        """
commands(structure + [style, coefficients])
commands(["variable one atom 1.0", "variable x atom x", "compute hv all equi/hvp v_x v_one v_x"])


def product():
    lmp.command("run 0")
    return lmp.numpy.extract_compute("hv", 1, 2)[:8].tolist()


def without_setup():
    global step
    step += 1
    lmp.command("reset_timestep %d" % step)
    lmp.extract_compute("hv", 1, 2)


step = 0
before = product()
found["refused"] = error_of(bad)
found["uses"] = [error_of("run 0"), error_of(without_setup), error_of("equi_modes all 1")]
lmp.command(coefficients)
found["new"] = error_of(without_setup)
found["same"] = product() == before
lmp.command("pair_style zero 5.0")
lmp.command("pair_coeff * *")
found["other"] = error_of(without_setup)
commands([style, coefficients])
found["again"] = error_of(without_setup)
found["same_again"] = product() == before
""",
        style="pair_style equi precision double", coefficients=f"pair_coeff * * {session.model} Cl Na",
        bad=f"pair_coeff * * {session.model} Cl Xx",
    )  # fmt: skip
    assert "does not know element Xx" in found["refused"]
    for use in found["uses"]:
        assert use is not None and "the last pair_coeff command was refused" in use, found
    assert found["new"] is not None and found["other"] is not None and found["again"] is not None, found
    assert found["same"] and found["same_again"]


def test_a_step_with_an_atom_outside_the_group_all_ends(session):
    """A Monte Carlo fix has lost an atom."""
    script = """
    commands(structure + ["pair_style equi precision double", f"pair_coeff * * {model} Cl Na"])
    energy()
    mask = lmp.extract_atom("mask")
    found["id"], mask[2] = lmp.extract_atom("id")[2], 2
    found["error"] = error_of("run 0")
    """
    found = session.run(textwrap.dedent(script), model=session.model)
    assert f"atom ID {found['id']} has been left outside the group all" in found["error"]
