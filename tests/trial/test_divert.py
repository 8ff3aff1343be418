"""What a trial writes never reaches the user's files, and the trial reads what it wrote."""

import json
import sys
import textwrap

import pytest

from tests.helpers.command import run

BEGIN = """
import json, os, sys
from bisect_diverge.record.divert import divert
scratch, hidden, remade = json.loads(sys.argv[1])
divert(scratch, hidden, remade)
import glob, io, pathlib, shutil, tempfile
import numpy as np
"""


@pytest.fixture
def user(tmp_path):
    """A folder of a user's: two files, a folder with two more, and a link."""
    folder = tmp_path / "user"
    (folder / "logs").mkdir(parents=True)
    (folder / "model.pt").write_text("weights")
    (folder / "notes.txt").write_text("one\n")
    (folder / "logs" / "a.log").write_text("a")
    (folder / "logs" / "b.log").write_text("b")
    (folder / "link.txt").symlink_to("notes.txt")
    return folder


def state(folder):
    """Return path to content, time and mode of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (content, status.st_mtime_ns, status.st_mode)
    return found


def in_trial(user, script, hidden=(), remade=()):
    """Run a script in the user's folder with everything diverted; the folder must stay as it is."""
    scratch = user.parent / "scratch"
    (scratch / "files").mkdir(parents=True)
    before = state(user)
    arguments = [str(scratch), [str(user / h) for h in hidden], [str(user / r) for r in remade]]
    done = run(sys.executable, "-c", BEGIN + textwrap.dedent(script), json.dumps(arguments), cwd=user)
    assert state(user) == before
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        "open('model.pt', 'w').write('new'); print(open('model.pt').read())",
        "open('notes.txt', 'a').write('two'); print(open('notes.txt').read().split() == ['one', 'two'] and 'new')",
        "io.open('fresh.txt', 'x').write('new'); print(pathlib.Path('fresh.txt').read_text())",
        "pathlib.Path('logs/a.log').write_text('new'); print((pathlib.Path.cwd() / 'logs' / 'a.log').read_text())",
        "f = open('notes.txt', 'r+'); f.write('new'); f.close(); print(open('notes.txt').read()[:3])",
        "fd = os.open('model.pt', os.O_WRONLY | os.O_TRUNC); os.write(fd, b'new'); print(open('model.pt').read())",
        "os.makedirs('out/deep'); open('out/deep/x', 'w').write('new'); print(open(glob.glob('out/*/x')[0]).read())",
        "os.makedirs('logs', exist_ok=True); open('logs/c.log', 'w').write('new'); print(open('logs/c.log').read())",
        "os.remove('model.pt'); print('new' if not os.path.exists('model.pt') else 'still there')",
        "os.replace('model.pt', 'old.pt'); print(sorted(os.listdir())[2:] == ['notes.txt', 'old.pt'] and 'new')",
        "open('t', 'w').write('new'); os.rename('t', 'model.pt'); print(open('model.pt').read())",
        "shutil.rmtree('logs'); print('new' if not os.path.exists('logs') else os.listdir('logs'))",
        "shutil.rmtree('logs'); os.mkdir('logs'); print('new' if os.listdir('logs') == [] else os.listdir('logs'))",
        "shutil.copytree('logs', 'copy'); open('copy/a.log', 'w').write('new'); print(open('copy/a.log').read())",
        "shutil.move('logs', 'moved'); print('new' if sorted(os.listdir('moved')) == ['a.log', 'b.log'] else 0)",
        "shutil.copy2('notes.txt', 'model.pt'); print('new' if open('model.pt').read() == 'one\\n' else 0)",
        "np.save('x.npy', np.arange(3)); print('new' if np.load('x.npy').sum() == 3 else 0)",
        "os.truncate('notes.txt', 0); print('new' if open('notes.txt').read() == '' else 0)",
        "pathlib.Path('model.pt').touch(); os.chmod('model.pt', 0o600); os.utime('model.pt'); print('new')",
        "os.symlink('model.pt', 'latest'); print('new' if open('latest').read() == 'weights' else 0)",
        "os.link('model.pt', 'hard'); open('hard', 'a').write('x'); print('new')",
        "pathlib.Path('logs/a.log').unlink(); print('new' if [e.name for e in os.scandir('logs')] == ['b.log'] else 0)",
        "t = tempfile.NamedTemporaryFile(dir='.', delete=False); t.write(b'x'); t.close(); print('new')",
        "open('link.txt', 'w').write('new'); print(open('link.txt').read())",
        "d = os.open('logs', 0); os.unlink('a.log', dir_fd=d); print(os.listdir('logs') == ['b.log'] and 'new')",
        "os.makedirs('o'); os.chdir('o'); open('x', 'w').write('new'); print(open('x').read())",
        "open(os.devnull, 'w').write('x'); print('new')",
        "import bz2; bz2.open('new.bz2', 'wt').close(); print(os.path.exists('new.bz2') and 'new')",
        "open('/' + os.path.abspath('notes.txt'), 'w').write('new'); print(open('notes.txt').read())",
        "os.remove('model.pt'); print('new' if not os.path.lexists('//.git') else 0)",
        "os.mkfifo('f'); print(os.path.exists('f') and 'new')",
        "os.mknod('f'); print(os.path.exists('f') and 'new')",
        "os.chown('model.pt', os.getuid(), os.getgid()); os.setxattr('model.pt', 'user.x', b'1'); print('new')",
    ],
)  # fmt: skip
def test_what_is_written_is_read_again_and_the_folder_stays_as_it_is(user, script):
    """Every way in which Python writes goes elsewhere, and every way in which it reads finds it there."""
    assert in_trial(user, script).strip() == "new"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("os.mkdir('logs')", FileExistsError),
        ("open('model.pt', 'x')", FileExistsError),
        ("open('nowhere/x', 'w')", FileNotFoundError),
        ("os.mkdir('nowhere/x')", FileNotFoundError),
        ("os.remove('nothing')", FileNotFoundError),
        ("os.rmdir('logs')", OSError),
        ("os.remove('model.pt'); open('model.pt')", FileNotFoundError),
    ],
)
def test_what_fails_without_a_trial_fails_in_it(user, script, error):
    """A script that looks before it writes, or catches what it expects, behaves as always."""
    guarded = f"try:\n    {script.replace('; ', chr(10) + '    ')}\nexcept {error.__name__}:\n    print('failed')\n"
    assert in_trial(user, guarded).strip() == "failed"


def test_outputs_of_the_recorded_run_are_not_seen(user):
    """A script that resumes where it finds a checkpoint starts anew, as it did when it was recorded."""
    script = """
    print(os.path.exists("model.pt"), sorted(os.listdir(".")), [e.name for e in os.scandir("logs")])
    open("model.pt", "w").write("again")
    print(os.path.exists("model.pt"), open("model.pt").read())
    """
    out = in_trial(user, script, hidden=["model.pt", "logs/a.log"]).split("\n")
    assert out[0] == "False ['link.txt', 'logs', 'notes.txt'] ['b.log']"
    assert out[1] == "True again"


def test_a_folder_that_the_recorded_run_made_can_be_made_again(user):
    """``os.makedirs(out)`` succeeded when it was recorded, and does so in a trial, once."""
    script = """
    os.mkdir("logs")
    try:
        os.mkdir("logs")
    except FileExistsError:
        print("second time", sorted(os.listdir("logs")))
    """
    assert in_trial(user, script, remade=["logs"]).strip() == "second time ['a.log', 'b.log']"
