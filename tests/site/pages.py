"""Reads the pages of a built site: the elements that are link targets, the links, and the files that a page loads."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "object": ("data",),
}


class PageReader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.anchors, self.links, self.assets = set(), [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("href") and values.get("rel") not in {"canonical", "next", "prev"}:
            self.assets.append(values["href"])
        self.assets += [values[name] for name in LOADED.get(tag, ()) if values.get(name)]


def read_pages(site):
    """Return the pages by their paths relative to the folder of the site."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        reader = PageReader()
        reader.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(site).as_posix()] = reader
    return pages


def is_external(address):
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme in {"http", "https"}


def broken_links(site):
    """Return the links and assets inside the site that lead nowhere, each with its page."""
    pages = read_pages(site)
    root = site.resolve()
    found = []
    for name, page in pages.items():
        for address in (*page.links, *page.assets):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            folder = root if parts.path.startswith("/") else (root / name).parent
            target = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else root / name
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target.relative_to(root).as_posix()) if target.is_relative_to(root) else None
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and known and anchor not in known.anchors):
                found.append(f"{name}: {address}")
    return found


def external_assets(site):
    """Return the addresses outside the site from which its pages and style sheets load something."""
    found = [
        f"{name}: {address}"
        for name, page in read_pages(site).items()
        for address in page.assets
        if is_external(address)
    ]
    for path in sorted(site.rglob("*.css")):
        sheet = path.read_text(encoding="utf-8")
        found += [
            f"{path.name}: {sign}"
            for sign in ("url(http", 'url("http', "url('http", "url(//", "@import")
            if sign in sheet
        ]
    return found
