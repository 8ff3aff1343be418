"""Markdown and HTML of a comparison and of a bisection: complete, self-contained, and inert whatever a run holds."""

import re
import shlex
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World
from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import Divergence
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.findings import (
    Distance,
    Extent,
    Growth,
    Heat,
    Layout,
    Numbers,
    Rate,
    StepDistance,
    UlpBucket,
    Unpaired,
)
from bisect_diverge.model.trial import Bisection, BisectVerdict, Unit
from bisect_diverge.report.bisection_html import bisection_html
from bisect_diverge.report.bisection_markdown import bisection_markdown
from bisect_diverge.report.bisection_proof import proofs
from bisect_diverge.report.bisection_table import trial_rows
from bisect_diverge.report.bisection_text import bisection_text, verdict_sentence
from bisect_diverge.report.divergence_html import divergence_html
from bisect_diverge.report.divergence_markdown import divergence_markdown
from bisect_diverge.report.divergence_text import divergence_text, facts
from bisect_diverge.report.fold import WIDTH, fold
from bisect_diverge.report.search_chart import search_chart
from tests.helpers.golden import check_golden
from tests.report.test_bisection import CASES
from tests.report.test_divergence import ADDRESS, DIVERGED, RESULTS

EVIL = "<script>alert(1)</script><img src=x onerror=y>`|*_[a](http://b.c)@me \x1b[31m\u202e&amp;"


def distance(value: float) -> Distance:
    """Return a distance of one differing pair of records."""
    return Distance(records=1, differing=1, max_ulp=int(value * 1e9), relative_l2=value)


def growth(steps: int) -> Growth:
    """Return a growth over some steps: loss equal at first."""
    of_steps = tuple(
        StepDistance(
            step=n,
            parameters=distance(1e-7 * 1.5**n),
            gradients=distance(1e-6 * 1.4**n),
            loss=Distance(records=1) if n < 2 else distance(1e-8 * 1.4**n),
        )
        for n in range(steps)
    )
    return Growth(
        steps=of_steps,
        loss_first_differs=2,
        rate=Rate(of="parameters", factor=1.5, low=1.4, high=1.6, steps=steps),
        dies_out=False,
    )


WHOLE = replace(
    DIVERGED,
    propagated=17,
    numbers=Numbers(
        extent=Extent(layout=Layout.ONE_INDEX, axis=0, index=2, touched=(1, 2)),
        ulp_percentiles=((50, 1), (90, 3)),
        ulp_histogram=(UlpBucket(1, 1, 1), UlpBucket(2, 3, 1)),
        sign_flips=1,
    ),
    growth=growth(20),
    heat=Heat(
        steps=((0, 0), (1, 1), (2, 2)),
        modules=("model:blocks.2.attn", "model"),
        compared=((4, 4, 0), (4, 4, 4)),
        differing=((0, 1, 0), (0, 4, 2)),
        left_out=3,
    ),
    unpaired=(
        Unpaired(
            reason="evaluation", why="of evaluation passes", only_in_a=4, only_in_b=0, first=ADDRESS, modules=("m:a",)
        ),
    ),
)


def spoilt(divergence: Divergence) -> Divergence:
    """Return a result in which every text of a run file is hostile."""
    assert divergence.first is not None
    assert divergence.heat is not None
    address = replace(divergence.first.address, root=EVIL, fqn=EVIL, slot=EVIL)
    return replace(
        divergence,
        first=replace(divergence.first, address=address, site=EVIL, module_type=EVIL),
        origin_reason=EVIL,
        origins_in_first_step=(address, replace(address, call=1)),
        heat=replace(divergence.heat, modules=(EVIL, EVIL * 9)),
        environment=(
            Difference(
                layer=Layer.SEEDS,
                knob=EVIL,
                a=EVIL,
                b=None,
                resolved=(Difference(layer=Layer.SEEDS, knob=EVIL, a="", b=EVIL),),
            ),
        ),
        unpaired=(replace(divergence.unpaired[0], why=EVIL, first=address, modules=(EVIL,)),),
        notes=(EVIL,),
    )


UNIT = Unit(layer=Layer.DEPENDENCIES, knob="numpy", a="2.3.5", b="2.4.6")
EVIL_UNIT = Unit(layer=Layer.CONFIGURATION, knob=EVIL, a=EVIL, b=None)


def bisection() -> Bisection:
    """Return a bisection with a cause and an innocent unit of a hostile name."""
    units = (UNIT, EVIL_UNIT)
    return bisect(units, World(units=units, effects=(Effect((frozenset({UNIT}),)),)), first=ADDRESS)


class Page(HTMLParser):
    """Gathers what a page is made of; fails where its tags do not nest."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag without content."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Gather text."""
        self.text += data

    @classmethod
    def of(cls, html: str) -> "Page":
        """Return a page of which every tag is closed."""
        page = cls()
        page.feed(html)
        page.close()
        assert page._open == []
        return page


def assert_inert(html: str) -> None:
    """Assert that a page runs nothing, loads nothing, and is nothing but text, tables and charts."""
    page = Page.of(html)
    assert not {"script", "img", "link", "iframe", "object", "a", "form", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not [value for name, value in page.attributes if name != "content" and "url(" in value]
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", html)


@pytest.mark.parametrize("name", [*RESULTS, "whole"])
def test_markdown_of_each_verdict(request: pytest.FixtureRequest, name: str):
    """The verdict is a sentence in bold, then a table of facts; the rest is folded."""
    text = divergence_markdown({**RESULTS, "whole": WHOLE}[name], "runs/a", "runs/b", ("--from", "1"))
    check_golden(request, f"report/{name}.md", text)
    assert len(text) < 10_000


def test_text_of_everything(request: pytest.FixtureRequest):
    """Numbers, growth and what follows stand in the text too, within its columns."""
    text = divergence_text(WHOLE, "runs/a", "runs/b")
    check_golden(request, "report/whole.txt", text)
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", [*RESULTS, "whole"])
def test_the_head_of_each_page(request: pytest.FixtureRequest, name: str):
    """The verdict comes first, with its glyph, then the facts."""
    html = divergence_html({**RESULTS, "whole": WHOLE}[name], "runs/a", "runs/b")
    assert_inert(html)
    head = html[html.index("<main>") : html.find("<section>") if "<section>" in html else html.index("</main>")]
    check_golden(request, f"report/{name}.html", head.strip())


def test_a_page_has_all_parts():
    """Heat map, growth, histogram, environment and commands are there, with their words."""
    html = divergence_html(WHOLE, "runs/a", "runs/b", ("--ignore", "*/rng/*"))
    page = Page.of(html)

    assert page.tags.count("svg") == 3
    assert [value for name, value in page.attributes if name == "role"] == ["img"] * 3
    for text in (
        "1 of 4 records differ",
        "3 more modules in which less differs",
        "grows, by x 1.5 a step",
        "2 to 3 ULP",
        "OMP_NUM_THREADS",
        "threads.intra_op",
        "of evaluation passes",
        "bd diff runs/a runs/b --ignore '*/rng/*'",
        "bd show runs/a 'r0/3/1/forward/model:blocks.2.attn#0:output.0'",
    ):
        assert text in page.text, text
    assert "prefers-color-scheme:dark" in html


def test_nothing_of_a_run_becomes_markup():
    """Names, places and settings of a run file are shown as text, whatever they hold."""
    html = divergence_html(spoilt(WHOLE), EVIL, EVIL, (EVIL,))
    assert_inert(html)
    assert "<script>alert(1)</script>" in Page.of(html).text
    assert_inert(bisection_html(bisection(), EVIL, EVIL))


@pytest.mark.parametrize(
    "make",
    [lambda: divergence_markdown(spoilt(WHOLE), EVIL, EVIL), lambda: bisection_markdown(bisection(), EVIL, EVIL)],
)
def test_nothing_of_a_run_becomes_markdown(make):
    """Outside of code no text of a run opens a tag, a link, a mention or a cell; control characters are replaced."""
    text = make()
    fences = re.sub(r"(`{3,})sh\n.*?\n\1", "", text, flags=re.DOTALL)
    bare = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", re.sub(r"\\`", "", fences))
    bare = re.sub(r"</?(details|summary)>", "", bare)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    assert not re.search(r"<|(?<!\\)\]\(|@me", bare)
    for line in fences.splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 5, 6), line


def test_pages_of_a_bisection(request: pytest.FixtureRequest):
    """The cause comes first, with its glyph; units, trials and commands follow."""
    found = bisect((UNIT,), World(units=(UNIT,), effects=(Effect((frozenset({UNIT}),)),)), first=ADDRESS)
    html = bisection_html(found, "runs/a", "runs/b")
    page = Page.of(html)
    assert_inert(html)

    assert "✓ cause: dependencies numpy: 2.3.5 -> 2.4.6" in page.text
    assert "bd bisect runs/a runs/b" in page.text
    assert "pip install numpy==2.3.5" in page.text
    markdown = bisection_markdown(found, "runs/a", "runs/b")
    assert markdown.startswith("**cause: dependencies numpy: 2.3.5 -&#62; 2.4.6")
    assert "| cause | `dependencies numpy` | `2.3.5` | `2.4.6` |" in markdown
    assert "<details><summary>" in markdown
    assert "pip install numpy==2.3.5" in markdown


@pytest.mark.parametrize("name", list(CASES))
def test_the_page_of_each_verdict(name: str):
    """Verdict, proof, commands, chart and every trial are there; where nothing is proved the notes come first."""
    found = CASES[name]()
    html = bisection_html(replace(found, divergence=WHOLE if found.first else None), "runs/a", "runs/b")
    page = Page.of(html)
    assert_inert(html)
    assert verdict_sentence(found) in page.text
    assert page.tags.count("h1") == 1
    assert [value for name, value in page.attributes if name == "role"] == ["img"] * (2 * bool(found.trials))
    assert "caption" not in page.tags
    for proof in proofs(found):
        assert all(line in page.text for line in proof.lines)
    for row in trial_rows(found):
        assert row[1] in page.text
    if found.notes and found.trials:
        before = page.text.index(found.notes[0]) < page.text.index("this search again")
        assert before == (found.verdict is not BisectVerdict.CAUSE)


def test_the_chart_of_a_search():
    """What was never told apart shares a line; what has a part is marked; every outcome has its sign."""
    found = CASES["two_causes"]()
    chart = Page.of(search_chart(found)).text
    assert "* argv.--lr" in chart
    assert "* PYTHONHASHSEED" in chart
    assert "source commit: 1f3c9e -> 77aa01" in chart
    assert chart.count("=A") >= 2
    assert "≠" in chart
    assert "left out" not in chart
    assert search_chart(replace(found, trials=())) == ""
    many = [replace(UNIT, knob=f"package-{n:03}") for n in range(300)]
    trials = tuple(replace(t, swapped=tuple(many[: 3 * t.n])) for t in found.trials)
    chart = search_chart(replace(found, trials=trials, causes=()))
    assert "package-000 +2" in chart
    assert len(chart) < 100_000


def test_long_tables_are_folded_and_the_innocent_apart():
    """A page with hundreds of packages begins with what matters."""
    many = tuple(replace(UNIT, knob=f"package-{n:03}") for n in range(300))
    found = bisect((UNIT,), World(units=(UNIT,), effects=(Effect((frozenset({UNIT}),)),)), first=ADDRESS)
    html = bisection_html(replace(found, innocent=many), "a", "b")
    assert "<summary>300 innocent settings</summary>" in html
    assert html.index("<td>cause</td>") < html.index("<summary>300")
    assert "<summary>" not in bisection_html(found, "a", "b")
    markdown = bisection_markdown(replace(found, innocent=many), "a", "b")
    assert "... 251 more" in markdown


def test_commands_carry_the_options_of_the_search():
    """The search has all, a trial by hand those that say what a trial is; quoted for a shell."""
    asked = ("--only=kernels", "--offset-b=3", "--image-cmd=apptainer exec {image}")
    found = CASES["redundant"]()
    for text in (
        bisection_markdown(found, "runs/a b", "b", asked),
        Page.of(bisection_html(found, "runs/a b", "b", asked)).text,
    ):
        assert "bd bisect 'runs/a b' b --only=kernels --offset-b=3 '--image-cmd=apptainer exec {image}'" in text
        tail = "--b b --offset-b=3 '--image-cmd=apptainer exec {image}'"
        assert f"bd trial 'runs/a b' --set hardware.OMP_NUM_THREADS=@B {tail}" in text
        assert "to make B like A, all of these" in text
        assert "unset OMP_NUM_THREADS" in text
    assert tail in bisection_text(found, "runs/a b", "b", asked=asked)
    clamped = bisection_text(CASES["clamped"](), "a", "b", asked=("--clamp", "--repeat=2"))
    assert "  bd bisect a b --clamp --repeat=2 --fresh" in clamped


@pytest.mark.parametrize("steps", [0, 1, 2, 400])
def test_charts_of_any_length(steps: int):
    """No steps, one step and very many make a page."""
    heat = Heat(
        steps=tuple((n, n) for n in range(steps)),
        modules=("model",) * bool(steps),
        compared=((2,) * steps,) * bool(steps),
        differing=((1,) * steps,) * bool(steps),
    )
    html = divergence_html(replace(WHOLE, growth=growth(steps), heat=heat), "a", "b")
    assert_inert(html)
    assert "nan" not in html.replace("alignnan", "")


def test_lines_fold_at_spaces_and_long_words_anywhere():
    """No line is wider than a report; what is folded stands further in, in its column where there is one."""
    name = "model:" + "layers.7." * 12
    text = divergence_text(
        replace(DIVERGED, first=replace(DIVERGED.first, site=name, module_type=name)), name, "b" * 100
    )
    lines = text.splitlines()
    commands = [line for line in lines if line.lstrip().startswith(("next: ", "bd ", "bbb", "model:"))]

    assert all(len(line) <= WIDTH or line in commands for line in lines)
    assert fold("  address   " + "x" * 100) == "  address   " + "x" * 68 + "\n" + " " * 12 + "x" * 32
    assert fold("short") == "short"


def test_a_folded_command_can_be_pasted():
    """A command breaks at spaces, with a backslash; no word of it is cut."""
    words = ["bd", "trial", "runs/a", *(f"--set=hardware.OMP_NUM_THREADS_{n}=@B" for n in range(9)), "y" * 90]
    folded = fold("  5  " + " ".join(words))

    assert folded.replace(" \\\n", " ").split() == ["5", *words]
    assert all(len(line) <= WIDTH for line in folded.splitlines()[:-1])


def test_a_folded_command_means_the_same_to_a_shell():
    """No line breaks within quotes, where a backslash would be part of the word."""
    words = ["bd", "trial", "my runs/a", *(f"configuration.file:it's my {n}.json:a b=@B" for n in range(9)), '"', "$x"]
    folded = fold(f"  {shlex.join(words)}")
    assert "\n" in folded
    script = f"bd() {{ printf '%s\\n' bd \"$@\"; }}\n{folded}"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == words


def test_words_that_are_copied_can_stay_whole():
    """An address is never cut where a text is there to copy it from."""
    address = f"r0/0/0/forward/{'model:' + 'layers.7.' * 12}#0:output.0"
    folded = fold(f"  {address} f32[2]", whole_words=True)
    assert folded.split() == [address, "f32[2]"]
    assert len(folded.splitlines()) == 2


def test_looks_take_no_columns():
    """A painted line is folded where the plain one is."""
    painted = "\x1b[31m" + "a" * 79 + "\x1b[0m"

    assert fold(painted) == painted


def test_a_bisection_fits_the_columns_too():
    """Its lines are folded as those of a comparison; commands can be pasted."""
    text = fold(bisection_text(bisection(), "runs/" + "a" * 60, "runs/b"))

    assert all(len(line) <= WIDTH for line in text.splitlines() if "aaaaa" not in line and "'" not in line)
    assert text.replace("\n", "").isprintable()


def test_one_number_and_a_generator_have_no_place_in_a_tensor():
    """Where elements lie says nothing of a tensor that has one, nor of the state of a generator."""
    assert WHOLE.tensor is not None
    assert WHOLE.numbers is not None
    assert WHOLE.first is not None
    one = replace(WHOLE.numbers, extent=Extent(layout=Layout.ONE_ELEMENT, touched=()), sign_flips=0)
    scalar = replace(WHOLE, tensor=replace(WHOLE.tensor, numel=1, differing=1), numbers=one)
    address = Address.parse("r0/0/-/rng/-:#0:torch.cpu")
    generator = replace(WHOLE, first=replace(WHOLE.first, address=address))

    assert dict(facts(WHOLE))["more"]
    assert not dict(facts(scalar))["more"]
    assert not dict(facts(generator))["more"]


def test_a_row_stands_below_the_first_input_that_may_explain_it():
    """The page does not repeat it below the others."""
    inner = Difference(layer=Layer.SOURCE, knob="module:net.py", a="1", b="2")
    rows = [Difference(layer=Layer.SOURCE, knob=f"file:{n}", a="1", b="2", resolved=(inner,)) for n in "ab"]

    assert divergence_html(replace(WHOLE, environment=tuple(rows)), "a", "b").count("module:net.py") == 1
