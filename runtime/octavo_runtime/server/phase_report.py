"""Log lines that say what the server is doing: loading and how far, ready and where, draining."""

import logging

from octavo_runtime.config import ServeConfig
from octavo_runtime.server.health import Health

log = logging.getLogger("octavo")

PROGRESS_EVERY_S = 3.0


class PhaseReport:
    """Logs a line when the phase changes, and now and then how far loading is."""

    def __init__(self, config: ServeConfig) -> None:
        self._url = f"http://{_shown_host(config.host)}:{config.port}/v1"
        self._model = config.model_name
        self._phase = ""
        self._told = ""
        self._told_at_s = 0.0

    def tell(self, state: Health, now_s: float) -> None:
        if state.phase in ("stopped", "pressured"):
            return  # the server's last line tells why the engine could not start; the engine logs its levels itself
        text = f"{state.phase}: {state.reason}" if state.reason else state.phase
        if text == self._told or (state.phase == self._phase and now_s < self._told_at_s + PROGRESS_EVERY_S):
            return
        self._phase, self._told, self._told_at_s = state.phase, text, now_s
        log.info("%s", f"ready: {self._model} at {self._url}" if state.ready and state.phase == "ready" else text)


def _shown_host(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host
