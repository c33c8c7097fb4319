package origin

import (
	"regexp"
	"slices"
	"strings"
)

// flag is one flag of a server with its words as they stood.
type flag struct {
	name   string
	values []string
	joined bool // --name=value
	repeat bool // values are those of several --name VALUE
}

// arguments is what stands behind an engine's entry, sorted into what an
// experiment file has places for.
type arguments struct {
	flags []flag
	args  []string // words that are no flag; they go to the end
	port  string   // of --port, "" when it is not given
	ports int      // how often --port is given
	notes []string
}

var (
	flagWord = regexp.MustCompile(`^--[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	// What argparse takes for a value although it begins with "-".
	negative = regexp.MustCompile(`^-(\d+|\d*\.\d+)$`)
)

// short are flags of vLLM with one dash and the names they stand for.
var short = map[string]string{"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size", "-ep": "enable-expert-parallel",
	"-dcp": "decode-context-parallel-size", "-q": "quantization", "-asc": "api-server-count", "-n": "nnodes", "-r": "node-rank"}

// switches begin the names of vLLM's flags that have no value, so that a word
// behind one is the model.
var switches = []string{"enable-", "disable-", "no-", "enforce-eager", "trust-remote-code", "return-tokens", "async-scheduling", "skip-tokenizer-init"}

func isValue(word string) bool {
	return !strings.HasPrefix(word, "-") || word == "-" || negative.MatchString(word)
}

// readFlags sorts the words behind an engine's entry.
func readFlags(engine string, words []string) arguments {
	var a arguments
	for i := 0; i < len(words); {
		name, value, joined := strings.Cut(words[i], "=")
		if words[i] == "--" {
			a.args = append(a.args, words[i:]...)
			break
		}
		if engine == VLLM && short[name] != "" {
			a.notes = append(a.notes, name+" is written --"+short[name])
			name = "--" + short[name]
		}
		end := i + 1
		if !joined {
			for end < len(words) && isValue(words[end]) && !(engine == VLLM && end == i+1 && isSwitch(name)) {
				end++
			}
		}
		values := words[i+1 : end]
		if joined {
			values = []string{value}
		}
		switch {
		case isValue(words[i]) && engine == VLLM && !a.has("model"):
			// The one word that vLLM takes without a flag is the model.
			a.flags = append(a.flags, flag{name: "model", values: words[i : i+1]})
			end = i + 1
		case !flagWord.MatchString(name):
			a.args = append(a.args, words[i:end]...)
		case name == "--port" && len(values) == 1:
			a.port = values[0]
			a.ports++
		default:
			a.add(flag{name: name[2:], values: slices.Clone(values), joined: joined})
		}
		i = end
	}
	return a
}

func isSwitch(name string) bool {
	name = strings.ReplaceAll(strings.TrimPrefix(name, "--"), "_", "-")
	return slices.ContainsFunc(switches, func(s string) bool { return name == s || strings.HasSuffix(s, "-") && strings.HasPrefix(name, s) })
}

func (a *arguments) has(name string) bool {
	return slices.ContainsFunc(a.flags, func(f flag) bool { return f.name == name })
}

// add takes a flag; one that was there before joins it where the experiment file
// can say so, and else goes to the end as it is.
func (a *arguments) add(f flag) {
	at := slices.IndexFunc(a.flags, func(o flag) bool { return o.name == f.name })
	switch {
	case at < 0:
		a.flags = append(a.flags, f)
	case len(f.values) == 1 && (len(a.flags[at].values) == 1 || a.flags[at].repeat):
		a.flags[at].values = append(a.flags[at].values, f.values[0])
		a.flags[at].repeat = true
	case f.joined:
		a.args = append(a.args, "--"+f.name+"="+f.values[0])
	default:
		a.args = append(append(a.args, "--"+f.name), f.values...)
	}
}

// find gives the one value of a flag.
func (a *arguments) find(name string) (string, bool) {
	for _, f := range a.flags {
		if f.name == name && len(f.values) == 1 && !f.repeat {
			return f.values[0], true
		}
	}
	return "", false
}
