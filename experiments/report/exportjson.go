package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// jsonEncoder writes each run as it comes, so that the memory that an export of
// all samples takes is that of one sweep.
type jsonEncoder struct {
	w       io.Writer
	options ExportOptions
}

// exportLine is the line that show --json prints of a run, and what is known of
// its cell.
type exportLine struct {
	Type   string `json:"type"`
	Schema int    `json:"schema"`
	RunDetail
	CellLabels []string      `json:"cell_labels"` // as in the table
	Quotable   bool          `json:"quotable,omitempty"`
	Samples    *[]sampleJSON `json:"samples,omitempty"` // hides RunDetail's: absent is not empty
}

func (e *jsonEncoder) add(r exportRun) error {
	line := exportLine{Type: "run", Schema: e.options.Schema, RunDetail: Detail(r.RunView, r.options), CellLabels: r.cellLabels, Quotable: r.quotable}
	if e.options.Samples {
		line.Samples = &line.RunDetail.Samples
	}
	body, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("run %s: %w", r.Run.ID, err)
	}
	_, err = e.w.Write(append(body, '\n'))
	return err
}

func (e *jsonEncoder) close() error { return nil }
