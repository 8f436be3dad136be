"""What a spec can be refused for although the CRD's schema lets it pass. Pure."""


class SpecError(ValueError):
    """The spec cannot be served. `reason` is the condition's word; the text names the field and the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
