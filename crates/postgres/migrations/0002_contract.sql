-- The SQL contract: semel's claim for programs in any language, inside their own transaction. This file is never
-- edited: what changes later is another file.
--
--   begin;
--   select semel.claim('billing', $1);   -- fresh: do the work · duplicate: it was done · conflict, stale: set it aside
--   …                                    -- the work, in this same transaction
--   commit;                              -- then acknowledge
--
-- The functions run with the rights of their owner and with a search_path of their own. Nobody but the owner may call
-- them before this is said:
--   grant usage on schema semel to …;
--   grant execute on function semel.register(text), semel.claim(text, text, bytea) to …;
-- Whoever may call semel.claim can claim for every consumer: grant it to the programs that do the work, not to their
-- users.

create function semel.register(name text) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
  found_number int;
begin
  if $1 is null or $1 = '' or octet_length($1) > 255 then
    raise exception 'semel.register: a consumer''s name has 1 to 255 bytes' using errcode = '22023';
  end if;
  select c.number into found_number from semel.consumer c where c.name = $1;
  if found_number is null then
    insert into semel.consumer (name) values ($1) on conflict do nothing returning number into found_number;
  end if;
  if found_number is null then
    -- Another session was first. A statement of its own: its snapshot is taken after the wait.
    select c.number into found_number from semel.consumer c where c.name = $1;
  end if;
  if found_number is null then
    raise exception 'semel.register: another transaction registered % at the same moment; run this transaction again', quote_literal($1)
      using errcode = '40001';
  end if;
  return found_number;
end
$$;

comment on function semel.register(text) is
  'Registers a consumer''s name, once, outside the work''s transaction, and answers its number. A name that is registered keeps its number.';

create function semel.claim(consumer text, id text, fingerprint bytea default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
  v_consumer int;
  v_window   bigint;
  -- Only callers of this function compare this fingerprint: a version of its own, for programs on semel's library make
  -- theirs otherwise.
  v_print    bytea := substring(sha256($3) from 1 for 16);
  v_version  smallint := case when $3 is null then 0 else -1 end;
  v_time     timestamptz;
  v_skew     interval;
  v_floor    timestamptz;
  v_context  text;
  o_print    bytea;
  o_version  smallint;
begin
  if $2 is null then
    raise exception 'semel.claim: the message id is null' using errcode = '22023',
      hint = 'A message without an id cannot be told from its repeat: set it aside.';
  elsif $2 = '' then
    raise exception 'semel.claim: the message id is empty' using errcode = '22023',
      hint = 'A message without an id cannot be told from its repeat: set it aside.';
  elsif octet_length($2) > 255 then
    raise exception 'semel.claim: the message id has % bytes; at most 255 are allowed', octet_length($2) using errcode = '22023';
  end if;

  select c.number, c.window_ms into v_consumer, v_window from semel.consumer c where c.name = $1;
  if v_consumer is null then
    raise exception 'semel.claim: the consumer % is not registered', coalesce(quote_literal($1), 'null') using errcode = '42704',
      hint = 'Call select semel.register(name) once, outside the work''s transaction.';
  end if;

  -- In autocommit the claim commits alone, before the work. That cannot be seen from here for sure, so this warns only
  -- where it is certain: the client sent nothing but this call, as the first words of its transaction, and no function
  -- stands in between. (With the extended protocol the two times differ in autocommit too: then nothing is said.)
  if statement_timestamp() = transaction_timestamp()
    and current_query() ~* '^\s*select\s+(\*\s+from\s+)?"?semel"?\s*\.\s*"?claim"?\s*\([^;]*\)\s*(as\s+\w+\s*)?;?\s*$'
  then
    get diagnostics v_context = pg_context;
    if position(E'\n' in v_context) = 0 then
      raise warning 'semel.claim: called outside a transaction block: the claim is committed before the work is done'
        using hint = 'begin; select semel.claim(…); the work; commit;';
    end if;
  end if;

  -- The time inside a UUIDv7, unless it has not come yet: the floor is made of it, and must not run ahead.
  v_skew := least(interval '5 minutes', coalesce(v_window, 604800000) / 4 * interval '1 millisecond');
  if $2 ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' then
    v_time := to_timestamp(('x' || substr($2, 1, 8) || substr($2, 10, 4))::bit(48)::bigint / 1000.0);
    if v_time > clock_timestamp() + v_skew then
      v_time := null;
    end if;
  end if;

  insert into semel.claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
  values (v_consumer, $2, v_print, v_version, v_time)
  on conflict do nothing;
  if found then
    -- The floor in a statement of its own, after the claim: a sweep that removed this id's first claim has committed it
    -- before.
    if v_time is not null then
      select f.message_time into v_floor from semel.floor f where f.consumer = v_consumer;
      if v_time <= v_floor + v_skew then
        delete from semel.claim c where c.consumer = v_consumer and c.message_id = $2;
        return 'stale';
      end if;
    end if;
    return 'fresh';
  end if;

  -- A second statement: it sees a twin that committed while the insert waited.
  select c.fingerprint, c.fingerprint_version into o_print, o_version
  from semel.claim c where c.consumer = v_consumer and c.message_id = $2;
  if not found then
    raise exception 'semel.claim: the claim was removed while it was read; run this transaction again' using errcode = '40001';
  end if;
  -- No fingerprint, or one that was made by another rule, matches everything.
  if v_version = 0 or o_version is distinct from v_version or o_print is not distinct from v_print then
    return 'duplicate';
  end if;
  return 'conflict';
end
$$;

comment on function semel.claim(text, text, bytea) is
  'Claims a message id for a registered consumer inside the caller''s transaction: fresh (ours, if this transaction commits), duplicate, '
  'conflict (same id, other fingerprint) or stale (so old that nobody can tell). A twin in another transaction is waited for, at most 5 s: '
  'then error 55P03.';

revoke all on function semel.register(text), semel.claim(text, text, bytea) from public;

-- The proof before COMMIT (law 11), for semel's own programs: this transaction is the one that holds the claim. Fails with SM001 otherwise, and
-- with 25P02 in an aborted transaction. It also makes the commit durable where the session would not (law 6), and never lowers a stronger
-- setting. A function, because its plans are kept: as plain SQL in the round trip of COMMIT it would be parsed and planned every time.
create function semel.prove(transaction text) returns void
language plpgsql
as $$
begin
  if pg_current_xact_id_if_assigned()::text is distinct from transaction then
    raise exception 'this is not the transaction that holds the claim' using errcode = 'SM001';
  end if;
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$$;

insert into semel.migration (version) values (2);
