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
    objects = {}
    _into(objects, Path(directory))
    return objects


def _into(objects, directory):
    """Add the objects of a directory; a component changes those that were added before it."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert kustomization.keys() <= KNOWN, f"{directory}: the tests do not know {kustomization.keys() - KNOWN}"
    is_component = kustomization["kind"] == "Component"
    own = objects if is_component else {}
    for entry in kustomization.get("resources", ()):
        path = directory / entry
        if path.is_dir():
            _into(own, path)
        else:
            _add(own, yaml.safe_load_all(path.read_text()))
    for entry in kustomization.get("components", ()):
        _into(own, directory / entry)
    for one in kustomization.get("configMapGenerator", ()):
        _generate(own, one, directory)
    for patch in kustomization.get("patches", ()):
        _patch(own, patch)
    for label in kustomization.get("labels", ()):
        _label(own, label)
    for image in kustomization.get("images", ()):
        _set_image(own, image)
    if "namespace" in kustomization:
        for (kind, _), one in own.items():
            if kind not in NOWHERE:
                one["metadata"]["namespace"] = kustomization["namespace"]
    if not is_component:
        _add(objects, own.values())


def _add(objects, new_objects):
    for one in new_objects:
        key = one["kind"], one["metadata"]["name"]
        assert key not in objects, f"{key} is there twice"
        objects[key] = copy.deepcopy(one)


def _generate(objects, generator, directory):
    data = dict(literal.split("=", 1) for literal in generator.get("literals", ()))
    data |= {name: (directory / name).read_text() for name in generator.get("files", ())}
    key = "ConfigMap", generator["name"]
    if generator.get("behavior") == "merge":
        objects[key]["data"] |= data
    else:
        _add(
            objects, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data}]
        )


def _patch(objects, patch):
    target = patch["target"]
    chosen = [
        one for (kind, name), one in objects.items() if kind == target["kind"] and re.fullmatch(target["name"], name)
    ]
    assert chosen, f"nothing is {target}"
    for one in chosen:
        for step in yaml.safe_load(patch["patch"]):
            _do(one, step)


def _do(one, step):
    *parents, last = [int(part) if part.isdecimal() else part for part in step["path"].strip("/").split("/")]
    for part in parents:
        one = one[part]
    assert last in one if isinstance(one, dict) else last < len(one), step
    if step["op"] == "remove":
        del one[last]
    else:
        assert step["op"] == "replace", step
        one[last] = step["value"]


def _label(objects, label):
    for one in objects.values():
        metadata = [one["metadata"]]
        if label.get("includeTemplates") and "template" in one.get("spec", {}):
            metadata.append(one["spec"]["template"]["metadata"])
        for entry in metadata:
            entry.setdefault("labels", {}).update(label["pairs"])


def _set_image(objects, image):
    for one in objects.values():
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
