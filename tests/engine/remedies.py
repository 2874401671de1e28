"""Follows the remedies of refusals to their end."""

from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import problems
from workbench.project.opened import OpenProject
from workbench.results import GRAPH_FILE


def follow(engine, code, refused, *remedied, skip=()):
    """Assert that a project is refused with a code, and that each of its remedies leads to a program.

    A code counts as followed where a test calls this with it; see ``test_remedies.py``.

    Args:
        engine: An engine.
        code: Of the first problem.
        refused: The project that is refused.
        remedied: The project after each remedy that the message proposes, or a function that makes
            it of the problem.
        skip: Stages that are left out.

    Returns:
        The problem.
    """
    assert engine.run(refused, "package", *skip) == "failed"
    failure = engine.failure
    assert failure.code == code, failure
    assert failure.hint
    _assert_done(engine, failure, remedied, skip)
    return failure


def follow_forecast(engine, code, refused, *remedied):
    """Assert the same of a problem that is foreseen in the exported graph, and no longer then.

    Args:
        engine: An engine.
        code: Of the problem that is foreseen; the compiler may fail with another one.
        refused: The project that fails.
        remedied: The project after each remedy that the message proposes.

    Returns:
        The problem that is foreseen.
    """
    skip = ("evaluate",)
    assert engine.run(refused, "package", *skip) == "failed"
    (foreseen,) = [info for info in forecast(engine, refused) if info.code == code]
    assert foreseen.hint
    _assert_done(engine, foreseen, remedied, skip)
    for made in remedied:
        assert code not in [info.code for info in forecast(engine, made)]
    return foreseen


def forecast(engine, made):
    """Return the problems that are foreseen for a project once it is exported."""
    assert engine.run(made, "export") == "done", engine.failure
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    return [problem.info for problem in problems(OpenProject(made, engine.folder), graph)]


def _assert_done(engine, failure, remedied, skip):
    assert remedied
    for remedy in remedied:
        made = remedy(failure) if callable(remedy) else remedy
        assert engine.run(made, "package", *skip) == "done", engine.failure
