"""Hooks of MkDocs for the documentation site: pages from outside `docs`, generated pages, and links between them.

The documents link to each other as files of the repository, so that they can be read there as well. On the site, a link
to a file that is no page leads to the repository.
"""

import os
import re
import unicodedata
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site_notebook import describe_notebook
from docs.site_reference import describe_http, describe_result, describe_settings

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/maabo-dist/maabo-dist/blob/main"
ELSEWHERE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "bench/**/README.md",
    "deploy/**/README.md",
    "bench/quality/results/*.png",
)
GENERATED = {
    "from-a-notebook.md": describe_notebook,
    "reference/http.md": describe_http,
    "reference/result-schema.md": describe_result,
    "reference/settings.md": describe_settings,
}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def github_slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading as GitHub makes it, because the documents' links are those of GitHub."""
    text = unicodedata.normalize("NFC", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add documents from outside `docs`, and the pages that are generated."""
    for pattern in ELSEWHERE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, describe in GENERATED.items():
        files.append(File.generated(config, name, content=describe()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Make the links between files of the repository links between pages."""
    source = page.file.src_uri

    def rewrite(match: re.Match[str]) -> str:
        return match[1] + link_on_site(match[2], source, files) + match[3]

    parts = _FENCE.split(markdown)
    return "".join(part if index % 2 else _LINK.sub(rewrite, part) for index, part in enumerate(parts))


def on_post_page(output: str, **_: Any) -> str:
    """Make a page accessible."""
    return _name_controls(output)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Make the page for addresses that do not exist accessible."""
    return _name_controls(output_content) if template_name == "404.html" else output_content


def _name_controls(page: str) -> str:
    """Name the theme's search dialog and its hidden switches for screen readers."""
    named = page.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
    return named.replace('<input class="md-toggle"', '<input aria-label="Open or close" class="md-toggle"')


def link_on_site(link: str, source: str, files: Files) -> str:
    """Return the target of a link in the page `source`, relative to it, or an address in the repository."""
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return link
    folder = (
        PurePosixPath(source).parent if is_elsewhere(source) else PurePosixPath("docs") / PurePosixPath(source).parent
    )
    target = os.path.normpath(folder / parts.path)
    name = target.removeprefix("docs/")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    page = name.removesuffix(".ipynb") + ".md"
    if name.endswith(".ipynb") and page != source:  # the page of a notebook itself offers it for download
        name = page
    if files.get_file_from_path(name):
        return os.path.relpath(name, PurePosixPath(source).parent) + fragment
    if (ROOT / target).exists():
        return f"{REPOSITORY}/{target}{fragment}"
    return link  # MkDocs reports it


def is_elsewhere(source: str) -> bool:
    """Return True for a page whose path on the site is its path in the repository."""
    return (ROOT / source).is_file()
