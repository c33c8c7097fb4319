package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// engineFacts tell one engine from another, the plainest first; its files leave
// out what patches changed.
var engineFacts = [...]struct{ key, name string }{{"engine_version", "engine version"}, {"git_commit", "commit"}, {"engine_files", "files of the engine"}}

// engineNotes say between which launches of a sweep the engine was changed: what
// was measured before and after is not of one program.
func (s *Summary) engineNotes() []string {
	type measured struct {
		run   record.Run
		where string
		round int
		facts map[string]string // of code
	}
	last := map[string]measured{} // by the engine's folder
	names := map[string]string{}
	var runs []record.Run
	for _, row := range s.Cells {
		names[row.cell.ID] = row.name
		for _, r := range s.runs[row.cell.ID] {
			if r.State == record.RunDone {
				runs = append(runs, r)
			}
		}
	}
	slices.SortStableFunc(runs, func(x, y record.Run) int {
		return cmp.Or(cmp.Compare(x.StartUs, y.StartUs), cmp.Compare(s.slotOf[x.SlotID].Round, s.slotOf[y.SlotID].Round))
	})
	var out []string
	for _, r := range runs {
		at := s.slotOf[r.SlotID]
		now := measured{r, names[at.CellID], at.Round + 1, codeOf(s.data[r.ID])}
		folder := now.facts["engine_path"]
		was, known := last[folder]
		last[folder] = now
		if !known {
			continue
		}
		what := changedCode(was.facts, now.facts)
		if what == "" {
			continue
		}
		when := fmt.Sprintf("between round %d and %d", was.round, now.round)
		if was.round == now.round {
			when = fmt.Sprintf("within round %d", now.round)
		}
		out = append(out, fmt.Sprintf("code changed %s (after %s, before %s): %s: the launches are not of one engine", when, was.where, now.where, plain(what)))
	}
	const most = 3
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("code changed %d times more", len(out)-most))
	}
	return out
}

func codeOf(d record.RunData) map[string]string {
	out := map[string]string{}
	for _, f := range d.Provenance {
		if f.Group == "code" {
			out[f.Key] = f.Value
		}
	}
	return out
}

// changedCode says in what two launches have another engine, "" when in nothing
// that is known of both: the files where they are named, else their folders.
func changedCode(a, b map[string]string) string {
	for _, e := range engineFacts {
		x, y := a[e.key], b[e.key]
		if x == "" || y == "" || x == y {
			continue
		}
		if e.key != "engine_files" {
			return fmt.Sprintf("%s %s -> %s", e.name, shortHashes(x), shortHashes(y))
		}
		var files, folders []string
		for _, facts := range []map[string]string{a, b} {
			for key := range facts {
				name, ok := strings.CutPrefix(key, "file ")
				switch {
				case !ok || strings.HasPrefix(name, "/") || a[key] == b[key]: // an absolute one is what patches change
				case strings.HasSuffix(name, "/*"):
					folders = append(folders, key)
				default:
					files = append(files, key)
				}
			}
		}
		if len(files) == 0 {
			files = folders
		}
		slices.Sort(files)
		files = slices.Compact(files)
		if len(files) == 0 {
			return e.name
		}
		return namedFew(files)
	}
	return ""
}

// namedFew lists a few and says how many more there are.
func namedFew(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// counted are the values of a fact in runs that are not alike, each with how many
// have it; "" where all have the same. A file that is not told of is as installed.
func counted(runs []record.RunData, k factKey) string {
	count := map[string]int{}
	var order []string
	for _, run := range runs {
		v := absent
		if vs := sideFacts([]record.RunData{run})[k]; len(vs) > 0 {
			v = vs[0]
		}
		if count[v] == 0 {
			order = append(order, v)
		}
		count[v]++
	}
	if len(order) < 2 {
		return ""
	}
	var parts []string
	for i, v := range order {
		switch {
		case v == absent && strings.HasPrefix(k.key, "file "):
			v = "as installed"
		case v == absent:
			v = "(absent)"
		}
		n := fmt.Sprint(count[order[i]])
		if i == 0 {
			n = plural(count[order[i]], "run")
		}
		parts = append(parts, v+" in "+n)
	}
	return "varies: " + strings.Join(parts, ", ")
}

// unsteady finds the facts of code that vary between runs of one cell, which only
// an edit in between does, and says how on each side: "" where it does not. Of an
// edited file its folder and the whole are not told.
func unsteady(cells []cellRuns) map[factKey][2]string {
	out := map[factKey][2]string{}
	var a, b []record.RunData
	for _, c := range cells {
		a, b = append(a, c.a...), append(b, c.b...)
		for _, side := range [][]record.RunData{c.a, c.b} {
			for k, values := range sideFacts(side) {
				if k.group == "code" && len(values) > 1 {
					out[k] = [2]string{}
				}
			}
		}
	}
	file := false
	for k := range out {
		out[k] = [2]string{counted(a, k), counted(b, k)}
		file = file || isFile(k)
	}
	for k := range out {
		if file && !isFile(k) {
			delete(out, k)
		}
	}
	return out
}

// isFile tells a file of the engine from a folder and from all of them.
func isFile(k factKey) bool {
	return strings.HasPrefix(k.key, "file ") && !strings.HasSuffix(k.key, "/*")
}
