"""What a commit is compared with, its anchor: the last release before it, or the revision that is named."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rlgauge.revisions import git, resolve
from rlgauge.rule import GateError

from .entries import Entry


def anchor_of(root: Path, commit: str, named: str | None) -> str:
    """Return the anchor of a commit: the one that is named, else the newest tag before it.

    A release is compared with the release before it, as any other commit: by that ratios go on across releases.

    Args:
        root: of the repository.
        commit: full hash.
        named: a revision to compare all commits with.

    Raises:
        GateError: none is named and no tag comes before the commit.
    """
    if named is not None:
        return resolve(root, named)
    try:
        tag = git(root, "describe", "--tags", "--abbrev=0", f"{commit}^").decode().strip()
    except subprocess.CalledProcessError as error:
        raise GateError(
            f"no tag before {commit[:12]}: no release to compare with; name a revision by --anchor"
        ) from error
    return resolve(root, f"refs/tags/{tag}")


def comes_before(root: Path, first: str, second: str) -> bool:
    """Return whether a commit is an ancestor of another.

    Args:
        root: of the repository.
        first: full hash.
        second: full hash.
    """
    try:
        git(root, "merge-base", "--is-ancestor", first, second)
    except subprocess.CalledProcessError:
        return False
    return True


def anchor_before(root: Path, entries: Sequence[Entry], case: str, version: int, anchor: str) -> str | None:
    """Return the anchor that a case had before this one: this one's ratio to it is what chains both; None if none.

    Args:
        root: of the repository.
        entries: what is kept.
        case: id.
        version: of the case.
        anchor: full hash.
    """
    others = [e.anchor for e in entries if (e.case, e.version) == (case, version) and e.anchor != anchor]
    return next((other for other in reversed(others) if comes_before(root, other, anchor)), None)


def in_order(root: Path) -> list[str]:
    """Return the commits of this branch along first parents, oldest first.

    Args:
        root: of the repository.

    Raises:
        GateError: no repository.
    """
    head = resolve(root, "HEAD")
    return git(root, "rev-list", "--first-parent", "--reverse", head).decode().split()
