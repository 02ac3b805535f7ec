-- The shop's own table, created once when semel first runs against a store.
-- There is deliberately no unique key: if a payment were booked twice, it would show as two rows.
create table if not exists ledger (
    payment_id text not null,
    account text not null,
    amount bigint not null check (amount > 0) -- cents
);
