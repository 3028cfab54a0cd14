"""The static files of the browser interface, and their content security policy."""

import re
from hashlib import sha256

import pytest

from maabo_dist.report.html import content_policy
from scheduler.api import ui as page
from scheduler.api.app import describe_api
from scheduler.api.ui import ASSETS, FILES, INDEX, THEME_SCRIPT, hash_of, hashes_of
from scheduler.api.ui.bundle import bundle

MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")


def test_the_page_and_its_files_are_served_compressed_or_not(client):
    for path, file in {"/": INDEX, **{f"/page/{name}": file for name, file in FILES.items()}}.items():
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        compressed = client.get(path, headers={"Accept-Encoding": "br, gzip"})

        assert plain.status_code == compressed.status_code == 200
        assert plain.content == compressed.content == file.content
        assert "content-encoding" not in plain.headers
        assert compressed.headers["content-encoding"] == "gzip"
        assert plain.headers["x-content-type-options"] == "nosniff"
        assert "Accept-Encoding" in plain.headers["vary"]


def test_files_are_kept_for_good_and_the_page_that_names_them_is_not(client):
    text = client.get("/").text
    names = re.findall(r'"page/([^"]+)"', text)

    assert sorted(names) == sorted(FILES)
    assert client.get("/").headers["cache-control"] == "no-cache"
    for name in names:
        response = client.get(f"/page/{name}")
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert sha256(response.content).hexdigest()[:12] in name


def test_the_page_is_small_and_has_few_files():
    assert len(FILES) <= 4
    assert sum(len(file.compressed) for file in [INDEX, *FILES.values()]) < 100_000


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
    for path in ("/", *(f"/page/{name}" for name in FILES)):
        tag = client.get(path).headers["etag"]
        response = client.get(path, headers={"If-None-Match": f'"other", W/{tag}'})

        assert (response.status_code, response.content) == (304, b"")


def test_the_page_is_not_part_of_the_openapi_document(client):
    paths = client.get("/v1/openapi.json").json()["paths"]

    assert not [path for path in paths if not path.startswith(("/v1/", "/healthz", "/readyz", "/metrics"))]


def test_the_openapi_document_is_the_same_without_a_server(client):
    assert client.get("/v1/openapi.json").json() == describe_api()


def test_no_file_refers_to_another_host_or_inserts_markup():
    for name, file in FILES.items():
        text = file.content.decode()
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) - {"http://www.w3.org"}
        assert not hosts, name
        assert not MARKUP.search(text), name


def test_modules_are_small_and_all_of_them_are_part_of_the_script():
    (script,) = (file.content.decode() for name, file in FILES.items() if name.startswith("main"))
    for path in ASSETS.iterdir():
        if path.name.endswith(".js") and path.name != "theme-init.js":
            assert len(path.read_text().splitlines()) < 200, path.name
            assert f"const {path.name[:-3].replace('-', '_')}_js = " in script


def bundled(**modules):
    return bundle("main", {name.replace("_", "-"): text for name, text in modules.items()}.__getitem__)


def test_each_module_runs_once_after_those_that_it_imports():
    script = bundled(
        main='import { a as first, b } from "./part-one.js";\nimport { c } from "./two.js";\n// A comment.\n',
        part_one="const own = 1;\nexport const a = own;\nexport async function b() {}\n",
        two='import { a } from "./part-one.js";\nconst own = 2;\nexport class c {}\n',
    )

    assert script.count("const own = 1;") == script.count("const own = 2;") == 1
    assert script.index("const part_one_js") < script.index("const two_js") < script.index("const main_js")
    assert "const { a: first, b } = part_one_js;" in script
    assert "return { a, b };" in script
    assert not re.search(r"^(import|export)\b|comment", script, re.MULTILINE)


def test_modules_that_cannot_be_put_together_are_errors():
    with pytest.raises(ValueError, match="main → other → main"):
        bundled(main='import { a } from "./other.js";\n', other='import { b } from "./main.js";\n')
    with pytest.raises(ValueError, match=r"main\.js: 'export default 1;' is not supported"):
        bundled(main="export default 1;\n")


def test_the_policy_permits_the_script_inside_the_page():
    assert f"<script>{THEME_SCRIPT}</script>" in INDEX.content.decode()
    assert hash_of(THEME_SCRIPT) in page.POLICY


def test_hashes_are_read_from_their_directive():
    policy = "default-src 'none'; script-src 'sha256-ab+/='; style-src 'self' 'sha256-cd=' 'sha256-ef='"

    assert hashes_of(policy, "style-src") == " 'sha256-cd=' 'sha256-ef='"
    assert hashes_of(policy, "img-src") == ""
    assert all(source_hash in page.POLICY for source_hash in hashes_of(content_policy(), "style-src").split())
