package origin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Options are what a command does not say.
type Options struct {
	Host string // for hosts: of the file; "" leaves it open
	Name string // of the experiment; "" makes one of the model's
}

// Draft is an experiment file to be written, with what there is to say about it.
type Draft struct {
	Engine string
	Lifted []string // "steps: --speculative-num-steps 3": what became a param
	Notes  []string // what is not as it was, or could not be known
	Needs  []string // variables to export before the server can start
	// Argv is the command as it was, prefix and all, less what only detached it.
	Argv []string

	command  Command
	options  Options
	run      *containerRun
	split    split
	args     arguments
	words    []string // of server.command
	python   string
	cwd      string
	port     int
	gpus     []int
	env      map[string]string
	secrets  []string // variables that are references
	omitted  []string // secret flags, left out
	params   []param
	rules    []string
	lifted   map[string]string // flag -> the template that stands for its value
	baseline []string          // flags that it removes
}

// param is what became a parameter.
type param struct {
	name, values, fallback, help string
}

// InvalidError says that a command cannot be written into an experiment file.
type InvalidError struct{ Word, Why string }

func (e *InvalidError) Error() string { return fmt.Sprintf("%q %s", e.Word, e.Why) }

// Hint says what the user can do.
func (e *InvalidError) Hint() string {
	return "give the command of the server itself, with the flag that says its port, or --from-pid of the process that listens"
}

// NewDraft makes an experiment file of a command. It fails with an *InvalidError
// on words that YAML cannot hold, and when there are none.
func NewDraft(c Command, o Options) (*Draft, error) {
	d := &Draft{command: c, options: o, cwd: c.Cwd, env: map[string]string{}, lifted: map[string]string{}, Notes: slices.Clone(c.Notes)}
	maps.Copy(d.env, c.Env)
	argv := c.Argv
	if run, ok := readContainer(argv); ok {
		d.contain(run)
		argv = run.argv
	}
	if len(argv) == 0 {
		return nil, &InvalidError{strings.Join(c.Argv, " "), "names no server"}
	}
	for _, word := range argv {
		if !utf8.ValidString(word) {
			return nil, &InvalidError{word, "is no UTF-8 text, which YAML cannot hold"}
		}
	}
	d.split = takeApart(argv)
	d.unwrapped()
	d.Engine = d.split.engine
	if d.Engine != Another {
		d.known()
	} else if err := d.another(); err != nil {
		return nil, err
	}
	d.setGPUs()
	d.hideEnv()
	return d, nil
}

// From says where the command was read.
func (d *Draft) From() string { return d.command.From }

// Python is the interpreter that the server is started with; "" when not known.
func (d *Draft) Python() string { return d.python }

// Axis is what a first sweep of the file varies: "steps=1..4"; "" when nothing
// became a param with values.
func (d *Draft) Axis() string {
	for _, p := range d.params {
		if p.values != "" {
			return p.name + "=" + strings.NewReplacer("[", "", "]", "", " ", "").Replace(p.values)
		}
	}
	return ""
}

func (d *Draft) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// unwrapped takes away what stands in front of the server.
func (d *Draft) unwrapped() {
	front := &d.split.prefix
	if d.split.engine == Another {
		front = &d.split.rest
	}
	w := unwrap(*front)
	*front = w.prefix
	if len(w.left) > 0 {
		d.note("left out: %s; specrun starts a server detached", strings.Join(w.left, " "))
	}
	if w.cleared {
		d.note("env -i is left out: specrun starts a server in the session's environment, with the one of the spec over it")
	}
	maps.Copy(d.env, w.env)
	for _, name := range w.unset {
		delete(d.env, name)
		d.note("%s was taken out of the environment (env -u): if the session has it, write %s: null into server.env", name, name)
	}
	if d.split.engine != Another && len(d.split.prefix) > 0 {
		switch name := path.Base(d.split.prefix[0]); name {
		case "uv", "conda", "poetry", "pipenv", "pdm", "micromamba", "hatch":
			d.note("%s chooses the interpreter: set server.python to its path and take the prefix out, or patches cannot find the engine's files", name)
		case "sudo":
			d.note("the prefix begins with sudo: specrun needs no root, and stops only what its user may stop")
		}
	}
}

var ascending = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// setGPUs makes server.gpus of CUDA_VISIBLE_DEVICES.
func (d *Draft) setGPUs() {
	visible, set := d.env["CUDA_VISIBLE_DEVICES"]
	if !set {
		return
	}
	var gpus []int
	for name := range strings.SplitSeq(visible, ",") {
		name = strings.TrimSpace(name)
		index, known := d.command.Devices[name]
		if !known && ascending.MatchString(name) {
			var err error
			index, err = strconv.Atoi(name)
			known = err == nil && index < 1024
		}
		if !known {
			if strings.HasPrefix(visible, "MIG-") {
				d.note("CUDA_VISIBLE_DEVICES=%s stays in server.env: parts of GPUs have no number, so server.gpus is all", visible)
				return
			}
			d.note("CUDA_VISIBLE_DEVICES=%s stays in server.env, and is refused there: say by their numbers in server.gpus which GPUs those are, and remove it", visible)
			return
		}
		gpus = append(gpus, index)
	}
	d.gpus = gpus
	delete(d.env, "CUDA_VISIBLE_DEVICES")
}

// contain takes over a "docker run".
func (d *Draft) contain(run containerRun) {
	if clean := hideWords(run.args); !slices.Equal(clean, run.args) {
		run.args = clean
		d.note("a secret in the options of %s run is left out", run.runtime)
	}
	d.run = &run
	maps.Copy(d.env, run.env)
	d.secrets = append(d.secrets, run.fromEnv...)
	d.cwd = run.cwd
	if len(run.left) > 0 {
		d.note("left out of %s run: %s; specrun names, detaches and removes the container of each launch", run.runtime, strings.Join(hideWords(run.left), " "))
	}
}
