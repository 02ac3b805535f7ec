select max(version) from semel.migration
