"""Cases of one fact in one test: a test of its own for each costs more than most cases do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[..., Any]:
    """Run a test for all cases, as ``pytest.mark.parametrize`` does, and fail with all that failed.

    Fixtures are set up once, for all cases; only ``tmp_path`` is a folder of each case, and what
    ``monkeypatch`` patches ends with the case.
    """
    cases = list(cases)
    several = not isinstance(names, str) or "," in names
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [tuple(case) if several else (case,) for case in cases]
    assert values
    assert not any(hasattr(case, "marks") for case in cases), "marks are for tests, not for cases"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures, folder = [], fixtures.get("tmp_path")
            for number, case in enumerate(values):
                given = dict(zip(keys, case, strict=True))
                if folder is not None:
                    fixtures["tmp_path"] = folder / str(number)
                    fixtures["tmp_path"].mkdir()
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        if "monkeypatch" in fixtures:
                            fixtures["monkeypatch"] = patch
                        test(**given, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    error.add_note(f"The case is {given!r:.400}.")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"of {len(values)} cases", failures)

        parameters = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature([p for p in parameters if p.name not in keys])
        return run

    return decorated
