#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the charts of a report, all of them in one call: draw_charts.py CHARTS DRAWINGS.

CHARTS is a JSON array of what measure/charts.h calls a chart; DRAWINGS becomes an array of as many
<svg> elements. Text stays text, which can be searched and read aloud, and drawings have a viewBox
and no size: the page that holds them says how wide they are.
"""
import io
import json
import math
import multiprocessing
import os
import re
import sys
import textwrap

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib.figure import Figure
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    sys.exit(f"{error} (Debian's package python3-matplotlib has it)")

WIDTH = 4.5  # inches; on a telephone about 3.7, where the text is still 7 points high
TEXT = 8.5  # points
LETTER = 0.6 * TEXT / 72  # the width of one, a little more than the average
LINE = 1.35 * TEXT / 72
BAR = 0.13

# Told apart by people who do not see colours alike (after Okabe and Ito, then Tol), and by marks.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a67c00", "#000000", "#7f7f7f",
          "#332288", "#882255", "#999933", "#117733", "#661100", "#44aa99"]
PAPER = "paper: "  # begins the names of what a paper prints
MARKS = "osD^vP<>X*hp8d"


def short(value):
    """8, 4K, 256K, 1.5M: of 1024 where it is a multiple of that, else of 1000."""
    step = 1024 if value >= 1024 and value % 1024 == 0 else 1000
    unit = 0
    while abs(value) >= step and unit < 3:
        value /= step
        unit += 1
    return f"{value:.3g}" + ["", "K", "M", "G"][unit]


def words_of(name):
    return set(re.split("[:,] *", name))


def colors_of(series):
    """By name. The paper's has the colour of ours: of "a" and, if there is none, of "x: a"."""
    ours = list(dict.fromkeys(one["name"] for one in series if not one["name"].startswith(PAPER)))
    numbers = {name: i for i, name in enumerate(ours)}
    for one in series:
        if one["name"] in numbers:
            continue
        bare = one["name"].removeprefix(PAPER)
        beside = [name for name in ours if words_of(bare) <= words_of(name)]
        numbers[one["name"]] = numbers.get(bare, numbers[beside[0]] if beside else len(numbers))
    return numbers


def names_of(series):
    return [textwrap.fill(one["name"], 58) for one in series]


def is_drawn(point, chart):
    return (not chart["log_y"] or point["y"] > 0) and (not chart["log_x"] or point["x"] > 0)


def ends_of(points, chart):
    """How far the bars of the errors reach, below and above."""
    low = [p["y"] - (p["low"] if p["low"] > 0 or not chart["log_y"] else p["y"]) for p in points]
    return [[max(0, one) for one in low], [max(0, p["high"] - p["y"]) for p in points]]


def letters(texts):
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def legend_of(figure, handles, names, top, height):
    """Below the plot, in two columns where the names are short. `top` and `height` are inches."""
    columns = 2 if letters(names) <= 26 else 1
    figure.legend(handles, names, loc="upper left", bbox_to_anchor=(0.02, top / height),
                  ncol=columns, frameon=False, borderpad=0, borderaxespad=0, handlelength=2.2,
                  columnspacing=1, labelspacing=0.35)


def legend_height(names):
    rows = sum(name.count("\n") + 1 for name in names) * 1.1
    return LINE * (math.ceil(rows / 2) if letters(names) <= 26 else rows) + 0.1


def value_axis(axis, log):
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if log:
        axis.set_major_locator(LogLocator(base=10, numticks=7))
        low, high = axis.get_view_interval()
        if low > 0 and high / low < 30:  # less than two powers of ten: some numbers between them
            axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(5))


def bars(chart, series):
    """A group of bars for each category, from the top down: names lie as they are read. In a group,
    only what has a value takes room, and the paper's follows ours."""
    categories = [textwrap.fill(name, 18) for name in chart["categories"]]
    colors = colors_of(series)
    series = sorted(series, key=lambda one: (colors[one["name"]], one["marked"]))
    where = {}  # of the bar of a category and a series
    middles, end = [], 0.4
    for i in range(len(categories)):
        begin = end
        for k, one in enumerate(series):
            if any(p["x"] == i and is_drawn(p, chart) for p in one["points"]):
                where[i, k] = end + 0.5
                end += 1
        end = max(end, begin + 1 + categories[i].count("\n"))
        middles.append((begin + end) / 2)
        end += 0.8

    names = names_of(series)
    plot = max(0.6, BAR * end)
    left = min(1.7, LETTER * letters(categories) + 0.15)
    head, foot, legend = 0.28, 0.45, legend_height(names)
    height = head + plot + foot + legend
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((left / WIDTH, (foot + legend) / height, (WIDTH - left - 0.5) / WIDTH,
                            plot / height))
    if chart["log_y"]:
        axes.set_xscale("log")
    drawn = [p["y"] for one in series for p in one["points"] if is_drawn(p, chart)]
    handles = []
    for k, one in enumerate(series):
        color = COLORS[colors[one["name"]] % len(COLORS)]
        look = {"facecolor": "white" if one["marked"] else color, "edgecolor": color,
                "hatch": "/////" if one["marked"] else None, "linewidth": 0.8}
        handles.append(Patch(**look))
        points = [p for p in one["points"] if is_drawn(p, chart)]
        if not points:
            continue
        values = [p["y"] for p in points]
        places = [where[p["x"], k] for p in points]
        axes.barh(places, values, height=0.92, **look)
        axes.errorbar(values, places, xerr=ends_of(points, chart), fmt="none", ecolor="#222",
                      elinewidth=0.8)
        for at, p in zip(places, points):
            axes.annotate(short(p["y"]), (max(p["y"], p["high"]), at), xytext=(3, 0),
                          textcoords="offset points", va="center", fontsize=TEXT - 2)
    axes.set_ylim(end - 0.4, 0)
    if chart["log_y"]:
        axes.set_xlim(left=10 ** math.floor(math.log10(min(drawn, default=1)) - 0.05))
    axes.set_yticks(middles, categories)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#ddd", linewidth=0.6)
    value_axis(axes.xaxis, chart["log_y"])
    axes.set_xlabel(chart["y_label"], gid="y-label")
    # Over the names of the categories, as it reads from left to right.
    figure.text(0.02, 1 - 0.16 / height, chart["x_label"], gid="x-label", fontsize=TEXT)
    legend_of(figure, handles, names, legend, height)
    return figure, axes


def lines(chart, series):
    colors = colors_of(series)
    names = names_of(series)
    plot, head, foot, legend = 2.3, 0.12, 0.48, legend_height(names)
    height = head + plot + foot + legend
    left = 0.68
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((left / WIDTH, (foot + legend) / height, (WIDTH - left - 0.15) / WIDTH,
                            plot / height))
    if chart["log_x"]:
        axes.set_xscale("log", base=2)
    if chart["log_y"]:
        axes.set_yscale("log")
    handles = []
    for one in series:
        number = colors[one["name"]]
        color = COLORS[number % len(COLORS)]
        look = {"color": color, "linewidth": 1.2, "marker": MARKS[number % len(MARKS)],
                "markersize": 4, "linestyle": "--" if one["marked"] else "-",
                "markerfacecolor": "white" if one["marked"] else color}
        handles.append(Line2D([], [], **look))
        points = sorted((p for p in one["points"] if is_drawn(p, chart)), key=lambda p: p["x"])
        if points:
            axes.errorbar([p["x"] for p in points], [p["y"] for p in points],
                          yerr=ends_of(points, chart), elinewidth=0.8, **look)
    if not chart["log_y"]:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.grid(color="#ddd", linewidth=0.6)
    value_axis(axes.yaxis, chart["log_y"])
    places = sorted({p["x"] for one in series for p in one["points"] if is_drawn(p, chart)})
    if places and len(places) <= 7 and (chart["log_x"] or places[-1] < 16 * max(places[0], 1)):
        axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if chart["log_x"]:
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(chart["x_label"], gid="x-label")
    axes.set_ylabel(chart["y_label"], gid="y-label")
    legend_of(figure, handles, names, legend, height)
    return figure, axes


def svg_of(chart, number):
    """The drawing as an element of a page that holds others: its names are its own."""
    draw = bars if chart["categories"] else lines
    figure, axes = draw(chart, chart["series"])
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.patch.set_visible(False)
    text = written(figure)
    text = re.sub(r"^.*?(?=<svg)", "", text, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'id="([xy]-label)"', r'class="\1"', text)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>c{number}-", text)
    title = chart["title"].replace("&", "&amp;").replace("<", "&lt;")
    head = f' role="img">\n<title>{title}</title>'
    return re.sub(r"(<svg[^>]*)>", lambda found: found[1] + head, text, count=1)


def written(figure):
    FigureCanvasSVG(figure)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def main():
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "perdure", "font.size": TEXT,
        "axes.linewidth": 0.6, "hatch.linewidth": 0.7, "axes.labelsize": TEXT,
        "xtick.labelsize": TEXT - 1, "ytick.labelsize": TEXT - 1, "legend.fontsize": TEXT - 0.5,
        "text.parse_math": False})  # a dollar is a dollar
    with open(sys.argv[1], encoding="utf-8") as file:
        charts = json.load(file)
    # On every CPU: the library takes a tenth of a second for each.
    with multiprocessing.Pool(min(len(charts), len(os.sched_getaffinity(0)))) as pool:
        drawings = pool.starmap(svg_of, [(one, i) for i, one in enumerate(charts)], chunksize=1)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(drawings, file)


if __name__ == "__main__":
    main()
