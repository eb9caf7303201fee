"""What a source says of its records: their order, their operations, and who reads its changes."""

from __future__ import annotations

import pytest

from backfill_assets.domain import (
    Operations,
    reads,
)
from backfill_assets_tests.support.declared import (
    FEED,
    Mistakes,
    check_named,
    derived,
    feed,
    source,
)

MISTAKES: Mistakes = {
    "an order that is a text": (
        lambda: source(schema=FEED, order="lsn"),
        "bronze.events: order must be a tuple of column names, such as ('lsn',)",
    ),
    "an order by a column that is not there": (
        lambda: source(order=("lsn",)),
        "bronze.events: an order column 'lsn' is not a column of its schema",
    ),
    "an order by one column twice": (
        lambda: source(schema=FEED, order=("lsn", "lsn")),
        "bronze.events: its order names a column twice, or one of its key",
    ),
    "an order by the key": (
        lambda: source(schema=FEED, order=("event_id",)),
        "bronze.events: its order names a column twice, or one of its key",
    ),
    "an order by values that are no single values": (
        lambda: source(schema=FEED, order=("tags",)),
        "bronze.events: its order column 'tags' is array<string>, which has no order",
    ),
    "ties that are broken by chance": (
        lambda: source(schema=FEED, order=("lsn",), ties="any"),
        "bronze.events: ties must be 'refuse' or 'arrival'",
    ),
    "ties without an order": (
        lambda: source(ties="arrival"),
        "bronze.events: it says what breaks ties, and has no order in which there could be any",
    ),
    "a policy of unknown keys that is none": (
        lambda: source(unknown="ignore"),
        "bronze.events: unknown must be 'block', 'keep' or 'drop'",
    ),
    "a bound of the key": (
        lambda: source(bounds={"event_id": {"infinity": "9999-12-31T00:00:00Z"}}),
        "bronze.events: 'event_id' has bounds, and is of its key, its order or the time of a record",
    ),
    "a bound of a text": (
        lambda: source(schema=FEED, bounds={"op": {"infinity": "u"}}),
        "bronze.events: the bounds of 'op' are {'infinity': 'u'}: write a string for 'infinity' or '-infinity', such "
        "as {'infinity': '9999-12-31'} of a date",
    ),
    "bounds of one text": (
        lambda: source(bounds={"event_time": "9999-12-31"}),
        "bronze.events: bounds must be texts by column, such as {'valid_until': {'infinity': '9999-12-31'}}",
    ),
    "operations that are a mapping": (
        lambda: source(schema=FEED, operation={"column": "op"}),
        "bronze.events: operation must be Operations(...), not {'column': 'op'}",
    ),
    "operations in a column that is not there": (
        lambda: feed(column="operation"),
        "bronze.events: the operation 'operation' is not a column of its schema",
    ),
    "operations in a column that is no string": (
        lambda: feed(column="lsn"),
        "bronze.events: its operation 'lsn' is not a string",
    ),
    "operations in a column of the key": (
        lambda: source(schema=FEED, key=("event_id", "op"), operation=Operations(column="op", create="c")),
        "bronze.events: its operation 'op' is of its key, so that a delete would be of another key than what it "
        "deletes",
    ),
    "a time of operations that is not there": (
        lambda: feed(at="changed_at"),
        "bronze.events: the time of the operation 'changed_at' is not a column of its schema",
    ),
    "a time of operations that is no timestamp": (
        lambda: feed(at="lsn"),
        "bronze.events: the time of its operation, 'lsn', is not a date or a timestamp",
    ),
    "operations without a column": (
        lambda: feed(column=None),
        "an operation's column is None, and has to be a text",
    ),
    "an operation that is a number": (
        lambda: feed(delete=3),
        "an operation's delete is 3, and has to be a text",
    ),
    "two operations of one value": (
        lambda: feed(delete="c"),
        "two operations are named 'c' in 'op': create and delete",
    ),
    "operations of which none makes anything": (
        lambda: feed(create=None, delete="d"),
        "operations need a value for create, update or snapshot: nothing could exist",
    ),
    "a share of keys that is a text": (
        lambda: source(most_withdrawn_percent="20"),
        "bronze.events: most_withdrawn_percent must be a number from 0 to 100",
    ),
    "a share of keys above all": (
        lambda: source(most_withdrawn_percent=100.5),
        "bronze.events: most_withdrawn_percent must be a number from 0 to 100",
    ),
    "a share of keys below none": (
        lambda: source(most_withdrawn_percent=-1),
        "bronze.events: most_withdrawn_percent must be a number from 0 to 100",
    ),
    "a share of keys that is no number": (
        lambda: source(most_withdrawn_percent=float("nan")),
        "bronze.events: most_withdrawn_percent must be a number from 0 to 100",
    ),
    "a share of keys that is yes": (
        lambda: source(most_withdrawn_percent=True),
        "bronze.events: most_withdrawn_percent must be a number from 0 to 100",
    ),
    "changes of a source that keeps none": (
        lambda: derived(source(), inputs={"events": reads(source(), changes=True)}),
        "silver.daily: it reads the changes of bronze.events as 'events', and only a source table that declares its "
        "operation=Operations(...) keeps them",
    ),
    "changes of a derived table": (
        lambda: derived(source(), inputs={"events": reads(derived(source(), name="silver.other"), changes=True)}),
        "silver.daily: it reads the changes of silver.other as 'events', and only a source table",
    ),
    "changes of what is no table": (
        lambda: derived(source(), inputs={"events": reads("bronze.events", changes=True)}),  # type: ignore[arg-type]
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "changes that are neither read nor not": (
        lambda: reads(feed(), changes="all"),  # type: ignore[arg-type]
        "bronze.events is read with changes='all', which is neither True nor False",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    check_named(MISTAKES[mistake])
