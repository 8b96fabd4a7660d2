//! Zones that are refused, and zones that are odd.
