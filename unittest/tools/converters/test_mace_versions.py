# SPDX-License-Identifier: MIT
"""`equi convert` of models that each version of mace-torch on PyPI builds, against that version itself.

pip downloads a version, whose hash is known, once (old_versions.py). This runs in the environment of MACE, which has
all that the version imports. mace_versions.py then makes and compares the models.
"""

import json

import numpy as np
import old_versions
import pytest
from test_mace import ENERGY_TOLERANCE, FORCE_TOLERANCE, STRESS_TOLERANCE

pytestmark = pytest.mark.slow

# Reasons for omitting models, other than that the version lacks the option. Older versions do not build couplings if
# nothing leads to an irrep; the first soft transform is refused. Energies of atoms lack the interactions in the class
# MACE of 0.3.13. A readout of 0.3.14 is converted like that of later versions.
NO_PATH = {"pseudoscalars": "not built"}
NO_PATHS = NO_PATH | {"attention_options": "not built"}
OLD_SOFT = {"soft": "refused"}
NO_SUM = {"mace_class": "inconsistent"}
MIXED_HEADS = {"heads_bias": "noted"}
# Number of compared models, number of omitted ones, and the hash of the wheel.
VERSIONS = {
    "0.3.3": (29, NO_PATH, "36528cc932f46e91b274186119a19811ecaebff1899926710202f0a9f92b461e"),
    "0.3.4": (29, NO_PATH, "ad88aede3d30d428126835f61fe6743b99c62f31e636eabd7b88319b736a0869"),
    "0.3.5": (34, NO_PATH | OLD_SOFT, "b44861f29dd5aecbee9d0ade52dfccaa5d7886c5f8888ad5533edc422f911032"),
    "0.3.6": (34, NO_PATH | OLD_SOFT, "f1e13e7e0f2751546b1ca421eec58930e3e4e17fc3662b999d5a144799caf3bf"),
    "0.3.7": (53, NO_PATHS | OLD_SOFT, "d2e4744316a1fc00ede952e93e4ffe0f0b4b6fe59d3528799da568706b72bb8b"),
    "0.3.8": (53, NO_PATHS | OLD_SOFT, "fee22a834d6a40cb07eb2bf8dec6eee7cec214a057db4f147ebd14d0362325bd"),
    "0.3.9": (53, NO_PATHS | OLD_SOFT, "a37adb2c28a97f002abbe5ba0b397d778f358c1e6b77c3dbf3f133730be83cf8"),
    "0.3.10": (54, NO_PATHS, "b05ee23a89a45a090a832074d6ff0b27e9e952473c3587b5a4b503089c422d75"),
    "0.3.11": (54, NO_PATHS, "b6cfa12d06a08ef758df8e2a9397fc65bc6ec720ec7f1a2e91c636169ff841db"),
    "0.3.12": (54, NO_PATHS, "d8b135656dbbfd33c52844c78f1f230a2558bffa4edcc281a93787d5f21e6a3a"),
    "0.3.13": (53, NO_PATHS | NO_SUM, "e0aeef5fdb493f94436e4a806f89e051240d79202bccd6bacf5c6007d9adf75a"),
    "0.3.14": (80, MIXED_HEADS, "9a7a00a79b3fa3448a13961e2a4af616ff10466fa193aeb4579dc83be9da1b00"),
    "0.3.15": (82, {}, "9e38df131667f4abdb3c0ab7b77927f217886cbca68c417dcc985465c4b9a53c"),
    "0.3.16": (83, {}, "b80407edf6b2a1ec8523668c2a36852d20927ce1c3c56b70983a9f2dc53233ad"),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_models_of_each_version_are_what_it_evaluates(version, tmp_path):
    compared, left_out, wheel_hash = VERSIONS[version]
    results = tmp_path / "results.json"
    old_versions.run("mace_versions.py", [f"mace-torch=={version} --hash=sha256:{wheel_hash}"], results)
    found = json.loads(results.read_text())
    assert found["version"] == version
    reasons = {name: result for name, result in found["cases"].items() if isinstance(result, str)}
    reasons = {name: text.split(":")[0] for name, text in reasons.items() if not text.startswith("missing: ")}
    assert reasons == left_out
    differences = {name: result for name, result in found["cases"].items() if not isinstance(result, str)}
    print(version, len(differences), np.max(list(differences.values()), axis=0))
    assert len(differences) == compared
    for name, (energy, force, stress) in differences.items():
        assert energy < ENERGY_TOLERANCE and force < FORCE_TOLERANCE and stress < STRESS_TOLERANCE, name
