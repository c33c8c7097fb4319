// Package metrics reads logs and benchmark outputs: bytes in, numbers and crash
// findings out. It touches no host, no file and no clock.
//
// Two ways in lead to the same reading. Parse takes a whole file of any known
// kind. A Follower takes a growing server log in chunks, as it is followed by
// byte offset during a launch; it gives the same result for any chunking.
//
// A physical line ends at LF or CR; line numbers count LF only. Lines are
// cleaned (NUL, BOM, ANSI codes, invalid UTF-8), then the prefixes of loggers
// and collectors are peeled off and kept as the stream a line belongs to
// (rank, service, pod, file, pid). Then each reader sees each entry: one reader
// per kind of text (SGLang decode lines, vLLM interval lines, profiler blocks
// and their JSON lines, benchmark result blocks and tables, nvidia-smi, crash
// markers). What the readers found decides the file's engine and kind. JSON and
// CSV documents have readers of their own.
//
// The shape of a Report is that of the log samples in testdata: a metric without
// a value is absent, never 0; a number that the source printed as NaN or Inf
// stays so; damage (cut blocks, torn records, bad lines) is counted, not hidden.
//
// Summarise turns what a Follower found inside a benchmark's window into the
// metrics of a run.
package metrics
