delete from semel_claim
where consumer = ?1 and message_id in (
    select claim.message_id
    from semel_claim as claim
    where claim.consumer = ?1 and claim.claimed_at < ?2
      and not exists (select 1 from semel_inbox where consumer = ?1 and message_id = claim.message_id)
      and not exists (
          select 1 from semel_dead_letter
          where consumer = ?1 and reference = claim.message_id and message_id = claim.message_id
      )
    order by claim.claimed_at, claim.message_id
    limit ?3
);
