"""Reader for the ledger that ``python -m perf_tests.claims`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from perf_tests.claims.catalogue import by_name, workloads
from perf_tests.claims.ledger import FORMAT, VERSION

from .runs import BadInput, first, parse

WANTED = "a file of python -m perf_tests.claims"
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Context(BaseModel):
    """One comparison that a claim was judged by.

    ``ratio`` is base over change in the measured quantity, more than 1 if the change is better. ``same_holds`` tells
    whether outputs or learning stayed the same; None if unknown or not claimed.
    """

    context: str
    base: str
    change: str
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    n: Annotated[int, Field(ge=0)] = 0
    verdict: str
    same_holds: bool | None = None


class Figure(BaseModel):
    """A published figure, and our value of it."""

    what: str
    ours: float | None = None
    unit: str = ""
    theirs: str = ""


class Claim(BaseModel):
    """A claim in words, with the promised ratio; ``least`` is None if no ratio was promised."""

    id: str
    workload: str
    words: str
    source: str = ""
    promised: str = ""
    least: Ratio | None = None
    same: str | None = None
    note: str = ""
    contexts: list[Context] = []
    figures: list[Figure] = []


class Claims(BaseModel):
    """All claims, and where and when they were measured."""

    commit: str
    dirty: bool = False
    date: str
    machine: dict[str, Any] = {}
    threads: int | None = None
    claims: list[Claim]


def read(path: Path) -> Claims:
    """Return the claims of a ledger file; raise BadInput if it is invalid, too new, or names an unknown benchmark."""
    found = parse(path, WANTED)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadInput(f"{path}: not {WANTED}: its format is not {FORMAT!r}")
    version = found.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise BadInput(f"{path}: its version is {version!r}, but this rlgauge reads up to {VERSION}; update rlgauge")
    try:
        claims = Claims.model_validate(found)
    except ValidationError as error:
        raise BadInput(f"{path}: not {WANTED}: {first(error)}") from error
    for claim in claims.claims:
        if claim.workload not in workloads():
            raise BadInput(f"{path}: claim {claim.id}: unknown workload {claim.workload!r}; measure the claims again")
        for context in claim.contexts if version > 1 else ():  # older ledgers use other benchmark names
            gone = [test for test in (context.base, context.change) if test not in by_name(claim.workload)]
            if gone:
                raise BadInput(f"{path}: claim {claim.id}: unknown benchmark {gone[0]}; measure the claims again")
    return claims
