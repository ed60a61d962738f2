"""One test per case of the gate tier, with ``--gate-against``: is it slower than at that revision?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rl_impls.backends import BackendUnavailable, get

from .gate import report
from .gate.rule import FAILING, VOIDING
from .suite.cases import variants


def test_gate(
    gated: str, request: pytest.FixtureRequest, record_property: Any, unavailable: Callable[..., None]
) -> None:
    """Pass unless the case is slower, gone or in error."""
    if gated in variants():
        try:
            get(variants()[gated].backend).require()
        except BackendUnavailable as error:
            unavailable(error)
    outcome = request.getfixturevalue("gate_outcome")
    finding = outcome.findings[gated]
    for name, value in finding.model_dump(exclude_none=True).items():
        record_property(name, value)
    allowed = request.config.getoption("gate_allow")
    if finding.verdict in VOIDING or (finding.verdict in FAILING and not allowed):
        pytest.fail(report.line(gated, finding), pytrace=False)
