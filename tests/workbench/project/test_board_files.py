"""Where a board comes from: shipped, the user's own, or beside the project."""

from tests.problems import refused
from workbench.project.board_files import SHIPPED, board_file, listed, own_folder


def test_that_own_boards_stand_beside_the_shipped_and_replace_those_of_their_name(tmp_path):
    shipped = listed()
    assert set(shipped.values()) == set(SHIPPED.glob("*.toml"))
    assert "renesas-ra8p1" in shipped
    own_folder().mkdir(parents=True)
    for name in ("mine.toml", "renesas-ra8p1.toml", "notes.txt"):
        (own_folder() / name).touch()
    files = listed()
    assert set(files) == {*shipped, "mine"}
    assert {name for name, path in files.items() if path.parent == own_folder()} == {"mine", "renesas-ra8p1"}
    assert board_file("mine", tmp_path) == own_folder() / "mine.toml"


def test_that_a_path_is_taken_from_the_folder_of_the_project(tmp_path):
    assert board_file("boards/a.toml", tmp_path) == tmp_path / "boards" / "a.toml"


def test_that_an_unknown_board_is_refused_with_the_known_ones(tmp_path):
    with refused("board-unknown") as caught:
        board_file("nowhere", tmp_path)
    assert "renesas-ra8p1" in caught.value.infos[0].hint
