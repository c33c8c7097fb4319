package report

import (
	"encoding/json"
	"slices"
	"strings"
)

// foldArgv takes out of the command line what other differences have said: the
// words of flags and the interpreter. What is left is the difference. Of several
// command lines of a side, as cells have them, the words of all count.
func foldArgv(ds []*difference) {
	for _, d := range ds {
		if d.group != "command" || d.key != "argv" {
			continue
		}
		a, okA := readArgvs(d.a)
		b, okB := readArgvs(d.b)
		if !okA || !okB {
			continue
		}
		var cause *difference
		told := func(word string) bool {
			name, ok := flagName(word)
			if !ok {
				return false
			}
			for _, o := range ds {
				if o.group == "flags" && !o.gone && ruleKey("flags", o.key) == name {
					if cause == nil {
						cause = o
					}
					return true
				}
			}
			return false
		}
		interpreter := slices.IndexFunc(ds, func(o *difference) bool { return o.group == "code" && o.key == "python" })
		onlyA, onlyB := argvRest(a, b, told, interpreter >= 0)
		switch {
		case len(onlyA)+len(onlyB) > 0:
			d.a, d.b = []string{quoteWords(onlyA)}, []string{quoteWords(onlyB)}
			d.weight, d.why = argvWeight(onlyA, onlyB)
		case cause != nil:
			d.follow(cause)
		case interpreter >= 0:
			d.follow(ds[interpreter])
		default:
			d.weight, d.why = innocent, "the same words in another order"
		}
	}
}

func readArgvs(values []string) (all [][]string, ok bool) {
	for _, v := range values {
		argv, ok := readArgv(v)
		if !ok {
			return nil, false
		}
		all = append(all, argv)
	}
	return all, true
}

func readArgv(text string) (argv []string, ok bool) {
	err := json.Unmarshal([]byte(text), &argv)
	return argv, err == nil && len(argv) > 0
}

// flagName gives the name of a flag that a word of a command line is, in the
// spelling of the rules.
func flagName(word string) (string, bool) {
	if !strings.HasPrefix(word, "--") {
		return "", false
	}
	name, _, _ := strings.Cut(word, "=")
	return ruleKey("flags", name), true
}

// argvRest gives the words that only the command lines of one side have, each
// flag with its values as one, less what is told elsewhere.
func argvRest(a, b [][]string, told func(string) bool, otherInterpreter bool) (onlyA, onlyB []string) {
	pieces := func(all [][]string) (out []string) {
		for _, argv := range all {
			if otherInterpreter {
				argv = argv[1:]
			}
			for i := 0; i < len(argv); i++ {
				piece := argv[i]
				if strings.HasPrefix(piece, "--") && !strings.Contains(piece, "=") {
					for i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--") {
						i++
						piece += " " + argv[i]
					}
				}
				if !slices.Contains(out, piece) {
					out = append(out, piece)
				}
			}
		}
		return out
	}
	pa, pb := pieces(a), pieces(b)
	rest := func(from, other []string) (out []string) {
		for _, p := range from {
			word, _, _ := strings.Cut(p, " ")
			if !slices.Contains(other, p) && !told(word) {
				out = append(out, p)
			}
		}
		return out
	}
	return rest(pa, pb), rest(pb, pa)
}

// argvWeight is that of the weightiest flag among words of a command line.
func argvWeight(words ...[]string) (weight float64, why string) {
	weight = unknowns["command"]
	for _, w := range slices.Concat(words...) {
		word, _, _ := strings.Cut(w, " ")
		if name, ok := flagName(word); ok {
			if flag, reason := cause("flags", name); flag > weight {
				weight, why = flag, reason
			}
		}
	}
	return weight, why
}

func quoteWords(words []string) string {
	if len(words) == 0 {
		return absent
	}
	return strings.Join(words, " ")
}
