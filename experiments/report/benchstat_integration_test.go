//go:build integration

package report

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// benchstat itself, of the module whose statistics the table uses, prints the
// table's medians, and with the flags that help names puts two sweeps side by side.
func TestExportBench_IsReadByBenchstat(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "benchstat")
	if out, err := exec.Command("go", "build", "-o", program, "golang.org/x/perf/cmd/benchstat").CombinedOutput(); err != nil {
		t.Fatalf("build benchstat: %v\n%s", err, out)
	}
	a, b := exportView(), exportView()
	b.Sweep.ID = "swp2"
	for i, c := range b.Cells { // a value for the whole sweep does not keep its cells from meeting
		b.Cells[i].Params = maps.Clone(c.Params)
		if !c.Baseline {
			b.Cells[i].Params["env.NCCL_PROTO"] = "Simple"
		}
	}
	for id, d := range b.Data {
		for i := range d.Metrics {
			d.Metrics[i].Value *= 1.5
		}
		b.Data[id] = d
	}
	text, _ := export(t, FormatBench, ExportOptions{}, sweepSide(a), sweepSide(b))
	file := filepath.Join(dir, "runs.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	benchstat := func(args ...string) string {
		var out, said bytes.Buffer
		c := exec.Command(program, append(args, file)...)
		c.Stdout, c.Stderr = &out, &said
		if err := c.Run(); err != nil {
			t.Fatalf("benchstat %v: %v\n%s", args, err, said.String())
		}
		for line := range strings.Lines(said.String()) { // it ends with 0 whatever it could not read; of few launches it warns with a cell's name
			if strings.Contains(line, file+":") || strings.HasPrefix(line, "benchstat:") {
				t.Errorf("benchstat %v: %s", args, line)
			}
		}
		return out.String()
	}
	rows := strings.Split(benchstat("-format", "csv", "-col", "sweep", "-ignore", "labels,failed-checks,pinned", "-filter", ".unit:output_throughput.client-tok/s"), "\n")
	for _, cell := range Summarize(a, exportTable).Cells {
		want, found := cell.Metrics["output_throughput"].Median, false
		for _, row := range rows {
			fields := strings.Split(row, ",") // name, a, its interval, b, its interval, difference, p
			if len(fields) < 5 || !strings.Contains(fields[0]+"/", "/"+cell.name+"/") {
				continue
			}
			found = true
			left, err := strconv.ParseFloat(fields[1], 64)
			if err != nil || left != want {
				t.Errorf("%s: %q, want %v", cell.name, row, want)
			}
			if right, err := strconv.ParseFloat(fields[3], 64); err != nil || right != want*1.5 {
				t.Errorf("%s: %q, want %v beside it", cell.name, row, want*1.5)
			}
		}
		if !found {
			t.Errorf("no row of %s:\n%s", cell.name, strings.Join(rows, "\n"))
		}
	}
	// Without flags the labels head the tables.
	if text := benchstat(); !strings.Contains(text, "labels: few-rounds noisy simulated") || !strings.Contains(text, "failed-checks: tpot-cycle") {
		t.Errorf("no labels in:\n%s", text)
	}
}
