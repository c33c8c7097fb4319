package server

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"specrun/remote"
)

// Unit is a systemd unit that there is already: it runs the server, changed by a
// drop-in that goes when the launch is stopped.
type Unit struct {
	Name string // sglang.service
	User bool   // of the user's own manager
}

// Commands are the user's own programs, with their arguments, that start and stop
// a server. No shell interprets them. They see SPECRUN_RUN_ID, SPECRUN_PORT,
// SPECRUN_LOG, SPECRUN_ARGV (the server's words, one a line), start also all of the
// launch's environment, stop also SPECRUN_PID. A word that is ArgvWord is replaced by
// the server's words, and PortWord by the port wherever it stands.
//
// Start may stay for as long as the server runs; then it is the launch's process.
// When it ends with status 0 the server is the process whose pid it printed last,
// alone on a line, if that is younger than the launch; else the one that carries
// SPECRUN_RUN_ID in its environment: on the port, or else the eldest.
type Commands struct {
	Start  []string
	Stop   []string // nil: the processes are ended as those of a start without it
	Status []string // exit 0: it runs. A hint, asked before the start and after the stop
}

// Words of Commands that a launch fills in.
const (
	ArgvWord = "${argv}"
	PortWord = "${port}"
)

// unitName has no blanks, so that it may stand in a path; a template's instance
// may have any of the rest.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.service$`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkLauncher says what a launcher cannot do.
func (l Launch) checkLauncher() error {
	switch {
	case l.Unit != nil && l.Commands != nil:
		return fmt.Errorf("launch %s: by a unit and by commands", l.ID)
	case l.Unit != nil && !unitName.MatchString(l.Unit.Name):
		return fmt.Errorf("launch %s: %q is no name of a service unit: sglang.service", l.ID, l.Unit.Name)
	case l.Unit != nil && (l.LoginEnv || l.Base != nil):
		return fmt.Errorf("launch %s: a unit begins with its own environment, not with that of a login shell", l.ID)
	case l.Commands != nil && len(l.Argv) == 0 && slices.Contains(l.Commands.Start, ArgvWord):
		return fmt.Errorf("launch %s: %s stands for the server's words, and there are none", l.ID, ArgvWord)
	case l.Commands != nil && (len(l.Commands.Start) == 0 || l.Commands.Start[0] == "" || strings.Contains(l.Commands.Start[0], "=")):
		return fmt.Errorf("launch %s: no command starts it", l.ID)
	}
	return nil
}

// home stands for the home folder on the host in what is rendered here; no text
// of a user may hold it.
const home = "\x01"

// unitExec renders ExecStart= of the drop-in: the server's words behind env, which
// finds the program in PATH and puts the interpreter's folder in front.
func (l Launch) unitExec() (string, error) {
	if len(l.Argv) == 0 { // the unit's own
		return "", nil
	}
	words := []string{"/usr/bin/env"}
	if strings.Contains(l.Python, "/") {
		// The manager's own expansion, so not escaped.
		words = append(words, `"PATH=`+unitEscape(path.Dir(atHome(l.Python)))+`:${PATH}"`)
	}
	homes := HostPaths(l.Argv)
	for i, w := range l.Argv {
		if slices.Contains(homes, i) {
			w = atHome(w)
		}
		if err := systemdTakes(strings.TrimPrefix(w, home)); err != nil {
			return "", fmt.Errorf("launch %s: word %q: %w", l.ID, l.Argv[i], err)
		}
		words = append(words, `"`+unitEscape(w)+`"`)
	}
	return strings.Join(words, " "), nil
}

// atHome puts the mark for the home folder in front of a path below it.
func atHome(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return home + "/" + rest
	}
	return p
}

// unitEscape writes text for ExecStart=, between double quotes.
func unitEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`, "\n", `\n`, "\t", `\t`).Replace(s)
}

// systemdTakes says whether systemd takes a text: it leaves out assignments that are
// not UTF-8 or hold control characters, with a line in the journal at most.
func systemdTakes(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("is not UTF-8, which systemd does not pass on")
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return fmt.Errorf("holds the control character %U, which systemd does not pass on", r)
		}
	}
	return nil
}

// unitEnv renders what comes before and after the env file's lines in the file of
// EnvironmentFile=, the later ones winning.
func (l Launch) unitEnv() (before, after string, err error) {
	var failed error
	lines := func(env map[string]string) string {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(env)) {
			err := systemdTakes(env[name])
			if !variableName.MatchString(name) {
				err = errors.New("is no name of a variable, which systemd does not pass on")
			}
			if err != nil && failed == nil {
				failed = fmt.Errorf("launch %s: environment %s %w", l.ID, name, err)
			}
			b.WriteString(name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(env[name]) + "\"\n")
		}
		return b.String()
	}
	first := maps.Clone(l.HostEnv)
	if first == nil {
		first = map[string]string{}
	}
	if !l.allGPUs() {
		first["CUDA_VISIBLE_DEVICES"] = strings.Join(l.GPUs, ",")
	}
	last := maps.Clone(l.Env)
	if last == nil {
		last = map[string]string{}
	}
	last["SPECRUN_RUN_ID"] = l.ID
	return lines(first), lines(last), failed
}

// commandWords are the words of one of the commands, quoted for a shell. "~/" at
// the beginning of one is the home folder, within the server's words only where it
// is so without a command.
func (l Launch) commandWords(words []string) ([]string, error) {
	var out []string
	add := func(w string, path bool) error {
		quoted, err := quoteWord(w, path)
		if err != nil {
			return fmt.Errorf("launch %s: %w", l.ID, err)
		}
		out = append(out, quoted)
		return nil
	}
	homes := HostPaths(l.Argv)
	for _, w := range words {
		if w != ArgvWord {
			if err := add(strings.ReplaceAll(w, PortWord, strconv.Itoa(l.Port)), true); err != nil {
				return nil, err
			}
			continue
		}
		for i, w := range l.Argv {
			if err := add(w, slices.Contains(homes, i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// quoteWord quotes a word, "~/" at the beginning of a path being the home.
func quoteWord(w string, path bool) (string, error) {
	if path && strings.HasPrefix(w, "~/") && !strings.Contains(w, "\x00") {
		return quoteHome(w), nil
	}
	return remote.Quote(w)
}

// commandEnv are the assignments that the commands see beside the launch's, quoted;
// the shell knows DIR.
func (l Launch) commandEnv() ([]string, error) {
	env := []string{`"SPECRUN_LOG=$DIR/server.log"`}
	for _, v := range []string{"SPECRUN_RUN_ID=" + l.ID, "SPECRUN_PORT=" + strconv.Itoa(l.Port)} {
		quoted, err := remote.Quote(v)
		if err != nil {
			return nil, fmt.Errorf("launch %s: %w", l.ID, err)
		}
		env = append(env, quoted)
	}
	argv := "SPECRUN_ARGV="
	homes := HostPaths(l.Argv)
	for i, w := range l.Argv {
		if strings.Contains(w, "\n") {
			return nil, fmt.Errorf("launch %s: the word %q has a line break, SPECRUN_ARGV has one word a line", l.ID, w)
		}
		quoted, err := quoteWord(w, slices.Contains(homes, i))
		if err != nil {
			return nil, fmt.Errorf("launch %s: %w", l.ID, err)
		}
		if i > 0 {
			argv += "'\n'"
		}
		argv += quoted
	}
	return append(env, argv), nil
}

// commandLibrary renders the functions that the user's stop and status are, as
// they are kept in the launch's folder: without the launch's own environment, which
// may hold secrets.
func (l Launch) commandLibrary() (string, error) {
	if l.Commands == nil {
		return "", nil
	}
	env, err := l.commandEnv()
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(l.HostEnv)) {
		quoted, err := remote.Quote(name + "=" + l.HostEnv[name])
		if err != nil {
			return "", fmt.Errorf("launch %s: %w", l.ID, err)
		}
		env = append(env, quoted)
	}
	var b strings.Builder
	for _, c := range []struct {
		name  string
		words []string
	}{{"user_stop", l.Commands.Stop}, {"user_status", l.Commands.Status}} {
		if len(c.words) == 0 {
			fmt.Fprintf(&b, "%s() { return 127; }\n", c.name)
			continue
		}
		words, err := l.commandWords(c.words)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s() { exec env -- \"PATH=$path\" \"SPECRUN_PID=$i_pid\" %s %s; }\n", c.name, strings.Join(env, " "), strings.Join(words, " "))
	}
	return b.String(), nil
}

// unitVars are what start.sh needs to start the server by a unit; nothing of it
// when there is none.
func (l Launch) unitVars() ([]remote.Var, error) {
	if l.Unit == nil {
		return []remote.Var{{Name: "UNIT"}}, nil
	}
	words, err := l.unitExec()
	if err != nil {
		return nil, err
	}
	before, after, err := l.unitEnv()
	if err != nil {
		return nil, err
	}
	scope := "system"
	if l.Unit.User {
		scope = "user"
	}
	return []remote.Var{{Name: "UNIT", Value: l.Unit.Name}, {Name: "UNIT_SCOPE", Value: scope}, {Name: "UNIT_EXEC", Value: words},
		{Name: "UNIT_ENV", Value: before}, {Name: "UNIT_ENV_LAST", Value: after}}, nil
}

// UnitBusyError says that a unit ran before the launch: what runs in it is not
// ours.
type UnitBusyError struct {
	Host, Unit string
	State      string // active, activating, ...
	PID        int    // its main process; 0 when it has none
}

func (e *UnitBusyError) Error() string {
	msg := fmt.Sprintf("%s: unit %s is %s", e.Host, e.Unit, e.State)
	if e.PID != 0 {
		msg += fmt.Sprintf(" (pid %d)", e.PID)
	}
	return msg + ", and was not started by specrun"
}

// Hint says what the user can do.
func (e *UnitBusyError) Hint() string {
	return "it was left alone; end it with systemctl stop " + e.Unit + ", and start it again when you are done"
}

// parseUnitBusy reads "name state pid".
func parseUnitBusy(host, s string) error {
	f := strings.Fields(s)
	if len(f) < 2 {
		return fmt.Errorf("%s: unit %q: want name and state", host, s)
	}
	e := &UnitBusyError{Host: host, Unit: f[0], State: f[1]}
	if len(f) > 2 {
		pid, err := strconv.Atoi(f[2])
		if err != nil {
			return fmt.Errorf("%s: unit %q: %w", host, s, err)
		}
		e.PID = pid
	}
	return e
}
