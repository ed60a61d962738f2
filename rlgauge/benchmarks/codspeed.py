"""The option ``--codspeed``, by which hooks of a project may select tests: those of both selections are timed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from .items import is_benchmark

if TYPE_CHECKING:
    import pytest


def set_option(config: pytest.Config) -> bool:
    """Set ``--codspeed``, without which a ``conftest.py`` may skip all benchmarks; return whether this changed it."""
    changed = not getattr(config.option, "codspeed", True)
    if changed:
        config.option.codspeed = True
    return changed


def selected_without_option(
    session: pytest.Session, collected: Sequence[pytest.Item], own: object
) -> list[pytest.Item]:
    """Return the benchmarks that hooks select if ``--codspeed`` is not set: with it, they may select fewer.

    The hooks get copies of the collected tests, since they may skip them. `own` is the plugin whose hook is left out.
    """
    config, copies = session.config, [copy(item) for item in collected]
    for item in copies:
        item.own_markers = [*item.own_markers]
    selected = [*copies]
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    deselected = [*reporter.stats.get("deselected", [])] if reporter else []
    config.option.codspeed = False
    try:
        hook = config.pluginmanager.subset_hook_caller("pytest_collection_modifyitems", [own])
        hook(session=session, config=config, items=selected)
    finally:
        config.option.codspeed = True
        if reporter:
            reporter.stats["deselected"] = deselected
    kept = {*map(id, selected)}
    return [item for item, other in zip(collected, copies) if id(other) in kept and is_benchmark(item)]
