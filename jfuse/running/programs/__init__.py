"""External programs, which run in processes of their own and end with this one."""
