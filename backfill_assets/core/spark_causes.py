"""The reason why Spark stopped: its own sentence, and what lies below it: the innermost Java exception, or an error of
Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException

from backfill_assets.core.wording import visible

_MOST_CHARACTERS = 200
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]{3,})\] (.*)")
_CAUSED_BY = re.compile(r"^\s*Caused by: (?P<name>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
_CREDENTIALS = re.compile(
    r"(?i)(?P<named>(?:password|passwd|secret|token|signature|credential|access_?key|key_?id)[\w.-]*\s*[=:]\s*)\S+"
)
_TRACEBACK = "Traceback (most recent call last):"
_KIND = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
_UNKNOWN = "PythonException"
_FRAME = re.compile(r'^  File "(?P<file>/[^"]+\.py)", line (?P<line>\d+)', re.MULTILINE)
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@]+@")
_OF_A_SETTING = re.compile(r"\bspark\.[a-z]+[.A-Z]")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_STATE = re.compile(r"SQLSTATE: (?P<kind>[0-9A-Z]{2})[0-9A-Z]{3}")
_ALWAYS = frozenset({"21", "22", "23", "42", "P0"})
"""The classes of SQLSTATE about rows and expressions: cardinality, data, null, syntax, and what is raised."""
_OF_VALUE = re.compile(r"The value '(?P<value>.+?)' of the type \"STRING\"", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """An error of Python in a worker of Spark."""

    kind: str  #: The class of the error.
    said: str  #: The same with its message, which may quote values of rows, in one line.
    places: tuple[tuple[str, int], ...]  #: The files and lines that it passed, innermost last.


def worker_error(error: Exception) -> WorkerError | None:
    """The exception that Python raised in a worker; None where a job stopped for another reason, such as a lost
    worker."""
    if not isinstance(error, PythonException):
        return None
    text = str(error)
    raised = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line and not line.startswith(" ")]
    said = one_line(raised[0] if raised else _UNKNOWN)
    kind = _KIND.match(said)
    places = tuple((found["file"], int(found["line"])) for found in _FRAME.finditer(text))
    return WorkerError(kind=kind[0] if kind else _UNKNOWN, said=said, places=places)


def one_line(raised: str) -> str:
    """The first line of an error of Python with its class, without its full stop."""
    return visible(raised.splitlines()[0].strip().rstrip(":."))[:_MOST_CHARACTERS]


def spark_reason(error: Exception) -> str:
    """The reason why Spark stopped, in one line and without a stack: its error class, its message, and what caused it.

    The message of an error that a transform raises itself (`raise_error`) is shown alone.
    """
    if (of_python := worker_error(error)) is not None:
        return of_python.said
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
    sentence = _without_settings(sentence.partition(" SQLSTATE:")[0].strip())
    return sentence if name == "USER_RAISED_EXCEPTION" else f"{sentence} [{name}]"


def _without_settings(said: str) -> str:
    """Without the sentences that advise to change a setting of Spark: those that decide what rows mean are fixed."""
    sentences = _SENTENCE_ENDS.split(said)
    return " ".join(each for each in sentences if not _OF_A_SETTING.search(each)) or said


def stops_again(error: Exception) -> bool:
    """True if the same expressions over the same rows stop Spark again, whatever is repaired at the machine."""
    return any(found["kind"] in _ALWAYS for found in _STATE.finditer(str(error)))


def text_refused(error: Exception) -> str | None:
    """The text that Spark could not read as another type; None where it names none."""
    found = _OF_VALUE.search(str(error))
    return found["value"] if found else None


def recorded_reason(error: Exception) -> str:
    """The reason why Spark stopped, as the ledger keeps it permanently: the error's class, because messages quote
    values."""
    if isinstance(error, AnalysisException):
        return _own_reason(error)  # about columns and types, before any row was read
    of_python, found = worker_error(error), _ERROR_CLASS.search(str(error))
    kind = of_python.kind if of_python else found.group(1) if found else type(error).__name__
    return f"{kind} (its message is shown where the run was started)"


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
