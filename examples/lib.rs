//! Examples of semel, one idea each.
