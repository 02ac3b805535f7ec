-- $1 names · $2 texts: for each, in order, the digest that was stored, and whether it is that of the text
select stored.name is not null, stored.digest is not distinct from sha256(convert_to(given.sql, 'UTF8'))
from unnest($1::text[], $2::text[]) with ordinality as given (name, sql, place)
left join semel.setup stored on stored.name = given.name
order by given.place
