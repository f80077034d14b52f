#!/usr/bin/env python3
"""Checks that what the documentation points at is there: relative links, paths of sources in `backticks`, and in TUF.md the
tests that it names; and that no table is broken in two.

usage: Tests/links.py [FILE…]    without files: the pages of the root, and everything in Documentation and Manifests
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:Sources|Tests|Examples|Manifests|Documentation)/[\w./+-]+)")


def anchors(page):
    """The anchors of a page's headings, as Markdown renderers make them."""
    found = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().replace("`", "").lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def moved(name):
    """Where a file of this name is now, as a question."""
    top, last = name.split("/")[0], name.rsplit("/", 1)[-1]
    found = [str(path.relative_to(ROOT)) for path in (ROOT / top).rglob(last)] if last else []
    return f"; is it {found[0]}?" if len(found) == 1 else ""


def check(page, problems):
    base = page.parent
    before, is_code, lines = "", False, page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        place = f"{page.relative_to(ROOT)}:{number}"
        is_code ^= line.startswith("```")
        if line.startswith("|") and not before.startswith("|") and not is_code:
            if not re.fullmatch(r"\|[ :|-]+\|", "".join(lines[number : number + 1])):
                problems.append(f"{place}: a table begins without a heading; is there an empty line in it?")
        before = line
        for link in LINK.findall(line):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = (base / name).resolve() if name else page
            if not target.exists():
                problems.append(f"{place}: there is no {link}")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                problems.append(f"{place}: {name or page.name} has no heading #{anchor}")
        for name in PATH.findall(line):
            if not (ROOT / name.rstrip("./")).exists():
                problems.append(f"{place}: there is no {name}{moved(name)}")


def check_tests(page, problems):
    """Each “beginning” is that of a test's name, and each row of a table that says tested names one."""
    texts = []
    for folder in ("SyncTrustTests", "CommandTests", "FaultMatrixTests"):
        for source in sorted((ROOT / "Tests" / folder).rglob("*.swift")):
            texts += re.findall(r'@Test\(\s*"((?:[^"\\]|\\.)*)"', source.read_text(encoding="utf-8"))
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("|"):
            continue
        names = re.findall("“([^”]+)”", line)
        if "tested" in line and not names:
            problems.append(f"{page.relative_to(ROOT)}:{number}: it says tested, and names no test")
        for name in names:
            if not any(text.startswith(name) for text in texts):
                problems.append(f"{page.relative_to(ROOT)}:{number}: there is no test “{name}”")


def main():
    pages = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    if not pages:
        pages = sorted(ROOT.glob("*.md")) + sorted((ROOT / "Documentation").rglob("*.md"))
        pages += sorted((ROOT / "Manifests").glob("*.md"))
    problems = []
    for page in pages:
        check(page, problems)
        if page.name == "TUF.md":
            check_tests(page, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"{len(pages)} pages, every link and path resolves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
