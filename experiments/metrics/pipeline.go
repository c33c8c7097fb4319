package metrics

import (
	"cmp"
	"slices"
	"strings"
)

// pipeline is the one way from bytes to readings, used by Parse and Follower.
type pipeline struct {
	split  splitter
	join   joiner
	guard  guard
	starts startTracker
	col    collector

	sglang sglangReader
	vllm   vllmReader
	blocks blockReader
	rowsIn jsonReader
	bench  benchReader
	table  tableReader
	csv    csvReader
	gpu    gpuReader
	crash  crashReader

	rows     []ProfilerRow
	hintSG   bool
	hintVLLM bool
	unended  bool // the last line has no newline
	lastEnd  int  // highest line number seen
}

func (p *pipeline) write(b []byte) { p.split.write(b, p.line) }

// finish reads what is still held back: the last line, cut records, the last
// block.
func (p *pipeline) finish() {
	p.split.flush(p.line)
	for _, e := range p.join.rest() {
		p.guarded(e)
	}
	for _, e := range p.guard.rest() {
		p.entry(&e)
	}
	p.settle(p.blocks.finish())
	p.table.flush(&p.col)
}

func (p *pipeline) line(l line) {
	p.lastEnd = l.num
	p.unended = !l.terminated
	e, whole := p.join.add(peel(l))
	if whole {
		p.guarded(e)
	}
}

func (p *pipeline) guarded(e entry) {
	for _, e := range p.guard.add(e) {
		for _, e := range unglue(e) {
			p.entry(&e)
		}
	}
}

var (
	sglangWords = []string{"sglang", "Scheduler hit an exception", "Init torch distributed begin", "Load weight begin", "scheduler is dead"}
	vllmWords   = []string{"vllm", "vLLM", "Vllm", "VLLM", "EngineCore"}
)

// servedMark and postMark are in the access log's line of a served request.
const servedMark, postMark = `" 200 OK`, `"POST `

// idleMark is in an interval line of vLLM's front end, which goes on printing
// when the engine behind it hangs.
const idleMark = "Avg generation throughput: 0.0 tokens/s"

// entry shows one entry to the readers; the first that knows it has it, but
// crash markers are looked for in whatever is no number.
func (p *pipeline) entry(e *entry) {
	p.starts.observe(e)
	run := p.starts.run(e.stream)
	p.blocks.onRestart = p.starts.restart
	seq := p.col.seq
	if p.read(e, run) {
		if p.col.seq > seq {
			p.starts.value(e.stream)
			if !strings.Contains(e.msg, idleMark) {
				p.crash.alive(run, e.stream.base(), true)
			}
		}
		return
	}
	if !p.hintSG && containsAny(e.text, sglangWords) {
		p.hintSG = true
	}
	if !p.hintVLLM && containsAny(e.text, vllmWords) {
		p.hintVLLM = true
	}
	if strings.Contains(e.msg, servedMark) && strings.Contains(e.msg, postMark) {
		p.crash.alive(run, e.stream.base(), false)
	}
	p.crash.read(e, run)
}

// read says whether a reader knew the entry.
func (p *pipeline) read(e *entry, run int) bool {
	if p.sglang.read(e, &p.col, run) || p.vllm.read(e, &p.col, run) {
		return true
	}
	if row, used := p.rowsIn.read(e, run); used {
		if row != nil {
			p.profilerRow(e, row)
		}
		return true
	}
	if ev, used := p.blocks.read(e, run); used {
		p.settle(ev)
		return true
	}
	return p.bench.read(e, &p.col, run) || p.gpu.read(e, &p.col, run) || p.csv.read(e, &p.col, run) || p.table.read(e, &p.col, run)
}

// profilerRow takes a JSON line. It stands for the text block before it, so
// that one summary gives one sample.
func (p *pipeline) profilerRow(e *entry, row *ProfilerRow) {
	if row.Cycles > 0 {
		row.Rate = p.blocks.claim(e, row.WallMs/float64(row.Cycles)).printedRate()
	}
	p.add(*row, e.stream)
}

func (p *pipeline) settle(ev []blockEvent) {
	for _, x := range ev {
		if x.settled != nil {
			p.addBlock(x.settled)
		}
	}
}

// addBlock stores a text block that no JSON line stands for.
func (p *pipeline) addBlock(b *block) {
	p.rows = append(p.rows, fromBlock(b))
	for _, row := range b.rows {
		if b.ambiguous && row.metric != total {
			continue
		}
		p.col.put(reading{metric: row.metric, unit: "ms/cyc", value: Number(row.value), stream: b.stream, source: sourceProfiler,
			run: b.run, line: row.line, off: row.off, at: b.at})
	}
	if !b.accept.IsNull() && !b.ambiguous {
		p.col.put(reading{metric: "accept_len", unit: "tokens/step", value: b.accept, stream: b.stream, source: sourceProfiler,
			run: b.run, line: b.line, off: b.start, at: b.at})
	}
}

// add stores the row of a JSON line.
func (p *pipeline) add(row ProfilerRow, s stream) {
	p.rows = append(p.rows, row)
	put := func(metric, unit string, v float64) {
		p.col.put(reading{metric: metric, unit: unit, value: Number(v), stream: s, source: sourceProfiler,
			run: row.Run, line: row.Line, off: row.Offset, at: row.TEnd})
	}
	for _, m := range row.perCycle() {
		put(m.name, "ms/cyc", m.value)
	}
	if tokens, ok := row.Yielded(); ok {
		put("accept_len", "tokens/step", float64(tokens)/float64(row.RequestCycles))
	}
}

func (p *pipeline) report(name string) *Report {
	lines := p.split.num
	if p.split.pos > 0 && p.unended {
		lines = p.lastEnd
	}
	r := &Report{Type: "parse", Schema: Schema, File: name, Extract: p.col.series(), Crash: p.verdict(true), Runs: p.starts.ranges(lines),
		IncompleteBlocks: p.blocks.incomplete, DuplicateBlocks: p.blocks.duplicates + p.rowsIn.dup, TornRecords: p.sglang.torn + p.vllm.torn,
		BadLines: append(slices.Clone(p.rowsIn.badLines), p.gpu.bad...), Lines: lines, Bytes: p.split.pos}
	if r.Extract == nil {
		r.Extract = []Series{}
	}
	r.TruncatedLastLine = p.unended && (p.sglang.cutLast || p.vllm.cut || p.blocks.cutLast || p.rowsIn.cutLast)
	r.Engine, r.Kind = p.kind()
	for _, w := range [][]string{p.guard.dropped, p.sglang.warnings, p.blocks.warnings, p.rowsIn.warnings, p.bench.warnings} {
		r.Warnings = append(r.Warnings, w...)
	}
	if p.split.long > 0 {
		r.Warnings = append(r.Warnings, "a line of more than 8 MiB was cut")
	}
	return r
}

// verdict is on what was read so far, or on the whole file.
func (p *pipeline) verdict(whole bool) *Crash {
	p.crash.server = p.isServer()
	return p.inRun(p.crash.crash(whole))
}

// suspected is the verdict on a server that does nothing any more.
func (p *pipeline) suspected() *Crash {
	p.crash.server = p.isServer()
	return p.inRun(p.crash.suspected())
}

func (p *pipeline) isServer() bool {
	return p.sglang.seen || p.vllm.seen || p.blocks.seen || !p.bench.client && !p.bench.seen && (p.hintSG || p.hintVLLM)
}

// inRun says in which of several starts a crash was; nil stays nil.
func (p *pipeline) inRun(c *Crash) *Crash {
	if c == nil {
		return nil
	}
	for s, st := range p.starts.of {
		if len(st.first) > 1 && s.service == c.Service && s.pod == c.Pod {
			for i, f := range st.first {
				if f <= c.FirstLine {
					c.Run = i + 1
				}
			}
		}
	}
	return c
}

// kind is what the file is, by what was found in it.
func (p *pipeline) kind() (engine, kind string) {
	switch {
	case p.blocks.seen || len(p.rows) > 0 || p.rowsIn.last != nil:
		return EngineSGLang, KindProfiler
	case p.sglang.seen:
		return EngineSGLang, KindServerLog
	case p.vllm.seen:
		return EngineVLLM, KindServerLog
	case p.bench.seen || p.bench.client:
		return p.bench.engine(), KindBench
	case p.csv.engine != "":
		return p.csv.engine, KindBench
	case p.table.engine != "":
		return p.table.engine, KindBench
	case p.gpu.seen:
		return engineNvidiaSM, KindGPU
	case p.hintSG:
		return EngineSGLang, KindServerLog
	case p.hintVLLM:
		return EngineVLLM, KindServerLog
	}
	return EngineAny, KindServerLog
}

// named is a per-cycle number of a profiler row.
type named struct {
	name  string
	value float64
}

// perCycle gives the row's times per cycle in ms, TOTAL first.
func (row *ProfilerRow) perCycle() []named {
	if row.Cycles <= 0 {
		return nil
	}
	n := float64(row.Cycles)
	out := []named{{total, row.WallMs / n}}
	phases := make([]named, 0, len(row.Phases))
	rest := row.WallMs
	for k, v := range row.Phases {
		phases = append(phases, named{phaseMetric(k), v / n})
		rest -= v
	}
	slices.SortFunc(phases, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	out = append(out, phases...)
	if len(phases) > 0 {
		out = append(out, named{"cycle_other", rest / n})
	}
	if row.CallMs == row.CallMs { // not NaN
		out = append(out, named{"cycle_call", row.CallMs / n})
	}
	return out
}

// phaseMetric names a phase's metric; "draft" and "draft steps" are one.
func phaseMetric(phase string) string {
	if m, ok := rowMetric[strings.ToLower(strings.ReplaceAll(phase, "_", " "))]; ok && m != total {
		return m
	}
	return "cycle_" + strings.ReplaceAll(phase, " ", "_")
}
