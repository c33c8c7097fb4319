package experiments

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// cellBuilder computes cells of one spec.
type cellBuilder struct {
	spec  *Spec
	opts  Options
	exprs *expressions
	order []Param
	refs  map[string]PatchRef
}

// env computes the params of a combination.
func (b *cellBuilder) env(c combination) (cellEnv, error) {
	env := newCellEnv()
	// What is given first, so that derived defaults see it whatever the order.
	for _, p := range b.spec.Params {
		if v, ok := c.get(axisParam, p.Name); ok {
			env.set(p.Name, v)
		}
	}
	for _, p := range b.order {
		if _, given := env.scalars[p.Name]; given {
			continue
		}
		v, err := b.exprs.expand(p.Default, env)
		if err != nil {
			return env, b.fault(c, "params."+p.Name+".default", err)
		}
		env.set(p.Name, v)
	}
	return env, nil
}

func (b *cellBuilder) fault(c combination, field string, err error) error {
	return &CellError{File: b.spec.File, Cell: c.String(), Field: field, Err: err}
}

// droppedBy names the first rule that a combination fails.
func (b *cellBuilder) droppedBy(c combination) (string, error) {
	env, err := b.env(c)
	if err != nil {
		return "", err
	}
	for i, r := range b.spec.Where {
		ok, err := b.exprs.rule(r.Expr, env.values)
		if err != nil {
			return "", b.fault(c, fmt.Sprintf("where[%d]", i), err)
		}
		if !ok {
			return r.Expr, nil
		}
	}
	return "", nil
}

// build computes one cell; off leaves out what the baseline leaves out.
func (b *cellBuilder) build(c combination, off bool) (Cell, error) {
	env, err := b.env(c)
	if err != nil {
		return Cell{}, err
	}
	cfg, err := b.server(c, env, off)
	if err != nil {
		return Cell{}, err
	}
	cell := Cell{Server: cfg, Bench: defaultBench()}
	for _, e := range b.spec.Bench {
		v, err := b.exprs.expand(e.Value, env)
		if err == nil {
			err = benchFields[e.Name](&cell.Bench, v)
		}
		if err != nil {
			return Cell{}, b.fault(c, "bench."+e.Name, err)
		}
	}
	for i, k := range c.keys {
		if k.kind == axisBench {
			if err := benchFields[k.name](&cell.Bench, c.values[i]); err != nil {
				return Cell{}, b.fault(c, k.key, err)
			}
		}
	}
	if cfg.Attach != nil { // its command line is its own
		cell.argv = nil
	} else if err := b.settle(&cell); err != nil {
		return Cell{}, b.fault(c, "server.flags", err)
	}
	cell.Key, err = cellKey(cell, b.opts.EngineVersion)
	return cell, err
}

func (b *cellBuilder) server(c combination, env cellEnv, off bool) (ServerConfig, error) {
	s := &b.spec.Server
	cfg := ServerConfig{Engine: s.Engine, Cwd: s.Cwd, GPUs: s.GPUs, Port: s.Port, EnvFile: s.EnvFile, LoginEnv: s.LoginEnv, HostEnv: b.opts.Host.Env}
	cfg.Python = firstOf(b.opts.Python, s.Python, b.opts.Host.Python)
	if v, ok := c.get(axisPython, "python"); ok {
		cfg.Python = v.Text
	}
	cfg.Cwd = firstOf(s.Cwd, b.opts.Host.Cwd)
	if cfg.Python == "" && (s.Engine != engineCommand || len(b.patchNames(c, off)) > 0) && s.Attach == nil {
		return cfg, &SpecError{File: b.spec.File, Field: "server.python", Msg: "no interpreter is named",
			Advice: "set server.python, or python: of the host " + b.opts.Host.Name + ", or --python"}
	}
	b.withPort(env)
	cfg.Read = s.Read
	var err error
	if cfg.Patches, err = b.patches(c, off); err != nil {
		return cfg, err
	}
	if cfg.Flags, err = b.flags(c, env, off); err != nil {
		return cfg, err
	}
	if cfg.Prefix, err = b.words(c, env, "server.prefix", s.Prefix); err != nil {
		return cfg, err
	}
	if cfg.Args, err = b.words(c, env, "server.args", s.Args); err != nil {
		return cfg, err
	}
	if err := b.launch(c, env, &cfg); err != nil {
		return cfg, err
	}
	if err := cfg.toldPort(b.spec.File); err != nil {
		return cfg, err
	}
	if cfg.Env, cfg.Secrets, err = b.environment(c, env, cfg.Patches); err != nil {
		return cfg, err
	}
	return cfg, cfg.ownsGPUs(b.spec.File)
}

// launch computes how the server comes to be.
func (b *cellBuilder) launch(c combination, env cellEnv, cfg *ServerConfig) error {
	s := &b.spec.Server
	if s.Launch != LaunchProcess {
		cfg.Launch.Via = s.Launch
	}
	cfg.Launch.Container, cfg.Launch.Image = s.Container.Name, s.Container.Image
	cfg.Launch.Unit, cfg.Launch.UserUnit = s.Unit.Name, s.Unit.User
	cfg.Ready = ReadyConfig{Marker: s.Ready.Marker, URL: s.Ready.URL}
	if s.Attach != nil {
		cfg.Attach = &AttachConfig{URL: s.Attach.URL, PID: s.Attach.PID, Log: s.Attach.Log}
	}
	for _, w := range []struct {
		name    string
		entries []Entry
		to      *[]string
	}{
		{"server.command", s.Command, &cfg.Command},
		{"server.container.args", s.Container.Args, &cfg.Launch.RunArgs},
		{"server.commands.start", s.Commands.Start, &cfg.Launch.Start},
		{"server.commands.stop", s.Commands.Stop, &cfg.Launch.Stop},
		{"server.commands.status", s.Commands.Status, &cfg.Launch.Status},
	} {
		var err error
		if *w.to, err = b.words(c, env, w.name, w.entries); err != nil {
			return err
		}
	}
	return cfg.Launch.check(b.spec.File, cfg)
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (b *cellBuilder) words(c combination, env cellEnv, name string, entries []Entry) ([]string, error) {
	var out []string
	for i, e := range entries {
		v, err := b.exprs.expand(e.Value, env)
		if err != nil {
			return nil, b.fault(c, fmt.Sprintf("%s[%d]", name, i), err)
		}
		if !v.IsNull() {
			out = append(out, v.Text)
		}
	}
	return out, nil
}

// flags computes the server's flags: the spec's, then those of the axes, then
// what the baseline removes or sets. Removed ones are not computed.
func (b *cellBuilder) flags(c combination, env cellEnv, off bool) ([]ServerFlag, error) {
	flags := slices.Clone(b.spec.Server.Flags)
	for i, k := range c.keys {
		if k.kind == axisFlag {
			flags = setFlag(flags, Flag{Name: k.name, Value: Value{Scalar: c.values[i]}})
		}
	}
	if off {
		changes := []Flag{{Name: "speculative-*"}}
		if b.spec.Baseline != nil {
			changes = b.spec.Baseline.Flags
		}
		for _, ch := range changes {
			flags = changeFlags(flags, ch)
		}
	}
	var out []ServerFlag
	for _, f := range flags {
		v, err := b.exprs.expandValue(f.Value, env)
		if err != nil {
			return nil, b.fault(c, "server.flags."+f.Name, err)
		}
		sf, err := serverFlag(f.Name, v)
		if err != nil {
			return nil, b.fault(c, "server.flags."+f.Name, err)
		}
		if sf.Kind != flagOmitted {
			out = append(out, sf)
		}
	}
	return out, nil
}

func setFlag(flags []Flag, f Flag) []Flag {
	if i := slices.IndexFunc(flags, func(o Flag) bool { return o.Name == f.Name }); i >= 0 {
		flags[i] = f
		return flags
	}
	return append(flags, f)
}

// changeFlags sets every flag that a name or glob fits; a null removes them.
func changeFlags(flags []Flag, change Flag) []Flag {
	remove := change.Value.Kind == KindScalar && change.Value.Scalar.IsNull()
	isGlob := strings.ContainsAny(change.Name, "*?")
	var out []Flag
	found := false
	for _, f := range flags {
		if ok, err := path.Match(change.Name, f.Name); err == nil && ok {
			found = true
			if remove {
				continue
			}
			f.Value = change.Value
		}
		out = append(out, f)
	}
	if !found && !remove && !isGlob {
		out = append(out, change)
	}
	return out
}

// patchNames are the patches of a combination, as they were named.
func (b *cellBuilder) patchNames(c combination, off bool) []string {
	if v, ok := c.get(axisPatches, patchesKey); ok {
		if v.Text == noPatches {
			return nil
		}
		return strings.Split(v.Text, "+")
	}
	if off && b.spec.Baseline != nil && b.spec.Baseline.HasPatches {
		return b.spec.Baseline.Patches
	}
	return b.spec.Patches
}

// patch looks a patch up once.
func (b *cellBuilder) patch(name string) (PatchRef, error) {
	if ref, known := b.refs[name]; known {
		return ref, nil
	}
	ref, err := b.opts.Patches(name)
	if err == nil {
		b.refs[name] = ref
	}
	return ref, err
}

func (b *cellBuilder) patches(c combination, off bool) ([]PatchRef, error) {
	var refs []PatchRef
	for _, n := range b.patchNames(c, off) {
		ref, err := b.patch(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(refs, func(r PatchRef) bool { return r.Name == ref.Name }) {
			return nil, b.fault(c, "patches", fmt.Errorf("%s is named twice", ref.Name))
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// environment joins what patches set, the spec's env and the axes, later ones
// winning; null removes.
func (b *cellBuilder) environment(c combination, env cellEnv, patches []PatchRef) (vars, secrets map[string]string, err error) {
	vars, secrets = map[string]string{}, map[string]string{}
	for _, p := range patches {
		maps.Copy(vars, p.Env)
	}
	for _, e := range b.spec.Server.Env {
		delete(vars, e.Name)
		if e.From != "" {
			secrets[e.Name] = e.From
			continue
		}
		v, err := b.exprs.expand(e.Value, env)
		if err != nil {
			return nil, nil, b.fault(c, "server.env."+e.Name, err)
		}
		if !v.IsNull() {
			vars[e.Name] = v.Text
		}
	}
	for i, k := range c.keys {
		if k.kind != axisEnv {
			continue
		}
		delete(vars, k.name)
		delete(secrets, k.name)
		if !c.values[i].IsNull() {
			vars[k.name] = c.values[i].Text
		}
	}
	return vars, secrets, nil
}
