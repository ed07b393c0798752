# SPDX-License-Identifier: MIT
import sys
import warnings
from pathlib import Path

# The package of this tree, also where another version is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

warnings.filterwarnings("ignore", message=".*torch.jit.*")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: minutes rather than seconds")
