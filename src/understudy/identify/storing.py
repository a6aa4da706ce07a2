"""A fitted family as a file: the same document as a design, of the kind "family". Parameters, never code."""

from __future__ import annotations

import os

from understudy.errors import ConfigurationError, StoredFileError
from understudy.models.family import Family
from understudy.models.stored import family_from_plain, family_to_plain
from understudy.randomizer import document

KIND, VERSION = "family", 1


def save_family(family: Family, path: str | os.PathLike[str]) -> str:
    """Write a family with all that is known about it, whole or not at all; returns the fingerprint of the file.

    >>> import os, tempfile
    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))}, about={"period": 60.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_family(family, os.path.join(folder, "family.json"))
    ...     loaded = load_family(os.path.join(folder, "family.json"))
    >>> loaded, loaded.about
    (Family(2 values, dim=1), {'period': 60.0})
    """
    if not isinstance(family, Family):
        raise ConfigurationError(f"family is of type {type(family).__name__}; it must be a Family")
    return document.write(path, {"family": family_to_plain(family)}, KIND, VERSION)


def load_family(path: str | os.PathLike[str]) -> Family:
    """Read a family that `save_family` wrote, and check it."""
    content = document.read(path, KIND, [VERSION])
    if content.keys() != {"family"}:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a family")
    try:
        return family_from_plain(content["family"])
    except StoredFileError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, ConfigurationError) as error:
        # never the content: only which kind of thing was wrong
        raise StoredFileError(
            f"{os.fspath(path)!s}: the family does not hold together ({type(error).__name__}); "
            "it was not written by this program, or by another version of it"
        ) from None
