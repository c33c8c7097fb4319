package experiments

import (
	"gopkg.in/yaml.v3"

	"specrun/experiments/engine"
)

// engineCommand is the engine of which nothing is known but its command line.
const engineCommand = "command"

// portName stands for the chosen port in the texts of a server of engine
// command.
const portName = "port"

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
	names := s.ParamNames()
	if s.Server.Engine == engineCommand {
		names = append(names, portName)
	}
	return names
}

// portParam refuses a param that hides the port.
func (s *Spec) portParam() error {
	p, taken := s.param(portName)
	if s.Server.Engine != engineCommand || !taken {
		return nil
	}
	return &SpecError{File: s.File, Line: p.Pos.Line, Column: p.Pos.Column, Field: "params." + portName,
		Msg: "${port} is the port that specrun chose for the server", Advice: "give the param another name; server.port sets a port"}
}

// withPort lets the texts of a server of engine command name its port, which is
// chosen when it is started.
func (b *cellBuilder) withPort(env cellEnv) {
	if b.spec.Server.Engine == engineCommand {
		env.set(portName, StringScalar(engine.PortMark))
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
