"""What a job is, the record of jobs, and what is done with many of them."""
