"""The option ``--codspeed``: hooks of a project may select different tests with and without it. Both are timed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import pytest

from .items import is_benchmark

CHANGED = pytest.StashKey[bool]()  # whether the option has been set here


def set_option(config: pytest.Config) -> None:
    """Set ``--codspeed`` if it exists: without it, a ``conftest.py`` may skip all benchmarks."""
    config.stash[CHANGED] = not getattr(config.option, "codspeed", True)
    if config.stash[CHANGED]:
        config.option.codspeed = True


def add_those_without_option(
    session: pytest.Session, collected: Sequence[pytest.Item], items: list[pytest.Item], own: object
) -> None:
    """Add to `items` the benchmarks that hooks select only without ``--codspeed``; `items` are those selected with it.

    The hooks get copies of the collected tests, since they may mark tests as skipped. `own` is the plugin whose hook is
    left out.
    """
    config = session.config
    if not config.stash[CHANGED]:
        return
    copies = [copy(item) for item in collected]
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
    kept, known = {*map(id, selected)}, {*map(id, items)}
    others = [item for item, other in zip(collected, copies) if id(other) in kept and id(item) not in known]
    items += filter(is_benchmark, others)
