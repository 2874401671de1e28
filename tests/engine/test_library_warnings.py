"""What libraries warn their own developers of stays out of the log; the user's own code is told."""

from __future__ import annotations

import warnings

import pytest

from workbench.engine.__main__ import leave_out_library_warnings


@pytest.mark.parametrize(
    ("module", "is_told"),
    [
        ("torch.utils._pytree", False),
        ("copyreg", False),
        ("contextlib", False),
        ("net", True),
        ("torchnet", True),
    ],
)
@pytest.mark.parametrize("kind", [FutureWarning, DeprecationWarning])
def test_that_only_warnings_about_the_code_of_the_user_are_told(module, is_told, kind):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        leave_out_library_warnings()
        warnings.warn_explicit("deprecated", kind, "net.py", 1, module)
        warnings.warn_explicit("of another kind", UserWarning, "net.py", 2, module)
    assert [w.category for w in told] == ([kind] if is_told else []) + [UserWarning]
