"""The records that users read: of a conversion, of a verification."""
