package experiments

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// patchesKey is the axis of patch sets; its values join patches with +.
const patchesKey = "patches"

// noPatches is the value of that axis for the empty set.
const noPatches = "none"

// axisKind says what an axis key sets.
type axisKind int

const (
	axisParam axisKind = iota
	axisFlag
	axisEnv
	axisBench
	axisPatches
	axisPython
)

// boundKey is an axis key with its meaning in a spec.
type boundKey struct {
	kind axisKind
	name string // of the param, flag, variable or bench field
	key  string // as given
}

// boundAxis is an axis whose keys are known to exist.
type boundAxis struct {
	Axis
	keys []boundKey
}

// bindAxes gives every key its meaning: a param, else a flag of the spec, else
// one of the prefixed forms. Errors are *ArgError.
func bindAxes(s *Spec, axes []Axis) ([]boundAxis, error) {
	out := make([]boundAxis, len(axes))
	for i, a := range axes {
		out[i].Axis = a
		for j, key := range a.Keys {
			b, err := bindKey(s, key)
			if err != nil {
				err.Arg = a.Arg
				return nil, err
			}
			for _, row := range a.Rows {
				if (b.kind == axisFlag || b.kind == axisEnv) && isSecret(b.name) && !row[j].IsNull() && !isEmptySecret(row[j].Text) {
					return nil, secretAxis(key, b.name)
				}
				if err := b.accepts(row[j]); err != nil {
					return nil, &ArgError{Arg: a.Arg, Msg: err.Error()}
				}
			}
			out[i].keys = append(out[i].keys, b)
		}
	}
	return out, nil
}

func bindKey(s *Spec, key string) (boundKey, *ArgError) {
	if _, ok := s.param(key); ok {
		return boundKey{axisParam, key, key}, nil
	}
	if slices.Contains(s.flagNames(), key) {
		return boundKey{axisFlag, key, key}, nil
	}
	switch key {
	case patchesKey:
		return boundKey{axisPatches, key, key}, nil
	case "python":
		return boundKey{axisPython, key, key}, nil
	}
	prefix, name, ok := strings.Cut(key, ".")
	if ok && name != "" {
		switch prefix {
		case "flag":
			if !flagName.MatchString(name) {
				return boundKey{}, &ArgError{Msg: fmt.Sprintf("%q is no flag name", name), Advice: "write it without its dashes"}
			}
			return boundKey{axisFlag, name, key}, nil
		case "env":
			if !envName.MatchString(name) {
				return boundKey{}, &ArgError{Msg: fmt.Sprintf("%q is no name of an environment variable", name)}
			}
			return boundKey{axisEnv, name, key}, nil
		case "bench":
			if _, ok := benchFields[name]; !ok {
				return boundKey{}, &ArgError{Msg: "unknown key " + key, Advice: unknownHint(name, sortedKeys(benchFields))}
			}
			return boundKey{axisBench, name, key}, nil
		}
	}
	known := append(s.ParamNames(), s.flagNames()...)
	known = append(known, patchesKey, "python")
	for _, f := range sortedKeys(benchFields) {
		known = append(known, "bench."+f)
	}
	if s.Server.Attach != nil {
		return boundKey{}, &ArgError{Msg: "unknown key " + key, Advice: s.attachedKeys(key)}
	}
	advice := "a flag that the spec does not have is written flag." + key + "=..., a variable env." + key + "=..."
	if n := nearest(key, known); n != "" {
		advice = "did you mean " + n + "?"
	}
	return boundKey{}, &ArgError{Msg: "unknown key " + key, Advice: advice}
}

// attachedKeys says what varies of a server that somebody else runs.
func (s *Spec) attachedKeys(key string) string {
	advice := "somebody else runs this server (server.attach), so only bench. keys vary"
	name := strings.TrimPrefix(key, "bench.")
	known := append(s.ParamNames(), sortedKeys(benchFields)...)
	if n := nearest(name, known); n != "" {
		if _, ok := s.param(n); !ok {
			n = "bench." + n
		}
		return advice + ": did you mean " + n + "?"
	}
	return advice + ": bench.concurrency=1,8 for example"
}

func (b boundKey) accepts(v Scalar) error {
	switch b.kind {
	case axisBench:
		var scratch BenchPlan
		if err := benchFields[b.name](&scratch, v); err != nil {
			return fmt.Errorf("%s %w", b.key, err)
		}
	case axisPython:
		if v.IsNull() || v.Text == "" {
			return fmt.Errorf("python needs a path")
		}
	case axisParam:
		if v.IsNull() {
			return fmt.Errorf("a param cannot be null")
		}
	}
	return nil
}

// combination is one value for every axis.
type combination struct {
	keys   []boundKey
	values []Scalar
}

// combinations is the product of the axes in the order given, the last one
// varying fastest.
func combinations(axes []boundAxis) []combination {
	out := []combination{{}}
	for _, a := range axes {
		next := make([]combination, 0, len(out)*len(a.Rows))
		for _, c := range out {
			for _, row := range a.Rows {
				next = append(next, combination{
					keys:   append(slices.Clip(c.keys), a.keys...),
					values: append(slices.Clip(c.values), row...),
				})
			}
		}
		out = next
	}
	return out
}

func (c combination) get(kind axisKind, name string) (Scalar, bool) {
	for i, k := range c.keys {
		if k.kind == kind && k.name == name {
			return c.values[i], true
		}
	}
	return Scalar{}, false
}

// with sets one key, whether the combination has it or not.
func (c combination) with(key boundKey, v Scalar) combination {
	out := c.only(func(k boundKey) bool { return k.kind != key.kind || k.name != key.name })
	return combination{append(out.keys, key), append(out.values, v)}
}

// params are the combination's values as they are stored with the cell. Whether a
// sweep goes on with its best cell is nothing of a cell's.
func (c combination) params() record.Params {
	p := record.Params{}
	for i, k := range c.keys {
		if k.kind == axisBench && k.name == "quotable" {
			continue
		}
		v := c.values[i].Value
		if v == nil {
			v = "null"
		}
		p[k.key] = v
	}
	return p
}

// only keeps the keys that f accepts.
func (c combination) only(f func(boundKey) bool) combination {
	var out combination
	for i, k := range c.keys {
		if f(k) {
			out.keys = append(out.keys, k)
			out.values = append(out.values, c.values[i])
		}
	}
	return out
}

// String names the combination in messages: steps=2 mode=decode.
func (c combination) String() string {
	if len(c.keys) == 0 {
		return "of all defaults"
	}
	parts := make([]string, len(c.keys))
	for i, k := range c.keys {
		parts[i] = k.key + "=" + c.values[i].Text
	}
	return strings.Join(parts, " ")
}
