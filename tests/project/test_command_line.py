"""Every verb of ``bd`` is there, explains itself, and has no option that does nothing."""

import ast
import importlib
import inspect
import textwrap

import click
import pytest
from click.testing import CliRunner

from bisect_diverge.cli.main import VERBS

VERB = pytest.mark.parametrize("verb", VERBS)


def command(verb):
    """Return the click command of a verb."""
    return importlib.import_module(f"bisect_diverge.cli.{verb}").command


@VERB
def test_a_verb_has_help(verb):
    """``bd VERB --help`` says what the verb does and lists its options."""
    result = CliRunner().invoke(command(verb), ["--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
    assert command(verb).help


@VERB
def test_an_option_says_what_it_does(verb):
    """Every option has a line of help."""
    options = [part for part in command(verb).params if isinstance(part, click.Option)]
    assert [part.name for part in options if not part.help] == []


@VERB
def test_no_option_does_nothing(verb):
    """Every option and argument is used by the code of the command."""
    callback = command(verb).callback
    tree = ast.parse(textwrap.dedent(inspect.getsource(callback)))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    parameters = inspect.signature(callback).parameters
    declared = {part.name for part in command(verb).params}
    bundles = {name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD}
    assert declared & set(parameters) - used == set()
    assert declared <= set(parameters) or bundles & used
