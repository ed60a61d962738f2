"""Packages that this process can import, and which of them belong to the repository."""

from __future__ import annotations

import configparser
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rlgauge.config import FILE, tomllib
from rlgauge.resume import name_of

ENVIRONMENT = "pyvenv.cfg", "conda-meta"  # in the top directory of an environment of venv, and of conda or pixi
EDITABLE = re.compile("^_.*editable")  # modules that make the editable installs of some build backends importable
SITES = "site-packages", "dist-packages"  # directories of installed packages; Debian's Python uses the second name


def installed_by(root: Path, top: Path) -> list[metadata.PackagePath]:
    """Return the files that the nearest project has installed here; empty if none."""
    return [file for distribution in distributions_of(root, top) for file in distribution.files or []]


def metadata_folders(root: Path, top: Path) -> list[Path]:
    """Return the directories with the metadata, such as version and entry points, of the nearest project's install."""
    found = dict[str, Path]()
    for distribution in distributions_of(root, top):
        for name in {file.parts[0] for file in distribution.files or [] if file.parts[0].endswith(".dist-info")}:
            found[name] = Path(str(distribution.locate_file(name)))
    return list(found.values())


def source_metadata(top: Path) -> list[Path]:
    """Return the metadata directories in a repository that no installed distribution replaces.

    ``setup.py develop`` writes them beside the packages, where git usually ignores them.
    """
    folders = {folder for folder in path_folders() if folder.is_relative_to(top) and not is_environment(folder, top)}
    found = list[Path]()
    for info in [info for folder in sorted(folders) for info in folder.glob("*.egg-info") if info.is_dir()]:
        if name := name_of(metadata.Distribution.at(info)):
            places = {Path(str(each.locate_file(""))).resolve() for each in metadata.distributions(name=name)}
            if places <= folders and info.name not in {other.name for other in found}:
                found.append(info)
    return found


def distributions_of(root: Path, top: Path) -> list[metadata.Distribution]:
    """Return the distributions that the nearest project, from `root` up to `top`, has installed here."""
    for folder in (root, *root.parents):
        name = project_name(folder)
        found = (list(metadata.distributions(name=name)) if name else []) or installed_from(folder)
        # those without RECORD are source trees on the path, and list their sources
        installed = [distribution for distribution in found if distribution.read_text("RECORD")] or found
        if installed:
            return installed
        if folder == top:
            break
    return []


def installed_from(folder: Path) -> list[metadata.Distribution]:
    """Return the distributions installed from a directory, as pip and uv record it.

    They are found even if only ``setup.py`` has the project's name.
    """
    return [distribution for distribution in metadata.distributions() if source_of(distribution)[0] == folder]


def source_of(distribution: metadata.Distribution) -> tuple[Path | None, bool]:
    """Return the directory from which a distribution was installed, if any, and whether the install is editable."""
    with suppress(ValueError, AttributeError, TypeError):  # there is no record, or it has another format
        record = json.loads(distribution.read_text("direct_url.json") or "{}")
        url = urlsplit(record.get("url", ""))
        if url.scheme == "file":
            return Path(unquote(url.path)).resolve(), bool(record.get("dir_info", {}).get("editable"))
    return None, False


def other_checkouts(root: Path, top: Path) -> list[Path]:
    """Return the directories outside the repository from which the nearest project is installed as editable."""
    found = map(source_of, distributions_of(root, top))
    return [folder for folder, editable in found if folder and editable and not folder.is_relative_to(top)]


def copied_projects(top: Path, projects: Sequence[Path]) -> tuple[list[Path], dict[str, Path]]:
    """Return the directories of a repository's projects that are installed as copies.

    The first value lists those without compiled files, whose source trees can be imported instead. The second has all,
    by module name. `projects` are the directories of all projects; a copy of unknown origin belongs to the one with its
    name.
    """
    folders, modules = list[Path](), dict[str, Path]()
    by_name = {normalised(name): folder for folder in projects if (name := project_name(folder))}
    for distribution in metadata.distributions():
        folder, editable = source_of(distribution)
        if folder is None or not folder.is_dir():  # from an index, or a wheel
            named = by_name.get(normalised(name_of(distribution) or "")) if by_name else None
            folder = named if named and is_copy(distribution) else None
        if folder and folder.is_dir() and folder.is_relative_to(top):
            files = distribution.files or []
            compiled = any(file.suffix == ".so" for file in files)  # maturin calls such a copy editable
            if compiled or not editable:
                modules |= dict.fromkeys(module_names(files), folder)
            if not compiled and not editable:
                folders.append(folder)
    return sorted(folders), modules


def is_copy(distribution: metadata.Distribution) -> bool:
    """Return whether a distribution is installed as files rather than as a path to a source tree."""
    files = distribution.files or []
    return bool(distribution.read_text("RECORD")) and not any(file.suffix == ".pth" for file in files)


def normalised(name: str) -> str:
    """Return the normalised name of a distribution: in lower case, with one kind of separator."""
    return re.sub("[-_.]+", "-", name).lower()


def project_name(folder: Path) -> str:
    """Return the name of the project in a directory, from its pyproject.toml or setup.cfg; empty if there is none."""
    setup = configparser.RawConfigParser()
    with suppress(OSError, ValueError, configparser.Error):
        setup.read_string((folder / "setup.cfg").read_text("utf-8"))
    with suppress(OSError, ValueError, AttributeError):
        table = tomllib.loads((folder / FILE).read_text("utf-8"))
        if name := table.get("project", {}).get("name") or table.get("tool", {}).get("poetry", {}).get("name"):
            return str(name)
    return setup.get("metadata", "name", fallback="")


def compiled_files(root: Path, top: Path) -> list[str]:
    """Return the compiled files that the nearest project of a repository has installed here."""
    return [str(file) for file in installed_by(root, top) if file.suffix == ".so"]


def path_folders() -> list[Path]:
    """Return the directories on ``sys.path``, except an empty entry."""
    return [Path(entry).resolve() for entry in sys.path if entry and Path(entry).is_dir()]


def editable_folders() -> list[Path]:
    """Return the import directories of setuptools' editable installs that use an import finder."""
    folders = []
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            for package, path in getattr(module, "MAPPING", {}).items():
                folders.append(Path(path).resolve().parents[package.count(".")])
    return folders


def is_environment(folder: Path, top: Path) -> bool:
    """Return whether a directory belongs to an installed Python, such as a virtual environment in the repository."""
    inside_top = [folder, *(parent for parent in folder.parents if top in parent.parents)]
    return "site-packages" in folder.parts or any((each / name).exists() for each in inside_top for name in ENVIRONMENT)


def modules_of(root: Path, top: Path) -> list[str]:
    """Return the names of the modules that the nearest project has installed here; empty if it is not installed."""
    return module_names(installed_by(root, top))


def module_names(files: Sequence[metadata.PackagePath]) -> list[str]:
    """Return the names of the modules among installed files."""
    modules = [file for file in files if len(file.parts) > 1 or file.suffix in (".py", ".so")]
    names = {file.parts[0].partition(".")[0] for file in modules}
    return sorted(name for name in names if name.isidentifier() and "__" not in name and not EDITABLE.search(name))


def is_installed(path: str) -> bool:
    """Return whether a file or directory is an installed package, or part of one."""
    return not set(SITES).isdisjoint(Path(path).parts)


def is_module(path: Path) -> bool:
    """Return whether an entry of ``site-packages`` can be imported."""
    return (path.is_dir() and path.suffix == "" and path.name != "__pycache__") or path.suffix in (".py", ".so")
