package experiments

// MarshalJSON gives the spec in the shape of the experiment file, defaults
// filled in. LoadSpec reads it back to an equal spec, places aside.
func (s *Spec) MarshalJSON() ([]byte, error) {
	o := object{{"version", 1}, {"name", s.Name}}
	o = o.add("hosts", s.Hosts, len(s.Hosts) > 0)
	o = o.add("patches", s.Patches, s.Patches != nil)
	o = append(o, member{"server", s.Server.json()})
	o = o.add("params", paramsJSON(s.Params), len(s.Params) > 0)
	rules := make([]string, len(s.Where))
	for i, r := range s.Where {
		rules[i] = r.Expr
	}
	o = o.add("where", rules, len(rules) > 0)
	if s.Baseline != nil {
		b := object{}
		b = b.add("flags", flagsJSON(s.Baseline.Flags), len(s.Baseline.Flags) > 0)
		b = b.add("patches", s.Baseline.Patches, s.Baseline.HasPatches)
		o = append(o, member{"baseline", b})
	}
	bench := object{}
	for _, e := range s.Bench {
		bench = append(bench, member{e.Name, e.Value})
	}
	o = o.add("bench", bench, len(bench) > 0)
	o = append(o, member{"objective", s.Objective}, member{"repeats", s.Repeats}, member{"rounds", s.Rounds},
		member{"order", s.Order}, member{"after", s.After},
		member{"limits", object{{"run", s.Limits.Run.String()}}})
	return plainJSON(o)
}

func (s *ServerSpec) json() object {
	o := object{{"engine", s.Engine}, {"launch", s.Launch}}
	o = o.add("container", s.Container.json(), s.Container.Name != "" || s.Container.Image != "")
	o = o.add("unit", object{{"name", s.Unit.Name}, {"user", s.Unit.User}}, s.Unit.Name != "")
	o = o.add("commands", object{}.add("start", entriesJSON(s.Commands.Start), true).add("stop", entriesJSON(s.Commands.Stop), len(s.Commands.Stop) > 0).
		add("status", entriesJSON(s.Commands.Status), len(s.Commands.Status) > 0), len(s.Commands.Start) > 0)
	if s.Attach != nil {
		o = append(o, member{"attach", object{{"url", s.Attach.URL}}.add("pid", s.Attach.PID, s.Attach.PID > 0).add("log", s.Attach.Log, s.Attach.Log != "")})
	}
	o = o.add("command", entriesJSON(s.Command), len(s.Command) > 0)
	o = o.add("read", s.Read, len(s.Read) > 0)
	o = o.add("python", s.Python, s.Python != "")
	o = o.add("cwd", s.Cwd, s.Cwd != "")
	o = o.add("gpus", s.GPUs, len(s.GPUs) > 0)
	o = o.add("port", s.Port, s.Port > 0)
	o = o.add("prefix", entriesJSON(s.Prefix), len(s.Prefix) > 0)
	o = o.add("flags", flagsJSON(s.Flags), len(s.Flags) > 0)
	o = o.add("args", entriesJSON(s.Args), len(s.Args) > 0)
	env := object{}
	for _, e := range s.Env {
		if e.From != "" {
			env = append(env, member{e.Name, object{{"from", "env"}, {"name", e.From}}})
			continue
		}
		env = append(env, member{e.Name, e.Value})
	}
	o = o.add("env", env, len(env) > 0)
	o = o.add("env_file", s.EnvFile, s.EnvFile != "")
	o = o.add("login_env", s.LoginEnv, s.LoginEnv)
	o = o.add("stop", object{{"grace", s.StopGrace.String()}}, s.StopGrace > 0)
	return append(o, member{"ready", object{{"timeout", s.Ready.Timeout.String()}, {"stall", s.Ready.Stall.String()}}.
		add("marker", s.Ready.Marker, s.Ready.Marker != "").add("url", s.Ready.URL, s.Ready.URL != "")})
}

func (c ContainerSpec) json() object {
	if c.Name != "" {
		return object{{"name", c.Name}}
	}
	return object{{"image", c.Image}}.add("args", entriesJSON(c.Args), len(c.Args) > 0)
}

func (o object) add(name string, value any, present bool) object {
	if !present {
		return o
	}
	return append(o, member{name, value})
}

func flagsJSON(flags []Flag) object {
	o := object{}
	for _, f := range flags {
		o = append(o, member{f.Name, f.Value})
	}
	return o
}

func entriesJSON(entries []Entry) []Scalar {
	out := make([]Scalar, len(entries))
	for i, e := range entries {
		out[i] = e.Value
	}
	return out
}

func paramsJSON(params []Param) object {
	o := object{}
	for _, p := range params {
		m := object{}
		m = m.add("values", p.Values, len(p.Values) > 0)
		m = append(m, member{"default", p.Default})
		m = m.add("help", p.Help, p.Help != "")
		o = append(o, member{p.Name, m})
	}
	return o
}
