"""Pictures of a page: files that are read, mistakes with their lines, and a real page that is told of them."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from albireo.codec.topology.mistakes import Findings, KeyPath
from albireo.face.web.pictures import files
from albireo.face.web.pictures.files import read_pictures
from albireo.face.web.pictures.shelf import PictureShelf
from tests.parts.pictures import HOSTILE, SVG, TOML, drawn
from tests.parts.web import PageEnd, served


def mistakes_of(directory: Path) -> list[str]:
    (read,) = read_pictures(directory, "root").values()
    return [str(one) for one in read.mistakes]


def test_a_picture_is_read_with_full_names(tmp_path: Path) -> None:
    toml = TOML.replace("\n\n", '\nnode = "root/north"\n\n').replace('["co_7"', '["root/south:co_7"')
    (read,) = read_pictures(drawn(tmp_path, toml=toml), "root").values()
    assert not read.mistakes
    assert (read.title.name, read.title.title, read.title.node) == ("tunnel", "North tunnel", "root/north")
    told = {one.id: one for one in read.picture.elements}
    assert told["pic-co8"].items == ("root/north:co_8",) and told["pic-co8"].section == "Section 8"
    assert (told["pic-co"].how, told["pic-co"].items) == ("profile", ("root/south:co_7", "root/north:co_8"))
    assert told["pic-fan"].items == ("root/north:fan_running", "root/north:fan_trip")
    assert read.picture.svg.startswith("<svg")


def test_items_without_a_node_are_of_that_of_the_page(tmp_path: Path) -> None:
    (read,) = read_pictures(drawn(tmp_path), "root/south").values()
    assert read.picture.elements[0].items == ("root/south:co_8",) and read.title.node == "root/south"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('co9 = { value = "co_8" }', "tunnel.toml:4: element.co9: the drawing has no element of this id. Did you mean"),
        ('bar = { value = "co_8" }', "a value needs a text. Bind the id of a text"),
        ('co8 = { level = "co_8" }', "a level needs a rectangle"),
        ('fan = { profile = ["co_8"] }', "a profile needs a rectangle"),
        ('co8 = { value = "co_8", level = "co_8" }', "one of value, level, running and profile"),
        ("co8 = {}", "one of value, level, running and profile"),
        ('co8 = { value = "co_8", tripped = "x" }', "tripped goes with running"),
        ('co8 = { value = "co_8", words = ["open"] }', "words are two"),
        ('co8 = { valu = "co_8" }', "Did you mean 'value'?"),
        ("co8 = { value = 7 }", "Put it into quotes"),
        ('co8 = "co_8"', "must be a table"),
        ("co8 = [", "not TOML"),
        (f"co = {{ profile = {[f'co_{at}' for at in range(41)]} }}", "profile"),
    ],
)
def test_what_binds_wrongly_is_named_with_its_line_and_remedy(tmp_path: Path, line: str, word: str) -> None:
    told = mistakes_of(drawn(tmp_path, toml=f'title = "T"\n\n[element]\n{line}\n'))
    assert word in "\n".join(told), told
    assert told[0].startswith("tunnel.toml:"), told


def test_what_is_missing_or_too_much_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot read it" in mistakes_of(tmp_path / "none")[0]
    drawn(tmp_path / "a")
    (tmp_path / "a" / "tunnel.toml").unlink()
    assert "Write the file that binds" in mistakes_of(tmp_path / "a")[0]
    assert "'title' is missing" in mistakes_of(drawn(tmp_path / "b", toml=""))[0]
    (drawn(tmp_path / "d") / "tunnel.svg").write_bytes(b"\xff\xfe<")
    assert "not UTF-8" in mistakes_of(tmp_path / "d")[0]
    os.mkfifo(tmp_path / "d" / "pipe.svg")
    (tmp_path / "d" / "tunnel.svg").unlink()
    assert "not a regular file" in "".join(mistakes_of(tmp_path / "d"))
    monkeypatch.setattr(files, "ITEMS_MAX", 3)
    assert "draw several pictures" in mistakes_of(drawn(tmp_path / "e"))[0]
    monkeypatch.setattr(files, "PICTURES_MAX", 1)
    read = read_pictures(drawn(drawn(tmp_path / "f", "a"), "b"), "root")
    assert ["more than 1 pictures" in one.title.trouble for one in read.values()] == [True]


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_hostile_drawing_is_served(tmp_path: Path, name: str) -> None:
    shelf = PictureShelf(drawn(tmp_path, svg=HOSTILE[name][0], toml='title = "T"'), "root")
    mistake = (shelf.read_again() or [])[0]
    assert HOSTILE[name][1] in str(mistake)
    assert shelf.picture("tunnel").svg == "" and shelf.picture("tunnel").elements == ()
    assert shelf.titles[0].trouble.startswith("tunnel.svg") and mistake.remedy in shelf.titles[0].trouble


def test_items_are_judged_by_whoever_knows_them(tmp_path: Path) -> None:
    def has(item: str, path: KeyPath, found: Findings) -> None:
        if item == "root:co_88":
            found.add(path, f"{item} is not there", "Look.")

    (read,) = read_pictures(drawn(tmp_path), "root", has).values()
    assert [str(one) for one in read.mistakes] == ["tunnel.toml:5: element.ghost: root:co_88 is not there. Look."]


def test_pictures_are_read_again_when_a_file_changes(tmp_path: Path) -> None:
    shelf = PictureShelf(tmp_path / "p", "root")
    assert shelf.read_again() is not None and shelf.titles[0].trouble
    drawn(tmp_path / "p")
    assert shelf.read_again() == [] and not shelf.titles[0].trouble
    assert shelf.read_again() is None
    assert shelf.picture("tunnel").svg and not shelf.picture("other").svg
    assert PictureShelf(None, "root").read_again() is None


def test_a_page_is_told_of_pictures_and_draws_one_and_learns_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("albireo.face.web.actor.LOOK_NS", 50_000_000)
    directory = drawn(drawn(tmp_path / "pictures"), "bad", svg=HOSTILE["script"][0])

    async def draw(page: PageEnd, name: str) -> dict[str, object]:
        page.picture = {}
        await page.say("draw", name=name)
        await page.until(lambda one: one.picture)
        return page.picture

    async def story() -> None:
        async with served(tmp_path, pictures=str(directory)) as at, at.page() as page:
            await page.until(lambda one: one.hello.get("pictures"))
            bad, good = page.hello["pictures"]
            assert "bad.svg:1: script: <script> is not allowed" in bad["trouble"]
            assert (good["name"], good["title"], good["node"], good["trouble"]) == (
                "tunnel",
                "North tunnel",
                "root",
                "",
            )
            told = await draw(page, "tunnel")
            assert str(told["svg"]).startswith("<svg")
            assert (await draw(page, "bad"))["svg"] == "" == (await draw(page, "../../etc/passwd"))["svg"]
            drawn(directory, "bad", svg=SVG)
            await page.until(lambda one: not any(it["trouble"] for it in one.hello["pictures"]))

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())


def test_whoever_may_not_look_sees_no_picture(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, pictures=str(drawn(tmp_path / "pictures")), open=False) as at:
            async with at.page() as page:
                await page.say("draw", name="tunnel")
                await page.until(lambda one: one.picture)
                assert page.hello["pictures"] == [] and page.picture["svg"] == ""
            async with at.page(await at.token()) as page:
                await page.until(lambda one: one.hello.get("pictures"))

    asyncio.run(story())
