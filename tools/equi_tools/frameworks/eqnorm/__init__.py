# SPDX-License-Identifier: MIT
"""eqnorm, whose files leave the settings of a model to its name or to a file of settings. Its package stands next to Nequix in one
environment."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="eqnorm", title="eqnorm", package="eqnorm", requirement="eqnorm", environment="nequix", settings=("settings",),
    pip_words="--no-deps eqnorm",  # it asks for packages that its modules do not need
)  # fmt: skip
