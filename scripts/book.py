#!/usr/bin/env python3
"""Build the book of docs/ with mdBook and check its links.

Usage: book.py FOLDER      (`just book` says where; open FOLDER/introduction.html)

Pages link to files of the checkout that are no pages of the book, and to README.md files. mdBook turns the former into
links to pages that are not there, and does not follow its own renaming of the latter to index.html. Both are mended in
the HTML. The pages of the methods are in docs/methods/, and the table of contents gets them from there. Exits with 1 and a line for each link that leads nowhere.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r'(href|src)="([^"#:]*)(#[^"]*)?"')


def mended(target, page, book):
    """A link of `page`, relative to it, as it leads somewhere from the built book."""
    here = page.parent.relative_to(book)
    if not os.path.normpath(here / target).startswith(".."):
        return re.sub(r"README\.html$", "index.html", target)
    source = DOCS / here / target
    if source.suffix == ".html" and not source.exists():
        source = source.with_suffix(".md")
    return os.path.relpath(source.resolve(), page.parent)


def main(folder):
    book = Path(folder).resolve()
    with tempfile.TemporaryDirectory() as copy:
        source = Path(copy) / "docs"
        shutil.copytree(DOCS, source)
        contents = source / "SUMMARY.md"
        methods = sorted(page.stem for page in (DOCS / "methods").glob("*.md") if page.stem != "README")
        below = "".join(f"    - [{method}](methods/{method}.md)\n" for method in methods)
        line = "- [Methods](methods/README.md)\n"
        contents.write_text(contents.read_text(encoding="utf-8").replace(line, line + below), encoding="utf-8")
        try:
            subprocess.run(
                ["mdbook", "build", str(source), "--dest-dir", str(book)], check=True, stderr=subprocess.PIPE, text=True
            )
        except FileNotFoundError:
            sys.exit("error: mdbook is not installed; scripts/setup.sh --tests gets it")
        except subprocess.CalledProcessError as error:
            sys.exit(f"error: {error.stderr.strip()}")
    lost = []
    for page in sorted(book.rglob("*.html")):
        text = page.read_text(encoding="utf-8")

        def mend(match):
            name, target, anchor = match[1], match[2], match[3] or ""
            if not target or page.name == "404.html":
                return match[0]
            target = mended(target, page, book)
            file = page.parent / target
            if not file.exists():
                lost.append(f"{page.relative_to(book)}: {target}")
            elif anchor and file.suffix == ".html" and f'id="{anchor[1:]}"' not in file.read_text(encoding="utf-8"):
                lost.append(f"{page.relative_to(book)}: {target}{anchor}")
            return f'{name}="{target}{anchor}"'

        page.write_text(LINK.sub(mend, text), encoding="utf-8")
    for line in lost:
        print(f"leads nowhere: {line}", file=sys.stderr)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
