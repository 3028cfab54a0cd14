"""Plots compared with the figure data and documents that they show, read back from the drawn artists."""

import re
import subprocess
import sys
from importlib.resources import files
from math import log10

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from maabo_dist import RuleMiner, plots
from maabo_dist.data.bundled import load_bundled
from maabo_dist.errors import SettingsError
from maabo_dist.plots.rule_details import place_nodes
from maabo_dist.plots.rules import MAX_COLUMNS, read_coverage, read_similarity
from maabo_dist.plots.style import DARK, LIGHT
from maabo_dist.report.document import result_document

mpl.use("Agg")
pytestmark = pytest.mark.filterwarnings("error")

PLOTS_OF_ALL_RULES = [name for name in plots.__all__ if name not in {"plot_rule", "plot_tree"}]
NAME = "_$a^{b}$ <script>\n\\$ %s {0}"
ESCAPED = "_$a^{b}$ <script>\\n\\$ %s {0}"


def mined(frame, labels, **settings):
    defaults = {
        "subset_size": 2,
        "min_samples": 12,
        "gini": 0.7,
        "holdout": 0.2,
        "trees": 60,
        "missing_indicator": True,
    }
    return RuleMiner(**{**defaults, **settings}).fit(frame, labels)


def a_table(number="number", port="port", classes=("no", "yes"), rows=700):
    """Numeric columns with many and with few values, text columns of two and of several levels, and missing cells."""
    draw = np.random.default_rng(5)
    many, few = draw.normal(size=rows).round(3), draw.integers(0, 5, rows).astype(float)
    ports, sex = draw.choice(["C", "Q", "S", "T"], rows).astype(object), draw.choice(["f", "m"], rows)
    positive = (many > 0.2) & (sex == "f") | (ports == "Q") & (few > 2) | (draw.random(rows) < 0.05)
    many[draw.random(rows) < 0.1] = np.nan
    frame = pd.DataFrame({number: many, "few": few, port: ports, "sex": sex, "noise": draw.normal(size=rows)})
    return frame, np.where(positive, classes[1], classes[0])


@pytest.fixture(scope="module")
def mixed():
    return mined(*a_table())


@pytest.fixture(scope="module")
def cancer():
    frame, settings = load_bundled("breast_cancer")
    return mined(
        frame.drop(columns=settings.target), frame[settings.target], subset_size=3, min_samples=30, gini=0.3, trees=90
    )


@pytest.fixture(scope="module")
def random(cancer):
    frame, settings = load_bundled("breast_cancer")
    return RuleMiner(**{**cancer.get_params(), "strategy": "random"}).fit(
        frame.drop(columns=settings.target), frame[settings.target]
    )


@pytest.fixture(scope="module")
def hostile():
    return mined(*a_table(number=NAME, port=NAME * 9, classes=("_no $x$", "$\\frac{1}{0}$")))


@pytest.fixture(scope="module")
def barren():
    return mined(*a_table(), min_samples=100_000, trees=5)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def an_axes():
    return Figure(figsize=(6, 4), layout="constrained").add_subplot()


def draw(name, result, ax=None):
    """Call a plot function and return its axes; without `ax`, lay out the new figure once."""
    function = getattr(plots, name)
    returned = function(result, ax) if name in PLOTS_OF_ALL_RULES else function(result, 0, ax)
    axes = list(returned) if isinstance(returned, list | tuple) else [returned]
    if ax is None:
        axes[0].figure.figure.draw_without_rendering()
    return axes


def texts_of(figure):
    return [text for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("name", plots.__all__)
def test_a_bundled_table_is_plotted_without_warnings_or_changed_defaults(name, cancer):
    before = dict(mpl.rcParams)

    axes = draw(name, cancer)

    assert plt.gcf() is axes[0].figure.figure
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", [*PLOTS_OF_ALL_RULES, "plot_tree"])
def test_plots_into_given_axes_do_not_touch_pyplot(name, cancer):
    ax = an_axes()

    axes = draw(name, cancer, ax)

    assert axes[0] is ax
    assert plt.get_fignums() == []
    assert ax.get_figure().gca() is ax


def test_plot_rule_takes_as_many_axes_as_the_rule_has_columns(mixed):
    axes_count = len(plots.plot_rule(mixed, "R1"))
    axes = list(Figure().subplots(1, axes_count, squeeze=False)[0])

    assert plots.plot_rule(mixed, "R1", axes) == axes
    with pytest.raises(SettingsError, match=f"ax has {axes_count + 1} axes. Pass {axes_count}"):
        plots.plot_rule(mixed, "R1", [*axes, an_axes()])


@pytest.mark.parametrize("name", plots.__all__)
def test_names_from_the_table_are_not_parsed_as_mathematics(name, hostile):
    figure = draw(name, hostile)[0].figure.figure

    names = [text for text in texts_of(figure) if re.search(r"[$\\]", text.get_text())]
    assert all(not text.get_parse_math() and not text.get_usetex() for text in names)
    assert not any("\n" in text.get_text() for text in names if not text.get_text().startswith("R1: "))
    if name in {"plot_feature_use", "plot_pair_use"}:
        assert {ESCAPED, f"{(ESCAPED * 9)[:23]}… = Q"} & {text.get_text() for text in names}
    if name == "plot_precision_coverage":
        assert {"_no $x$", "$\\frac{1}{0}$"} == {text.get_text() for text in names}


@pytest.mark.parametrize("name", PLOTS_OF_ALL_RULES)
def test_a_result_without_rules_can_be_plotted(name, barren):
    axes = draw(name, barren)

    assert texts_of(axes[0].figure.figure)


def test_arrows_point_from_training_to_held_out_rows(cancer):
    ax = plots.plot_precision_coverage(cancer.document(), an_axes())
    rules = cancer.document().rules

    for gid, part in (("train", "train"), ("later", "holdout")):
        dots = next(dots for dots in ax.collections if dots.get_gid() == gid)
        supports = [rule.supports[part] for rule in rules]
        expected = [(support.n / support.rows, support.precision) for support in supports]
        assert np.allclose(dots.get_offsets(), expected)
    own = [cancer.document().dataset.classes.index(rule.label) for rule in rules]
    assert [to_hex(colour) for colour in dots.get_facecolors()] == [LIGHT.classes[index] for index in own]


@pytest.mark.parametrize("by", ["logic", "rows"])
def test_the_similarity_matrix_is_that_of_the_figure_data(cancer, by):
    ax = plots.plot_similarity(cancer, an_axes(), by=by)
    square = read_similarity(cancer.figures(), by)
    order = cancer.figures()["similarity"]["order"][by]

    image = ax.images[0].get_array()

    assert sorted(order) == list(range(len(square)))
    assert image.mask.tolist() == np.eye(len(square), dtype=bool).tolist()
    assert image.data.tolist() == square[np.ix_(order, order)].tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"R{index + 1}" for index in order]


def test_an_unknown_similarity_is_rejected(cancer):
    with pytest.raises(SettingsError, match="not by 'size'"):
        plots.plot_similarity(cancer, by="size")


def test_covered_rows_are_those_of_the_figure_data(cancer):
    ax = plots.plot_coverage(cancer.figures(), an_axes())
    groups, first = cancer.figures()["coverage"]["groups"], 0

    for group, image in zip(groups, ax.images, strict=True):
        assert (
            image.get_array().tolist() == read_coverage(cancer.figures())[:, first : first + group["sampled"]].tolist()
        )
        assert to_hex(image.get_cmap()(1.0)) == LIGHT.classes[group["class"]]
        first += group["sampled"]


def test_many_rows_share_columns_and_every_covered_row_is_visible():
    miner = mined(*a_table(rows=3000), trees=20)
    bits = read_coverage(miner.figures())

    images = plots.plot_coverage(miner, an_axes()).images

    drawn = np.hstack([image.get_array() for image in images])
    assert drawn.shape[1] <= MAX_COLUMNS < bits.shape[1]
    assert abs(drawn.mean() - bits.mean()) < 0.02
    assert ((drawn > 0).any(axis=1) == bits.any(axis=1)).all()


def test_feature_use_shows_shares_of_best_and_of_all_trees(cancer):
    use = cancer.figures()["use"]

    ax = plots.plot_feature_use(cancer, an_axes())

    assert np.allclose([bar.get_width() for bar in ax.patches], [f["high"] / use["high"] for f in use["features"]])
    assert np.allclose(ax.collections[0].get_offsets()[:, 0], [f["trees"] / use["trees"] for f in use["features"]])
    assert [label.get_text() for label in ax.get_yticklabels()] == [feature["name"] for feature in use["features"]]


def test_pair_use_shows_the_counts_of_pairs(cancer):
    pairs = np.array(cancer.figures()["use"]["pairs"])

    image = plots.plot_pair_use(cancer, an_axes()).images[0].get_array()

    assert image.data.tolist() == pairs.tolist()
    assert (~image.mask).tolist() == np.tril(np.ones_like(pairs), -1).astype(bool).tolist()


def test_the_search_plot_shows_scores_the_best_so_far_and_the_rules_found(cancer, random):
    history, other = cancer.figures()["history"], random.figures()["history"]

    above, below = plots.plot_search(cancer, an_axes(), random=random)

    trees = [tree + 1 for tree in history["plotted"]]
    assert np.allclose(above.collections[0].get_offsets(), list(zip(trees, history["scores"], strict=True)))
    lines = {line.get_label(): line for line in above.get_lines()}
    steps = dict(zip(*lines["best so far"].get_data(), strict=True))
    best_so_far = dict(zip(trees, np.maximum.accumulate(history["scores"]), strict=True))
    assert all(best_so_far[tree] == score for tree, score in list(steps.items())[:-1])
    assert set(steps.values()) == set(best_so_far.values())
    assert max(lines["random"].get_ydata()) == max(other["scores"])
    last_values = {line.get_label(): line.get_ydata()[-1] for line in below.get_lines()}
    assert last_values == {"best so far": len(cancer.rules_), "random": len(random.rules_)}


def test_the_search_plot_divides_the_space_of_the_given_axes(cancer):
    figure = Figure()
    ax = figure.add_axes((0.1, 0.2, 0.8, 0.6))

    above, below = plots.plot_search(cancer, ax)

    assert above is ax
    assert below.get_position().y0 == pytest.approx(0.2)
    assert above.get_position().y1 == pytest.approx(0.8)


def test_the_bars_of_the_funnel_are_logarithms_of_its_counts(cancer):
    funnel = cancer.document().funnel.to_json()

    for source in (cancer, cancer.result_, cancer.document()):
        widths = [bar.get_width() for bar in plots.plot_funnel(source, an_axes()).patches]
        assert widths[0] == log10(1 + funnel["leaves"])
        assert widths[-1] == log10(1 + funnel["rules"])


def test_the_histograms_of_a_rule_have_the_rows_of_each_class(mixed):
    figures, kinds = mixed.figures(), set()

    for rule, entry in zip(mixed.rules_, figures["rules"], strict=True):
        for ax, index in zip(plots.plot_rule(mixed, rule), dict.fromkeys(entry["histograms"]), strict=True):
            picture = figures["histograms"][index]
            kinds.add(picture["kind"])
            assert bars_of(ax, picture) == [[float(count) for count in row] for row in picture["counts"]]
        plt.close("all")
    assert kinds == {"bins", "values", "levels"}


def bars_of(ax, picture):
    """Return the lengths of bars as [class][bar]."""
    lengths = [[0.0] * len(row) for row in picture["counts"]]
    for bar in ax.patches:
        if (bar.get_gid() or "").startswith("class "):
            group = int(bar.get_gid().removeprefix("class "))
            if picture["kind"] == "levels":
                lengths[group][round(bar.get_y() + bar.get_height() / 2)] = bar.get_width()
            else:
                lengths[group][bar_at(bar.get_x() + bar.get_width() / 2, picture)] = bar.get_height()
    return lengths


def bar_at(x, picture):
    if picture["kind"] == "values":
        return int(np.argmin(np.abs(np.array(picture["values"]) - x)))
    return int((x - picture["low"]) / (picture["high"] - picture["low"]) * len(picture["counts"][0]))


def test_values_that_satisfy_a_condition_are_highlighted_up_to_the_threshold(mixed):
    rule = next(
        rule for rule in mixed.rules_ if rule.conditions[0].op == ">" and rule.conditions[0].feature == "number"
    )
    bound = rule.conditions[0].value

    ax = plots.plot_rule(mixed, rule)[0]

    bars = [bar for bar in ax.patches if bar.get_gid()]
    assert all(bar.get_x() >= bound for bar in bars if bar.get_alpha() == 1)
    assert all(bar.get_x() + bar.get_width() <= bound * (1 + 1e-9) for bar in bars if bar.get_alpha() != 1)
    assert [line.get_xdata()[0] for line in ax.get_lines()] == [bound]


def test_a_tree_shows_class_counts_and_the_path_to_the_leaf(cancer):
    tree = cancer.figures()["rules"][0]["tree"]
    spots = list(place_nodes(tree).descendants())

    ax = plots.plot_tree(cancer, "R1", an_axes())

    gids = [patch.get_gid() for patch in ax.patches]
    node, steps = tree, 0
    while "next" in node:
        node, steps = node[node["next"]], steps + 1
    assert gids.count("path") == steps
    assert gids.count("edge") + steps == len(spots) - 1
    assert gids.count("leaf") == 1
    for spot in spots:
        bars = [bar for bar in ax.patches if at(bar) == pytest.approx((spot.depth, spot.row), abs=0.3)]
        widths = {bar.get_gid(): bar.get_width() for bar in bars}
        shares = [widths[f"class {group}"] for group in range(len(spot.node["counts"]))]
        assert np.allclose(np.array(shares) / sum(shares), np.array(spot.node["counts"]) / sum(spot.node["counts"]))


def at(patch):
    if not (patch.get_gid() or "").startswith("class "):
        return (-9, -9)
    return patch.get_x(), patch.get_y() + patch.get_height() / 2


def test_a_rule_is_given_by_its_id_its_index_or_itself(cancer):
    rule = cancer.rules_[1]

    titles = {plots.plot_tree(cancer, name, an_axes()).get_title(loc="left") for name in ("R2", 1, rule)}

    assert titles == {f"R2, from tree {rule.source.tree + 1:,}"}
    with pytest.raises(SettingsError, match="no rule 'R999'"):
        plots.plot_tree(cancer, "R999")
    with pytest.raises(SettingsError, match="no rule at index -1"):
        plots.plot_rule(cancer, -1)


def test_a_plot_without_the_data_it_needs_is_rejected(cancer, random):
    with pytest.raises(SettingsError, match="A result alone has no figures"):
        plots.plot_coverage(cancer.result_)
    with pytest.raises(SettingsError, match="a document without figures"):
        plots.plot_coverage((cancer.document(), None))
    with pytest.raises(SettingsError, match="needs a document, not a mapping with the format 'maabo-figures/1'"):
        plots.plot_funnel(cancer.figures())
    with pytest.raises(SettingsError, match="belongs to a different result"):
        plots.plot_rule((cancer.document(), random.figures()), "R1")
    assert result_document(cancer.result_, {"name": "x"}).digest == cancer.document().digest


def test_dark_axes_get_the_dark_palette(cancer):
    ax = an_axes()
    ax.set_facecolor("#101010")

    plots.plot_funnel(cancer, ax)

    assert to_rgb(ax.patches[-1].get_facecolor()) == to_rgb(DARK.accent)


@pytest.mark.parametrize(
    ("palette", "selector"), [(LIGHT, ".briefing {"), (DARK, ':root[data-theme="dark"] .briefing {')]
)
def test_the_colours_are_those_of_the_report(palette, selector):
    css = files("maabo_dist.report.html").joinpath("assets/briefing.css").read_text(encoding="utf-8")
    block = css[css.index(selector) :].partition("}")[0]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))

    assert [colours[f"c{index}"] for index in range(8)] == list(palette.classes)
    for name in ("ink", "soft", "faint", "rule", "grid", "tint", "accent", "rest"):
        assert getattr(palette, name) == colours[name]


def test_without_matplotlib_the_import_names_the_extra_to_install():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import maabo_dist\n"
        "try: from maabo_dist.plots import plot_funnel\n"
        "except maabo_dist.MaaboError as error: print(error)"
    )

    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert 'pip install "maabo-dist[plots]"' in output
