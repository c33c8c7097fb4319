package origin

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// another drafts a server of which only the command line is known.
func (d *Draft) another() error {
	d.port = d.command.Port
	words := slices.Clone(d.split.rest)
	if len(words) == 0 {
		return &InvalidError{strings.Join(d.command.Argv, " "), "names no server"}
	}
	said := false
	for i := range words {
		name, value, joined := strings.Cut(words[i], "=")
		isPort := strings.Contains(strings.ToLower(name), "port") && strings.HasPrefix(name, "-")
		switch {
		case isPort && joined && d.isPort(value):
			words[i] = name + "=\x00"
		case i > 0 && strings.HasPrefix(words[i-1], "-") && strings.HasSuffix(strings.ToLower(words[i-1]), "port") && d.isPort(words[i]):
			words[i] = "\x00"
		case d.port > 0 && strings.HasSuffix(words[i], ":"+strconv.Itoa(d.port)):
			words[i] = strings.TrimSuffix(words[i], strconv.Itoa(d.port)) + "\x00"
		default:
			continue
		}
		said = true
	}
	d.words = words
	if only := slices.Index(words, strconv.Itoa(d.port)); !said && d.port > 0 && only > 0 && !slices.Contains(words[only+1:], words[only]) {
		words[only], said = "\x00", true
	}
	if !said && d.port == 0 {
		return &InvalidError{path.Base(d.split.rest[0]), "is no engine that is known, listens on no port that can be seen, and is told none: is it a server?"}
	}
	if !said {
		d.note("no word of the command is the port on which it listens: set server.port, and write ${port} where it belongs")
	}
	for i, word := range words {
		name := ""
		if i > 0 {
			name = strings.TrimLeft(words[i-1], "-")
		}
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case i > 0 && strings.HasPrefix(words[i-1], "-") && !strings.HasPrefix(word, "-") && isSecret(name, word):
			words[i] = secretWord
		case joined && isSecret(strings.TrimLeft(flag, "-"), value):
			words[i] = flag + "=" + secretWord
		case secretShape(word):
			words[i] = secretWord
		default:
			continue
		}
		d.note("a secret stood in the command: %s stands for it, so the server does not start like this; give it by server.env if the program reads one", secretWord)
	}
	d.note("no engine that is known: nothing is read back from the server, and nothing could be lifted into params")
	return nil
}

// isPort takes a word for the port when it is the one listened on, or, when that
// is not known, any number that can be one.
func (d *Draft) isPort(word string) bool {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > 65535 || d.port > 0 && n != d.port {
		return false
	}
	d.port = n
	return true
}
