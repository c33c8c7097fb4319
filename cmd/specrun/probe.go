package main

import "github.com/spf13/cobra"

func newProbeCommand(a *app) *cobra.Command {
	var f sweepFlags
	c := &cobra.Command{
		Use:   "probe PATCH [KEY=VALUE...]",
		Short: "Measure what a patch costs, and which of its numbers may be used",
		Long: `Measure what a patch costs: the same cell without any patch and with PATCH alone,
in launches that take turns (ABBAAB), one run each. The cell is the default one of
the spec, with the values given. The result is the time per token with the patch
over that without, with its interval; what that is in a cycle; and for each number
that the patch prints whether it may be used. It is stored, and named beside later
results with this patch on this host.

PATCH is a built-in name, one of ./patches.d, or a folder. Each server is started
and stopped as in a sweep; at the end the host is as it was found.

VERDICTS
  negligible  the interval of the ratio lies within 2 % of 1
  distorts    tokens take longer by more than noise and by more than 2 %
  unclear     neither is known; with --rounds 1 always` +
			exitStatus(exitOK, exitFailed, exitUsage, exitPartial, exitConflict, exitUnreachable, exitLocked),
		Example: `  specrun probe profiling-v3 --host kimi-8gpu
  specrun probe ./my-patch steps=3 --host kimi-8gpu --rounds 6`,
		Args: needs("a PATCH", 1, 0, "specrun patch list"),
		RunE: func(c *cobra.Command, args []string) error {
			f.probe = args[0]
			return a.runSweep(c.Context(), f, args[1:])
		},
	}
	c.Flags().StringVarP(&f.specFile, "file", "f", "", specUsage)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and the command of each launch, change nothing")
	c.Flags().DurationVar(&f.wait, "wait", 0, waitUsage)
	c.Flags().IntVar(&f.rounds, "rounds", 0, "`N` pairs of launches (default 3)")
	f.registerDetach(c)
	return c
}
