package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"specrun/deploy/server"
	"specrun/experiments"
	"specrun/experiments/origin"
)

// initOptions are the flags of init.
type initOptions struct {
	pid       int
	command   string
	script    string
	container string
	out       string
	name      string
}

func newInitCommand(a *app) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented specrun.yaml from what runs today",
		Long: `Write an experiment file from a server that runs, or from the command that starts
it: its flags, environment, folder, interpreter and GPUs. The number of steps, topk,
draft tokens and attention mode become params that a sweep varies. The file is read
back, and the command that it plans is compared with the one that it comes from.

Nothing is run or changed on a host, and no script is executed: what cannot be known
without that is an error with its line. Secrets are written as references to your
environment, never their values. A file that exists is not overwritten. Without any
--from the file is a commented template.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: `  specrun init --from-pid 4242 --host kimi-8gpu
  specrun init --from-script launch.sh
  specrun init --from-cmd 'python -m sglang.launch_server --model-path M'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from := 0
			for _, flag := range []string{"from-pid", "from-cmd", "from-script", "from-container"} {
				if c.Flags().Changed(flag) {
					from++
				}
			}
			if from > 1 {
				return usagef("specrun init --help", "a file is written from one thing: give one --from")
			}
			return a.runInit(c.Context(), o, from == 1)
		},
	}
	f := c.Flags()
	f.IntVar(&o.pid, "from-pid", 0, "`PID` on the host: the server, or any process of it")
	f.StringVar(&o.command, "from-cmd", "", "`COMMAND` as you would give it to a shell")
	f.StringVar(&o.script, "from-script", "", "`FILE` here: a shell script that ends in the server's command; - reads standard input")
	f.StringVar(&o.container, "from-container", "", "`NAME` of a container on the host, or podman:NAME")
	f.StringVarP(&o.out, "output", "o", specFile, "`FILE` to write; - prints it")
	f.StringVar(&o.name, "name", "", "`NAME` of the experiment (default: the model's)")
	return c
}

func (a *app) runInit(ctx context.Context, o initOptions, from bool) error {
	if len(a.flags.hosts) > 1 {
		return usagef("name one host", "a file from %d hosts at once", len(a.flags.hosts))
	}
	if o.out != "-" {
		if _, err := os.Lstat(o.out); err == nil {
			return usagef("-o names another file, -o - prints it", "%s exists, and init overwrites nothing", o.out)
		}
	}
	host := firstArg(a.flags.hosts)
	if !from {
		return a.writeSpec(o, host, origin.Template(host), nil)
	}
	command, running, err := a.origin(ctx, o)
	if err != nil {
		return err
	}
	draft, err := origin.NewDraft(command, origin.Options{Host: host, Name: o.name})
	if err != nil {
		return err
	}
	text, err := draft.YAML()
	if err != nil {
		return err
	}
	check, err := draft.Check(text, experiments.Engines)
	if err != nil {
		return fmt.Errorf("the file that was made of %s cannot be used: %w", command.From, err)
	}
	return a.writeSpec(o, host, text, &drafted{draft, check, running})
}

// drafted is what there is to say about a file that was made of something.
type drafted struct {
	*origin.Draft
	check   origin.Comparison
	running int // pid of the server that still runs; 0 when none does
}

// origin reads the command that starts the server; running is its pid when it
// runs.
func (a *app) origin(ctx context.Context, o initOptions) (c origin.Command, running int, err error) {
	switch {
	case o.script != "":
		src, err := a.readScript(o.script)
		if err != nil {
			return c, 0, err
		}
		c, err = a.fromScript(ctx, o.script, src)
		return c, 0, err
	case o.container != "" || o.pid != 0:
		err = a.oneHost(ctx, func(ctx context.Context, h *connection) error {
			if o.container != "" {
				c, err = a.fromContainer(ctx, h, o.container)
				return err
			}
			if c, running, err = a.fromProcess(ctx, h, h.Name(), o.pid); err != nil {
				return err
			}
			changed, err := changedFiles(ctx, h, c)
			c.Notes = append(c.Notes, changed...)
			return err
		})
		return c, running, err
	case o.command != "":
		c, err = a.fromScript(ctx, "--from-cmd", o.command)
		return c, 0, err
	}
	return c, 0, usagef("specrun init --help", "--from needs a process, a command, a script or a container")
}

func (a *app) readScript(file string) (string, error) {
	var src []byte
	var err error
	if file == "-" {
		src, err = io.ReadAll(a.stdin)
	} else {
		src, err = os.ReadFile(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", usagef("--from-script takes a file of this machine: copy one that lies on a host here first, or pipe it in: ssh HOST cat FILE | specrun init --from-script -", "%s: no such file", file)
	}
	return string(src), err
}

// fromScript reads a shell text; the host's session is asked only for what the
// text takes from its environment.
func (a *app) fromScript(ctx context.Context, name, src string) (origin.Command, error) {
	c, err := origin.Script(name, src, nil)
	var unknown *origin.ScriptError
	if err == nil || !errors.As(err, &unknown) || len(a.flags.hosts) == 0 {
		return c, err
	}
	err = a.oneHost(ctx, func(ctx context.Context, h *connection) error {
		session, err := server.SessionEnv(ctx, h)
		if err != nil {
			return err
		}
		c, err = origin.Script(name, src, func(name string) (string, bool) {
			value, known := session[name]
			return value, known
		})
		return err
	})
	return c, err
}

// oneHost runs f on the one host that --host names.
func (a *app) oneHost(ctx context.Context, f func(context.Context, *connection) error) error {
	entries, err := a.hostEntries(ctx, nil)
	if err != nil {
		return err
	}
	h, err := a.connect(ctx, entries[0])
	if err != nil {
		return err
	}
	return unwrapOne(errors.Join(f(ctx, h), h.Close()))
}

// initLine is the JSON of what init did.
type initLine struct {
	File    string   `json:"file"`
	Text    string   `json:"text,omitempty"` // with -o -
	Engine  string   `json:"engine,omitempty"`
	Lifted  []string `json:"lifted,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // variables to export
	Argv    []string `json:"argv,omitempty"`    // that the file plans
	Equal   *bool    `json:"equal,omitempty"`
	Next    string   `json:"next"`
}

// writeSpec writes the file and says what is in it and what comes next. d is nil
// for the template.
func (a *app) writeSpec(o initOptions, host string, text []byte, d *drafted) error {
	if o.out != "-" {
		if err := createFile(o.out, text); err != nil {
			return err
		}
	}
	next := a.afterInit(o, host, d)
	if a.flags.json {
		line := initLine{File: o.out, Next: next}
		if o.out == "-" {
			line.Text = string(text)
		}
		if d != nil {
			line.Engine, line.Lifted, line.Notes, line.Secrets = d.Engine, d.Lifted, d.Notes, d.Needs
			line.Argv, line.Equal = experiments.ShownArgv(host, d.check.Planned), &d.check.Equal
		}
		a.line("init", line)
		return nil
	}
	say := a.printf
	if o.out == "-" {
		a.printf("%s", text)
		say = func(format string, args ...any) { a.note("%s", strings.TrimSuffix(fmt.Sprintf(format, args...), "\n")) }
	}
	switch {
	case d == nil && o.out != "-":
		say("wrote %s: a template to fill in; a server that runs already is read with --from-pid\n", o.out)
	case d != nil && o.out != "-":
		say("wrote %s: engine %s, from %s\n", o.out, d.Engine, d.From())
	}
	if d != nil {
		for _, l := range d.Lifted {
			say("  param   %s\n", l)
		}
		for _, n := range d.Notes {
			say("  note    %s\n", experiments.ShownText(host, n))
		}
		for _, n := range d.Needs {
			say("  secret  %s: export it here before a start; its value is kept nowhere\n", n)
		}
		say("  plan    %s\n", d.check)
		say("          %s\n", strings.Join(experiments.ShownArgv(host, d.check.Planned), " "))
	}
	if d != nil && d.running > 0 {
		say("the server still runs and holds its port and GPUs: specrun server stop --pid %d --host %s ends it\n", d.running, host)
	}
	say("next: %s\n", next)
	return nil
}

// afterInit is the next useful command.
func (a *app) afterInit(o initOptions, host string, d *drafted) string {
	words := []string{"specrun", "sweep", "steps=1..4"}
	if d != nil {
		if words[2] = d.Axis(); words[2] == "" {
			words = []string{"specrun", "run"}
		}
	}
	if file := o.out; file != specFile || host == labHost {
		if file == "-" {
			file = "FILE"
		}
		words = append(words, "-f", file)
	}
	switch host {
	case "":
		words = append(words, "--host", "NAME")
	case labHost:
		words = append(words, "--host", labHost)
	}
	return strings.Join(append(words, "--dry-run"), " ")
}

// createFile writes a file that must not exist yet.
func createFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("-o names another file, -o - prints it", "%s exists, and init overwrites nothing", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
