"""A fit in words, as one HTML file, as a figure."""

from dvisr.reporting.subject import Subject
from dvisr.reporting.words import summary

__all__ = ["Subject", "summary"]
