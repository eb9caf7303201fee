"""Sniff: looks at a file, and proposes the declaration with which its records land.

One file per question: `encoding`, `dialect`, `documents` (JSON), `footer` (Parquet), `texts` (nulls, numbers, true and
false), `times`, `columns`, `event_time`, `names`, `keys`. Each decides from texts alone; `sample` reads, and `propose`
brings the answers together. Landing uses nothing of it: a person reads what is proposed, and declares it.
"""
