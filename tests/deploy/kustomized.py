"""Builds a kustomize directory, with the features that ours use, so that tests need no kubectl.

Names of generated ConfigMaps have no suffix here. Where there is a kubectl, a test compares.
"""

import copy
import re
from pathlib import Path

import yaml

KNOWN = {"apiVersion", "kind", "resources", "components", "configMapGenerator"}
KNOWN |= {"labels", "namespace", "images", "patches"}
NOWHERE = {"Namespace"}
"""Kinds without a namespace."""


def build(directory):
    """Return all objects, by kind and name."""
    found = {}
    _into(found, Path(directory))
    return found


def _into(found, directory):
    """Add the objects of a directory; a component changes those that were added before it."""
    said = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert said.keys() <= KNOWN, f"{directory}: the tests do not know {said.keys() - KNOWN}"
    is_component = said["kind"] == "Component"
    own = found if is_component else {}
    for entry in said.get("resources", ()):
        path = directory / entry
        if path.is_dir():
            _into(own, path)
        else:
            _add(own, yaml.safe_load_all(path.read_text()))
    for entry in said.get("components", ()):
        _into(own, directory / entry)
    for one in said.get("configMapGenerator", ()):
        _generate(own, one, directory)
    for patch in said.get("patches", ()):
        _patch(own, patch)
    for label in said.get("labels", ()):
        _label(own, label)
    for image in said.get("images", ()):
        _set_image(own, image)
    if "namespace" in said:
        for (kind, _), one in own.items():
            if kind not in NOWHERE:
                one["metadata"]["namespace"] = said["namespace"]
    if not is_component:
        _add(found, own.values())


def _add(found, objects):
    for one in objects:
        key = one["kind"], one["metadata"]["name"]
        assert key not in found, f"{key} is there twice"
        found[key] = copy.deepcopy(one)


def _generate(found, said, directory):
    data = dict(literal.split("=", 1) for literal in said.get("literals", ()))
    data |= {name: (directory / name).read_text() for name in said.get("files", ())}
    key = "ConfigMap", said["name"]
    if said.get("behavior") == "merge":
        found[key]["data"] |= data
    else:
        _add(found, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": said["name"]}, "data": data}])


def _patch(found, said):
    target = said["target"]
    chosen = [
        one for (kind, name), one in found.items() if kind == target["kind"] and re.fullmatch(target["name"], name)
    ]
    assert chosen, f"nothing is {target}"
    for one in chosen:
        for step in yaml.safe_load(said["patch"]):
            _do(one, step)


def _do(one, step):
    *way, last = [int(part) if part.isdecimal() else part for part in step["path"].strip("/").split("/")]
    for part in way:
        one = one[part]
    assert last in one if isinstance(one, dict) else last < len(one), step
    if step["op"] == "remove":
        del one[last]
    else:
        assert step["op"] == "replace", step
        one[last] = step["value"]


def _label(found, said):
    for one in found.values():
        places = [one["metadata"]]
        if said.get("includeTemplates") and "template" in one.get("spec", {}):
            places.append(one["spec"]["template"]["metadata"])
        for place in places:
            place.setdefault("labels", {}).update(said["pairs"])


def _set_image(found, said):
    for one in found.values():
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if container["image"] == said["name"]:
                container["image"] = f"{said['newName']}:{said['newTag']}"
