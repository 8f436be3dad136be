"""What watches have shown, by service."""

from octavo_operator.service import Key
from octavo_operator.sightings import Sightings

CHAT, DRAFT = Key("demo", "chat"), Key("demo", "draft")


def test_tells_only_of_what_is_different() -> None:
    seen: Sightings[str] = Sightings()
    assert seen.put(CHAT, "u1", "pending")
    assert not seen.put(CHAT, "u1", "pending")
    assert seen.put(CHAT, "u2", "pending"), "another object"
    assert seen.put(CHAT, "u1", "ready")
    assert seen.of(CHAT) == ("ready", "pending")
    assert seen.of(DRAFT) == ()


def test_an_object_belongs_to_one_service() -> None:
    seen: Sightings[str] = Sightings()
    seen.put(CHAT, "u1", "ready")
    assert seen.put(DRAFT, "u1", "ready"), "its label was changed"
    assert seen.all() == {DRAFT: ("ready",)}


def test_what_is_gone_is_forgotten_with_its_service() -> None:
    seen: Sightings[str] = Sightings()
    seen.put(CHAT, "u1", "ready")
    seen.put(CHAT, "u2", "ready")
    seen.drop("u1")
    seen.drop("never seen")
    assert seen.all() == {CHAT: ("ready",)}
    seen.drop("u2")
    assert seen.all() == {}
