"""Code that no commit has, packages, interpreters and keys of files: one planted change each, proved both ways."""

import shutil
import subprocess
import sys

import pytest

from tests.helpers.command import REPOSITORY
from tests.helpers.repositories import commit, everything, git, write
from tests.helpers.searches import only_cause, record, script, search
from tests.helpers.wheels import index_variables, unpacked, wheel

pytestmark = pytest.mark.matrix


@pytest.fixture
def project(tmp_path):
    """A repository with a script that imports a module which git ignores."""
    folder = tmp_path / "project"
    commit(folder, train=script("import made\nscale = made.S\n"), **{".gitignore": "runs/\nmade.py\n"})
    return folder


def of(knob, found):
    """Whether what was found is one unit of the source, with a knob."""
    return [unit.partition(": ")[0] for unit in found] == [f"source.{knob}"]


def test_an_ignored_module(project):
    """By the copies that the runs kept, though the file is neither's now; nothing of the user's is touched."""
    for name, scale in (("a", 1), ("b", 2)):
        write(project, made=f"S = {scale}\n")
        record(project, name)
    write(project, made="raise SystemExit('moved on')\n")
    before = {name: value for name, value in everything(project).items() if not name.startswith("runs/")}
    assert of("module:made.py", only_cause(project))
    assert {name: value for name, value in everything(project).items() if not name.startswith("runs/")} == before


def test_an_ignored_module_that_was_not_kept(project):
    """It is not testable, and what is left is no proof."""
    for name, scale in (("a", 1), ("b", 2)):
        write(project, made=f"S = {scale}\n")
        record(project, name, "--no-keep-data")
    write(project, made="S = 1\n")
    words = [sys.executable, "-m", "bisect_diverge", "bisect", "runs/a", "runs/b", "--no-observer-check"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "by elimination: source module:made.py" in done.stdout
    assert "was not kept" in " ".join(done.stdout.split())


def test_submodules(tmp_path):
    """At another commit, with a change on top that nobody committed, and both: the file is to blame that is loaded."""
    commit(tmp_path / "library", kit="S = 1\n")
    folder = tmp_path / "project"
    body = "sys.path.insert(0, 'lib')\nimport kit\nscale = kit.S\n"
    commit(folder, train=script(body), **{".gitignore": "runs/\n"})
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(folder)
    record(folder, "a")
    write(folder / "lib", kit="S = 2\n")
    commit(folder / "lib")
    commit(folder)
    record(folder, "b")
    write(folder / "lib", kit="S = 3\n")
    record(folder, "c")
    write(folder / "lib", kit="S = 4\n")
    assert of("commit", only_cause(folder))
    assert of("module:lib/kit.py", only_cause(folder, a="b", b="c"))
    found = search(folder, b="c")
    assert [unit["knob"] for unit in found["causes"][0]["units"]] == ["module:lib/kit.py"]
    assert [unit["knob"] for unit in found["innocent"]] == ["commit"]


def test_a_module_on_the_search_path(project, tmp_path):
    """Two files that differ, outside of the repository: one is innocent."""
    write(project, made="import kit.core, kit.more\nS = kit.core.S * kit.more.S\n")
    for name, scale in (("a", 1), ("b", 2)):
        write(tmp_path / "lib", **{"kit/core": f"S = {scale}\n", "kit/more": f"S = 1  # {scale}\n"})
        record(project, name, PYTHONPATH=str(tmp_path / "lib"))
    assert of(f"module:{tmp_path}/lib/kit/core.py", only_cause(project))


@pytest.mark.parametrize(("inside", "outside"), [(True, True), (True, False), (False, True)])
def test_a_script_in_another_folder(tmp_path, inside, outside):
    """The working directory and the script's folder are each a repository, or none."""
    here, there = tmp_path / "here", tmp_path / "there"
    write(here, **{"notes.txt": "", ".gitignore": "runs/\n"})
    write(there, train=script("import near\nscale = near.S\n"))
    for folder, is_repository in ((here, inside), (there, outside)):
        if is_repository:
            commit(folder)
    for name, scale in (("a", 1), ("b", 2)):
        write(there, near=f"S = {scale}\n")
        record(here, name, command=(sys.executable, str(there / "train.py")), GIT_CEILING_DIRECTORIES=str(tmp_path))
    knob = "module" if inside else "file"
    assert of(f"{knob}:{there}/near.py", only_cause(here, GIT_CEILING_DIRECTORIES=str(tmp_path)))


def test_a_python_file_that_is_executed(tmp_path):
    """A configuration file in Python is source, though nobody imports it."""
    write(tmp_path, train=script("names = {}\nexec(open('config.py').read(), names)\nscale = names['S']\n"))
    for name, scale in (("a", 1), ("b", 2)):
        write(tmp_path, config=f"S = {scale}\n")
        record(tmp_path, name, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert of("module:config.py", only_cause(tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent)))


def test_a_key_of_a_yaml_file(project):
    """Of several keys that differ, one behind an anchor."""
    text = "base: &base\n  lr: 1  # one\n  out: ${base.lr}/x\ntrain:\n  <<: *base\n  scale: 1.0\nopt: [1, 2]\n"
    write(project, made="import yaml\nc = yaml.safe_load(open('c.yaml'))\nS = c['train']['scale'] * c['opt'][1]\n")
    for name, changed in (("a", text), ("b", text.replace("scale: 1.0", "scale: 2.0").replace("/x", "/y"))):
        write(project, **{"c.yaml": changed})
        record(project, name)
    assert only_cause(project) == ["configuration.file:c.yaml:train.scale: 1.0 -> 2.0"]


def test_packages_that_move_together(project, tmp_path):
    """A kit that requires its own core: one unit, whether the versions lie here or an index has to be asked."""
    write(project, made="import kit\nS = kit.S\n")
    versions = {"1.0": 1, "2.0": 2}
    kit = "import kitcore\nS = kitcore.S\n"
    for (version, scale), name in zip(versions.items(), "ab", strict=True):
        place = tmp_path / version
        for make, where in ((wheel, tmp_path / "wheels"), (unpacked, place)):
            make(where, "kit", version, kit, [f"kitcore=={version}"])
            make(where, "kitcore", version, f"S = {scale}\n")
        record(project, name, PYTHONPATH=str(place))
    wanted = ["dependencies.kit+kitcore: 1.0, 1.0 -> 2.0, 2.0"]
    index = index_variables(tmp_path / "wheels") | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert only_cause(project, **index) == wanted
    shutil.rmtree(tmp_path / "2.0")
    shutil.rmtree(project / "runs" / "a" / "trials")
    found = search(project, **index)
    assert found["verdict"] == "cause"
    units = {name for unit in found["causes"][0]["units"] for name in unit["knob"].split("+")}
    assert "kitcore" in units


def test_a_release_of_packages_that_move_together(project, tmp_path):
    """Of the releases between the two, each with the core that it requires, the one that changed the bits."""
    write(project, made="import kit\nS = kit.S\n")
    for version, scale in {"1.0": 1, "1.1": 1, "1.2": 2, "1.3": 2}.items():
        wheel(tmp_path / "wheels", "kit", version, "import kitcore\nS = kitcore.S\n", [f"kitcore=={version}"])
        wheel(tmp_path / "wheels", "kitcore", version, f"S = {scale}\n")
    for version, scale, name in (("1.0", 1, "a"), ("1.3", 2, "b")):
        place = unpacked(tmp_path / version, "kitcore", version, f"S = {scale}\n")
        unpacked(place, "kit", version, "import kitcore\nS = kitcore.S\n", [f"kitcore=={version}"])
        record(project, name, PYTHONPATH=str(place))
    index = index_variables(tmp_path / "wheels") | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert only_cause(project, **index) == ["dependencies.kit+kitcore: 1.1, 1.1 -> 1.2, 1.2"]


def test_another_build_of_python(tmp_path):
    """The interpreter of the system against this one, with the same packages."""
    ours = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    places = [shutil.which(ours, path=place) for place in ("/usr/bin", "/usr/local/bin", "/opt/conda/bin")]
    builds = {}
    for program in filter(None, places):
        done = subprocess.run(
            [program, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=False
        )
        builds[program] = done.stdout.strip()
    others = [program for program, build in builds.items() if build and build != sys.version]
    if not others:
        pytest.skip(f"no other build of {ours} is on this machine")
    subprocess.run([others[0], "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    (site,) = (tmp_path / "other").glob("lib/python*/site-packages")
    ours = [path for path in sys.path if path.endswith("-packages")]
    (site / "shared.pth").write_text("\n".join([*ours, str(REPOSITORY)]))
    write(tmp_path, train=script("scale = 1 + (sys.version != os.environ['PLAIN'])\n"))
    other = str(tmp_path / "other" / "bin" / "python")
    for name, python in (("a", sys.executable), ("b", other)):
        record(tmp_path, name, command=(python, "train.py"), PLAIN=sys.version)
    found = only_cause(tmp_path, PLAIN=sys.version)
    assert found == [f"runtime.python.executable: {sys.executable} -> {other}"]


@pytest.mark.parametrize(
    ("shell", "option", "test", "knob"),
    [
        ("umask 077", "", "'0077' in open('/proc/self/status').read()", "runtime.umask"),
        ("ulimit -n 512", "", "__import__('resource').getrlimit(7)[0] == 512", "runtime.limit.nofile"),
        (":", "-O", "not __debug__", "configuration.launcher.-O"),
    ],
)
def test_what_the_shell_and_the_interpreter_are_told(tmp_path, shell, option, test, knob):
    """The mask of new files, a limit, an option of the interpreter."""
    write(tmp_path, train=script(f"scale = 1 + int({test})\n"))
    record(tmp_path, "a")
    inner = f"{sys.executable} {option} train.py"
    words = f"{shell}; exec {sys.executable} -m bisect_diverge record -o runs/b -- {inner}"
    subprocess.run(["sh", "-c", words], cwd=tmp_path, check=True, capture_output=True)
    (unit,) = only_cause(tmp_path)
    assert unit.partition(": ")[0] == knob


def test_a_library_that_was_compiled_in_place(tmp_path):
    """Ignored by git and opened by ctypes: its content is kept and swapped as that of a module is."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is on this machine")
    folder = tmp_path / "project"
    body = "import ctypes\nscale = ctypes.CDLL(os.path.abspath('libown.so')).own()\n"
    commit(folder, train=script(body), **{".gitignore": "runs/\n*.so\n"})
    for name, scale in (("a", 1), ("b", 2)):
        (tmp_path / "own.c").write_text(f"int own(void) {{ return {scale}; }}\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libown.so", tmp_path / "own.c"], check=True)
        record(folder, name)
    (folder / "libown.so").unlink()
    assert of("module:libown.so", only_cause(folder))
