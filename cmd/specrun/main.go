// Command specrun deploys profiling patches to GPU hosts over SSH and runs
// experiments on the inference servers there.
//
// This package turns flags into package calls and results into text, JSON lines
// and exit codes. It holds no SSH, SQL, parsing or statistics. It is the only
// place that reads flags, environment and home folder, and the only one that
// knows exit codes (errors.go).
package main

import "os"

// version is set by the linker.
var version = "devel"

func main() { os.Exit(run(os.Args[1:], systemEnv())) }
