"""The one error of image building: a sentence with what failed and the remedy."""


class ImagesError(Exception):
    """An image cannot be built or pushed; the text goes to the user as it is."""
