// Package bench loads a server and measures it from the client's side.
//
// The driver is a streaming client of the OpenAI-compatible endpoints: a closed
// loop of Job.Concurrency workers, fixed prompts in an order that the seed
// gives, token counts from the server's own usage record, times by the monotonic
// clock. A failed request is counted and never averaged in.
//
// A cycle costs more the longer the context, so nothing here is compared across
// positions. An automatic warm-up drops the first request and then goes on until
// two successive ones agree in time per chunk at the positions that both have,
// with a bound. Each request keeps when it had reached every 32nd token, by the
// server's running count where it sends one, so that runs with outputs of other
// lengths can be compared later. The steady window leaves out ramp and drain by
// a rule that the report holds in words. Counters of the server's /metrics are
// read before and after, and only their difference counts.
//
// Run does the load in this process. On a host it runs in a worker: the linux
// build of specrun, pushed once under the hash of its bytes (EnsureWorker) and
// started as a detached process of its own (Start), so that a closed laptop
// neither ends nor distorts the measurement. Everything about one benchmark lies
// in its run folder: the job, the worker's identity, a progress file that is a
// heartbeat, and the report, which appears whole or not at all. Start, Poll and
// Stop are safe to repeat from anywhere: they ask that folder and the process
// table, and need no memory of their own.
//
// What the numbers mean for an experiment is decided elsewhere; this package
// knows neither cells nor labels.
package bench
