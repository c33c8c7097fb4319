package experiments

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/bench"
	"specrun/experiments/record"
)

// stepsFlag is SGLang's flag for the length of a draft, specAlgorithm the one
// that turns speculation on.
const (
	stepsFlag     = "speculative-num-steps"
	specAlgorithm = "speculative-algorithm"
)

// specConfig is vLLM's flag for both: a map, or a flag for each of its keys.
const (
	specConfig       = "speculative-config"
	specConfigTokens = "num_speculative_tokens"
)

// speculationOff says that the combination is a server without speculation: its
// param steps, or the flag that says how long a draft is, is 0. Rules about
// speculation do not apply to it.
func (b *cellBuilder) speculationOff(c combination) (bool, error) {
	for i, k := range c.keys { // what the axes say goes before the spec
		if _, ok := draftLength(Flag{Name: k.name, Value: Value{Scalar: c.values[i]}}); ok && k.kind == axisFlag {
			return c.values[i].Text == "0", nil
		}
	}
	env, err := b.env(c)
	if err != nil {
		return false, err
	}
	if v, ok := env.scalars["steps"]; ok && v.Text == "0" {
		return true, nil
	}
	for _, f := range b.spec.Server.Flags {
		v, ok := draftLength(f)
		if !ok {
			continue
		}
		v, err := b.exprs.expand(v, env)
		if err != nil {
			return false, b.fault(c, "server.flags."+f.Name, err)
		}
		if v.Text == "0" {
			return true, nil
		}
	}
	return false, nil
}

// draftLength is the value in a flag of a spec that says how long a draft is.
func draftLength(f Flag) (Scalar, bool) {
	root, key, dotted := strings.Cut(f.Name, ".")
	switch {
	case f.Value.Kind == KindScalar:
		return f.Value.Scalar, f.Name == stepsFlag || dotted && isSpecConfig(root) && strings.ReplaceAll(key, "-", "_") == specConfigTokens
	case f.Value.Kind == KindMap && isSpecConfig(f.Name):
		for _, field := range f.Value.Fields {
			if field.Name == specConfigTokens && field.Value.Kind == KindScalar {
				return field.Value.Scalar, true
			}
		}
	}
	return Scalar{}, false
}

func isSpecConfig(flag string) bool { return strings.ReplaceAll(flag, "_", "-") == specConfig }

// asksSpeculation says whether a server is asked to speculate.
func asksSpeculation(c ServerConfig) bool {
	for _, f := range c.Flags {
		root, _, _ := strings.Cut(f.Name, ".")
		if (f.Name == specAlgorithm || isSpecConfig(root)) && len(f.Values) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(c.Args, func(a string) bool {
		return strings.HasPrefix(a, "--"+specAlgorithm) || strings.HasPrefix(a, "--"+specConfig)
	})
}

// steps is the number of speculative steps that a cell asks for, 0 for none.
func steps(c Cell) int {
	for _, f := range c.Server.Flags {
		if len(f.Values) != 1 {
			continue
		}
		root, key, dotted := strings.Cut(f.Name, ".")
		text := ""
		switch {
		case f.Name == stepsFlag, dotted && isSpecConfig(root) && strings.ReplaceAll(key, "-", "_") == specConfigTokens:
			text = f.Values[0]
		case isSpecConfig(f.Name):
			text = configTokens(f.Values[0])
		}
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			return n
		}
	}
	return 0
}

// configTokens reads the length of a draft out of vLLM's JSON; "" when it has
// none.
func configTokens(text string) string {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var m map[string]any
	if dec.Decode(&m) != nil || m[specConfigTokens] == nil {
		return ""
	}
	return fmt.Sprint(m[specConfigTokens])
}

// stepsOf is the same of a running server: where the cell does not say, the
// server chose.
func stepsOf(c Cell, effective map[string]string) int {
	n := steps(c)
	if n == 0 && (asksSpeculation(c.Server) || c.Server.Attach != nil) {
		text := effective["speculative_num_steps"] // null when it has none
		if text == "" {
			text = configTokens(effective["speculative_config"])
		}
		n, _ = strconv.Atoi(text)
	}
	return n
}

// speculationSigns are what tells that a server speculates, whatever was asked.
func speculationSigns(effective map[string]string, r bench.Report, ms []record.Metric, profiled int) []string {
	var out []string
	for _, name := range []string{"speculative_algorithm", "speculative_config"} {
		if v := effective[name]; v != "" && v != "null" && !strings.EqualFold(v, "none") {
			out = append(out, "the server's "+name+" is "+v)
		}
	}
	for _, m := range ms {
		if m.Name == "accept_len" && m.Source == "server_log" && m.Value > 1 {
			out = append(out, fmt.Sprintf("its log has an accept length of %.2f", m.Value))
		}
	}
	verified := 0
	for _, q := range r.Requests {
		verified += max(q.VerifyCalls, 0)
	}
	if n := cmp.Or(float64(verified), r.ServerCounters["spec_verify_calls"]); n > 0 {
		out = append(out, fmt.Sprintf("it counted %.0f verify steps", n))
	}
	if profiled > 0 {
		out = append(out, fmt.Sprintf("a profiler counted %d speculative cycles", profiled))
	}
	return out
}
