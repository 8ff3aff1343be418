"""The command line: parse, call, print, exit status. One file per verb."""
