"""Pages of ASV that work without a network: what they load from elsewhere is packed beside them.

``asv_pages`` holds the copies. Its ``list.json`` says of each file its name, version, licence and SHA-256, and the
``integrity`` by which a page of ASV asks for it; ``instead_of`` names the version asked for where the copy is another.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

COPIES = Path(__file__).parent / "asv_pages"
FOLDER = "packed"  # beside the pages
ASKING = re.compile(r'<(?:script|link)\b[^>]*\bintegrity="([^"]+)"[^>]*>')
ELSEWHERE = {  # what a page loads from another host; what a reader may click is no part of it
    "*.html": re.compile(r"""<(?!a\b)\w[^>]*\s(?:src|href|data)\s*=\s*["']?((?:\w+:)?//[^"'\s>]+)"""),
    "*.css": re.compile(r"""(?:url\(|@import)\s*["']?((?:\w+:)?//[^"')\s]+)"""),
}


def pack(pages: Path) -> None:
    """Put the copies beside published pages, and have the pages load those.

    A tag that asks for a file by its hash gets the name of the copy instead of the address; what only a foreign host
    needs goes: the hash, and how to ask that host.

    Args:
        pages: the folder that ``asv publish`` wrote.

    Raises:
        ValueError: a page loads something of which there is no copy.
    """
    shutil.copytree(COPIES, pages / FOLDER, dirs_exist_ok=True)
    copies = {copy["integrity"]: copy["file"] for copy in json.loads((COPIES / "list.json").read_text())}
    for page in sorted(pages.glob("*.html")):
        page.write_text(ASKING.sub(lambda tag: local(tag, copies), page.read_text()))
    if addresses := list(elsewhere(pages)):
        raise ValueError(f"{pages}: loads {', '.join(addresses)}, wanted copies of all in {COPIES.name}")


def local(tag: re.Match[str], copies: Mapping[str, str]) -> str:
    """Return a tag that loads the copy; as it was where there is none.

    Args:
        tag: of a page, found by ``ASKING``.
        copies: name of the file of each copy, by its integrity hash.
    """
    if tag[1] not in copies:
        return tag[0]
    named = re.sub(r'\b(src|href)="[^"]*"', rf'\1="{FOLDER}/{copies[tag[1]]}"', tag[0])
    return re.sub(r' (?:integrity|crossorigin|referrerpolicy)="[^"]*"', "", named)


def elsewhere(pages: Path) -> Iterator[str]:
    """Return the addresses on other hosts from which pages and styles load something.

    Args:
        pages: the folder of the pages.
    """
    for pattern, address in ELSEWHERE.items():
        for file in sorted(pages.rglob(pattern)):
            yield from address.findall(file.read_text())
