"""Writes Events. One that cannot be written is lost; nothing waits for one."""

import logging
import socket
from collections.abc import Callable

from octavo_operator import kinds, kube, moments
from octavo_operator.events.ledger import Ledger, Subject
from octavo_operator.events.notes import Note

logger = logging.getLogger(__name__)


class Journal:
    def __init__(self, api: kube.Kube, clock: Callable[[], float]) -> None:
        self._api = api
        self._ledger = Ledger(clock, socket.gethostname()[:128])

    async def tell(self, subject: Subject, notes: list[Note]) -> None:
        """Writes them as far as the service's allowance goes."""
        for note in notes:
            event = self._ledger.event(subject, note, moments.micro_time())
            if event is None:
                logger.debug("%s: no Event, for there were too many: %s: %s", subject.key, note.reason, note.text)
                continue
            try:
                await self._api.apply(kinds.EVENT, event)
            except kube.KubeError as error:
                logger.warning("%s: no Event for %s: %s", subject.key, note.reason, error)
