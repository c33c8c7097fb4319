package origin

import (
	"path"
	"strconv"
	"strings"
)

// defaultPorts are those on which an engine listens when nothing is said.
var defaultPorts = map[string]int{SGLang: 30000, VLLM: 8000}

// interpreterEnv are variables that do what an option of the interpreter does.
var interpreterEnv = map[string][2]string{"-u": {"PYTHONUNBUFFERED", "1"}, "-B": {"PYTHONDONTWRITEBYTECODE", "1"}, "-O": {"PYTHONOPTIMIZE", "1"},
	"-OO": {"PYTHONOPTIMIZE", "2"}, "-s": {"PYTHONNOUSERSITE", "1"}, "-P": {"PYTHONSAFEPATH", "1"}}

// known drafts the server of an engine that is known.
func (d *Draft) known() {
	s := d.split
	for i := 0; i < len(s.options); i++ {
		option := s.options[i]
		v, known := interpreterEnv[option]
		switch {
		case known:
			d.env[v[0]] = v[1]
			d.note("the interpreter's %s is written as %s=%s in server.env", option, v[0], v[1])
		case option == "-X" && i+1 < len(s.options) && s.options[i+1] == "faulthandler":
			d.env["PYTHONFAULTHANDLER"] = "1"
			i++
			d.note("the interpreter's -X faulthandler is written as PYTHONFAULTHANDLER=1 in server.env")
		default:
			d.note("the interpreter's option %s is left out", option)
		}
	}
	d.python = s.python
	switch {
	case d.command.Program != "" && len(s.prefix) == 0 && s.python != "" && len(d.command.Argv) > 0 && s.python == d.command.Argv[0]:
		d.python = d.command.Program
	case strings.HasPrefix(s.python, "./") || strings.Contains(s.python, "/") && !path.IsAbs(s.python) && !strings.HasPrefix(s.python, "~"):
		if d.cwd != "" {
			d.python = path.Join(d.cwd, s.python)
		}
	case d.command.Venv != "" && !strings.Contains(s.python, "/"):
		d.python = path.Join(d.command.Venv, "bin", firstOf(s.python, "python3"))
	}
	switch {
	case d.python == "":
		d.note("which interpreter runs %s is not known: set server.python", strings.Join(s.entry, " "))
	case !strings.Contains(d.python, "/") && d.run == nil:
		d.note("%s is looked up in PATH on the host: write its path into server.python, so that patches go where it imports from", d.python)
	}
	if written, want := strings.Join(s.entry, " "), entries[d.Engine]; written != want {
		d.note("%s is started as %s, which is the same server", written, want)
	}
	d.args = readFlags(d.Engine, s.rest)
	d.Notes = append(d.Notes, d.args.notes...)
	if len(d.args.args) > 0 {
		d.note("at the end of the command, as server.args: %s", strings.Join(hideWords(d.args.args), " "))
	}
	if config, ok := d.args.find("config"); ok {
		d.note("flags also come from %s, which was not looked into", config)
	}
	d.setPort()
	d.hideFlags()
	if d.Engine == SGLang {
		d.liftSGLang()
	} else {
		d.liftVLLM()
	}
}

// entries are how specrun starts the engines.
var entries = map[string]string{SGLang: "-m sglang.launch_server", VLLM: "-m vllm.entrypoints.cli.main serve"}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (d *Draft) setPort() {
	port, err := strconv.Atoi(d.args.port)
	switch {
	case d.args.ports > 1:
		d.note("--port is given %d times, the last one counts", d.args.ports)
		fallthrough
	case d.args.ports == 1 && err == nil && port > 0 && port <= 65535:
		d.port = port
	case d.args.ports == 1:
		d.note("--port %s is no number: server.port is auto", d.args.port)
	default:
		d.port = defaultPorts[d.Engine]
		if d.command.Port > 0 {
			d.port = d.command.Port
		}
		d.note("--port %d is added: specrun always says the port", d.port)
	}
}
