"""Packages that this process can import, and which of them belong to the repository."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from rlgauge.config import FILE, tomllib


def installed_by(root: Path, top: Path) -> list[metadata.PackagePath]:
    """Return the files that the nearest project, from `root` up to `top`, has installed here; empty if none."""
    for folder in (root, *root.parents):
        try:
            name = tomllib.loads((folder / FILE).read_text())["project"]["name"]
            return metadata.files(name) or []
        except (OSError, ValueError, KeyError, TypeError, metadata.PackageNotFoundError):
            if folder == top:
                break
    return []


def compiled_by(root: Path, top: Path) -> list[str]:
    """Return the compiled files that the nearest project of a repository has installed here."""
    return [str(file) for file in installed_by(root, top) if file.suffix == ".so"]


def on_path() -> list[Path]:
    """Return the directories on ``sys.path``, except an empty entry."""
    return [Path(entry).resolve() for entry in sys.path if entry and Path(entry).is_dir()]


def editable() -> list[Path]:
    """Return the import directories of setuptools' editable installs that use an import finder."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            for package, place in getattr(module, "MAPPING", {}).items():
                found.append(Path(place).resolve().parents[package.count(".")])
    return found


def is_environment(folder: Path, top: Path) -> bool:
    """Return whether a directory belongs to an installed Python, such as a virtual environment in the repository."""
    within = [folder, *(above for above in folder.parents if top in above.parents)]
    return "site-packages" in folder.parts or any((above / "pyvenv.cfg").exists() for above in within)


def modules_of(root: Path, top: Path) -> list[str]:
    """Return the names of the modules that the nearest project has installed here; empty if it is not installed."""
    files = installed_by(root, top)
    tops = {Path(file.parts[0]) for file in files if len(file.parts) > 1 or file.suffix in (".py", ".so")}
    return sorted(
        name for name in {top.name.partition(".")[0] for top in tops} if name.isidentifier() and "__" not in name
    )


def is_module(path: Path) -> bool:
    """Return whether an entry of ``site-packages`` can be imported."""
    return (path.is_dir() and path.suffix == "" and path.name != "__pycache__") or path.suffix in (".py", ".so")


def version(package: str) -> str:
    """Return the version of a package, or ``not installed``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
