package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// looksJSON says whether a file begins like a JSON document or JSON Lines of a
// benchmark, rather than like a log whose lines happen to begin with a bracket.
func looksJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n\x00")
	if len(head) == 0 || bytes.HasPrefix(head, []byte(profileMark)) || bytes.HasPrefix(head, []byte(`{"log":`)) {
		return false
	}
	next := bytes.TrimLeft(head[1:], " \t\r\n")
	switch head[0] {
	case '{':
		return len(next) > 0 && (next[0] == '"' || next[0] == '}')
	case '[':
		return len(next) > 0 && (next[0] == '{' || next[0] == ']')
	}
	return false
}

// parseDocument reads JSON: one value, several, or one a line. What cannot be
// read is reported by line, the rest counts.
func parseDocument(r io.Reader, name string) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("read %s: a JSON document of more than %d MiB is not read", name, maxDocument>>20)
	}
	d := document{}
	d.split(data)
	if len(d.values) == 0 || !d.known {
		// No benchmark result: perhaps a log with JSON records. The text readers
		// know those.
		rep, err := parseText(bytes.NewReader(data), name)
		if err != nil || rep.Kind != KindServerLog || rep.Engine != EngineAny || len(d.values) == 0 && len(d.bad) == 0 {
			return rep, err
		}
	}
	rep := &Report{Type: "parse", Schema: Schema, File: name, Engine: d.engine, Kind: KindBench, Extract: d.col.series(), BadLines: d.bad,
		Warnings: d.warnings, Lines: countLines(data), Bytes: int64(len(data)), TruncatedLastLine: d.truncated}
	if rep.Engine == "" {
		rep.Engine = EngineAny
	}
	if rep.Extract == nil {
		rep.Extract = []Series{}
	}
	return rep, nil
}

func countLines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

// document collects the results in a JSON file.
type document struct {
	values    []map[string]any
	bad       []int
	warnings  []string
	engine    string
	known     bool
	truncated bool
	col       collector
}

// split cuts the data into top-level values. A file whose first line is a value
// of its own is read line by line, so that one cut line costs one record.
func (d *document) split(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	first, _, _ := bytes.Cut(bytes.TrimLeft(data, " \t\r\n"), []byte("\n"))
	if _, err := decodeLoose(first); err == nil {
		d.lines(data)
		return
	}
	d.stream(data)
}

func (d *document) lines(data []byte) {
	n := 0
	for raw := range bytes.SplitSeq(data, []byte("\n")) {
		n++
		raw = bytes.Trim(raw, " \t\r\x00")
		if len(raw) == 0 {
			continue
		}
		v, err := decodeLoose(raw)
		if err == nil {
			d.value(v, n)
			continue
		}
		d.bad = append(d.bad, n)
		// A killed writer leaves a cut record; the next writer's record may be
		// glued to it.
		if i := bytes.LastIndex(raw, []byte(`{"`)); i > 0 {
			for j := i; j > 0; j = bytes.LastIndex(raw[:j], []byte(`{"`)) {
				if v, err := decodeLoose(raw[j:]); err == nil && isResult(v) {
					d.value(v, n)
					break
				}
			}
		}
	}
}

func isResult(v any) bool {
	m, ok := v.(map[string]any)
	return ok && (m["backend"] != nil || m["results"] != nil || m["completed"] != nil)
}

// stream reads pretty-printed values behind each other.
func (d *document) stream(data []byte) {
	rest, line := data, 1
	for {
		trimmed := bytes.TrimLeft(rest, " \t\r\n,\x00")
		line += bytes.Count(rest[:len(rest)-len(trimmed)], []byte("\n"))
		if len(trimmed) == 0 {
			return
		}
		loose := looseJSON(trimmed)
		dec := json.NewDecoder(bytes.NewReader(loose))
		var v any
		if err := dec.Decode(&v); err != nil {
			d.bad = append(d.bad, line)
			d.truncated = d.truncated || err == io.ErrUnexpectedEOF
			return
		}
		d.value(v, line)
		used := strictLength(trimmed, int(dec.InputOffset()))
		line += bytes.Count(trimmed[:used], []byte("\n"))
		rest = trimmed[used:]
	}
}

// value takes one decoded value: a result, or a list of results.
func (d *document) value(v any, line int) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			d.value(x, line)
		}
	case map[string]any:
		d.values = append(d.values, v)
		d.result(v, line)
	}
}

func decodeLoose(raw []byte) (any, error) {
	var v any
	err := json.Unmarshal(looseJSON(raw), &v)
	return v, err
}

// looseJSON quotes the bare NaN, Infinity and -Infinity that Python writes.
func looseJSON(raw []byte) []byte {
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return raw
	}
	out := make([]byte, 0, len(raw)+64)
	walkBare(raw, func(b []byte, special string) {
		if special == "" {
			out = append(out, b...)
			return
		}
		out = append(out, '"')
		out = append(out, special...)
		out = append(out, '"')
	})
	return out
}

// strictLength maps a length in the text that looseJSON made back to the
// original: each quoted word is two bytes longer there.
func strictLength(raw []byte, loose int) int {
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return min(loose, len(raw))
	}
	in, out := 0, 0
	done := -1
	walkBare(raw, func(b []byte, special string) {
		if done >= 0 {
			return
		}
		add := len(b)
		if special != "" {
			add += 2
		}
		if out+add >= loose {
			done = min(in+loose-out, in+len(b))
			return
		}
		in, out = in+len(b), out+add
	})
	if done < 0 {
		done = len(raw)
	}
	return done
}

var bareWords = []string{"-Infinity", "Infinity", "NaN"}

// walkBare calls f for stretches of text, and for each bare word outside
// strings with its name.
func walkBare(raw []byte, f func(b []byte, special string)) {
	start, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == 'N' || c == 'I' || c == '-'):
			for _, w := range bareWords {
				if bytes.HasPrefix(raw[i:], []byte(w)) {
					f(raw[start:i], "")
					f(raw[i:i+len(w)], w)
					i += len(w) - 1
					start = i + 1
					break
				}
			}
		}
	}
	f(raw[min(start, len(raw)):], "")
}

func (d *document) put(line int, name, unit string, v Value) {
	d.col.put(reading{metric: name, unit: unit, value: v, source: sourceClient, run: 1, line: line})
}

// cell turns a decoded JSON value into a reading; ok is false for what is no
// cell (a list, an object, a word).
func cell(x any) (Value, bool) {
	switch x := x.(type) {
	case nil:
		return Null(), true
	case float64:
		return Number(x), true
	case string:
		if f, ok := parseNumber(x, 0); ok {
			return Number(f), true
		}
	}
	return Null(), false
}

func keysOf(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func hasPrefixKey(m map[string]any, prefix string) bool {
	for k := range m {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}
