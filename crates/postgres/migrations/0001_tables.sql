-- semel's tables. This file is never edited: what changes later is another file.
--
-- Ids, kinds, keys and names are compared byte by byte (collate "C", law 9). Times are the database's clock.
-- Fixed-width columns come first in the tables that grow: less padding. No foreign keys: each would lock a row of
-- semel.consumer in every transaction.
--
-- A role that is not the owner needs:
--   grant usage on schema semel to …;
--   grant select, insert, update, delete on all tables in schema semel to …;

-- The schema may have been made beforehand, for a role that may not create schemas ("if not exists" would ask for that
-- right all the same).
do $$
begin
  if to_regnamespace('semel') is null then
    create schema semel;
  end if;
end
$$;

create table semel.migration (
  version    int primary key,
  applied_at timestamptz not null default now()
);

-- Setup files that were run on this database, with the SHA-256 of their text.
create table semel.setup (
  name       text collate "C" primary key,
  digest     bytea not null,
  applied_at timestamptz not null default now()
);

-- The scopes of the claims (law 2). Claims carry the number.
create table semel.consumer (
  number     int generated always as identity primary key,
  name       text collate "C" not null unique,
  window_ms  bigint,                                  -- how long claims are kept; null: not said yet
  epoch      bigint not null default 0,               -- raised by forget: what is cached of this consumer is void then (law 5)
  created_at timestamptz not null default now()
);

-- This store has taken responsibility for this message: done, or waiting (semel.inbox), or a dead letter
-- (semel.dead_letter).
create table semel.claim (
  claimed_at          timestamptz not null default now(), -- stamped anew when a waiting message is done (law 25)
  message_time        timestamptz,                        -- what the floor is made of (law 26)
  token               bigint,                             -- for stores that cannot tell by the row count; unused here
  consumer            int not null,
  fingerprint_version smallint not null default 0,        -- 0: none, matches everything (law 10)
  message_id          text collate "C" not null,
  fingerprint         bytea,
  primary key (consumer, message_id)
);
create index claim_by_age on semel.claim (consumer, claimed_at);

-- The same for ids that are canonical UUIDv7: partitions of it can be dropped whole (law 24). It has no partition yet,
-- and is not used yet.
create table semel.claim_by_time (
  claimed_at          timestamptz not null default now(),
  message_time        timestamptz,
  token               bigint,
  message_id          uuid not null,
  consumer            int not null,
  fingerprint_version smallint not null default 0,
  fingerprint         bytea,
  primary key (consumer, message_id)
) partition by range (message_id);

-- At or below this time nobody can tell any more whether a message was processed (law 26).
create table semel.floor (
  consumer     int primary key,
  message_time timestamptz not null
);

-- How far a source was read that is read by position.
create table semel.position (
  consumer int not null,
  source   text collate "C" not null,
  unit     text collate "C" not null,
  position text not null,
  saved_at timestamptz not null default now(),
  primary key (consumer, source, unit)
);

-- Processes (law 15).
create table semel.instance (
  consumer   int not null,
  id         text collate "C" not null,
  place      text not null,
  process    bigint not null,
  started    bigint not null,                         -- in the system's ticks; a u64, bit by bit
  started_at timestamptz not null default now(),
  beat_at    timestamptz not null default now(),
  primary key (consumer, id)
);

-- Attempts that were begun and not ended: only one that a dead process left counts as a crash (law 15).
create table semel.attempt (
  consumer   int not null,
  message_id text collate "C" not null,
  instance   text collate "C" not null,
  crashes    int not null,
  started_at timestamptz not null default now(),
  primary key (consumer, message_id)
);

-- Messages that were claimed and wait. What a broker delivered is kept exactly: its properties and headers are JSON as
-- text, because jsonb and text refuse U+0000, which JSON writes as an escape.
create table semel.inbox (
  seq                 bigint generated always as identity,
  message_time        timestamptz,
  due_at              timestamptz not null,
  since               timestamptz not null default now(),
  leased_until        timestamptz,
  lease               bigint,
  body_length         bigint,                         -- set, like body_digest, where only the beginning of the body was kept
  consumer            int not null,
  attempts            int not null,
  fingerprint_version smallint not null,
  priority            smallint not null default 0,
  holds               boolean not null,               -- later messages of its key wait behind it
  message_id          text collate "C" not null,
  kind                text collate "C" not null,
  key                 text collate "C",
  fingerprint         bytea,
  error               text not null,
  instance            text collate "C" not null,
  properties          text not null,
  headers             text not null,
  body                bytea not null,
  body_digest         bytea,
  primary key (consumer, message_id)
);
create index inbox_by_due on semel.inbox (consumer, due_at);
create index inbox_by_order on semel.inbox (consumer, priority desc, seq);
create index inbox_by_held_key on semel.inbox (consumer, key, seq) where holds and key is not null;

-- Messages that could not be processed. The same again only raises "seen".
create table semel.dead_letter (
  number              bigint generated always as identity primary key,
  message_time        timestamptz,
  first_at            timestamptz not null default now(),
  last_at             timestamptz not null default now(),
  seen                bigint not null default 1,
  body_length         bigint,
  consumer            int not null,
  attempts            int not null,
  fingerprint_version smallint not null,
  reason              text collate "C" not null,
  reference           text collate "C" not null,      -- the message id, else the place in the source, shortened if it is very long
  message_id          text collate "C",
  kind                text collate "C" not null,
  key                 text collate "C",
  fingerprint         bytea not null,
  error               text not null,
  properties          text not null,
  headers             text not null,
  body                bytea not null,
  body_digest         bytea,
  unique (consumer, reason, reference, fingerprint)
);
create index dead_letter_by_message on semel.dead_letter (consumer, message_id) where message_id is not null;
create index dead_letter_by_reference on semel.dead_letter (reference);

-- Outgoing messages and who publishes which slot: for a later version, unused now.
create table semel.outbox (
  seq            bigint generated always as identity primary key,
  created_at     timestamptz not null default now(),
  due_at         timestamptz not null default now(),  -- the author's delay: holds nobody
  retry_at       timestamptz,                         -- backoff: holds its key
  parked_at      timestamptz,
  attempts       int not null default 0,
  slot           smallint not null,
  id             text collate "C" not null unique,
  destination    text collate "C" not null,
  kind           text collate "C" not null,
  key            text collate "C",
  correlation_id text,
  causation_id   text,
  error          text,
  headers        text not null,
  body           bytea not null
);
create index outbox_by_slot on semel.outbox (slot, seq) where parked_at is null;

create table semel.relay_slot (
  slot         smallint primary key,
  owner        text collate "C",
  fence        bigint not null default 0,
  leased_until timestamptz
);

insert into semel.migration (version) values (1);
