package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// benchEncoder writes Go benchmark text. benchstat takes every line for an
// independent measurement, so a launch is one line, the median of its runs: with
// one for each run, launch-to-launch noise would look smaller than it is. The
// unit names metric and source, since benchstat tells numbers apart by nothing
// else. Labels and failed checks are those of the whole cell: benchstat makes a
// table for each set of configuration values, and launches of one cell must not
// end in two of them.
type benchEncoder struct {
	w        io.Writer
	options  ExportOptions
	launches []*benchLaunch
	at       map[[2]string]*benchLaunch // sweep, and launch with cell
	sweeps   map[string]int             // in the order in which they came
}

type benchLaunch struct {
	sweep, ord, round int
	name              string
	config            [len(benchKeys)]string
	runs              int
	values            map[series][]float64
	unmeasured        []record.Run // failed, or never ended
}

// benchKeys are the configuration lines, each as benchstat -table, -col and
// -ignore name it.
var benchKeys = [...]string{"sweep", "pinned", "host", "model", "patches", "labels", "failed-checks"}

func newBenchEncoder(w io.Writer, o ExportOptions) *benchEncoder {
	return &benchEncoder{w: w, options: o, at: map[[2]string]*benchLaunch{}, sweeps: map[string]int{}}
}

func (e *benchEncoder) add(r exportRun) error {
	// A launch may measure several cells, which then differ in the load only.
	key := [2]string{r.Sweep.ID, r.Run.LaunchID + "\x00" + r.Cell.ID}
	if _, ok := e.sweeps[r.Sweep.ID]; !ok {
		e.sweeps[r.Sweep.ID] = len(e.sweeps)
	}
	l := e.at[key]
	if l == nil {
		l = &benchLaunch{sweep: e.sweeps[r.Sweep.ID], ord: r.Cell.Ord, round: r.Slot.Round, name: benchName(r), values: map[series][]float64{}}
		e.at[key] = l
		e.launches = append(e.launches, l)
	}
	if r.Run.State != record.RunDone {
		l.unmeasured = append(l.unmeasured, r.Run)
		return nil
	}
	failed := cmp.Or(strings.Join(r.cellFailed, " "), "none")
	if !r.cellChecked {
		failed = "not-checkable"
	}
	// An empty value would mean to the reader that the key was never there.
	l.config = [...]string{r.Sweep.ID, cmp.Or(benchPinned(r.pinned), "none"), cmp.Or(benchValue(r.Run.Host), "unknown"), cmp.Or(benchValue(factOf(r.Data, "workload", "model")), "unknown"),
		cmp.Or(benchValue(patchesOf(r.Data)), "unknown"), cmp.Or(strings.Join(r.cellLabels, " "), "none"), failed}
	l.runs++
	for _, m := range r.Data.Metrics {
		if finite(m.Value) != nil {
			s := series{m.Name, m.Source, m.Unit}
			l.values[s] = append(l.values[s], m.Value)
		}
	}
	return nil
}

func (e *benchEncoder) close() error {
	slices.SortStableFunc(e.launches, func(a, b *benchLaunch) int {
		return cmp.Or(a.sweep-b.sweep, a.ord-b.ord, a.round-b.round)
	})
	all := map[series]bool{}
	for _, l := range e.launches {
		for s := range l.values {
			all[s] = true
		}
	}
	units := slices.SortedFunc(maps.Keys(all), compareSeries)
	b := bufio.NewWriter(e.w)
	fmt.Fprintf(b, "# specrun export, schema %d: a line is a launch, the median of its runs; labels and failed checks are those of its cell\n", e.options.Schema)
	for _, s := range units {
		if better := s.better(); better != "" {
			fmt.Fprintf(b, "Unit %s better=%s\n", s.benchUnit(), better)
		}
	}
	var config [len(benchKeys)]string
	for _, l := range e.launches {
		for _, r := range l.unmeasured {
			fmt.Fprintf(b, "# %s round %d: run %s %s\n", l.name, l.round+1, r.ID, stateText(r, ": "))
		}
		if len(l.values) == 0 {
			if l.runs > 0 {
				fmt.Fprintf(b, "# %s round %d: no numbers\n", l.name, l.round+1)
			}
			continue
		}
		for i, key := range benchKeys {
			if l.config[i] != config[i] {
				fmt.Fprintf(b, "%s: %s\n", key, l.config[i])
			}
		}
		config = l.config
		fmt.Fprintf(b, "%s\t%d", l.name, l.runs)
		for _, s := range units {
			if values := l.values[s]; len(values) > 0 {
				median := stats.Medians([]stats.Nest{{Runs: values}})[0].Value
				fmt.Fprintf(b, "\t%s %s", csvNumber(median), s.benchUnit())
			}
		}
		b.WriteByte('\n')
	}
	return b.Flush()
}

// benchUnit is the unit by which benchstat knows a metric: tpot.client-ms.
func (s series) benchUnit() string {
	text := s.name + "." + s.source
	if s.unit != "" {
		text += "-" + s.unit
	}
	return strings.Join(strings.Fields(text), "_")
}

// better says which way is good, as the format has it; "" when neither is.
func (s series) better() string {
	switch stats.DirectionOf(s.name) {
	case stats.Higher:
		return "higher"
	case stats.Lower:
		return "lower"
	}
	return ""
}

// gomaxprocs is the end of a name that is read as a number of processors.
var gomaxprocs = regexp.MustCompile(`-\d+$`)

// benchPinned are the parameters of the whole sweep, in one configuration value:
// in the name they would keep cells of two sweeps that differ in nothing else
// from meeting.
func benchPinned(pinned record.Params) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		out = append(out, benchPart(name)+"="+benchPart(fmt.Sprint(pinned[name])))
	}
	return strings.Join(out, " ")
}

// benchName names a cell with the parameters that tell it from others of its
// sweep, so that cells of two sweeps meet by name: Benchmark_practice/steps=2.
func benchName(r exportRun) string {
	parts := []string{"Benchmark_" + benchPart(r.Sweep.Name)}
	if r.Cell.Baseline {
		parts = append(parts, "baseline")
	}
	if r.quotable {
		parts = append(parts, "quotable")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Cell.Params)) {
		if _, ok := r.pinned[name]; ok {
			continue
		}
		parts = append(parts, benchPart(name)+"="+benchPart(fmt.Sprint(r.Cell.Params[name])))
	}
	name := strings.Join(parts, "/")
	if gomaxprocs.MatchString(name) {
		name += "-1" // or the end of the value would be taken for it
	}
	return name
}

// benchPart writes blanks, slashes and what is not printed as a URL would.
func benchPart(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '/' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// benchValue is a configuration value on one line.
func benchValue(s string) string {
	clean := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	return strings.Join(strings.Fields(strings.Map(clean, s)), " ")
}
