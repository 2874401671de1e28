"""Text of a project stays text in every language that it is written into."""

import ast
import json
import re
from types import CodeType

from tests.for_each import for_each
from tests.workbench.project.builders import make_project, rule
from workbench import escaping
from workbench.deploy.firmware_files import file_stem
from workbench.project.model import DataSource, ModelSource, Tokenization
from workbench.project.opened import OpenProject
from workbench.script import script
from workbench.script.aot_arm_compiler import give_command

HOSTILE = (
    '"""\nimport os\nos.system("touch ran")\n"""',
    "'''",
    "\\",
    '\\"""',
    "*/ int x; /*",
    "$(touch x)",
    "`touch x`",
    "${ENV{HOME}}",
    "\n- evil: 1",
    "a: b",
    "</script><script>",
    "[x](javascript:1)",
    "\x1b]0;title\x07",
    "\ud800",
    "\u2028",
    "../../etc/passwd",
    "/etc/passwd",
    "{lower}",
    "{spec}",
    "x{ids}",
    "#!",
    "%s%n",
    "\0",
    "=cmd|'/c calc'!A1",
    "a;b",
    "@VARIABLE@",
    "x" * 400,
    "",
)


@for_each("text", HOSTILE)
def test_that_a_docstring_holds_any_text(text):
    tree = ast.parse(f'"""A {escaping.in_python_docstring(text)}.pte b"""\nX = 1\n')
    assert len(tree.body) == 2
    assert ast.literal_eval(tree.body[0].value) == f"A {escaping.one_line(text)}.pte b"


@for_each("text", HOSTILE)
def test_that_comments_end_where_they_should(text):
    written = escaping.in_comment(text)
    assert "*/" not in written
    assert len(f"# {written}".splitlines()) == 1


@for_each("text", HOSTILE)
def test_that_an_argument_of_cmake_neither_ends_nor_is_replaced(text):
    written = escaping.in_cmake(text)
    plain = re.sub(r"\\.", "", written)
    assert not set(plain) & set('"$;@\n\\')


@for_each("text", HOSTILE)
def test_that_a_yaml_scalar_is_plain_or_quoted(text):
    written = escaping.in_yaml(text)
    assert "\n" not in written
    if not re.fullmatch(r"[\w.:& -]+", written):
        assert isinstance(json.loads(written), str)


@for_each("text", HOSTILE)
def test_that_markdown_gets_no_markup(text):
    written = escaping.in_markdown(text)
    assert "<" not in written
    assert not re.search(r"(?<!\\)\]\(", written)
    assert not re.search(r"(?<!\\)`", written)
    assert len(written.splitlines() or [""]) == 1


def test_that_a_code_block_cannot_be_closed_from_inside():
    written = escaping.in_markdown_code("a\n```\n# heading\n````\n")
    assert written.startswith("`````\n")
    assert written.endswith("\n`````")


def test_that_a_usual_code_block_has_a_fence_of_three():
    for text in ("a", "a `b` c", "a ``b`` c"):
        assert escaping.in_markdown_code(text) == f"```\n{text}\n```"
    assert escaping.in_markdown_code("```").startswith("````\n")


def test_that_a_yaml_scalar_is_quoted_only_where_it_must_be():
    for text in ("ab", "a b", "a:b", "ARM::CMSIS-NN"):
        assert escaping.in_yaml(text) == text
    for text in ("a: b", "1", "- a", "a:", ""):
        assert escaping.in_yaml(text) == json.dumps(text)


def test_that_lines_and_tabs_stay_on_a_terminal():
    assert escaping.for_terminal("a\tb\nc\x1b\x07d\u00e9") == "a\tb\nc\ufffd\ufffdd\u00e9"


def test_that_inserted_text_is_not_read_as_a_template():
    assert escaping.filled("{a} {b} {c}", {"a": "{b}", "b": "x"}) == "{b} x {c}"


@for_each("text", HOSTILE)
def test_that_no_name_leaves_the_output_folder(text):
    assert re.fullmatch(r"[A-Za-z_]\w*", file_stem(text), re.ASCII)


WRITABLE = tuple(text for text in HOSTILE if text and "\ud800" not in text)


def hostile_project(name, matches):
    rules = (rule(f"m{n}", "module_name", match) for n, match in enumerate(matches))
    return make_project(
        rule("r1", "global"),
        *rules,
        rule("r3", "node_name", "{lower}"),
        name=name,
        model=ModelSource(spec="model.py:net"),
    )


def names_of(written):
    """Return all names of the code of a script: what it imports, reads, sets and calls."""
    names, left = set(), [compile(written, "script.py", "exec")]
    while left:
        code = left.pop()
        names.update(code.co_names, code.co_varnames, code.co_freevars)
        left += (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return names


def test_that_no_text_of_a_project_becomes_code_of_the_script(tmp_path):
    def written(name, matches):
        project, ranges = hostile_project(name, matches), dict.fromkeys(matches, (0.0, 1.0))
        return names_of(script(OpenProject(project, tmp_path), tmp_path / "a.py", ranges))

    plain = written("plain", ["plain"])
    assert "os" not in plain
    assert {"system", "f"} <= names_of("def f():\n    lambda: __import__('os').system('true')")
    assert written(" ".join(WRITABLE), WRITABLE) <= plain
    # A name stands at the end of a docstring: those that could end it stand there one by one.
    for name in (text for text in WRITABLE if text[-1] in "'\"\\\n"):
        assert written(name, ["plain"]) <= plain


@for_each("text", WRITABLE)
def test_that_no_name_becomes_code_of_the_command(text, tmp_path):
    commands, model = give_command(
        OpenProject(make_project(rule("r1", "global"), name=text), tmp_path), tmp_path / "m.py"
    )
    ast.parse(model)
    assert all("/etc/passwd.pte" not in command for command in commands)


def test_that_a_name_of_a_text_does_not_insert_the_tokenizer_as_code(tmp_path):
    tokenizer = '+__import__("os").system("touch ran")+.py:f'
    project = make_project(
        rule("r1", "global"),
        calibration=DataSource(spec="x{ids}.txt", tokens=Tokenization(tokenizer=tokenizer)),
    )
    written = script(OpenProject(project, tmp_path), tmp_path / "a.py")
    assert "__import__" not in names_of(written)


def test_that_the_terminal_obeys_no_text_of_a_project(capsys):
    from workbench.cli.output import print_infos, print_table
    from workbench.errors import ErrorInfo

    print_infos([ErrorInfo(message="a\x1b[2Jb\x07", code="x")])
    print_table(("a",), [("\x1b]0;t\x07",)])
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
