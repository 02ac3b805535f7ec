-- $1 consumer · $2 source · $3 units, sorted · $4 positions
insert into semel.position (consumer, source, unit, position, saved_at)
select $1, $2, g.unit, g.position, clock_timestamp()
from unnest($3::text[], $4::text[]) as g (unit, position)
on conflict (consumer, source, unit) do update set position = excluded.position, saved_at = excluded.saved_at
