package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"specrun/remote"
)

// Launch is one start of a server. Argv and every environment value reach the
// process byte for byte; no shell interprets them.
//
// Its environment, each layer over the one before: the session's (or Base), PATH
// with the folder of Python first, CUDA_VISIBLE_DEVICES when GPUs names some,
// HostEnv, the env file, Env, SPECRUN_RUN_ID.
type Launch struct {
	ID string // used once and never again
	// Argv is the program and its arguments. "~/" begins a path in the host's
	// home only in the words that HostPaths names.
	Argv    []string
	Python  string // interpreter; "" or a bare name leaves PATH as it is
	HostEnv map[string]string
	// EnvFile is a file of KEY=VALUE lines on the host, "" for none. It is
	// parsed, never sourced: blank lines and lines that begin with "#" are
	// skipped, "export " is allowed, one pair of quotes around the whole value is
	// removed, nothing is expanded. A path that is not absolute is in the home.
	EnvFile string
	Env     map[string]string
	// Base, when not nil, is the environment to begin with instead of the
	// session's; LoginEnv reads one that can be used for many launches.
	Base map[string]string
	// LoginEnv makes Start read Base from the login shell when Base is nil.
	LoginEnv bool
	Cwd      string // on the host; "" is the session's
	StateDir string // on the host; "" is the default there
	Port     int    // that it will listen on; 0 is not checked
	// GPUs that it will use: {"all"}, or indexes and UUIDs. When somebody's
	// process holds memory on one of them, Start refuses. nil checks nothing.
	GPUs []string
	// Grace is what a Stop that names none waits between SIGTERM and SIGKILL; 0 is
	// DefaultGrace.
	Grace time.Duration
	// Unit or Commands, when not nil, run the server instead of the launcher alone.
	Unit     *Unit
	Commands *Commands
	Shell    string        // POSIX shell for the launcher; "" is /bin/sh
	gpuWait  time.Duration // for memory on its way back to the driver; 0 is the default
	adopt    time.Duration // for the server that a start command has left behind to show; 0 is the default
	// About is one line, kept in the launch's folder for whoever finds the server
	// there later (see List); "" keeps none. No secrets.
	About string
}

// HostPaths returns the positions in argv at which a leading "~/" means the
// home folder on the host: the program, and an interpreter behind a prefix (the
// first word directly before "-m" that begins so). Everywhere else "~" is text.
func HostPaths(argv []string) []int {
	var at []int
	if len(argv) > 0 && strings.HasPrefix(argv[0], "~/") {
		at = append(at, 0)
	}
	for i := 1; i+1 < len(argv); i++ {
		if argv[i+1] == "-m" && strings.HasPrefix(argv[i], "~/") {
			return append(at, i)
		}
	}
	return at
}

func (l Launch) check() error {
	if err := checkID(l.ID); err != nil {
		return err
	}
	if len(l.Argv) == 0 && l.Unit == nil && l.Commands == nil || len(l.Argv) > 0 && l.Argv[0] == "" {
		return fmt.Errorf("launch %s: no program", l.ID)
	}
	if len(l.Argv) > 0 && strings.Contains(l.Argv[0], "=") {
		return fmt.Errorf("launch %s: program %q has a \"=\", env(1) would take it for a variable", l.ID, l.Argv[0])
	}
	if strings.ContainsAny(l.About, "\n\x00") {
		return fmt.Errorf("launch %s: what is kept about it is more than a line", l.ID)
	}
	if l.Grace < 0 || l.Grace > maxGrace {
		return fmt.Errorf("launch %s: a grace of %v, at most %v", l.ID, l.Grace, maxGrace)
	}
	if l.Port < 0 || l.Port > 65535 {
		return fmt.Errorf("launch %s: port %d", l.ID, l.Port)
	}
	for _, env := range []map[string]string{l.Base, l.HostEnv, l.Env} {
		for name := range env {
			if name == "" || strings.Contains(name, "=") {
				return fmt.Errorf("launch %s: %q is no name for an environment variable", l.ID, name)
			}
		}
	}
	for _, gpu := range l.GPUs {
		if gpu == "" || strings.ContainsAny(gpu, ", \n") {
			return fmt.Errorf("launch %s: %q names no GPU", l.ID, gpu)
		}
	}
	return l.checkLauncher()
}

// program is the word whose file must exist before anything is started.
func (l Launch) program() string {
	switch {
	case l.Commands != nil && l.Commands.Start[0] != ArgvWord:
		return l.Commands.Start[0]
	case len(l.Argv) == 0: // the unit's own
		return ""
	}
	return l.Argv[0]
}

// allGPUs tells that no subset was asked for.
func (l Launch) allGPUs() bool { return len(l.GPUs) == 0 || slices.Equal(l.GPUs, []string{"all"}) }

// serve renders the shell function that becomes the server. Its arguments are
// the assignments of the env file; $path is PATH with the interpreter first.
func (l Launch) serve() (string, error) {
	var b strings.Builder
	var failed error
	word := func(s string) {
		quoted, err := remote.Quote(s)
		if err != nil && failed == nil {
			failed = fmt.Errorf("launch %s: %w", l.ID, err)
		}
		b.WriteString(quoted)
	}
	env := func(m map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			b.WriteByte(' ')
			word(name + "=" + m[name])
		}
	}
	if l.Base != nil {
		b.WriteString("BASE_PATH=")
		word(l.Base["PATH"])
		b.WriteString("\nserve() { exec env -i --")
		env(l.Base)
	} else {
		b.WriteString("serve() { exec env --")
	}
	b.WriteString(` "PATH=$path"`)
	if !l.allGPUs() {
		b.WriteByte(' ')
		word("CUDA_VISIBLE_DEVICES=" + strings.Join(l.GPUs, ","))
	}
	env(l.HostEnv)
	b.WriteString(` "$@"`)
	env(l.Env)
	b.WriteByte(' ')
	word("SPECRUN_RUN_ID=" + l.ID)
	if l.Commands != nil {
		assignments, err := l.commandEnv()
		if err != nil {
			return "", err
		}
		words, err := l.commandWords(l.Commands.Start)
		if err != nil {
			return "", err
		}
		b.WriteString(" " + strings.Join(slices.Concat(assignments, words), " ") + "; }\nCOMMAND=" + centis(cmp.Or(l.adopt, adoptWait))) // the launcher expects that it may end
		return b.String(), failed
	}
	home := HostPaths(l.Argv)
	for i, arg := range l.Argv {
		b.WriteByte(' ')
		if slices.Contains(home, i) {
			b.WriteString(quoteHome(arg))
			continue
		}
		word(arg)
	}
	b.WriteString("; }")
	return b.String(), failed
}

// quoteHome quotes a path whose leading "~/" is the home folder.
func quoteHome(p string) string {
	rest, ok := strings.CutPrefix(p, "~/")
	if !ok {
		quoted, _ := remote.Quote(p)
		return quoted
	}
	quoted, _ := remote.Quote("/" + rest)
	return `"$HOME"` + quoted
}
