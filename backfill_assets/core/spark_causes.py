"""Why Spark stopped: its own sentence, and the innermost Java exception, which that often leaves out."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from backfill_assets.core.wording import visible

_MOST_CHARACTERS = 200
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]{3,})\] (.*)")
_CAUSED_BY = re.compile(r"^\s*Caused by: (?P<name>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
_CREDENTIALS = re.compile(
    r"(?i)(?P<named>(?:password|passwd|secret|token|signature|credential|access_?key|key_?id)[\w.-]*\s*[=:]\s*)\S+"
)
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@]+@")


def spark_reason(error: Exception) -> str:
    """Why Spark stopped, in one line and without a stack: its error class, its message, and what caused it.

    The message of an error that a transform raises itself (`raise_error`) is shown alone.
    """
    reason, cause = _own_reason(error), root_cause(error)
    if cause is None or "USER_RAISED_EXCEPTION" in str(error) or cause.partition(": ")[2] in reason:
        return reason
    return f"{reason}; caused by {cause}"


def _own_reason(error: Exception) -> str:
    text = str(error)
    found = _ERROR_CLASS.search(text)
    if found is None:
        return text.strip().splitlines()[0].strip()
    name, sentence = found.groups()
    sentence = sentence.partition(" SQLSTATE:")[0].strip()
    return sentence if name == "USER_RAISED_EXCEPTION" else f"{sentence} [{name}]"


def recorded_reason(error: Exception) -> str:
    """Why Spark stopped, as the ledger keeps it permanently: the error's class, because messages quote values."""
    if isinstance(error, AnalysisException):
        return _own_reason(error)  # about columns and types, before any row was read
    found = _ERROR_CLASS.search(str(error))
    return f"{found.group(1) if found else type(error).__name__} (its message is shown where the run was started)"


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
