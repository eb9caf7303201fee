"""What to do about errors of captures from streams."""

from __future__ import annotations

from backfill_assets.capture import errors
from backfill_assets.core.errors import BackfillError
from backfill_assets.report.requests import Advice, Option, step

_AGAIN = "give the same command again: it goes on where it stopped"


def of_capture(error: BackfillError) -> Advice | None:
    """What to do about an error of a stream; None when it is none, or there is nothing."""
    match error:
        case errors.NoSecret():
            return f"set {error.name}, or {error.name}_FILE to the path of a file that holds it"
        case errors.SecretInHome():
            return "keep it in a file outside of the home"
        case errors.NotCaptured():
            return f"land its files instead, with `land {error.source.partition('.')[2]}` and their paths"
        case errors.NoStream():
            return "check the name and the servers that the source declares"
        case errors.StreamAway() | errors.ReadFailed() | errors.AsksToWait():
            return _AGAIN
        case errors.StreamDenied():
            return "check the user and the secrets that the source declares, and what the user may read"
        case errors.RangeExpired() if error.expected_from is None:
            return "begin on a later day, or land what is missing from another place first"
        case errors.RangeExpired():
            return "begin on a day that the stream still has, and land what is missing from another place"
        case errors.CreatedAgain(declare=""):
            return "declare another source for it: its versions begin anew"
        case errors.CreatedAgain():
            new = error.found.rpartition("/")[2]
            return f"if it is meant to be captured as well, declare {error.declare}={new!r}"
        case errors.OtherTopic():
            return "declare the topic that is meant"
        case errors.OtherBytes():
            return "look whether the stream was compacted or replaced meanwhile; the file that is there stays"
        case errors.NoGroup():
            return "check the name of the group"
        case errors.NoGroups():
            return "hold the capture back by records or bytes per minute instead"
        case errors.NothingCaptured():
            return step("say where to begin: ", Option("first", "DAY"))
        case errors.NothingWhole() | errors.NotByTime():
            return step("to read what is new: ", Option("last", "now"))
        case errors.NoSnapshot() | errors.ChangesGone() | errors.UnknownValue():
            return step("read everything anew: ", Option("snapshot"))
        case errors.NoPeriod():
            return step("leave out the days: ", Option("last", "now"))
        case errors.NotReconciled():
            return "declare a window of the event time, or land a complete extract from another place"
        case errors.BadAnswer() | errors.NextPageLoop():
            return "compare what the source declares with what the API says; what was captured before stays"
        case errors.PositionGone():
            return step("read everything once more: ", Option("reconcile"))
        case errors.VersionGone() | errors.ChangesUnreadable():
            return step("read everything once more: ", Option("snapshot"))
        case errors.AnswerHoldsSecret():
            return "ask the API in a way in which it does not repeat what it was told"
        case errors.NotAsCaptured() | errors.RecordsMissing():
            return "bring the file back from a copy"
        case _:
            return None
