"""The static files of the browser interface, and their content security policy."""

import re

import pytest

from maabo_dist.report.html import content_policy
from scheduler.api import ui as page
from scheduler.api.ui import ASSETS, BRIEFING, FILES, NAMES, hashes_of

MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")


def test_exactly_the_listed_files_are_served(client):
    existing = {path.name for path in ASSETS.iterdir()}

    assert existing | set(BRIEFING) == set(NAMES)
    for name in NAMES:
        response = client.get(f"/page/{name}")
        assert response.status_code == 200
        assert response.content == FILES[name].content
        assert response.headers["x-content-type-options"] == "nosniff"


def test_the_page_is_served_at_the_root(client):
    response = client.get("/")

    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["referrer-policy"] == "no-referrer"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "path", ["/page/", "/page/__init__.py", "/page/..%2f__init__.py", "/page/%2e%2e/__init__.py", "/page/page.css%00"]
)
def test_names_in_the_address_are_never_used_as_paths(client, path):
    assert client.get(path).status_code == 404


def test_a_cached_file_is_not_sent_again(client):
    tag = client.get("/page/main.js").headers["etag"]
    response = client.get("/page/main.js", headers={"If-None-Match": f'"other", W/{tag}'})

    assert (response.status_code, response.content) == (304, b"")


def test_the_page_is_not_part_of_the_openapi_document(client):
    paths = client.get("/v1/openapi.json").json()["paths"]

    assert not [path for path in paths if not path.startswith(("/v1/", "/healthz", "/readyz", "/metrics"))]


def test_no_file_refers_to_another_host_or_inserts_markup():
    for name, file in FILES.items():
        text = file.content.decode()
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) - {"http://www.w3.org"}
        assert not hosts, name
        assert not MARKUP.search(text), name


def test_modules_are_small_and_import_only_existing_files():
    for name in NAMES:
        text = FILES[name].content.decode()
        if name.endswith(".js") and name not in BRIEFING:
            assert len(text.splitlines()) < 200, name
            assert set(re.findall(r'from "\./([^"]+)"', text)) <= set(NAMES), name


def test_hashes_are_read_from_their_directive():
    policy = "default-src 'none'; script-src 'sha256-ab+/='; style-src 'self' 'sha256-cd=' 'sha256-ef='"

    assert hashes_of(policy, "style-src") == " 'sha256-cd=' 'sha256-ef='"
    assert hashes_of(policy, "img-src") == ""
    assert all(source_hash in page.POLICY for source_hash in hashes_of(content_policy(), "style-src").split())
