CREATE TABLE approvals (
	request_id TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	manifest_digest VARCHAR(64),
	approved_by TEXT,
	approved_at DATETIME,
	note TEXT NOT NULL,
	PRIMARY KEY (request_id),
	CONSTRAINT approved_by_somebody CHECK (state = 'DRAFT' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)),
	CONSTRAINT approval_state CHECK (state IN ('DRAFT', 'APPROVED'))
);

CREATE TABLE candidate_partitions (
	run_id TEXT NOT NULL,
	partition_date DATE NOT NULL,
	chunk INTEGER NOT NULL,
	files TEXT NOT NULL,
	files_digest VARCHAR(64) NOT NULL,
	row_count BIGINT NOT NULL,
	checksum TEXT NOT NULL,
	compared_version INTEGER,
	compared_digest VARCHAR(64),
	compared_checksum TEXT,
	provenance TEXT NOT NULL,
	PRIMARY KEY (run_id, partition_date),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE INDEX candidates_by_chunk ON candidate_partitions (run_id, chunk);

CREATE TABLE captured_files (
	capture_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	stream_partition TEXT NOT NULL,
	range_from TEXT NOT NULL,
	range_to TEXT NOT NULL,
	records BIGINT NOT NULL,
	first_at DATETIME,
	last_at DATETIME,
	sha256 VARCHAR(64) NOT NULL,
	stored_path TEXT NOT NULL,
	size_bytes BIGINT NOT NULL,
	file_format TEXT NOT NULL,
	compression TEXT NOT NULL,
	captured_at DATETIME NOT NULL,
	PRIMARY KEY (capture_id, number),
	FOREIGN KEY(capture_id) REFERENCES captures (capture_id),
	UNIQUE (stored_path)
);

CREATE TABLE captures (
	capture_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	source TEXT NOT NULL,
	family TEXT NOT NULL,
	name TEXT NOT NULL,
	stream TEXT NOT NULL,
	period_from DATETIME,
	period_to DATETIME,
	is_live BOOLEAN NOT NULL,
	is_whole BOOLEAN NOT NULL,
	resolved_at DATETIME NOT NULL,
	asked_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	pinned TEXT NOT NULL,
	spans TEXT NOT NULL,
	policy TEXT NOT NULL,
	waits BOOLEAN NOT NULL,
	PRIMARY KEY (capture_id),
	UNIQUE (number)
);

CREATE INDEX captures_by_source ON captures (source, number);

CREATE TABLE chain_head (
	only_row INTEGER NOT NULL,
	sequence BIGINT NOT NULL,
	hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (only_row),
	CONSTRAINT only_one_head CHECK (only_row = 1)
);

CREATE TABLE checked_gates (
	table_name TEXT NOT NULL,
	partition_date DATE NOT NULL,
	version INTEGER NOT NULL,
	gate TEXT NOT NULL,
	blocking BOOLEAN NOT NULL,
	passed BOOLEAN NOT NULL,
	digest VARCHAR(64) NOT NULL,
	finding TEXT NOT NULL,
	observed TEXT NOT NULL,
	month INTEGER NOT NULL,
	run_id TEXT NOT NULL,
	term VARCHAR(16) NOT NULL,
	checked_at DATETIME NOT NULL,
	PRIMARY KEY (table_name, partition_date, version, gate),
	FOREIGN KEY(table_name, partition_date, version) REFERENCES partition_versions (table_name, partition_date, version),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE chunk_runs (
	run_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	partitions TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	input_rows BIGINT,
	output_rows BIGINT,
	started_at DATETIME NOT NULL,
	finished_at DATETIME,
	attempt TEXT NOT NULL,
	checksum TEXT NOT NULL,
	seam_checksum TEXT NOT NULL,
	PRIMARY KEY (run_id, number),
	FOREIGN KEY(run_id) REFERENCES runs (run_id),
	CONSTRAINT chunk_state CHECK (state IN ('RUNNING', 'DONE'))
);

CREATE TABLE compared_days (
	table_name TEXT NOT NULL,
	compared_on DATE NOT NULL,
	with_table TEXT NOT NULL,
	compared_at DATETIME NOT NULL,
	partition_count INTEGER NOT NULL,
	agreed BIGINT NOT NULL,
	differing BIGINT NOT NULL,
	explained BIGINT NOT NULL,
	is_clean BOOLEAN NOT NULL,
	PRIMARY KEY (table_name, compared_on)
);

CREATE TABLE compared_partitions (
	table_name TEXT NOT NULL,
	partition_date DATE NOT NULL,
	with_table TEXT NOT NULL,
	version INTEGER NOT NULL,
	with_version INTEGER NOT NULL,
	agreed BIGINT NOT NULL,
	changed BIGINT NOT NULL,
	only_here BIGINT NOT NULL,
	only_there BIGINT NOT NULL,
	explained BIGINT NOT NULL,
	terms VARCHAR(64) NOT NULL,
	PRIMARY KEY (table_name, partition_date)
);

CREATE TABLE events (
	sequence BIGINT NOT NULL,
	at DATETIME NOT NULL,
	actor TEXT NOT NULL,
	entity TEXT NOT NULL,
	entity_id TEXT NOT NULL,
	action TEXT NOT NULL,
	from_state TEXT NOT NULL,
	to_state TEXT NOT NULL,
	payload TEXT NOT NULL,
	digests TEXT NOT NULL,
	previous_hash VARCHAR(64) NOT NULL,
	hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (sequence)
);

CREATE INDEX events_by_entity ON events (entity_id, sequence);

CREATE INDEX rollback_events ON events (sequence) WHERE entity = 'rollback';

CREATE TABLE freezes (
	freeze_id TEXT NOT NULL,
	table_name TEXT NOT NULL,
	grain TEXT NOT NULL,
	first_partition DATE NOT NULL,
	last_partition DATE NOT NULL,
	until_at DATETIME NOT NULL,
	only_run TEXT,
	asked_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	begun_at DATETIME NOT NULL,
	ended_at DATETIME,
	ended_by TEXT,
	PRIMARY KEY (freeze_id),
	FOREIGN KEY(only_run) REFERENCES manifests (run_id)
);

CREATE INDEX freezes_by_table ON freezes (table_name, until_at);

CREATE TABLE gate_reads (
	run_id TEXT NOT NULL,
	gate TEXT NOT NULL,
	inputs TEXT NOT NULL,
	reference_versions TEXT NOT NULL,
	PRIMARY KEY (run_id, gate),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE gate_results (
	run_id TEXT NOT NULL,
	partition_date DATE NOT NULL,
	gate TEXT NOT NULL,
	blocking BOOLEAN NOT NULL,
	passed BOOLEAN NOT NULL,
	digest VARCHAR(64) NOT NULL,
	finding TEXT NOT NULL,
	observed TEXT NOT NULL,
	PRIMARY KEY (run_id, partition_date, gate),
	FOREIGN KEY(run_id, partition_date) REFERENCES candidate_partitions (run_id, partition_date)
);

CREATE TABLE import_days (
	import_id TEXT NOT NULL,
	event_date DATE NOT NULL,
	events BIGINT NOT NULL,
	displaced BIGINT NOT NULL,
	deleted BIGINT NOT NULL,
	withdrawn BIGINT NOT NULL,
	restored BIGINT NOT NULL,
	unknown BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (import_id, event_date),
	FOREIGN KEY(import_id) REFERENCES imports (import_id)
);

CREATE INDEX days_of_unknown_keys ON import_days (import_id) WHERE unknown > 0;

CREATE INDEX import_days_by_date ON import_days (event_date);

CREATE TABLE imports (
	import_id TEXT NOT NULL,
	arrival INTEGER NOT NULL,
	source TEXT NOT NULL,
	family TEXT NOT NULL,
	range_from TEXT NOT NULL,
	range_to TEXT NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	original_path TEXT NOT NULL,
	stored_path TEXT NOT NULL,
	size_bytes BIGINT NOT NULL,
	file_format TEXT NOT NULL,
	compression TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	first_seen_at DATETIME NOT NULL,
	landed_at DATETIME,
	landed_by TEXT NOT NULL,
	on_duplicate TEXT NOT NULL,
	landed BIGINT NOT NULL,
	accepted BIGINT NOT NULL,
	duplicate BIGINT NOT NULL,
	superseded BIGINT NOT NULL,
	rejected BIGINT NOT NULL,
	keys_current BIGINT DEFAULT '0' NOT NULL,
	keys_deleted BIGINT DEFAULT '0' NOT NULL,
	keys_withdrawn BIGINT DEFAULT '0' NOT NULL,
	schema_versions TEXT NOT NULL,
	ignored_columns TEXT NOT NULL,
	note TEXT NOT NULL,
	contract INTEGER DEFAULT '1' NOT NULL,
	keyless BIGINT DEFAULT '0' NOT NULL,
	conformed TEXT,
	judged_at DATETIME,
	taken_as_first TEXT,
	reading VARCHAR(64),
	rejected_on TEXT,
	PRIMARY KEY (import_id),
	CONSTRAINT counts_reconcile CHECK (landed = accepted + duplicate + superseded + rejected),
	CONSTRAINT counts_are_counts CHECK (accepted >= 0 AND duplicate >= 0 AND superseded >= 0 AND rejected >= 0),
	UNIQUE (arrival),
	CONSTRAINT import_state CHECK (state IN ('LANDING', 'LANDED', 'LOADED', 'FAILED'))
);

CREATE INDEX imports_by_content ON imports (source, sha256);

CREATE TABLE leases (
	work_id TEXT NOT NULL,
	attempt TEXT NOT NULL,
	holder TEXT NOT NULL,
	machine TEXT NOT NULL,
	since_at DATETIME NOT NULL,
	until_at DATETIME NOT NULL,
	PRIMARY KEY (work_id)
);

CREATE TABLE manifests (
	run_id TEXT NOT NULL,
	digest VARCHAR(64) NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (run_id)
);

CREATE TABLE outbox (
	sequence BIGINT NOT NULL,
	publication_id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	table_name TEXT NOT NULL,
	partitions TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	delivered_at DATETIME,
	withdrawn_at DATETIME,
	attempts INTEGER DEFAULT '0' NOT NULL,
	note TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (sequence),
	FOREIGN KEY(publication_id) REFERENCES publications (publication_id),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE UNIQUE INDEX one_entry_per_publication ON outbox (publication_id);

CREATE INDEX open_outbox_entries ON outbox (sequence) WHERE delivered_at IS NULL AND withdrawn_at IS NULL;

CREATE INDEX unwithdrawn_outbox_entries ON outbox (publication_id) WHERE withdrawn_at IS NULL;

CREATE TABLE partition_versions (
	table_name TEXT NOT NULL,
	partition_date DATE NOT NULL,
	version INTEGER NOT NULL,
	month INTEGER NOT NULL,
	state VARCHAR(16) NOT NULL,
	run_id TEXT NOT NULL,
	publication_id TEXT NOT NULL,
	files TEXT NOT NULL,
	row_count BIGINT NOT NULL,
	checksum TEXT NOT NULL,
	replaces INTEGER NOT NULL,
	delta_version BIGINT NOT NULL,
	accepted_at DATETIME NOT NULL,
	provenance TEXT NOT NULL,
	files_digest VARCHAR(64) NOT NULL,
	file_count INTEGER NOT NULL,
	size_bytes BIGINT NOT NULL,
	removed_at DATETIME,
	PRIMARY KEY (table_name, partition_date, version),
	CONSTRAINT versions_count_up CHECK (version > 0 AND replaces < version),
	CONSTRAINT version_state CHECK (state IN ('ACCEPTED', 'SUPERSEDED', 'ROLLED_BACK', 'EXPIRED')),
	FOREIGN KEY(run_id) REFERENCES runs (run_id),
	FOREIGN KEY(publication_id) REFERENCES publications (publication_id)
);

CREATE UNIQUE INDEX one_accepted_version_per_partition ON partition_versions (table_name, partition_date) WHERE state = 'ACCEPTED';

CREATE INDEX versions_by_publication ON partition_versions (publication_id, month);

CREATE INDEX versions_by_run ON partition_versions (run_id, state);

CREATE TABLE publication_changes (
	publication_id TEXT NOT NULL,
	partition_date DATE NOT NULL,
	expected_version INTEGER NOT NULL,
	expected_files TEXT NOT NULL,
	new_files TEXT NOT NULL,
	row_count BIGINT NOT NULL,
	checksum TEXT NOT NULL,
	restores INTEGER,
	provenance TEXT NOT NULL,
	files_digest VARCHAR(64) NOT NULL,
	file_count INTEGER NOT NULL,
	size_bytes BIGINT NOT NULL,
	PRIMARY KEY (publication_id, partition_date),
	FOREIGN KEY(publication_id) REFERENCES publications (publication_id)
);

CREATE TABLE publications (
	publication_id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	action VARCHAR(16) NOT NULL,
	table_name TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	asked_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	undoes TEXT,
	lineage_digest TEXT NOT NULL,
	begun_sequence BIGINT NOT NULL,
	started_at DATETIME NOT NULL,
	finished_at DATETIME,
	delta_version BIGINT,
	log TEXT,
	note TEXT NOT NULL,
	PRIMARY KEY (publication_id),
	FOREIGN KEY(run_id) REFERENCES runs (run_id),
	CONSTRAINT publication_action CHECK (action IN ('PUBLISH', 'ROLLBACK')),
	CONSTRAINT publication_state CHECK (state IN ('PUBLISHING', 'PUBLISHED', 'ABANDONED', 'ROLLED_BACK')),
	FOREIGN KEY(undoes) REFERENCES publications (publication_id)
);

CREATE UNIQUE INDEX one_open_publication_per_table ON publications (table_name) WHERE state = 'PUBLISHING';

CREATE INDEX publications_by_run ON publications (run_id);

CREATE INDEX publications_by_state ON publications (state, begun_sequence);

CREATE INDEX publications_by_table ON publications (table_name, begun_sequence);

CREATE TABLE replays (
	replay_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	subject TEXT NOT NULL,
	table_name TEXT NOT NULL,
	period_from DATETIME,
	period_to DATETIME,
	parts TEXT NOT NULL,
	family TEXT NOT NULL,
	stream TEXT NOT NULL,
	target TEXT NOT NULL,
	mark TEXT NOT NULL,
	stream_partitions INTEGER NOT NULL,
	is_live BOOLEAN NOT NULL,
	identity TEXT,
	contract TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	sender TEXT,
	progress BIGINT,
	sent BIGINT,
	left_out BIGINT,
	failure TEXT,
	ends TEXT NOT NULL,
	asked_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	asked_at DATETIME NOT NULL,
	policy TEXT NOT NULL,
	sent_at DATETIME,
	closed_by TEXT,
	closed_at DATETIME,
	PRIMARY KEY (replay_id),
	UNIQUE (number),
	CONSTRAINT replay_state CHECK (state IN ('ASKED', 'SENDING', 'SENT', 'FAILED', 'CLOSED'))
);

CREATE INDEX replays_by_state ON replays (state, stream, target);

CREATE TABLE restatement_sets (
	set_id TEXT NOT NULL,
	name TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	note TEXT NOT NULL,
	added_sequence BIGINT NOT NULL,
	updated_at DATETIME NOT NULL,
	PRIMARY KEY (set_id),
	FOREIGN KEY(set_id) REFERENCES manifests (run_id),
	CONSTRAINT set_state CHECK (state IN ('PENDING', 'PUBLISHING', 'PARTLY_PUBLISHED', 'PUBLISHED', 'VERIFIED', 'ROLLING_BACK', 'ROLLED_BACK', 'CANCELLED'))
);

CREATE TABLE run_follows (
	run_id TEXT NOT NULL,
	publication_id TEXT NOT NULL,
	PRIMARY KEY (run_id, publication_id),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE INDEX followers_by_publication ON run_follows (publication_id, run_id);

CREATE TABLE runs (
	run_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	table_name TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	note TEXT NOT NULL,
	added_sequence BIGINT NOT NULL,
	updated_at DATETIME NOT NULL,
	attempt TEXT DEFAULT '' NOT NULL,
	kind VARCHAR(16) NOT NULL,
	mode VARCHAR(16) NOT NULL,
	because VARCHAR(16) NOT NULL,
	first_partition DATE NOT NULL,
	last_partition DATE NOT NULL,
	priority INTEGER NOT NULL,
	terms TEXT NOT NULL,
	left_sequence BIGINT,
	gates TEXT,
	PRIMARY KEY (run_id),
	FOREIGN KEY(run_id) REFERENCES manifests (run_id),
	CONSTRAINT run_state CHECK (state IN ('PLANNED', 'STAGING', 'STAGED', 'GATING', 'PASSED', 'BLOCKED', 'FAILED', 'PUBLISHING', 'PUBLISHED', 'VERIFIED', 'SUPERSEDED', 'ROLLED_BACK', 'CANCELLED')),
	CONSTRAINT run_kind CHECK (kind IN ('BACKFILL', 'REPROCESSING', 'RESTATEMENT', 'REPAIR', 'MIGRATION', 'BOOTSTRAP', 'LIVE', 'EXPIRY')),
	CONSTRAINT run_mode CHECK (mode IN ('LIVE', 'BACKFILL', 'REPLAY', 'DRY_RUN', 'RECONCILIATION')),
	CONSTRAINT run_cause CHECK (because IN ('PERSON', 'FOLLOW_UP', 'LIVE'))
);

CREATE INDEX runs_by_cause ON runs (because, added_sequence);

CREATE INDEX runs_by_mode ON runs (mode, added_sequence);

CREATE INDEX runs_by_request ON runs (request_id);

CREATE INDEX runs_by_sequence ON runs (added_sequence);

CREATE INDEX runs_by_state ON runs (state, because);

CREATE INDEX runs_by_table ON runs (table_name, added_sequence);

CREATE INDEX runs_by_table_and_state ON runs (table_name, state, mode);

CREATE TABLE samples (
	sequence BIGINT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	run_id TEXT NOT NULL,
	salt TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (sequence, kind),
	CONSTRAINT sample_kind CHECK (kind IN ('CHANGED_ROWS', 'FAILING_KEYS', 'BREAKDOWN', 'PARTITION_CELLS', 'ROW_CHANGES', 'USUAL')),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE INDEX samples_by_run ON samples (run_id, sequence);

CREATE TABLE table_acts (
	act_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	act VARCHAR(16) NOT NULL,
	name TEXT NOT NULL,
	table_name TEXT NOT NULL,
	from_table TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	asked_by TEXT NOT NULL,
	asked_at DATETIME NOT NULL,
	reason TEXT NOT NULL,
	policy TEXT NOT NULL,
	waits BOOLEAN NOT NULL,
	done_at DATETIME,
	done_sequence BIGINT,
	undone_at DATETIME,
	PRIMARY KEY (act_id),
	UNIQUE (number),
	CONSTRAINT table_act CHECK (act IN ('START', 'STOP', 'CUT_OVER', 'RETIRE')),
	CONSTRAINT act_state CHECK (state IN ('ASKED', 'DONE', 'UNDONE', 'CANCELLED'))
);

CREATE INDEX table_acts_by_name ON table_acts (name, done_sequence);

CREATE TABLE verifications (
	publication_id TEXT NOT NULL,
	partition_date DATE NOT NULL,
	version INTEGER NOT NULL,
	provenance TEXT NOT NULL,
	PRIMARY KEY (publication_id, partition_date),
	FOREIGN KEY(publication_id) REFERENCES publications (publication_id)
);

CREATE INDEX verifications_by_partition ON verifications (partition_date, version);
