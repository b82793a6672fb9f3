"""The recurrent cells that are recognised, one file each."""
