select consumer, source, unit, position from semel_position order by source, unit;
