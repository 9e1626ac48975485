"""Files that are whole or not there, and run directories made of them."""

from dvisr.runs.files import BrokenFile, load, save

__all__ = ["BrokenFile", "load", "save"]
