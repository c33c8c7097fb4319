package engine

import (
	"encoding/json"
	"math/big"
	"strings"
)

// sameMeaning are values that the server replaces by another of one meaning.
var sameMeaning = map[string]map[string]string{
	"speculative_algorithm": {"NEXTN": "EAGLE"},
}

// sameValue tells whether the effective text means what the flag asked: numbers
// by value, JSON by content, lists by their elements however they were written,
// the rest by text.
func sameValue(key string, f Flag, got string) bool {
	if f.Kind == Bare {
		return strings.EqualFold(got, "true")
	}
	asked := f.Values
	if f.Kind == JSON || f.Kind == Value {
		asked = []string{f.Text()}
	}
	if sameText(key, f.Text(), got) {
		return true
	}
	var list []any
	if f.Kind == JSON || decode(got, &list) != nil || len(list) != len(asked) {
		return false
	}
	for i, v := range list {
		text, err := plainJSON(v)
		if err != nil || !sameText(key, asked[i], text) {
			return false
		}
	}
	return true
}

func sameText(key, asked, got string) bool {
	if asked == got {
		return true
	}
	if strings.EqualFold(asked, "auto") {
		return true // whatever the server chose is what was asked for
	}
	if key == "speculative_algorithm" { // upper-cased by the server
		asked, got = strings.ToUpper(asked), strings.ToUpper(got)
		if to, ok := sameMeaning[key][asked]; ok && to == got {
			return true
		}
		return asked == got
	}
	if a, ok := number(asked); ok {
		b, ok := number(got)
		return ok && a.Cmp(b) == 0
	}
	if word, ok := wordOf(asked); ok {
		other, ok := wordOf(got)
		return ok && word == other
	}
	if strings.HasSuffix(key, "_path") && len(asked) > 1 {
		return strings.TrimRight(asked, "/") == strings.TrimRight(got, "/")
	}
	var a, b any
	return decode(asked, &a) == nil && decode(got, &b) == nil && sameJSON(a, b)
}

func number(s string) (*big.Rat, bool) { return new(big.Rat).SetString(s) }

// wordOf reads true, false and null as Python and JSON write them.
func wordOf(s string) (word string, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return "true", true
	case "false", "False", "FALSE":
		return "false", true
	case "null", "None", "none":
		return "null", true
	}
	return "", false
}

// sameJSON compares decoded values, numbers by value.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, okX := number(a.String())
		y, okY := number(b.String())
		return okX && okY && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			other, ok := b[key]
			if !ok || !sameJSON(v, other) {
				return false
			}
		}
		return true
	}
	return a == b
}
