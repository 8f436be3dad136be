"""The Octavo operator: turns `InferenceService` objects into Deployments and Services of the Octavo runtime."""

from importlib.metadata import version

__version__ = version("octavo")
