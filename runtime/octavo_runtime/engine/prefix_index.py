"""Which page holds which tokens: the prefix cache's books. Pure; pages are numbers here.

A page's content is named by a chain of hashes: key = sha256(parent key ‖ token ids), and the first parent is a root that covers
all else that keys and values depend on. A hit compares the tokens and the parent as well, so not even a collision serves another
prompt's cache. Pages that are full can be shared as they are; the tail of a finished sequence, a page that is not full, is found
by its parent and the tokens that it has in common with a prompt.
"""

import array
import dataclasses
import hashlib
import itertools
from collections.abc import Sequence

import msgspec

FORMAT_TAG = "octavo-kv-1"
# Tails of one parent that a prompt is compared with, newest first: a popular prefix has thousands.
_TAILS_COMPARED = 16


@dataclasses.dataclass(frozen=True)
class CacheIdentity:
    """All that keys and values depend on besides the tokens, the adapter and the tenant."""

    weights: bytes  # the checkpoint's fingerprint
    kv_format: str
    page_size: int
    rope: str


def narrowed(identity: CacheIdentity) -> CacheIdentity:
    """That of requests whose keys and values are kept in 8 bits beside others."""
    return dataclasses.replace(identity, kv_format=f"{identity.kv_format} narrow")


def root_key(identity: CacheIdentity, adapter: str | None, tenant_salt: bytes) -> bytes:
    """Where a request's chain begins; each part is tagged by its place, so that no two of them can be taken for each other."""
    parts = (FORMAT_TAG, *dataclasses.astuple(identity), adapter, tenant_salt)
    return hashlib.sha256(msgspec.msgpack.encode(parts)).digest()


def chain_key(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The key of the page that holds `tokens` (each below 2³²) after `parent`."""
    return hashlib.sha256(parent + array.array("I", tokens).tobytes()).digest()


def extend_chain(keys: list[bytes], root: bytes, tokens: Sequence[int], page_size: int) -> None:
    """Append the keys of the full pages of `tokens` that `keys` lacks."""
    for page in range(len(keys), len(tokens) // page_size):
        parent = keys[page - 1] if page else root
        keys.append(chain_key(parent, tokens[page * page_size : (page + 1) * page_size]))


@dataclasses.dataclass(frozen=True)
class Content:
    """What a page holds: `tokens` after `parent`."""

    parent: bytes
    tokens: tuple[int, ...]


class PrefixIndex:
    def __init__(self) -> None:
        self._content: dict[int, Content] = {}
        self._page_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._children: dict[bytes, dict[int, None]] = {}  # parent → its pages, oldest first

    def __len__(self) -> int:
        return len(self._content)

    def __contains__(self, page: int) -> bool:
        return page in self._content

    def filled(self, page: int) -> int:
        """Slots of the page whose content is named here and must not change; 0 for an unnamed page."""
        content = self._content.get(page)
        return len(content.tokens) if content else 0

    def key(self, page: int) -> bytes:
        """Of the content of a page that is named."""
        return self._key_of[page]

    def publish(self, page: int, key: bytes, content: Content) -> None:
        """Name a page's content, instead of what it was called before. What another page holds already stays that page's."""
        self.forget(page)
        if key in self._page_of:
            return
        self._content[page], self._key_of[page], self._page_of[key] = content, key, page
        self._children.setdefault(content.parent, {})[page] = None

    def forget(self, page: int) -> None:
        """The page is about to hold something else."""
        content = self._content.pop(page, None)
        if content is None:
            return
        del self._page_of[self._key_of.pop(page)]
        siblings = self._children[content.parent]
        del siblings[page]
        if not siblings:
            del self._children[content.parent]

    def find(self, key: bytes, parent: bytes, tokens: Sequence[int]) -> int | None:
        """The full page of `tokens` after `parent`; `key` is their chain key."""
        page = self._page_of.get(key)
        if page is None or self._content[page] != Content(parent, tuple(tokens)):
            return None
        return page

    def longest(self, parent: bytes, tokens: Sequence[int]) -> tuple[int, int] | None:
        """Of the pages after `parent`, one that begins like `tokens` for the longest: (page, slots in common)."""
        newest = itertools.islice(reversed(self._children.get(parent, {})), _TAILS_COMPARED)
        found = max(((page, _common(self._content[page].tokens, tokens)) for page in newest), key=_length, default=None)
        return found if found is not None and found[1] else None


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _length(found: tuple[int, int]) -> int:
    return found[1]
