"""One test per case of the gate tier, with ``--gate-against``: is it slower than at that revision?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rl_impls.backends import BackendUnavailable, get

from .gate import report
from .suite.cases import variants


def test_gate(
    gated: str, request: pytest.FixtureRequest, record_property: Any, unavailable: Callable[..., None]
) -> None:
    """Pass unless the case fails, or the run is void."""
    if gated in variants():
        try:
            get(variants()[gated].backend).require()
        except BackendUnavailable as error:
            unavailable(error)
    outcome = request.getfixturevalue("gate_outcome")
    for name, value in outcome.findings[gated].model_dump(exclude_defaults=True).items():
        record_property(name, value)
    if gated in outcome.excused:
        record_property("allowed", outcome.excused[gated])
    if words := report.failure(gated, outcome):
        pytest.fail(words, pytrace=False)
