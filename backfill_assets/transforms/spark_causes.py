"""Root causes of Spark's errors: the innermost Java exception, which Spark's own sentence often leaves out."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError

from backfill_assets.wording import visible

_MOST_CHARACTERS = 200
_CAUSED_BY = re.compile(r"^\s*Caused by: (?P<name>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
_CREDENTIALS = re.compile(
    r"(?i)(?P<named>(?:password|passwd|secret|token|signature|credential|access_?key|key_?id)[\w.-]*\s*[=:]\s*)\S+"
)
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@]+@")


def root_cause(error: Exception) -> str | None:
    """The innermost Java exception of an error of Spark in one line; None where none lies below the error itself.

    PySpark raises its errors in the handling of Py4J's, which has the whole Java stack.
    """
    java = error if isinstance(error, Py4JJavaError) else error.__context__
    return innermost(str(java)) if isinstance(java, Py4JJavaError) else None


def innermost(stack: str) -> str | None:
    """The class and the first line of the message of the last cause that a Java stack names, without credentials."""
    causes = list(_CAUSED_BY.finditer(stack))
    if not causes:
        return None
    name, message = causes[-1]["name"].rpartition(".")[2], (causes[-1]["message"] or "").strip()
    shown = _USER_OF_ADDRESS.sub("", _CREDENTIALS.sub(r"\g<named>...", visible(message)))
    line = f"{name}: {shown}" if shown else name
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
