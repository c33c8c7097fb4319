package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// text stores JSON as text, and nothing as NULL.
func text(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

// number splits a value into what a column can hold: SQLite would turn NaN
// into NULL without a word, so the special ones are named beside it.
func number(v float64) (value any, special string) {
	switch {
	case math.IsNaN(v):
		return nil, "NaN"
	case math.IsInf(v, 1):
		return nil, "Inf"
	case math.IsInf(v, -1):
		return nil, "-Inf"
	}
	return v, ""
}

// fromNumber is the inverse of number.
func fromNumber(value *float64, special string) (float64, error) {
	switch {
	case special == "" && value != nil:
		return *value, nil
	case special == "NaN":
		return math.NaN(), nil
	case special == "Inf":
		return math.Inf(1), nil
	case special == "-Inf":
		return math.Inf(-1), nil
	}
	return 0, fmt.Errorf("value is NULL and its flag is %q", special)
}

// encodeParams writes parameters so that decodeParams returns the same types:
// a float64 that is whole keeps its point.
func encodeParams(p record.Params) (string, error) {
	out := make(map[string]json.RawMessage, len(p))
	for name, v := range p {
		raw, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("parameter %s: %w", name, err)
		}
		if f, ok := v.(float64); ok && !strings.ContainsAny(string(raw), ".e") {
			raw = []byte(strconv.FormatFloat(f, 'f', 1, 64))
		}
		out[name] = raw
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

func decodeParams(s string) (record.Params, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var p record.Params
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("parameters %q: %w", s, err)
	}
	for name, v := range p {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		if i, err := n.Int64(); err == nil {
			p[name] = i
			continue
		}
		f, err := n.Float64()
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		p[name] = f
	}
	return p, nil
}

func encodeStrings(m map[string]string) (any, error) {
	if len(m) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(m)
	return string(raw), err
}

// decode reads a JSON column into v; NULL leaves v alone.
func decode(column string, raw []byte, v any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("column %s: %w", column, err)
	}
	return nil
}
