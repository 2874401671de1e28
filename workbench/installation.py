"""Where files of the program and of its user lie, and the program's version.

The window imports it before its first paint: other imports of this module stay light.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import platformdirs

CONFIG_VARIABLE = "QUANTIZATION_WORKBENCH_CONFIG"
CACHE_VARIABLE = "QUANTIZATION_WORKBENCH_CACHE"
_APPLICATION = "quantization-workbench"
_PACKAGE = Path(__file__).parent
# A wheel carries the window and the resources inside the package, so that no top-level package
# named "ui" or "resources" is installed (see pyproject.toml).
_BUNDLE = _PACKAGE / "_bundle"


def root() -> Path:
    """Return the folder that holds ``ui`` and ``resources``."""
    return _BUNDLE if _BUNDLE.is_dir() else _PACKAGE.parent


def resources() -> Path:
    """Return the folder of icons, boards, samples, recipes, templates and the guide."""
    return root() / "resources"


def config_folder() -> Path:
    """Return the user's configuration folder; it may not exist."""
    given = os.environ.get(CONFIG_VARIABLE)
    return Path(given) if given else Path(platformdirs.user_config_dir(_APPLICATION))


def cache_folder() -> Path:
    """Return the folder of results and of what is remembered; it may not exist."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).absolute() if given else Path(platformdirs.user_cache_dir(_APPLICATION))


def data_folder() -> Path:
    """Return the folder of environments that the program made; it may not exist.

    Where the configuration has a folder of its own, it is in that.
    """
    given = os.environ.get(CONFIG_VARIABLE)
    return Path(given) / "data" if given else Path(platformdirs.user_data_dir(_APPLICATION))


@functools.cache
def version() -> str:
    """Return the version of the program; ``0+unknown`` in a checkout that is not installed."""
    from importlib import metadata

    try:
        return metadata.version("quantization-workbench")
    except metadata.PackageNotFoundError:
        return "0+unknown"
