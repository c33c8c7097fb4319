package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/record"
)

// app is one invocation: the outside world, the global flags and the printer.
type app struct {
	*env
	*printer
	flags     globals
	started   bool                                     // a command's own code was reached: flags and arguments were right
	passing   bool                                     // results are gone when the command ends
	normalise bool                                     // show numbers as if the baseline had stood still, too
	demo      *lab.Lab                                 // the practice host of "specrun demo", which runs in this process
	hook      func(experiments.Boundary, record.Event) // tests end the process in it
	stopping  atomic.Pointer[string]                   // what the first signal does; nil: it undoes
	patient   atomic.Bool                              // signals after the first one change nothing
}

// globals are the flags that every command understands; they may stand before
// the command.
type globals struct {
	hosts        []string
	hostsFile    string
	store        string
	python       string
	workerBinary string
	json         bool
	quiet        bool
	verbose      bool
	yes          bool
	acceptNew    bool
}

// run executes one command line and returns the exit code.
func run(args []string, e *env) int {
	out := &checkedWriter{to: e.stdout}
	a := &app{env: e, printer: &printer{out: out, err: e.stderr, live: e.stderrTTY, columns: e.columns}}
	ctx, caught, stop := a.signals()
	defer stop()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(e.stderr)
	root.SetIn(e.stdin)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = a.usageOf(root, args, err)
	}
	a.done()
	code := exitCode(err, a.started)
	if sig := caught(); sig != nil && interrupted(err, code) {
		code = 128 + int(sig.(syscall.Signal))
	}
	a.report(err, code)
	if out.err != nil && code == exitOK {
		fmt.Fprintf(e.stderr, "error: write the result: %v\n", out.err)
		return exitFailed
	}
	return code
}

// sameSignal is how soon a second signal still counts as the first one: "timeout"
// and service managers signal the process and then its group.
const sameSignal = time.Second

// signals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels,
// so that commands undo and save; a later one ends the program at once, unless it
// is patient.
func (a *app) signals() (context.Context, func() os.Signal, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var first atomic.Value
	ended := make(chan struct{})
	go func() {
		var since time.Time
		for {
			select {
			case sig := <-ch:
				switch {
				case since.IsZero():
					since = a.now()
					first.Store(sig)
					text := "stopping: undoing what is in progress; once more stops at once"
					if other := a.stopping.Load(); other != nil {
						text = *other
					}
					a.note("%s", text)
					cancel()
				case a.now().Sub(since) >= sameSignal && !a.patient.Load():
					a.note("stopped at once; run \"specrun resume\" or \"specrun status\" to see what is left")
					os.Exit(128 + int(sig.(syscall.Signal)))
				}
			case <-ended:
				return
			}
		}
	}()
	caught := func() os.Signal {
		sig, _ := first.Load().(os.Signal)
		return sig
	}
	return ctx, caught, func() {
		signal.Stop(ch)
		close(ended)
		cancel()
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "specrun",
		Short: "Deploy profiling patches to GPU hosts and run experiments on their inference servers",
		Long: `specrun deploys profiling patches to GPU hosts over SSH and runs experiments on
the inference servers there. Nothing on a host is ever left half-changed or lost,
and no number is shown without what it may be trusted for.

Try it without a GPU:   specrun demo`,
		Example: `  specrun apply profiling-v4 --host kimi-8gpu
  specrun sweep steps=1..4 --host kimi-8gpu
  specrun rollback --host kimi-8gpu`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
			a.json, a.quiet, a.verbose = a.flags.json, a.flags.quiet, a.flags.verbose
			a.live = a.live && !a.flags.quiet
		},
	}
	root.DisableSuggestions = true // usageOf gives them as a hint
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringArrayVar(&a.flags.hosts, "host", nil, "`NAME` from hosts.yaml, ssh alias, user@address, local or lab; repeatable")
	f.StringVar(&a.flags.hostsFile, "hosts-file", "", "`FILE` with hosts (default ./hosts.yaml, then the config folder's)")
	f.StringVar(&a.flags.store, "store", "", "`PATH` of the results (default .specrun/results.db beside a spec)")
	f.StringVar(&a.flags.python, "python", "", "`PATH` on the host of the interpreter that runs the server")
	f.StringVar(&a.flags.workerBinary, "worker-binary", "", "`FILE`: linux build of specrun to push as benchmark client")
	f.BoolVar(&a.flags.json, "json", false, "print JSON lines")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "no progress, only results and errors")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "say more about what is done")
	f.BoolVarP(&a.flags.yes, "yes", "y", false, "never ask before what is not ours is stopped, overwritten or taken")
	f.BoolVar(&a.flags.acceptNew, "accept-new", false, "record the key of a host that was never seen before")
	root.AddGroup(&cobra.Group{ID: "main", Title: "The job:"}, &cobra.Group{ID: "results", Title: "Results:"}, &cobra.Group{ID: "more", Title: "More:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("main", newDemoCommand(a), newInitCommand(a), newApplyCommand(a), newStatusCommand(a), newRunCommand(a), newSweepCommand(a), newProbeCommand(a), newResumeCommand(a), newCancelCommand(a), newServerCommand(a), newWatchCommand(a), newRollbackCommand(a))
	add("results", newListCommand(a), newShowCommand(a), newCompareCommand(a), newDiffCommand(a), newTagCommand(a), newLogsCommand(a), newParseCommand(a), newImportCommand(a), newExportCommand(a))
	add("more", newPatchCommand(a), newLockCommand(a), newLabCommand(a), newSchemaCommand(a), newVersionCommand(a))
	root.AddCommand(newBenchWorkerCommand(a), newDetachedCommand(a))
	arrangeHelp(root)
	a.arrangeCompletion(root)
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	return root
}
