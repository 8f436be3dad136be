"""A hub of models, through its own client library: what a revision holds, and the bytes of its files from any place on.

The library's session knows HF_ENDPOINT, proxies and certificates, and sends the token to the hub alone, not to where a download
is redirected. Its own downloads begin a file anew with each process, so files are streamed by range here (`download.py`).
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
from huggingface_hub import HfApi, constants, get_session
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but exported lazily
    build_hf_headers,
    get_token,
    hf_raise_for_status,
)

import octavo_runtime
from octavo_runtime.source.reference import HubReference, SourceError, UnreachableError

CHUNK_BYTES = 1 << 18  # so much of a file is lost at most when it is cut
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_GIVE_TOKEN = (
    "give a token that may read it (--hub-token-file or HF_TOKEN; spec.model.tokenSecretRef of an InferenceService)"
)


@dataclasses.dataclass(frozen=True)
class HubFile:
    """`sha256` of large files, `git_sha1` (of "blob <size>\\0" and the content) of the others."""

    name: str
    size_bytes: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a commit holds."""

    commit: str
    files: tuple[HubFile, ...]

    @property
    def names(self) -> list[str]:
        return [file.name for file in self.files]


def read_token(path: str | None) -> str | None:
    """The token in a file; None without one, for the library to look at HF_TOKEN. Raises SourceError."""
    if path is None:
        return None
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"--hub-token-file {path} cannot be read ({error}): give a file that holds the token"
        ) from error
    if not token or any(character.isspace() for character in token):
        raise SourceError(f"--hub-token-file {path} does not hold one token: write it there, alone")
    return token


class Hub:
    """The hub at `endpoint`, else the one that HF_ENDPOINT names.

    Every method raises SourceError, and UnreachableError for what may pass.
    """

    def __init__(self, token: str | None, endpoint: str | None = None) -> None:
        self.endpoint = endpoint or constants.ENDPOINT
        self._token = token
        self._api = HfApi(
            endpoint=self.endpoint, token=token, library_name="octavo", library_version=octavo_runtime.__version__
        )
        headers = build_hf_headers(token=token, library_name="octavo", library_version=octavo_runtime.__version__)
        # Sizes and ranges are of the files as they are.
        self._headers = {**headers, "accept-encoding": "identity"}

    def listing(self, reference: HubReference) -> Listing:
        """The commit that the reference means now, and its files."""
        with self._explaining(reference):
            info = self._api.model_info(
                reference.repository, revision=reference.revision, files_metadata=True, timeout=30.0
            )
        if info.sha is None or info.siblings is None:
            raise SourceError(f"{reference}: {self.endpoint} does not tell what it holds: set HF_ENDPOINT to a hub")
        files = [
            HubFile(
                file.rfilename,
                file.size or 0,
                file.lfs.sha256 if file.lfs is not None else None,
                file.blob_id if file.lfs is None else None,
            )
            for file in info.siblings
        ]
        return Listing(info.sha, tuple(files))

    @contextlib.contextmanager
    def stream(
        self, reference: HubReference, commit: str, name: str, begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Bytes `begin` to `end` of a file as (where they begin, pieces): a server that knows no ranges begins at 0."""
        url = f"{self.endpoint}/{reference.repository}/resolve/{commit}/{quote(name)}"
        headers = dict(self._headers)
        if begin or end is not None:
            headers["range"] = f"bytes={begin}-{'' if end is None else end - 1}"
        with (
            self._explaining(reference, name),
            get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT) as response,
        ):
            if response.is_error:
                response.read()  # what it says is a part of the error
            hf_raise_for_status(response)
            yield begin if response.status_code == 206 else 0, response.iter_bytes(CHUNK_BYTES)

    def read(self, reference: HubReference, commit: str, name: str, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes `begin` to `end` of a file, or what there is of them."""
        wanted = None if end is None else end - begin
        with self.stream(reference, commit, name, begin, end) as (at, pieces):
            skip, got = begin - at, bytearray()
            for piece in pieces:
                got += piece
                if wanted is not None and len(got) >= skip + wanted:
                    break
        return bytes(got[skip:] if wanted is None else got[skip : skip + wanted])

    @contextlib.contextmanager
    def _explaining(self, reference: HubReference, name: str | None = None) -> Iterator[None]:
        try:
            yield
        except GatedRepoError as error:
            page = f"{self.endpoint}/{reference.repository}"
            raise SourceError(f"{reference} is gated: accept its terms at {page}, and {_GIVE_TOKEN}") from error
        except RepositoryNotFoundError as error:
            raise SourceError(
                f"{reference}: {self.endpoint} has no repository {reference.repository} that may be read"
                f"{' with the given token' if self._has_token else ' without a token'}: correct the name, or {_GIVE_TOKEN}"
            ) from error
        except RevisionNotFoundError as error:
            raise SourceError(
                f"{reference}: {reference.repository} has no revision '{reference.revision}': give a branch, a tag or a commit"
            ) from error
        except EntryNotFoundError as error:
            raise SourceError(f"{reference}: {self.endpoint} has no file {name or reference.file} there") from error
        except OfflineModeIsEnabled as error:
            raise UnreachableError(f"{reference}: HF_HUB_OFFLINE is set: unset it, or fill the cache before") from error
        except HFValidationError as error:
            raise SourceError(f"{reference} is no name on a hub: {error}") from error
        except HfHubHTTPError as error:
            raise self._of_status(reference, error) from error
        except httpx2.HTTPError as error:
            raise UnreachableError(
                f"{reference}: {self.endpoint} cannot be reached ({error or type(error).__name__}): check the network, HF_ENDPOINT "
                "and the proxy's variables"
            ) from error

    @property
    def _has_token(self) -> bool:
        return self._token is not None or get_token() is not None

    def _of_status(self, reference: HubReference, error: HfHubHTTPError) -> SourceError:
        status = error.response.status_code
        said = (error.server_message or "").strip() or f"status {status}"
        if status in (401, 403):
            return SourceError(f"{reference}: {self.endpoint} refuses the token ({said}): {_GIVE_TOKEN}")
        if status in (408, 425, 429) or status >= 500:
            return UnreachableError(f"{reference}: {self.endpoint} answers with {status} ({said}): try again later")
        return SourceError(
            f"{reference}: {self.endpoint} answers with {status} ({said}): check the name and HF_ENDPOINT"
        )
