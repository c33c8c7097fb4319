package experiments

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var (
	paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	flagName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	flagGlob  = regexp.MustCompile(`^[A-Za-z0-9*?][A-Za-z0-9_.*?-]*$`)
)

// Objectives that can rank cells.
var objectives = []string{"output_throughput", "total_throughput", "request_throughput",
	"tpot", "ttft", "itl", "cycle_total", "accept_len"}

// LoadSpec reads an experiment file strictly: an unknown key, a wrong type or a
// bad expression is a *SpecError with its place. name is only for messages.
// JSON made by Spec.MarshalJSON is read by the same way.
func LoadSpec(name string, src []byte) (*Spec, error) {
	d := &decoder{file: name}
	root, err := d.document(string(src))
	if err != nil {
		return nil, err
	}
	s := &Spec{File: name, Repeats: defaultRepeats, Rounds: defaultRounds, Order: OrderInterleave, After: AfterRestore,
		Objective: defaultObjective, Limits: Limits{Run: defaultRunLimit},
		Server: ServerSpec{Launch: LaunchProcess, Ready: Ready{Timeout: defaultReadyTimeout, Stall: defaultReadyStall}}}
	version := 0
	seen := map[string]*yaml.Node{}
	note := func(name string, f field) field {
		return func(n *yaml.Node, full string) error { seen[name] = n; return f(n, full) }
	}
	err = d.object(root, "", map[string]field{
		"version":   note("version", d.integer(&version, 1, 1)),
		"name":      note("name", d.text(&s.Name)),
		"hosts":     d.texts(&s.Hosts),
		"patches":   d.texts(&s.Patches),
		"server":    note("server", func(n *yaml.Node, name string) error { return d.server(n, name, &s.Server) }),
		"params":    func(n *yaml.Node, name string) error { return d.params(n, name, &s.Params) },
		"where":     func(n *yaml.Node, name string) error { return d.where(n, name, &s.Where) },
		"baseline":  func(n *yaml.Node, name string) error { return d.baseline(n, name, &s.Baseline) },
		"bench":     func(n *yaml.Node, name string) error { return d.bench(n, name, &s.Bench) },
		"objective": d.word(&s.Objective, objectives...),
		"repeats":   d.integer(&s.Repeats, 1, 1000),
		"rounds":    d.integer(&s.Rounds, 1, 1000),
		"order":     d.word((*string)(&s.Order), string(OrderInterleave), string(OrderGrid)),
		"after":     func(n *yaml.Node, name string) error { return d.after(n, name, &s.After) },
		"limits": func(n *yaml.Node, name string) error {
			return d.object(n, name, map[string]field{"run": d.duration(&s.Limits.Run)})
		},
	})
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"version", "name", "server"} {
		if seen[key] == nil {
			return nil, d.fail(root, key, map[string]string{
				"version": "begin the file with version: 1", "name": "give the experiment a name", "server": "say how the server is started",
			}[key], "is missing")
		}
	}
	if err := d.checkExpressions(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) after(n *yaml.Node, name string, to *After) error {
	var word string
	if err := d.word(&word, string(AfterRestore), string(AfterStop), string(AfterKeep), string(AfterBest))(n, name); err != nil {
		return err
	}
	*to = After(word)
	return nil
}

func (d *decoder) server(n *yaml.Node, name string, s *ServerSpec) error {
	err := d.object(n, name, map[string]field{
		"engine":    d.text(&s.Engine),
		"launch":    d.launch(&s.Launch),
		"python":    d.text(&s.Python),
		"cwd":       d.text(&s.Cwd),
		"gpus":      func(n *yaml.Node, name string) error { return d.gpus(n, name, &s.GPUs) },
		"port":      func(n *yaml.Node, name string) error { return d.port(n, name, &s.Port) },
		"prefix":    d.scalarList(&s.Prefix),
		"flags":     func(n *yaml.Node, name string) error { return d.flags(n, name, flagName, &s.Flags) },
		"args":      d.scalarList(&s.Args),
		"env":       func(n *yaml.Node, name string) error { return d.env(n, name, &s.Env) },
		"env_file":  d.text(&s.EnvFile),
		"login_env": d.boolean(&s.LoginEnv),
		"ready":     func(n *yaml.Node, name string) error { return d.ready(n, name, &s.Ready) },
		"stop":      func(n *yaml.Node, name string) error { return d.stop(n, name, &s.StopGrace) },
		"container": func(n *yaml.Node, name string) error { return d.container(n, name, &s.Container) },
		"unit":      func(n *yaml.Node, name string) error { return d.unit(n, name, &s.Unit) },
		"commands":  func(n *yaml.Node, name string) error { return d.commands(n, name, &s.Commands) },
		"attach":    func(n *yaml.Node, name string) error { return d.attach(n, name, &s.Attach) },
		"command":   d.scalarList(&s.Command),
		"read":      func(n *yaml.Node, name string) error { return d.read(n, name, &s.Read) },
	})
	if err != nil {
		return err
	}
	if s.Engine == "" {
		return d.fail(n, join(name, "engine"), "for example engine: sglang", "is missing")
	}
	if err := d.commandParts(n, name, s); err != nil {
		return err
	}
	return d.launchParts(n, name, s)
}

func (d *decoder) gpus(n *yaml.Node, name string, to *[]int) error {
	if n.Kind == yaml.ScalarNode && n.Value == "all" {
		*to = nil
		return nil
	}
	const advice = "gpus: all, or a list such as [0-3] or [0, 2]"
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return d.fail(n, name, advice, "must be all or a list of numbers, not %s", kindOf(n))
	}
	seen := map[int]bool{}
	err := d.items(n, name, func(n *yaml.Node, name string) error {
		lo, hi, isRange := strings.Cut(n.Value, "-")
		first, err := strconv.Atoi(lo)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(hi)
		}
		if n.Kind != yaml.ScalarNode || err != nil || first < 0 || last < first || last > 1023 {
			return d.fail(n, name, advice, "%q is no GPU number or range", n.Value)
		}
		for g := first; g <= last; g++ {
			if !seen[g] { // their order is that of the server's devices
				*to = append(*to, g)
			}
			seen[g] = true
		}
		return nil
	})
	return err
}

func (d *decoder) port(n *yaml.Node, name string, to *int) error {
	if n.Kind == yaml.ScalarNode && n.Value == "auto" {
		*to = 0
		return nil
	}
	if err := d.integer(to, 1, 65535)(n, name); err != nil {
		return d.fail(n, name, "port: auto, or a number from 1 to 65535", "%q is no port", n.Value)
	}
	return nil
}
