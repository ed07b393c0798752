# SPDX-License-Identifier: MIT
import os
import warnings

import pytest

warnings.filterwarnings("ignore", message=".*torch.jit.*")


@pytest.fixture(scope="session", autouse=True)
def every_file_is_tried():
    """Whatever a test converts in this process is tried by the pair style's reader, unless the test names a build
    folder without its program."""
    from equi_tools import convert, kernels

    folder = os.environ.get("EQUI_BUILD_DIR")

    def try_file(file, name=None):
        why = kernels.try_file(file, name)
        if why and os.environ.get("EQUI_BUILD_DIR") == folder:
            pytest.fail(f"{name or file} was not tried: {why}", pytrace=False)
        return why

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "try_file", try_file)
        yield
