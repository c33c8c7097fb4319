package metrics

import (
	"cmp"
	"slices"
	"strconv"
)

// reading is one value with where it stood and who wrote it.
type reading struct {
	metric, unit string
	value        Value
	stream       stream
	source       string // profiler, server_log, client
	run          int    // server start within the file, from 1
	line         int
	off          int64
	at           float64
	seq          int
}

// collector keeps readings in the order in which they were made.
type collector struct {
	all []reading
	seq int
}

func (c *collector) add(e *entry, run int, source, metric, unit string, v Value) {
	c.put(reading{metric: metric, unit: unit, value: v, stream: e.stream, source: source, run: run, line: e.num, off: e.start, at: e.at})
}

func (c *collector) put(r reading) {
	c.seq++
	r.seq = c.seq
	c.all = append(c.all, r)
}

// labelKeys in the order in which they name a series.
var labelKeys = []string{"file", "service", "pod", "pid", "engine", "rank", "source", "run"}

func (r *reading) label(key string) string {
	switch key {
	case "file":
		return r.stream.file
	case "service":
		return r.stream.service
	case "pod":
		return r.stream.pod
	case "pid":
		return r.stream.pid
	case "engine":
		return r.stream.engine
	case "rank":
		return r.stream.rank
	case "source":
		return r.source
	case "run":
		return strconv.Itoa(r.run)
	}
	return ""
}

// series groups the readings. A label is given only where the file's readings
// differ in it (source: where those of the one metric do).
func (c *collector) series() []Series {
	all := slices.Clone(c.all)
	slices.SortStableFunc(all, func(a, b reading) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.seq, b.seq)) })
	varies := map[string]bool{}
	for _, key := range labelKeys {
		if key != "source" {
			varies[key] = differ(all, key)
		}
	}
	if varies["rank"] || varies["engine"] {
		varies["pid"] = varies["pid"] && !determined(all)
	}
	bySource := map[string]bool{}
	for _, name := range names(all) {
		bySource[name] = differ(only(all, name), "source")
	}
	var out []Series
	index := map[string]int{}
	for i := range all {
		r := &all[i]
		labels := map[string]string{}
		id := r.metric + "\x00" + r.unit
		for _, key := range labelKeys {
			if v := r.label(key); v != "" && (varies[key] || key == "source" && bySource[r.metric]) {
				labels[key] = v
				id += "\x00" + key + "\x00" + v
			}
		}
		n, ok := index[id]
		if !ok {
			n = len(out)
			index[id] = n
			if len(labels) == 0 {
				labels = nil
			}
			out = append(out, Series{Metric: r.metric, Unit: r.unit, Labels: labels})
		}
		out[n].Values = append(out[n].Values, r.value)
		out[n].Lines = append(out[n].Lines, r.line)
	}
	return out
}

// determined says whether rank and engine already tell the processes apart, so
// that naming the process id as well says nothing new.
func determined(all []reading) bool {
	pid := map[stream]string{}
	for i := range all {
		s := all[i].stream
		p := s.pid
		s.pid = ""
		if old, ok := pid[s]; ok && old != p {
			return false
		}
		pid[s] = p
	}
	return true
}

func differ(all []reading, key string) bool {
	for i := range all {
		if all[i].label(key) != all[0].label(key) {
			return true
		}
	}
	return false
}

func names(all []reading) []string {
	seen := map[string]bool{}
	var out []string
	for i := range all {
		if n := all[i].metric; !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

func only(all []reading, name string) []reading {
	var out []reading
	for i := range all {
		if all[i].metric == name {
			out = append(out, all[i])
		}
	}
	return out
}
