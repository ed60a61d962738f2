"""Which source the cases of a repository come from: the one that its settings name, or its tests."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import TABLE, Config
from .rule import GateError

if TYPE_CHECKING:
    import pytest

    from .source import Source


def source_of(config: Config, root: Path, run: pytest.Config | None = None) -> Source:
    """Return where the cases of a repository come from.

    Args:
        config: the settings.
        root: of the repository.
        run: of pytest, if the gate runs in one.

    Raises:
        GateError: the source that is named cannot be had.
    """
    if not config.source:
        from .benchmarks.source import Benchmarks

        return Benchmarks(root, config, run)
    module, _, name = config.source.partition(":")
    if str(root) not in sys.path:  # as for the console script
        sys.path.insert(0, str(root))
    try:
        found: Any = getattr(import_module(module), name)(run)
    except (ImportError, AttributeError, ValueError) as error:
        raise GateError(f"{TABLE}.source {config.source!r}: {type(error).__name__}: {error}") from error
    source: Source = found
    return source
