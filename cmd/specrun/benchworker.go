package main

import (
	"github.com/spf13/cobra"

	"specrun/experiments/bench"
)

// newBenchWorkerCommand is what specrun starts on a host to load a server.
func newBenchWorkerCommand(*app) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:    "bench-worker --dir DIR",
		Short:  "Do the benchmark job of a run folder (started by specrun on a host)",
		Args:   noArgs,
		Hidden: true,
		RunE:   func(c *cobra.Command, _ []string) error { return bench.Serve(c.Context(), dir) },
	}
	c.Flags().StringVar(&dir, "dir", "", "run `FOLDER` that holds the job")
	return c
}
