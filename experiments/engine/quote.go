package engine

import (
	"maps"
	"slices"
	"strings"

	"specrun/deploy/server"
)

// ShellQuote returns one command that, pasted into a POSIX shell on the host,
// runs argv in cwd with env added to the shell's own environment, in a subshell.
// The argument vector is the one that server.Start makes, "~/" in front of the
// program included; everything else is literal. It may span lines where a value
// does. Values of env are shown: pass a redacted map where they are secret.
func ShellQuote(argv []string, env map[string]string, cwd string) string {
	var words []string
	if len(env) > 0 {
		words = append(words, "env")
		for _, name := range slices.Sorted(maps.Keys(env)) {
			words = append(words, name+"="+quoteWord(env[name]))
		}
	}
	home := server.HostPaths(argv)
	for i, arg := range argv {
		if slices.Contains(home, i) {
			words = append(words, quoteHome(arg))
			continue
		}
		words = append(words, quoteWord(arg))
	}
	line := strings.Join(words, " ")
	if cwd != "" {
		return "(cd " + quoteHome(cwd) + " && exec " + line + ")"
	}
	return line
}

// quoteHome leaves a leading "~/" to the shell.
func quoteHome(p string) string {
	if p == "~" || p == "~/" {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return "~/" + quoteWord(rest)
	}
	return quoteWord(p)
}

// quoteWord quotes s where a shell would see more than text in it.
func quoteWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
