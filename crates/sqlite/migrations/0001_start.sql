-- semel's tables, version 1. Times are milliseconds since 1970-01-01T00:00:00Z by this machine's clock.
-- Nothing here is STRICT, so that older SQLite tools can still open the application's own tables beside these.

create table semel_migration (
    version integer primary key,
    applied_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer))
);

-- The application's own SQL that was run once on this database, told by name and content.
create table semel_setup (
    name text not null primary key,
    digest blob not null,
    applied_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer))
) without rowid;

create table semel_consumer (
    number integer primary key,
    name text not null unique,
    window_ms integer,
    epoch integer not null default 0, -- raised by `forget`: whoever keeps ids in memory must drop them then
    created_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer))
);

-- The claims: the primary key is the referee (law 1), compared byte by byte (law 9).
-- PostgreSQL also has `claim_by_time`, partitioned by the time inside the id; SQLite has no partitions, so all ids are here.
create table semel_claim (
    consumer integer not null,
    message_id text not null,
    fingerprint blob, -- null: matches every other (law 10)
    fingerprint_version integer not null default 0,
    token integer, -- for databases that must read back whose claim it is; SQLite has one writer and needs none
    claimed_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    message_time integer,
    primary key (consumer, message_id)
) without rowid;

create index semel_claim_age on semel_claim (consumer, claimed_at);

-- The newest message time whose claim was swept (law 26).
create table semel_floor (
    consumer integer primary key,
    message_time integer not null
);

create table semel_position (
    consumer integer not null,
    source text not null,
    unit text not null,
    position text not null,
    saved_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    primary key (consumer, source, unit)
) without rowid;

-- Processes, and the attempts that they have begun (law 15).
create table semel_instance (
    consumer integer not null,
    id text not null,
    place text not null,
    process integer not null,
    started integer not null,
    started_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    beat_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    primary key (consumer, id)
) without rowid;

create table semel_attempt (
    consumer integer not null,
    message_id text not null,
    instance text not null,
    crashes integer not null default 0,
    started_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    primary key (consumer, message_id)
) without rowid;

-- Messages that were claimed and wait. `headers` and `properties` are JSON text, in which U+0000 is escaped; `body_length` and
-- `body_digest` are set where only the beginning of the body was kept.
create table semel_inbox (
    seq integer primary key,
    consumer integer not null,
    message_id text not null,
    kind text not null,
    key text,
    message_time integer,
    fingerprint blob,
    fingerprint_version integer not null default 0,
    attempts integer not null default 0,
    holds integer not null default 0, -- whether later messages of its key wait behind it
    due_at integer not null,
    since integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    error text not null default '',
    instance text not null default '',
    priority integer not null default 0,
    leased_until integer,
    lease integer,
    headers text not null,
    body blob not null,
    body_length integer,
    body_digest blob,
    properties text not null,
    unique (consumer, message_id)
);

create index semel_inbox_due on semel_inbox (consumer, due_at);
create index semel_inbox_holds on semel_inbox (consumer, key, seq) where holds and key is not null;

-- `reference` is the message id, else the coordinates in the source; `fingerprint` is all zeros where there is none, so that the key is
-- never null. Numbers are never used again: an operator may type one that was removed meanwhile.
create table semel_dead_letter (
    number integer primary key autoincrement,
    consumer integer not null,
    reason text not null,
    reference text not null,
    message_id text,
    kind text not null,
    key text,
    message_time integer,
    fingerprint blob not null,
    fingerprint_version integer not null default 0,
    error text not null,
    attempts integer not null default 0,
    seen integer not null default 1,
    first_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    last_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    headers text not null,
    body blob not null,
    body_length integer,
    body_digest blob,
    properties text not null,
    unique (consumer, reference, reason, fingerprint)
);

-- Outgoing messages, and the leases of those who send them: for a later version.
create table semel_outgoing (
    seq integer primary key,
    id text not null,
    slot integer not null,
    destination text not null,
    kind text not null,
    key text,
    headers text not null default '[]',
    body blob not null,
    correlation_id text,
    causation_id text,
    created_at integer not null default (cast(round(unixepoch('now', 'subsec') * 1000) as integer)),
    due_at integer,
    retry_at integer,
    attempts integer not null default 0,
    error text,
    parked_at integer
);

create table semel_relay_slot (
    slot integer primary key,
    owner text,
    fence integer not null default 0,
    leased_until integer
);

insert into semel_migration (version) values (1);
