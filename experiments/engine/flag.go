package engine

import (
	"fmt"
	"path"
	"strings"
)

// Kind says how a flag is written on the command line.
type Kind int

// Kinds of a flag.
const (
	Omitted Kind = iota // false, or removed by null: not written
	Bare                // true: --flag
	Value               // --flag value
	List                // --flag a b c
	Repeat              // --flag a --flag b
	Join                // --flag a,b with Sep between
	JSON                // --flag '{"a":1}': Values holds the one compact text
)

func (k Kind) String() string {
	switch k {
	case Omitted:
		return "omitted"
	case Bare:
		return "bare"
	case Value:
		return "value"
	case List:
		return "list"
	case Repeat:
		return "repeat"
	case Join:
		return "join"
	case JSON:
		return "json"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Flag is one flag of the server with its text exactly as in the spec.
type Flag struct {
	Name   string // without dashes: model-path
	Kind   Kind
	Values []string
	Sep    string // of Join; "" is ","
}

// Text is the flag's value for people: what the spec says.
func (f Flag) Text() string {
	switch f.Kind {
	case Omitted:
		return "false"
	case Bare:
		return "true"
	case Join:
		return strings.Join(f.Values, f.sep())
	}
	return strings.Join(f.Values, " ")
}

func (f Flag) sep() string {
	if f.Sep == "" {
		return ","
	}
	return f.Sep
}

// words writes the flag. A single value that begins with "-" is written
// --flag=value, for it would be taken for a flag; in a list of several there is
// no such form, and negative numbers need none.
func (f Flag) words() []string {
	name := "--" + f.Name
	one := func(v string) []string {
		if strings.HasPrefix(v, "-") {
			return []string{name + "=" + v}
		}
		return []string{name, v}
	}
	switch f.Kind {
	case Bare:
		return []string{name}
	case Value, JSON:
		return one(strings.Join(f.Values, ""))
	case Join:
		return one(strings.Join(f.Values, f.sep()))
	case Repeat:
		var words []string
		for _, v := range f.Values {
			words = append(words, one(v)...)
		}
		return words
	case List:
		if len(f.Values) == 1 {
			return one(f.Values[0])
		}
		return append([]string{name}, f.Values...)
	}
	return nil
}

// Render returns the flags in order as arguments, then args verbatim.
func Render(flags []Flag, args []string) []string {
	var argv []string
	for _, f := range flags {
		argv = append(argv, f.words()...)
	}
	return append(argv, args...)
}

// Overlay returns base with the flags of over: one that base has is replaced in
// its place, another is added at the end. An Omitted flag whose name is a
// pattern, such as speculative-*, removes all that match. Neither argument is
// changed. A pattern that is malformed is an error.
func Overlay(base, over []Flag) ([]Flag, error) {
	out := append([]Flag(nil), base...)
	for _, f := range over {
		if f.Kind == Omitted {
			if _, err := path.Match(f.Name, ""); err != nil {
				return nil, fmt.Errorf("flag pattern %q: %w", f.Name, err)
			}
			kept := out[:0:0]
			for _, b := range out {
				if ok, _ := path.Match(f.Name, b.Name); !ok { // checked above
					kept = append(kept, b)
				}
			}
			out = kept
			continue
		}
		replaced := false
		for i := range out {
			if out[i].Name == f.Name {
				out[i], replaced = f, true
			}
		}
		if !replaced {
			out = append(out, f)
		}
	}
	return out, nil
}

// ParseKind reads a kind as Kind.String writes it.
func ParseKind(s string) (Kind, error) {
	for k := Omitted; k <= JSON; k++ {
		if k.String() == s {
			return k, nil
		}
	}
	return Omitted, fmt.Errorf("unknown kind of flag %q", s)
}
