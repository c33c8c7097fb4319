package experiments

import (
	"maps"
	"strings"
)

// WhereOf names the interpreter whose files patches go into when no sweep is
// made: that of --python, else the spec's (which may be nil), else the host's.
// The environment is the host's and what the spec gives as plain text, since
// PYTHONPATH decides which file is imported; secrets and templates are left out.
func WhereOf(s *Spec, h HostConfig, python string) Where {
	w := Where{Python: firstOf(python, h.Python), Cwd: h.Cwd, Env: maps.Clone(h.Env)}
	if s == nil {
		return w
	}
	w.Python = firstOf(python, s.Server.Python, h.Python)
	w.Engine = pythonEngine(s.Server.Engine)
	w.Cwd = firstOf(s.Server.Cwd, h.Cwd)
	if w.Env == nil {
		w.Env = map[string]string{}
	}
	for _, v := range s.Server.Env {
		if v.From == "" && !v.Value.IsNull() && !hasTemplate(v.Value.Text) {
			w.Env[v.Name] = v.Value.Text
		}
	}
	return w
}

// where is the interpreter of one cell's server, with its environment.
func (c ServerConfig) where() Where {
	env := maps.Clone(c.HostEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	return Where{Python: c.Python, Cwd: c.Cwd, Env: env, Engine: pythonEngine(c.Engine)}
}

// pythonEngine is the package that an interpreter must have for an engine; ""
// when its server is any program.
func pythonEngine(name string) string {
	if name == engineCommand {
		return ""
	}
	return name
}

// key tells apart what may import from different folders.
func (w Where) key() string {
	return strings.Join([]string{w.Python, w.Cwd, w.Env["PYTHONPATH"]}, "\x00")
}
