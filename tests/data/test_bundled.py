"""The bundled tables. No test uses the network."""

import socket
from urllib.error import URLError

import pandas as pd
import pytest
from sklearn import datasets
from sklearn.utils import Bunch

from maabo_dist.data.bundled import BUNDLED, load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError


def test_diabetes_has_the_papers_names_and_is_cut_at_the_mean():
    frame, settings = load_bundled("diabetes")

    columns = prepare(frame, settings).columns

    assert [f.name for f in columns.features] == ["age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu"]
    assert columns.target == "progression above 152.133"
    assert columns.classes == ("progression ≤ 152.133", "progression > 152.133")
    assert frame["age"].max() > 60  # years, not scaled values


@pytest.mark.parametrize(
    ("name", "target", "classes", "features"),
    [
        ("breast_cancer", "diagnosis", ("benign", "malignant"), 30),
        ("wine", "cultivar", ("class_0", "class_1", "class_2"), 13),
    ],
)
def test_classes_are_texts_not_numbers(name, target, classes, features):
    frame, settings = load_bundled(name)

    columns = prepare(frame, settings).columns

    assert settings.target == columns.target == target
    assert columns.classes == classes
    assert columns.count == features


def test_the_malignant_rows_are_the_ones_that_scikit_learn_calls_malignant():
    frame, _ = load_bundled("breast_cancer")

    assert (frame["diagnosis"] == "malignant").sum() == 212


def test_titanic_keeps_seven_columns_and_the_target(monkeypatch):
    columns = ["pclass", "sex", "age", "sibsp", "parch", "fare", "embarked", "survived"]
    fetched = pd.DataFrame({name: [1, 2] for name in ["name", "survived", "boat", *columns[:-1]]})
    monkeypatch.setattr(datasets, "fetch_openml", lambda *_arguments, **_options: Bunch(frame=fetched))

    frame, settings = load_bundled("titanic")

    assert list(frame.columns) == columns
    assert settings.target == "survived"


def test_without_a_network_titanic_has_an_error_with_its_source_and_a_remedy(monkeypatch):
    limits = []

    def offline(*_arguments, **_options):
        limits.append(socket.getdefaulttimeout())
        raise URLError("no route to host")

    monkeypatch.setattr(datasets, "fetch_openml", offline)

    with pytest.raises(DatasetError, match=r"OpenML.*failed.*no route to host.*Check the network connection.*CSV file"):
        load_bundled("titanic")

    assert limits[0] is not None
    assert socket.getdefaulttimeout() is None


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(DatasetError, match="No bundled table is called 'iris'") as caught:
        load_bundled("iris")

    assert all(name in str(caught.value) for name in BUNDLED)
