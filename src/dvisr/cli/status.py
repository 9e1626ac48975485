"""What the command exits with."""

OK = 0
FAILED_CHECK = 1
WRONG_REQUEST = 2
INTERRUPTED = 130
TERMINATED = 143
