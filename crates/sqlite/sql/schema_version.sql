select max(version) from semel_migration;
