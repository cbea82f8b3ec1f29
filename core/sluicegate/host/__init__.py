"""What every room needs of the host: files, child processes, small HTTP requests, the wall clock."""
