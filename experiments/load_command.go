package experiments

import (
	"gopkg.in/yaml.v3"

	"specrun/deploy/server"
	"specrun/experiments/engine"
)

// engineCommand is the engine of which nothing is known but its command line.
const engineCommand = "command"

// portName stands for the chosen port in the texts of a server of engine
// command, and in the user's own commands; argvName there for the server's words.
const (
	portName = "port"
	argvName = "argv"
)

// commandParts makes sure that a command line is given where it is needed.
func (d *decoder) commandParts(n *yaml.Node, name string, s *ServerSpec) error {
	switch {
	case s.Engine == engineCommand && len(s.Command) == 0 && s.Attach == nil && s.Launch != LaunchSystemd && s.Launch != LaunchCommand:
		return d.fail(n, join(name, "command"), `for example command: [llama-server, --model, m.gguf, --port, "${port}"]`, "is missing: engine command needs one")
	case s.Engine != engineCommand && len(s.Command) > 0:
		return d.fail(n, join(name, "command"), "engine: command starts a server by its own command line", "does not belong to engine %s, which has flags", s.Engine)
	case s.Engine != engineCommand && (s.Ready.URL != "" || s.Ready.Marker != ""):
		return d.fail(n, join(name, "ready"), "take url and marker out", "engine %s knows when its server is ready", s.Engine)
	}
	return nil
}

// exprNames are what expressions may name.
func (s *Spec) exprNames() []string {
	return append(s.ParamNames(), s.ownNames()...)
}

// ownNames are the names that specrun gives a meaning of its own.
func (s *Spec) ownNames() []string {
	switch {
	case s.Server.Launch == LaunchCommand:
		return []string{portName, argvName}
	case s.Server.Engine == engineCommand:
		return []string{portName}
	}
	return nil
}

// portParam refuses a param that hides the port, or the server's words.
func (s *Spec) portParam() error {
	for _, name := range s.ownNames() {
		p, taken := s.param(name)
		if !taken {
			continue
		}
		msg, advice := "${port} is the port that specrun chose for the server", "give the param another name; server.port sets a port"
		if name == argvName {
			msg, advice = "${argv} is the server's command line", "give the param another name"
		}
		return &SpecError{File: s.File, Line: p.Pos.Line, Column: p.Pos.Column, Field: "params." + name, Msg: msg, Advice: advice}
	}
	return nil
}

// withPort lets the texts of a server of engine command name its port, which is
// chosen when it is started.
func (b *cellBuilder) withPort(env cellEnv) {
	marks := map[string]string{portName: engine.PortMark, argvName: server.ArgvWord}
	for _, name := range b.spec.ownNames() {
		env.set(name, StringScalar(marks[name]))
	}
}

// toldPort makes sure that a server whose port is chosen is told so.
func (cfg *ServerConfig) toldPort(file string) error {
	if cfg.Engine != engineCommand || cfg.Port != 0 || cfg.Attach != nil || len(cfg.Command) == 0 {
		return nil
	}
	s, err := engineServer(*cfg, shownPort)
	if err != nil {
		return err
	}
	if s.Prefix = cfg.Prefix; engine.NamesPort(s) {
		return nil
	}
	return &SpecError{File: file, Field: "server.command", Msg: "never says ${port}, so that the server would listen on a port of its own",
		Advice: `pass it: --port "${port}"; or set server.port to the number that it always uses`}
}
