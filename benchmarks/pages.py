"""Tables of what was measured, in the pages of the documentation."""

from __future__ import annotations


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with what stands between `<!-- name -->` and `<!-- end -->` replaced."""
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        if start not in page:
            raise ValueError(f"the page has no place for the table {name!r}")
        before, rest = page.split(start, 1)
        page = before + start + table + end + rest.split(end, 1)[1]
    return page
